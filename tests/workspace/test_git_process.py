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
    workspace, program = tmp_path / "work", tmp_path / "git"
    workspace.mkdir()
    program.write_text(f"#!/bin/sh\n: > {started}\nexec head -c 100000000 /dev/zero\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for _ in range(5):
        started.unlink(missing_ok=True)
        running = asyncio.ensure_future(run_git([], workspace, {}))
        while not started.exists():  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.001)
        running.cancel()
        time.sleep(0.05)  # noqa: ASYNC251 (more arrives while the loop is busy)
        with pytest.raises(asyncio.CancelledError):
            await running
    assert open_transports() == []


@pytest.mark.parametrize("entry", ["work/bin", "link/bin", "work/src/../bin", "work/elsewhere"])
async def test_git_is_not_looked_for_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Sandboxed commands can write there, and joey runs git outside of the sandbox."""
    workspace = tmp_path / "work"
    for directory in (workspace / "bin", workspace / "src", tmp_path / "outside"):
        directory.mkdir(parents=True)
    for program in (workspace / "bin/git", tmp_path / "outside/git"):
        program.write_text("#!/bin/sh\necho planted\n")
        program.chmod(0o755)
    (tmp_path / "link").symlink_to(workspace)
    (workspace / "elsewhere").symlink_to(tmp_path / "outside")
    monkeypatch.setenv("PATH", f"{tmp_path / entry}:/usr/bin:/bin")

    for directory in (workspace, workspace / "src"):
        environment = {"GIT_WORK_TREE": str(workspace)}
        found = await run_git(["--version"], directory, environment)
        assert found.stdout.startswith(b"git version")
