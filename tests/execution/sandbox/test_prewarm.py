"""What is made ready while the model still writes a command, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import sys
import threading
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from joey.core.settings import Settings
from joey.engine.engine import TaskOptions
from joey.execution.sandbox.landlock import Landlock
from joey.execution.sandbox.sandbox import LocalSandbox, SandboxConfig, SandboxProbeResult
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel, SandboxReport
from joey.testing.script import Turn, call, pause
from tests.harness.engine.engine_harness import ALLOW_ALL, EngineHarness, finish, wait_for_ask
from tests.harness.execution.fork_servers import leftovers, list_fork_servers
from tests.harness.execution.sandbox import kill_joey

COMMAND = call("execute_command", {"command": "true"})


class FakeProber:
    """A prober that believes in a sandbox when it is let."""

    def __init__(self, level: SandboxLevel = SandboxLevel.LANDLOCK) -> None:
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._level = level

    def find_likely_level(self) -> SandboxLevel:
        return SandboxLevel.FULL

    def find_available(self) -> SandboxProbeResult:
        self.asked.set()
        assert self.may_answer.wait(20)
        confinement = None if self._level is SandboxLevel.NONE else Landlock()
        return SandboxProbeResult(SandboxReport(self._level), confinement)


@pytest.fixture
def harness(tmp_path: Path) -> EngineHarness:
    return EngineHarness(tmp_path)


def patch_terminal(
    harness: EngineHarness, prober: FakeProber, monkeypatch: pytest.MonkeyPatch
) -> LocalSandbox:
    """The sandbox of the terminal that the next task gets."""
    session = SandboxConfig(workspace=harness.root, joey_home=harness.home, env=os.environ)
    held = LocalSandbox(session, Settings(), lambda: prober)
    monkeypatch.setattr(
        "tests.harness.engine.engine_harness.LocalTerminal", lambda: LocalTerminal(sandbox=held)
    )
    return held


async def wait_for_fork_servers(number: int) -> None:
    async with asyncio.timeout(20):
        while len(list_fork_servers()) != number:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)


async def test_a_supervisor_waits_before_the_command_is_written_and_goes_when_it_is_not(
    harness: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(list_fork_servers())
    patch_terminal(harness, FakeProber(), monkeypatch)
    task = await harness.start(Turn(COMMAND, pause(asyncio.Event())))
    await wait_for_fork_servers(before + 1)
    await task.cancel()
    assert len(list_fork_servers()) == before
    assert leftovers(tmp_path) == []
    await harness.engine.close()


@pytest.mark.parametrize(
    ("mode", "turn"),
    [
        ("ask", Turn(COMMAND)),
        ("code", Turn(call("list_files", {"path": "."}))),
        ("code", Turn(call("read_command_output", {"artifact_id": "cmd-1.txt"}))),
        ("code", Turn(call("no_such_tool", {}))),
    ],
)
async def test_nothing_is_tried_where_no_command_comes(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, mode: str, turn: Turn
) -> None:
    prober = FakeProber()
    patch_terminal(harness, prober, monkeypatch)
    harness.use_script(turn, finish())
    options = TaskOptions(workspace=harness.root, mode=mode, settings=ALLOW_ALL)
    await wait_for_ask(await harness.engine.start("do it", options=options))
    await harness.engine.close()
    assert not prober.asked.is_set()


async def test_where_nothing_works_no_supervisor_is_started(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_fork_servers()
    held = patch_terminal(harness, FakeProber(SandboxLevel.NONE), monkeypatch)
    held.prewarm()
    await held.probe()
    await held.close()
    assert list_fork_servers() == before


async def test_a_task_that_closes_while_it_is_tried_what_works_starts_no_supervisor(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_fork_servers()
    prober = FakeProber()
    prober.may_answer.clear()
    held = patch_terminal(harness, prober, monkeypatch)
    held.prewarm()
    await asyncio.to_thread(prober.asked.wait, 20)
    async with asyncio.timeout(5):
        await held.close()
    prober.may_answer.set()
    await held.probe()
    assert list_fork_servers() == before


async def test_a_task_that_goes_on_after_it_was_cancelled_has_the_next_supervisor_waiting_again(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(list_fork_servers())
    held = patch_terminal(harness, FakeProber(), monkeypatch)
    for _ in range(2):
        held.prewarm()
        await wait_for_fork_servers(before + 1)
        await held.close()
        assert len(list_fork_servers()) == before


_EXPECTING = """
import asyncio, os, psutil, sys
from pathlib import Path
from joey.app.sandbox import build_sandbox
from joey.core.settings import Settings

async def main():
    folder = Path(sys.argv[1])
    held = build_sandbox(folder, folder, os.environ, Settings())
    held.prewarm()
    await held.probe()
    while not psutil.Process().children():
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


async def test_what_waits_for_a_command_ends_with_a_joey_that_is_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _EXPECTING, str(tmp_path)),
        stdout=PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"ready\n"
        assert await kill_joey(process) == []
    assert leftovers(tmp_path) == []


class FailingProber(FakeProber):
    def find_available(self) -> SandboxProbeResult:
        super().find_available()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_is_reported_by_the_command_not_before(harness: EngineHarness) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    prober = FailingProber()
    session = SandboxConfig(workspace=harness.root, joey_home=harness.home, env=os.environ)
    held = LocalSandbox(session, Settings(), lambda: prober)
    me = asyncio.current_task()
    for _ in range(2):  # the second makes the first forgotten
        held.prewarm()
        await asyncio.wait(asyncio.all_tasks() - {me})
    gc.collect()
    with pytest.raises(OSError, match="No space left"):
        await held.probe()
    await held.close()
    assert prober.asked.is_set()
    assert errors == []
