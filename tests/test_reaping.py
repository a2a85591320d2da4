"""Children belong to asyncio, which waits for them: whoever asks `Popen.poll` in between takes the
exit code away from it, and it warns of an unknown child."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from joey.core.hooks import Hook, HookEvent
from joey.execution.hooks import HookEnvironment, run_hook
from joey.mcp.config import ServerEntry
from joey.mcp.process import StderrTail
from joey.mcp.transports import open_stdio_streams
from joey.tools.edit import run_worker_script

SLEEP = "import time\ntime.sleep(60)\n"


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Children that were asked about while asyncio waited for them."""
    found: list[object] = []
    poll: Callable[[subprocess.Popen[bytes]], int | None] = subprocess.Popen.poll

    def noted(process: subprocess.Popen[bytes]) -> int | None:
        if process.returncode is None:
            found.append(process.args)
        return poll(process)

    monkeypatch.setattr(subprocess.Popen, "poll", noted)
    return found


async def test_a_hook_that_is_stopped(tmp_path: Path, polled: list[object]) -> None:
    place = HookEnvironment(
        workspace=tmp_path,
        shell=("/bin/sh", "-c"),
        variables={"PATH": os.environ["PATH"]},
    )
    slow = Hook(HookEvent.BEFORE_TOOL, "sleep 60", timeout=0.1)
    assert "was stopped" in (await run_hook(slow, b"", place)).error
    begun = tmp_path / "begun"
    cancelled = asyncio.create_task(
        run_hook(Hook(HookEvent.BEFORE_TOOL, "touch begun; sleep 60"), b"", place)
    )
    async with asyncio.timeout(60):
        while not begun.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert polled == []


async def test_a_script_that_takes_too_long(tmp_path: Path, polled: list[object]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SLEEP, encoding="utf-8")
    with pytest.raises(TimeoutError):
        await run_worker_script(script, b"", 0.1)
    assert polled == []


async def test_a_server_that_is_cancelled_while_it_is_asked_to_leave(
    tmp_path: Path, polled: list[object]
) -> None:
    entry = ServerEntry(command="sleep", args=("60",))
    here = asyncio.Event()

    async def use() -> None:
        environment = {"PATH": os.environ["PATH"]}
        async with open_stdio_streams(entry, tmp_path, environment, StderrTail()):
            here.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await here.wait()
    using.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert polled == []
