"""How a task ended, as those are told who started the program."""

from __future__ import annotations

from msgspec import structs

from joey.cli.exit_codes import ExitCode, exit_code_of
from joey.cli.stream_json import RunResult
from joey.core.structured_output import read_structured
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.task import Task


def result_of(
    task: Task, ending: Ending, *, refused: bool, signal: ExitCode | None = None
) -> RunResult:
    """`refused`: something was not done because nobody was there to allow it; `signal`: what
    stopped it, if one did."""
    run = RunResult(
        exit_code=exit_code_of(ending, refused=refused),
        code="answered" if isinstance(ending, Completed) and ending.answered else "completed",
        usage=task.total_usage,
        task_id=task.id,
    )
    match ending:
        case Completed(result):
            run = _presented(run, result, structured=task.bench.result_check is not None)
            reason = "Something was not allowed, and nobody was there to ask."
            return structs.replace(run, code="needs_person", reason=reason) if refused else run
        case Failed(code, reason):
            return structs.replace(run, code=code, reason=reason)
        case Aborted():
            stopped = interrupted(signal or ExitCode.INTERRUPTED, task.id)
            return structs.replace(stopped, usage=run.usage)


def interrupted(code: ExitCode, task_id: str = "") -> RunResult:
    """The result of a run that a signal ended."""
    reason = "The run was interrupted."
    return RunResult(exit_code=code, code="aborted", reason=reason, task_id=task_id)


def _presented(run: RunResult, result: str, *, structured: bool) -> RunResult:
    if not structured:
        return structs.replace(run, result=result)
    read = read_structured(result)
    return structs.replace(run, result=read.text, structured=read.value)
