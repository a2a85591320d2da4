"""Pipes with the names of files that git and ripgrep open by themselves: nobody waits for them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from threading import Event

import pytest

from joey.errors import CheckpointError, ToolError
from joey.workspace import pipes_and_devices
from joey.workspace.checkpoints import snapshot
from joey.workspace.files import LocalFiles
from joey.workspace.git.repository import GitRepository
from joey.workspace.listing import list_all_files
from joey.workspace.pipes_and_devices import (
    FILES_OPENED_BY_GIT,
    FILES_OPENED_BY_RIPGREP,
    find_blocking_file,
)
from joey.workspace.search import LocalSearch
from tests.harness.workspace.checkpoint_workspace import checkpoints_of, commit_all

GITS = (".gitignore", "sub/.gitignore", ".gitattributes", "sub/.gitattributes")
RIPGREPS = (".gitignore", "sub/.gitignore", ".ignore", ".rgignore", ".git/info/exclude")


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes_and_devices, "BLOCKING_CHECK_DELAY_S", 0.1)


@pytest.fixture
def repository(root: Path) -> Path:
    """A repository."""
    (root / "sub").mkdir()
    for name in ("a.txt", "sub/b.txt"):
        (root / name).write_text("hello\n")
    commit_all(root)
    return root


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", GITS)
@pytest.mark.parametrize("most", [snapshot.MAX_SCANNED_ENTRIES, 1])
async def test_a_checkpoint_names_the_pipe_that_git_would_wait_for(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(snapshot, "MAX_SCANNED_ENTRIES", most)
    put_pipe(repository / name)
    async with asyncio.timeout(10), checkpoints_of(repository, home) as checkpoints:
        with pytest.raises(CheckpointError, match=f"/{name}', which is no regular file"):
            await checkpoints.save("t")
        (repository / name).unlink()
        saved = await checkpoints.save("t")
        put_pipe(repository / name)
        (repository / "sub" / "b.txt").write_text("bye\n")
        with pytest.raises(CheckpointError, match=f"/{name}', which is no regular file"):
            await checkpoints.save("t")
        (repository / name).unlink()
        assert [change.path for change in await checkpoints.list_changes(saved)] == ["sub/b.txt"]


async def test_pipes_that_git_does_not_open_keep_no_checkpoint_from_being_made(
    repository: Path, home: Path
) -> None:
    for name in (".ignore", "pipe", ".rgignore", "sub/AGENTS.md"):
        put_pipe(repository / name)
    async with asyncio.timeout(10), checkpoints_of(repository, home) as checkpoints:
        await checkpoints.save("t")


@pytest.mark.parametrize("name", [".gitignore", "sub/.gitignore", ".git/config"])
async def test_the_state_of_a_repository_is_not_waited_for(repository: Path, name: str) -> None:
    put_pipe(repository / name)
    async with asyncio.timeout(10):
        with pytest.raises(ToolError, match=f"/{name}', which is no regular file"):
            await GitRepository(repository).show_status(10)


@pytest.mark.parametrize("name", RIPGREPS)
async def test_a_listing_and_a_search_do_without_rules_that_nobody_writes(
    repository: Path, name: str
) -> None:
    put_pipe(repository / name)
    files = LocalFiles(repository)
    search, here = LocalSearch(files), files.resolve(".")
    async with asyncio.timeout(10):
        listing = await search.list_directory(here, True, 100)
        found = await search.grep(here, "hello", None, 10)
    assert {"a.txt", "sub/b.txt"} <= set(listing.entries)
    assert not listing.truncated
    assert [hit.path for hit in found.hits] == ["a.txt", "sub/b.txt"]
    assert f"{name} is no regular file" in found.note


@pytest.mark.parametrize("name", [*RIPGREPS, ".rooignore"])
def test_names_of_files_are_not_waited_for(repository: Path, name: str) -> None:
    put_pipe(repository / name)
    with pytest.raises(ToolError, match=f"/{name}' is no regular file. Delete"):
        list_all_files(LocalFiles(repository))


async def test_a_program_that_takes_long_for_no_such_reason_is_left_to_it(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes_and_devices, "BLOCKING_CHECK_DELAY_S", 0)
    os.mkfifo(repository / "pipe")
    (repository / "sub" / ".gitignore").symlink_to("/dev/null")
    files = LocalFiles(repository)
    async with asyncio.timeout(10), checkpoints_of(repository, home) as checkpoints:
        await checkpoints.save("t")
        assert "?? sub/.gitignore" in await GitRepository(repository).show_status(10)
        found = await LocalSearch(files).grep(files.resolve("."), "hello", None, 10)
    assert found.note == ""


def test_a_pipe_above_the_workspace_is_found(repository: Path) -> None:
    put_pipe(repository.parent / ".ignore")
    assert (
        find_blocking_file(repository, FILES_OPENED_BY_RIPGREP, Event())
        == repository.parent / ".ignore"
    )
    assert find_blocking_file(repository, FILES_OPENED_BY_GIT, Event()) is None
