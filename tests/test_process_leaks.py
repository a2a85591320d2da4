"""A program that is given up on may leave somebody behind who holds its output open: nobody waits
for that one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.content.isolated_workers import run_isolated
from joey.tui.widgets.pasted_images import read_clipboard_image
from joey.workspace import ripgrep
from tests.harness.execution.processes import open_transports

LEAVE = "import os, time; os.fork() or (os.setsid(), {tell}); time.sleep(1000)"
TELL = "open({made!r}, 'w').write(str(os.getpid())), os.rename({made!r}, {pid!r})"


def make_leaking_code(directory: Path) -> str:
    """Code in Python."""
    tell = TELL.format(made=str(directory / "made"), pid=str(directory / "pid"))
    return LEAVE.format(tell=tell)


def write_leaking_program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text(f"#!/usr/bin/env python3\n{make_leaking_code(directory)}\n")
    path.chmod(0o755)
    return path


async def searcher(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_leaking_program(directory, "rg")
    monkeypatch.setattr(ripgrep, "find_ripgrep", lambda: str(path))
    async with aclosing(ripgrep.iter_records([], directory, b"\n")) as found:
        async for _ in found:
            raise AssertionError


async def clipboard(directory: Path, _: pytest.MonkeyPatch) -> None:
    write_leaking_program(directory, "xclip")
    await read_clipboard_image({"DISPLAY": ":0", "PATH": str(directory)})


async def reader(directory: Path, _: pytest.MonkeyPatch) -> None:
    await run_isolated("timeit", make_leaking_code(directory), b"")


@pytest.mark.parametrize("start", [searcher, clipboard, reader])
async def test_who_gives_up_does_not_wait_for_whom_the_program_has_left_behind(
    start: Callable[[Path, pytest.MonkeyPatch], Coroutine[Any, Any, None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = asyncio.create_task(start(tmp_path, monkeypatch))
    async with leaked_process(tmp_path / "pid"):
        running.cancel()
        _, waiting = await asyncio.wait((running,), timeout=10)
        assert not waiting
        assert running.cancelled()
        assert open_transports() == []


@asynccontextmanager
async def leaked_process(pid: Path) -> AsyncIterator[None]:
    async with asyncio.timeout(30):
        while (number := _written(pid)) is None:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
    try:
        yield
    finally:
        os.kill(number, signal.SIGKILL)


def _written(path: Path) -> int | None:
    return int(path.read_text()) if path.exists() else None
