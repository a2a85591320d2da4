"""`joey -p`: one task without a user, its result, and the output formats of the result.

A run always ends with a result and an exit code.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import structs

from joey.app import open_engine
from joey.cli import notices
from joey.cli.exit_codes import ExitCode, UsageError, error_to_exit_code, outcome_to_exit_code
from joey.cli.headless.roo_stream_json import (
    JsonLine,
    RunResult,
    RunResultCode,
    StreamJsonEncoder,
    build_error_lines,
    build_init_line,
    build_result_line,
)
from joey.cli.line_renderer import LineWriter, TaskTreeRenderer
from joey.cli.notices import McpStartupReporter, describe_endpoint, format_total_usage
from joey.cli.output import detach_stdout, encode_json, write_stdout
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.signals import handle_signals
from joey.cli.task_launch import launch_task, run_with_model
from joey.cli.task_lookup import shorten_task_id
from joey.client.task_tree_events import follow_task_tree
from joey.core.events import Event
from joey.core.structured_output import parse_structured_result
from joey.engine.asks import Unattended
from joey.engine.completion import describe_background_command
from joey.engine.engine import Engine
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.phrases import describe_failure, lower_first
from joey.presentation.text import sanitize, to_one_line

if TYPE_CHECKING:
    from joey.cli.headless.output_directory import RunDirectory

_RESULT_TEXTS: dict[str, str] = {
    RunResultCode.COMPLETED: "done",
    RunResultCode.ANSWERED: "answered",
    RunResultCode.ABORTED: "interrupted",
}
_MAX_COMMAND_CHARS = 40
IPC_SOCKET_VARIABLE = "ROO_CODE_IPC_SOCKET_PATH"
"""Named here as well, so that runs without one do not load the server."""
_ERROR_RESULT_CODES = {
    ExitCode.USAGE: RunResultCode.USAGE,
    ExitCode.TRY_AGAIN: RunResultCode.TRY_AGAIN,
    ExitCode.CONFIGURATION: RunResultCode.CONFIGURATION,
}


def run_headless(arguments: Namespace) -> ExitCode:
    """Run the task that the flags describe, and return its exit code."""
    output: RunOutput = OUTPUT_CLASSES[arguments.output_format]()
    directory = None
    try:
        if arguments.output_dir is not None:
            from joey.cli.headless.output_directory import RunDirectory  # few runs have one

            output = directory = RunDirectory(arguments.output_dir, output)
        prompt = gather_prompt(arguments.prompt, arguments.prompt_file, sys.stdin)
        if not prompt.strip() and not arguments.continue_ and arguments.resume is None:
            raise UsageError("say what to do: joey -p 'fix the failing test'")
        images = load_images(arguments.image)
        return run_with_model(
            arguments, lambda: asyncio.run(_run_task(arguments, prompt, images, output, directory))
        )
    except BrokenPipeError:
        detach_stdout()
        return ExitCode.BROKEN_PIPE
    except UserError as error:
        output.finish(build_error_result(error))
        raise


async def _run_task(
    arguments: Namespace,
    prompt: str,
    images: tuple[str, ...],
    output: RunOutput,
    directory: RunDirectory | None,
) -> ExitCode:
    # Lines of JSON may go to the same terminal at any time.
    is_streaming = arguments.output_format == "stream-json"
    progress = LineWriter(sys.stderr, is_brief=True, has_status=not is_streaming)
    policy = Unattended()
    with handle_signals(only_stoppable=True) as interruption:
        async with (
            open_engine(ephemeral=arguments.ephemeral) as engine,
            _serve_ipc_if_wanted(engine, arguments, progress) as announce,
        ):
            try:
                launching = launch_task(engine, arguments, prompt, images, policy)
                task = await interruption.run_stoppable(launching)
            except asyncio.CancelledError:
                if (code := interruption.exit_code) is None:
                    raise
                output.finish(build_interrupted_result(code))
                return code
            announce(task)
            output.begin(task.id)
            for note in _list_opening_notes(task, arguments):
                progress.print_note(f"joey: {note}")
            since = 0
            if arguments.continue_ or arguments.resume:
                # Only the output of this run is shown, not that of earlier ones.
                since = task.bus.last_seq
                progress.print_note(f"joey: continuing task {task.id}")
            try:
                await interruption.run_stoppable(_relay_events(task, since, output, progress))
            except asyncio.CancelledError:
                progress.print_note("joey: stopping…")
                await task.cancel()
            ending = await task.wait()
            run = build_result(
                task, ending, refused=bool(policy.refused_asks), signal=interruption.exit_code
            )
            if directory is not None and (why := await directory.save_task(engine, task, since)):
                progress.print_note(f"joey: no patch was written: {why}")
            output.finish(run)
            short = shorten_task_id(task.id, engine.list_task_ids())
    _print_summary(run, short, progress, task, policy, arguments)
    return ExitCode(run.exit_code)


@asynccontextmanager
async def _serve_ipc_if_wanted(
    engine: Engine, arguments: Namespace, progress: LineWriter
) -> AsyncIterator[Callable[[Task], None]]:
    """Serve Roo's IPC socket if its variable is set; yield a function that takes the task."""
    if not os.environ.get(IPC_SOCKET_VARIABLE):
        yield lambda _: None
        return
    from joey.cli.headless.run_ipc import serve_run

    async with serve_run(engine, arguments, progress.print_note) as announce:
        yield announce


