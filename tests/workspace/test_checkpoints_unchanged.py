"""A workspace in which nothing has changed is known again without git; any change is seen."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.workspace.checkpoints import snapshot
from joey.workspace.checkpoints.snapshot import QuickScan, run_quick_scan
from tests.harness.workspace.checkpoint_workspace import checkpoints_of, git, shadow_of


def settled(root: Path) -> QuickScan:
    """A look at the files, once their times are old enough to tell something."""
    until = time.monotonic() + 10
    while (seen := seen_in(root)).unsettled_files:
        assert time.monotonic() < until
        time.sleep(0.005)
    return seen


def seen_in(root: Path) -> QuickScan:
    seen = run_quick_scan(root, frozenset())
    assert seen is not None
    return seen


def fill(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
    (root / "b.txt").write_text("b\n", encoding="utf-8")
    (root / "link").symlink_to("b.txt")


def with_the_times_of_before(path: Path) -> None:
    facts = path.stat()
    path.write_text("B\n", encoding="utf-8")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def lead_to(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda root: (root / "b.txt").write_text("c\n", encoding="utf-8"),
    "written with its old times": lambda root: with_the_times_of_before(root / "b.txt"),
    "made": lambda root: (root / "src" / "new").touch(),
    "removed": lambda root: (root / "src" / "a.py").unlink(),
    "renamed": lambda root: (root / "b.txt").rename(root / "c.txt"),
    "exchanged": lambda root: (root / "src" / "a.py").replace(root / "b.txt"),
    "made executable": lambda root: (root / "b.txt").chmod(0o755),
    "linked elsewhere": lambda root: lead_to(root / "link", "src"),
    "a folder's contents": lambda root: shutil.rmtree(root / "src"),
    "what is ignored": lambda root: (root / ".gitignore").write_text("*.py\n", encoding="utf-8"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_kind_of_change_is_seen(tmp_path: Path, change: str) -> None:
    fill(tmp_path)
    before = settled(tmp_path)
    assert settled(tmp_path) == before
    CHANGES[change](tmp_path)
    assert settled(tmp_path).find_changed_since(before)


@given(st.lists(st.sampled_from(["b.txt", "src/a.py", "c", "src/d"]), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_writing_the_same_length_at_once_is_never_taken_for_nothing(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    root = tmp_path_factory.mktemp("root")
    fill(root)
    before = seen_in(root)
    for name in names:
        (root / name).write_text("X", encoding="utf-8")
        now = seen_in(root)
        assert os.fsencode(name) in now.find_changed_since(before)
        before = now


def test_what_was_just_written_may_have_been_written_again(tmp_path: Path) -> None:
    fill(tmp_path)
    settled(tmp_path)
    for _ in range(100):  # a busy machine may take longer than a tick to look
        (tmp_path / "b.txt").touch()
        before = seen_in(tmp_path)
        if seen_in(tmp_path).find_changed_since(before) == {b"b.txt"}:
            return
    raise AssertionError("what is a moment old counts as settled")


def test_a_large_directory_is_left_to_git(tmp_path: Path) -> None:
    for number in range(snapshot.MAX_SCANNED_ENTRIES + 1):
        (tmp_path / str(number)).touch()
    os.sync()
    time.sleep(2 * snapshot._TIMESTAMP_TICK_NS / 1e9)
    assert run_quick_scan(tmp_path, frozenset()) is None


def test_rules_above_the_workspace_count(tmp_path: Path) -> None:
    root = tmp_path / "part"
    root.mkdir()
    fill(root)
    git(tmp_path, "init", "-q")
    before = settled(root)
    (tmp_path / ".gitignore").write_text("*.txt\n", encoding="utf-8")
    assert settled(root) != before


def test_commits_of_the_user_are_no_change_of_files(tmp_path: Path) -> None:
    fill(tmp_path)
    git(tmp_path, "init", "-q")
    before = settled(tmp_path)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert settled(tmp_path) == before


async def test_nothing_is_asked_of_git_when_nothing_has_changed(root: Path, home: Path) -> None:
    fill(root)
    async with checkpoints_of(root, home) as checkpoints:
        settled(root)
        first = await checkpoints.save("t")
        # A git that is asked writes its index anew.
        index = shadow_of(home) / "repository" / "index"
        index.write_bytes(b"damaged")
        assert await checkpoints.save("t") == first
        assert index.read_bytes() == b"damaged"


async def test_a_change_after_a_quiet_time_is_kept(root: Path, home: Path) -> None:
    fill(root)
    async with checkpoints_of(root, home) as checkpoints:
        settled(root)
        first = await checkpoints.save("t")
        (root / "b.txt").write_text("c\n", encoding="utf-8")
        settled(root)
        second = await checkpoints.save("t")
        assert [change.path for change in await checkpoints.list_changes(first, second)] == [
            "b.txt"
        ]


async def test_a_checkpoint_that_is_gone_is_made_again(root: Path, home: Path) -> None:
    fill(root)
    async with checkpoints_of(root, home) as checkpoints:
        settled(root)
        await checkpoints.save("t")
        await checkpoints.save("u")
        await checkpoints.discard_task("t")
        again = await checkpoints.save("t")
        assert await checkpoints.list_changes(again) == []


async def test_each_task_has_checkpoints_of_its_own(root: Path, home: Path) -> None:
    fill(root)
    async with checkpoints_of(root, home) as checkpoints:
        settled(root)
        ids = [await checkpoints.save("t"), await checkpoints.save("u")]
        assert [await checkpoints.save("t"), await checkpoints.save("u")] == ids
        await checkpoints.discard_task("t")
        assert await checkpoints.list_changes(ids[1]) == []


async def test_a_file_that_only_git_has_seen_is_gone_from_the_next_checkpoint(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root)
    passing, program = root / "passing", tmp_path / "programs" / "git"
    program.parent.mkdir()
    makes = f"case $* in *--others*) mkdir -p {passing}; echo x > {passing}/x;; esac"
    program.write_text(f'#!/bin/sh\n{makes}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        (root / ".gitignore").write_text("*.log\n")
        settled(root)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
            second = await checkpoints.save("t")
        kept = await checkpoints.list_changes(first, second)
        assert [change.path for change in kept] == [".gitignore", "passing/x"]
        shutil.rmtree(passing)
        assert [change.path for change in await checkpoints.list_changes(first)] == [".gitignore"]
