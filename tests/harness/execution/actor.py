"""A joey of its own process: runs commands in a real sandbox and prints what came of them.

The tests start it as root and as an ordinary user. The request comes as JSON on stdin; each answer
is a line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from joey.core.settings import Settings
from joey.errors import ToolError
from joey.execution.sandbox.bubblewrap import Bubblewrap
from joey.execution.sandbox.landlock import Landlock
from joey.execution.sandbox.probe import CanaryProbe
from joey.execution.sandbox.sandbox import LocalSandbox, SandboxBackend, SandboxConfig
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel, Terminal
from joey.workspace.files import LocalFiles
from tests.harness.execution.processes import Listener

TIMEOUT_S = 60.0


class CommandStep(Struct, frozen=True):
    command: str
    until: str = ""
    """Wait for this in the output; then `then`."""
    then: Literal["wait", "kill", "leave"] = "wait"
    writes: str = ""
    """A file that joey's own tools write then."""


class RunnerRequest(Struct, frozen=True):
    kind: Literal["full", "landlock", "landlock-3"]
    workspace: str
    home: str
    steps: list[CommandStep]
    settings: Settings = Settings()
    added: tuple[str, ...] = ()
    """Directories that count as part of the workspace."""
    grace: float = 0.5
    """Seconds between the polite end and the hard one."""
    waits_for_kill: bool = False
    """Do not end: wait to be killed."""


class Answer(Struct, frozen=True):
    output: str = ""
    exit_code: int | None = None
    signal: str | None = None
    left_running: bool = False
    error: str = ""
    impossible: str = ""
    """Why the level does not work here."""


def confinement(kind: str) -> SandboxBackend:
    match kind:
        case "full":
            return Bubblewrap()
        case "landlock":
            return Landlock()
        case _:
            return Landlock(3)


def main() -> None:
    asyncio.run(run_request(msgspec.json.decode(sys.stdin.buffer.read(), type=RunnerRequest)))


async def run_request(request: RunnerRequest) -> None:
    workspace = Path(request.workspace)
    env = {**os.environ, "HOME": request.home}
    session = SandboxConfig(
        workspace=workspace,
        joey_home=Path(request.home, ".roo"),
        env=env,
        readable_paths=request.settings.sandbox_readable,
        writable_paths=request.settings.sandbox_writable,
        added_directories=tuple(map(Path, request.added)),
    )
    prober = CanaryProbe((confinement(request.kind),))
    sandbox = LocalSandbox(session, request.settings, lambda: prober)
    report = await sandbox.probe()
    if report.level is SandboxLevel.NONE:
        write_answer(Answer(impossible=str(report.unavailable_reasons)))
        return
    files = LocalFiles(workspace, sandbox.mark_own_write)
    terminal = LocalTerminal(env, sandbox=sandbox, kill_grace=request.grace)
    try:
        for step in request.steps:
            write_answer(await run_step(terminal, step, files))
        if request.waits_for_kill:
            await asyncio.get_running_loop().create_future()
    finally:
        await terminal.close()


async def run_step(terminal: Terminal, step: CommandStep, files: LocalFiles) -> Answer:
    listener = Listener()
    try:
        running = await terminal.start(step.command, files.root, None, listener)
    except ToolError as error:
        return Answer(error=str(error))
    if step.until:
        await listener.until(step.until)
    if step.writes:
        await files.write(files.resolve(step.writes), b"by joey")
    if step.then == "leave":
        return Answer(listener.text)
    async with asyncio.timeout(TIMEOUT_S):
        end = await (running.kill() if step.then == "kill" else running.wait())
    assert end is not None
    return Answer(
        running.render_truncated(100_000), end.exit_code, end.signal, end.has_background_processes
    )


def write_answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
