"""What the status line says of folders and settings, and the user's own shell."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from joey.cli.notices import format_directory
from joey.cli.screen.info_cards import summarize_permissions
from joey.cli.screen.session_cards import read_git_branch
from joey.cli.screen.shell_commands import MAX_OUTPUT_READ_BYTES, read_stored_output, run_in_shell
from joey.core.settings import Settings
from joey.errors import UserError
from tests.harness.execution.processes import open_transports

ENV = {"SHELL": "/bin/bash"}


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(("git", "-C", str(directory), *arguments), check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-b", "trunk")
    git(
        tmp_path,
        *["-c", "user.name=a", "-c", "user.email=b", "commit", "--allow-empty", "-m", "first"],
    )
    return tmp_path


def test_the_branch_is_that_of_the_repository_around(repository: Path) -> None:
    (repository / "deep" / "down").mkdir(parents=True)
    assert read_git_branch(repository) == read_git_branch(repository / "deep" / "down") == "trunk"
    git(repository, "checkout", "-b", "feature/one")
    assert read_git_branch(repository) == "feature/one"


def test_a_worktree_has_a_branch_of_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-b", "beside", str(tmp_path / "beside"))
    assert read_git_branch(tmp_path / "beside") == "beside"


def test_a_commit_that_is_no_branch_is_named_by_its_beginning(repository: Path) -> None:
    git(repository, "checkout", "--detach")
    assert len(read_git_branch(repository)) == 8


def test_outside_a_repository_there_is_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("nonsense", encoding="utf-8")
    assert read_git_branch(tmp_path) == ""


def test_a_directory_at_home_is_shown_short() -> None:
    assert format_directory(Path.home() / "work") == "~/work"
    assert format_directory(Path("/srv/work")) == "/srv/work"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(), "asks first"),
        (Settings(auto_approval_enabled=False), "asks for everything"),
        (Settings(always_allow_write=True), "allows edits"),
        (Settings(always_allow_execute=True, allowed_commands=("git",)), "allows some commands"),
        (Settings(always_allow_execute=True, allowed_commands=("*",)), "allows everything"),
    ],
)
def test_permissions_are_summarized_briefly(settings: Settings, said: str) -> None:
    assert summarize_permissions(settings) == said


def test_of_a_very_long_output_both_ends_are_read_and_the_file_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "command-output" / "cmd-7.txt"
    kept.parent.mkdir()
    assert read_stored_output(tmp_path, 7) is None
    kept.write_text("first\n" + "x" * 100 + "\nlast\n", encoding="utf-8")
    assert read_stored_output(tmp_path, 7) == kept.read_text(encoding="utf-8")
    kept.write_text("first\n" + "xy\n" * MAX_OUTPUT_READ_BYTES + "last\n", encoding="utf-8")
    read = read_stored_output(tmp_path, 7) or ""
    assert read.startswith("first\nxy\n")
    assert read.endswith("xy\nlast\n")
    assert f"[... 2.0MB left out; all is in {kept} ...]" in read
    assert len(read) < MAX_OUTPUT_READ_BYTES + 500


async def test_a_line_runs_in_the_directory_and_tells_how_it_ended(tmp_path: Path) -> None:
    output: list[str] = []
    assert await run_in_shell("pwd; echo ä", tmp_path, ENV, output.append) == ""
    assert "".join(output) == f"{tmp_path}\nä\n"
    assert await run_in_shell("exit 3", tmp_path, ENV, output.append) == "exit 3"
    assert await run_in_shell("kill -KILL $$", tmp_path, ENV, output.append) == "ended by SIGKILL"


async def test_a_line_that_is_stopped_takes_its_children_along(tmp_path: Path) -> None:
    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(
        run_in_shell("sleep 1000 & echo $!; wait", tmp_path, ENV, begun.set_result)
    )
    async with asyncio.timeout(20):
        child = psutil.Process(int(await begun))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


async def test_a_talkative_line_that_is_stopped_is_over_at_once(tmp_path: Path) -> None:
    for _ in range(5):
        begun: list[str] = []
        running = asyncio.ensure_future(run_in_shell("yes", tmp_path, ENV, begun.append))
        while not begun:  # noqa: ASYNC110 (a list tells as well)
            await asyncio.sleep(0.001)
        running.cancel()
        time.sleep(0.05)  # noqa: ASYNC251 (more arrives while the loop is busy)
        with pytest.raises(asyncio.CancelledError):
            await running
    assert open_transports() == []


async def test_a_shell_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="/no/such/shell"):
        await run_in_shell("true", tmp_path, {"SHELL": "/no/such/shell"}, print)
