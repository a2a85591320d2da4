"""`joey -p`: one task without a person. Always ends with a result and an exit code (D12)."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

from joey.app import open_engine
from joey.cli import brought_along
from joey.cli.exit_codes import ExitCode, UsageError, exit_code_of_error
from joey.cli.launch import launch, short_id
from joey.cli.opening import destination
from joey.cli.outputs import OUTPUTS, Output, leave_stdout
from joey.cli.progress import FamilyProgress, PassingLine, Progress, total_cost
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.run_results import interrupted, result_of
from joey.cli.server_watch import ServerWatch
from joey.cli.signals import Interruption, interruptible
from joey.cli.stream_json import RunResult
from joey.client.family import family
from joey.engine.asks import Unattended
from joey.engine.task import Task
from joey.errors import NoModelError, UserError
from joey.presentation.phrases import in_a_sentence, outcome


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
    except UserError as raised:
        error = raised
        if isinstance(raised, NoModelError):
            from joey.cli.first_run import with_found_server

            error = with_found_server(raised)
        code = exit_code_of_error(error)
        output.end(RunResult(exit_code=code, code=code.name.lower(), reason=str(error)))
        raise error from raised


async def _run(
    arguments: Namespace, prompt: str, images: tuple[str, ...], output: Output
) -> ExitCode:
    # Lines of JSON may go to the same terminal at any time.
    is_streaming = arguments.output_format == "stream-json"
    passing = None if is_streaming else PassingLine(sys.stderr)
    policy, progress = Unattended(), Progress(passing=passing)
    with interruptible(parts=True) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            try:
                launching = launch(engine, arguments, prompt, images, policy)
                task = await interruption.stoppable(launching)
            except asyncio.CancelledError:
                output.end(interrupted(code := _must_have(interruption)))
                return code
            output.begin(task.id)
            if where := destination(task.bench.route.provider, task.bench.base_url):
                progress.line(f"joey: {where}")
            if note := brought_along.note(task.bench.workspace):
                progress.line(f"joey: {note}")
            since = 0
            if arguments.continue_ or arguments.resume:
                # It has said much before; only this run is told.
                since = task.bus.seq
                progress.line(f"joey: going on with task {task.id}")
            try:
                await interruption.stoppable(_follow(task, since, output, progress))
            except asyncio.CancelledError:
                progress.line("joey: stopping…")
                await task.cancel()
            ending = await task.wait()
            run = result_of(task, ending, refused=bool(policy.refused), signal=interruption.code)
            output.end(run)
            short = short_id(task.id, engine.ids())
    if run.code == "needs_person":
        # It judges commands anew, and most runs end otherwise.
        from joey.cli.refusals import tell_refusals

        for line in tell_refusals(policy.refused, task.bench.settings, yes=arguments.yes):
            progress.line(line)
    _tell(run, short, progress, kept=not arguments.ephemeral)
    return ExitCode(run.exit_code)


async def _follow(task: Task, since: int, output: Output, progress: Progress) -> None:
    voices = FamilyProgress(task.id, progress)
    servers = ServerWatch(task.bench.extras.mcp, lambda text: progress.line(f"joey: {text}"))
    with servers.waiting():
        async with family(task, task.events(since), whole=not since) as told:
            async for each in told:
                if each.teller is task:
                    output.hear(each.event)
                    servers.hear(each.event)
                voices.hear(each.teller.id, each.event)


def _must_have(interruption: Interruption) -> ExitCode:
    if interruption.code is None:
        raise asyncio.CancelledError
    return interruption.code


def _tell(run: RunResult, short: str, progress: Progress, *, kept: bool) -> None:
    """The last lines on standard error: what went wrong, what to do, what it cost."""
    if run.code != "needs_person" and run.exit_code != ExitCode.DONE:
        progress.line(f"joey: {in_a_sentence(run.reason)}")
    if run.exit_code != ExitCode.DONE and kept:
        progress.line(f"joey: to go on with this task: joey -r {short}")
    progress.line(f"joey: {outcome(run.code)} · {total_cost(run.usage)} · task {short}")
