"""A run of git that is given up leaves nothing behind, whatever it was saying."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from joey.workspace.git.process import run_git
from tests.harness.execution.processes import open_transports


async def test_who_gives_up_on_a_git_that_says_much_is_free_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "told"
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\n: > {started}\nexec head -c 100000000 /dev/zero\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for _ in range(5):
        started.unlink(missing_ok=True)
        running = asyncio.ensure_future(run_git([], tmp_path, {}))
        while not started.exists():  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.001)
        running.cancel()
        time.sleep(0.05)  # noqa: ASYNC251 (more arrives while the loop is busy)
        with pytest.raises(asyncio.CancelledError):
            await running
    assert open_transports() == []
