"""Programs that are given up on while they are being started leave nothing of theirs behind, and
nobody waits for what they have started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from joey.cli.screen.shell_commands import run_in_shell
from joey.content.diagnostics import LocalDiagnostics
from joey.core.hooks import Hook, HookEvent
from joey.core.settings import Settings
from joey.execution.custom_tools import LocalCustomTools
from joey.execution.hooks import HookEnvironment, run_hook
from joey.execution.terminal import LocalTerminal
from joey.mcp.config import ServerEntry
from joey.mcp.process import StderrTail
from joey.mcp.transports import open_stdio_streams
from joey.workspace.files import LocalFiles

SPAWN_CHILD_COMMAND = "sleep 1000 & echo $! > made; mv made child; wait"
TOOL = """
import os, subprocess
child = subprocess.Popen(["sleep", "1000"])
with open("made", "w") as file:
    file.write(str(child.pid))
os.rename("made", "child")
child.wait()
"""
ENVIRONMENT = {"PATH": os.environ["PATH"]}


async def hook(directory: Path) -> None:
    place = HookEnvironment(directory, ("/bin/sh", "-c"), ENVIRONMENT)
    await run_hook(Hook(HookEvent.BEFORE_TOOL, SPAWN_CHILD_COMMAND), b"", place)


async def command(directory: Path) -> None:
    terminal = LocalTerminal(ENVIRONMENT)
    try:
        await (await terminal.start(SPAWN_CHILD_COMMAND, directory, None)).wait()
    finally:
        await terminal.close()


async def server(directory: Path) -> None:
    entry = ServerEntry(command="/bin/sh", args=("-c", SPAWN_CHILD_COMMAND))
    async with open_stdio_streams(entry, directory, ENVIRONMENT, StderrTail()):
        await asyncio.Event().wait()


async def checker(directory: Path) -> None:
    (directory / "check.sh").write_text(SPAWN_CHILD_COMMAND)
    (directory / "file.x").write_text("")
    files = LocalFiles(directory)
    settings = Settings(diagnostic_checkers={"*.x": "sh check.sh"})
    await LocalDiagnostics(files, settings, ENVIRONMENT).check_files([files.resolve("file.x")])


async def tool(directory: Path) -> None:
    (directory / "tools").mkdir()
    (directory / "tools/one.py").write_text(TOOL)
    await LocalCustomTools(directory, directory, ENVIRONMENT, lambda _: True).refresh()


async def own_shell(directory: Path) -> None:
    await run_in_shell(SPAWN_CHILD_COMMAND, directory, {"SHELL": "/bin/sh"}, lambda _: None)


@pytest.mark.parametrize("start", [hook, command, server, checker, tool, own_shell])
async def test_what_is_cancelled_while_it_starts(
    start: Callable[[Path], Coroutine[Any, Any, None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = tmp_path / "child"
    starting = asyncio.ensure_future(start(tmp_path))
    loop, make = asyncio.get_running_loop(), subprocess.Popen.__init__

    def make_and_cancel(self: subprocess.Popen[bytes], *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        wait_for(child)
        loop.call_soon_threadsafe(starting.cancel)

    monkeypatch.setattr(subprocess.Popen, "__init__", make_and_cancel)
    _, late = await asyncio.wait([starting], timeout=60)
    assert not late
    assert starting.cancelled()
    async with asyncio.timeout(30):
        while lives(int(child.read_text())):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)


def lives(number: int) -> bool:
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.001)
