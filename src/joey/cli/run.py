"""`joey -p`: one task without a person. Always ends with a result and an exit code (D12)."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from joey.app import open_engine
from joey.cli import brought_along
from joey.cli.exit_codes import ExitCode, UsageError, exit_code_of, exit_code_of_error
from joey.cli.launch import launch, short_id
from joey.cli.outputs import OUTPUTS, Output, leave_stdout
from joey.cli.progress import FamilyProgress, Progress, total_cost
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.refusals import tell_refusals
from joey.cli.sentences import in_a_sentence, outcome
from joey.cli.signals import Interruption, interruptible
from joey.cli.stream_json import RunResult
from joey.client.family import family
from joey.client.local import Aborted, Completed, Failed, Task, Unattended
from joey.errors import UserError


def run_print(arguments: Namespace) -> ExitCode:
    """Run the task that the flags describe, and say how it went."""
    output = OUTPUTS[arguments.output_format]()
    try:
        prompt = gather_prompt(arguments.prompt, arguments.prompt_file, sys.stdin)
        if not prompt.strip() and not arguments.continue_ and not arguments.resume:
            raise UsageError("say what to do: joey -p 'fix the failing test'")
        images = load_images(arguments.image)
        return asyncio.run(_run(arguments, prompt, images, output))
    except BrokenPipeError:
        leave_stdout()
        return ExitCode.BROKEN_PIPE
    except UserError as error:
        code = exit_code_of_error(error)
        output.end(RunResult(exit_code=code, code=code.name.lower(), reason=str(error)))
        raise


async def _run(
    arguments: Namespace, prompt: str, images: tuple[str, ...], output: Output
) -> ExitCode:
    policy, progress = Unattended(), Progress()
    with interruptible() as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            try:
                task = await launch(engine, arguments, prompt, images, policy)
            except asyncio.CancelledError:
                return _must_have(interruption)
            output.begin(task.id)
            if note := brought_along.note(task.bench.workspace):
                progress.line(f"joey: {note}")
            since = 0
            if arguments.continue_ or arguments.resume:
                # It has said much before; only this run is told.
                since = task.bus.seq
                progress.line(f"joey: going on with task {task.id}")
            voices = FamilyProgress(task.id, progress)
            try:
                async with family(task, task.events(since), whole=not since) as told:
                    async for each in told:
                        if each.teller is task:
                            output.hear(each.event)
                        voices.hear(each.teller.id, each.event)
            except asyncio.CancelledError:
                progress.line("joey: stopping…")
                await task.cancel()
            run = await _result(task, policy, interruption)
            output.end(run)
            short = short_id(task.id, engine.ids())
    if run.code == "needs_person":
        for line in tell_refusals(policy.refused, task.bench.settings):
            progress.line(line)
    _tell(run, short, progress, kept=not arguments.ephemeral)
    return ExitCode(run.exit_code)


def _must_have(interruption: Interruption) -> ExitCode:
    if interruption.code is None:
        raise asyncio.CancelledError
    return interruption.code


async def _result(task: Task, policy: Unattended, interruption: Interruption) -> RunResult:
    ending = await task.wait()
    exit_code = exit_code_of(ending, refused=bool(policy.refused))
    code, reason = "completed", ""
    match ending:
        case Completed() if policy.refused:
            code, reason = "needs_person", "Something was not allowed, and nobody was there to ask."
        case Failed(code, reason):
            pass
        case Aborted():
            code, reason = "aborted", "The run was interrupted."
            exit_code = interruption.code or exit_code
    return RunResult(
        exit_code=exit_code,
        code=code,
        reason=reason,
        result=ending.result if isinstance(ending, Completed) else None,
        usage=task.total_usage,
        task_id=task.id,
    )


def _tell(run: RunResult, short: str, progress: Progress, *, kept: bool) -> None:
    """The last lines on standard error: what went wrong, what to do, what it cost."""
    if run.code != "needs_person" and run.exit_code != ExitCode.DONE:
        progress.line(f"joey: {in_a_sentence(run.reason)}")
    if run.exit_code != ExitCode.DONE and kept:
        progress.line(f"joey: to go on with this task: joey -r {short}")
    progress.line(f"joey: {outcome(run.code)} · {total_cost(run.usage)} · task {short}")