def _print_refusals(
    run: RunResult, policy: Unattended, task: Task, arguments: Namespace, progress: LineWriter
) -> int:
    """Print refused calls and the flags that would have allowed them; return how many there
    were."""
    if run.outcome_code != RunResultCode.NEEDS_USER:
        return 0
    # Loaded late: it judges commands again, and most runs have no refusals.
    from joey.cli.headless.refusal_advice import describe_refusals

    refused = policy.refused_asks
    lines = describe_refusals(
        refused,
        task.runtime.settings,
        yes=arguments.yes,
        has_hidden_files=task.runtime.files.may_have_hidden_files(),
    )
    for line in lines:
        progress.print_note(line)
    return len(refused)


def _list_opening_notes(task: Task, arguments: Namespace) -> Iterator[str]:
    """List notes to print before the answer: where prompts are sent, and what the run may cost."""
    model = task.provider.model
    endpoint = describe_endpoint(task.runtime.route.provider, task.runtime.base_url)
    notes = (
        f"using {endpoint}" if endpoint else "",
        notices.describe_untrusted_project(task.runtime.workspace),
        notices.describe_price(model.id, model.prices),
        notices.describe_missing_budget(task) if arguments.yes else "",
    )
    yield from filter(None, notes)


async def _relay_events(task: Task, since: int, output: RunOutput, progress: LineWriter) -> None:
    tree_renderer = TaskTreeRenderer(task, progress)
    servers = McpStartupReporter(
        task.runtime.capabilities.mcp, lambda text: progress.print_note(f"joey: {text}")
    )
    with servers.announce_wait():
        async with follow_task_tree(task, task.events(since), from_start=not since) as events:
            async for each in events:
                if each.session is task:
                    output.handle(each.event)
                    servers.handle(each.event)
                tree_renderer.render(each.session, each.event)


def _print_summary(
    run: RunResult,
    short: str,
    progress: LineWriter,
    task: Task,
    policy: Unattended,
    arguments: Namespace,
) -> None:
    """Print the last lines on standard error: errors, advice, cost."""
    refused_count = _print_refusals(run, policy, task, arguments, progress)
    failed = task.recorder.projection.completion_facts.failed_at_result
    is_stored = not arguments.ephemeral
    for command in run.background_commands:
        shown = describe_background_command(command, running="Ended with the run")
        progress.print_note(f"joey: {lower_first(shown)}")
    if run.outcome_code != RunResultCode.NEEDS_USER and run.exit_code != ExitCode.DONE:
        progress.print_note(f"joey: {lower_first(run.reason)}")
    if run.exit_code != ExitCode.DONE and is_stored:
        progress.print_note(f"joey: to continue this task: joey -r {short}")
    outcome = _RESULT_TEXTS.get(run.outcome_code) or describe_failure(run.outcome_code)
    if refused_count:
        outcome = f"done, but {refused_count} call{'' if refused_count == 1 else 's'} refused"
    if failed and run.result is not None:
        for each in failed:
            progress.print_note(f"joey: {each.describe()}")
        first = f"`{to_one_line(failed[0].command, _MAX_COMMAND_CHARS)}`"
        subject = first if len(failed) == 1 else f"{len(failed)} commands"
        outcome = f"{outcome}{' and' if refused_count else ', but'} {subject} failed"
    progress.print_note(f"joey: {outcome} · {format_total_usage(run.usage)} · task {short}")


def build_result(
    task: Task, ending: Ending, *, refused: bool, signal: ExitCode | None = None
) -> RunResult:
    """Build the result; `refused`: something was not done because no user was there to allow it;
    `signal`: the signal that stopped it, if any."""
    run = RunResult(
        exit_code=outcome_to_exit_code(ending, refused=refused),
        outcome_code=RunResultCode.COMPLETED,
        usage=task.total_usage,
        task_id=task.id,
        turns=task.recorder.projection.ledger.last_run_spending.turns,
        model=task.provider.model.id,
    )
    match ending:
        case Completed(result):
            commands = task.recorder.projection.background_commands
            run = structs.replace(run, background_commands=commands)
            if task.runtime.result_validator is None:
                run = structs.replace(run, result=result)
            else:
                read = parse_structured_result(result)
                run = structs.replace(run, result=read.json_text, structured_result=read.value)
            if refused:
                reason = "Something was not allowed, and no user was there to ask."
                return structs.replace(run, outcome_code=RunResultCode.NEEDS_USER, reason=reason)
            return (
                structs.replace(run, outcome_code=RunResultCode.ANSWERED)
                if ending.answered
                else run
            )
        case Failed(code, reason):
            return structs.replace(run, outcome_code=code, reason=reason)
        case Aborted():
            stopped = build_interrupted_result(signal or ExitCode.INTERRUPTED, task.id)
            return structs.replace(stopped, usage=run.usage, turns=run.turns, model=run.model)


def build_interrupted_result(code: ExitCode, task_id: str = "") -> RunResult:
    """The result of a run that a signal ended."""
    reason = "The run was interrupted."
    return RunResult(
        exit_code=code, outcome_code=RunResultCode.ABORTED, reason=reason, task_id=task_id
    )


def build_error_result(error: UserError) -> RunResult:
    """Build the result of a run that failed to start or complete."""
    exit_code = error_to_exit_code(error)
    code = _ERROR_RESULT_CODES.get(exit_code, RunResultCode.FAILED)
    return RunResult(exit_code=exit_code, outcome_code=code, reason=str(error))


class RunOutput(Protocol):
    def begin(self, task_id: str) -> None: ...

    def handle(self, event: Event) -> None: ...

    def finish(self, run: RunResult) -> None:
        """Write the final output."""


class TextOutput:
    """Prints the presented result, or nothing. joey's own additions go to stderr."""

    def begin(self, task_id: str) -> None:
        pass

    def handle(self, event: Event) -> None:
        pass

    def finish(self, run: RunResult) -> None:
        if run.result is None:
            return
        notes = map(describe_background_command, run.background_commands)
        text = run.result.removesuffix("".join(f"\n\n{note}" for note in notes))
        text = sanitize(text) if sys.stdout.isatty() else text
        write_stdout((text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace"))


class JsonOutput:
    """Prints one object at the end, with every completed message."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._encoder = StreamJsonEncoder()
        self._completed_lines: list[JsonLine] = []

    def begin(self, task_id: str) -> None:
        pass

    def handle(self, event: Event) -> None:
        self._completed_lines += (line for line in self._encoder.encode(event) if line.get("done"))

    def finish(self, run: RunResult) -> None:
        result = build_result_line(run, self._encoder.last_text)
        document = {
            **result,
            "model": run.model,
            "turns": run.turns,
            "durationMs": round((time.monotonic() - self._began_s) * 1000),
            "usage": run.usage,
            "events": self._completed_lines,
        }
        write_stdout(encode_json(document))


class StreamJsonOutput:
    """Prints one object per line, as events happen."""

    def __init__(self) -> None:
        self._encoder = StreamJsonEncoder()
        self._encode_json = msgspec.json.Encoder().encode
        self._has_begun = False

    def begin(self, task_id: str) -> None:
        self._has_begun = True
        self._write([build_init_line(task_id)])

    def handle(self, event: Event) -> None:
        if lines := self._encoder.encode(event):
            self._write(lines)

    def finish(self, run: RunResult) -> None:
        if not self._has_begun:
            self.begin(run.task_id)
        self._write([*build_error_lines(run), build_result_line(run, self._encoder.last_text)])

    def _write(self, lines: list[JsonLine]) -> None:
        write_stdout(b"".join(self._encode_json(line) + b"\n" for line in lines))


OUTPUT_CLASSES: dict[str, type[TextOutput | JsonOutput | StreamJsonOutput]] = {
    "text": TextOutput,
    "json": JsonOutput,
    "stream-json": StreamJsonOutput,
}
