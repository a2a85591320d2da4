"""Worktrees of subtasks: the user's index, branches and stashes are never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from joey.core.file_state import FileDiffStat, MergeResult
from joey.core.prompts.replies import render_merge_report
from joey.errors import ToolError
from joey.workspace.git.trees import StatSummaries, TreeChange, apply_changes
from joey.workspace.git.worktrees import GitWorktrees

APPLY = "joey.workspace.git.worktrees.apply"


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
    run = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return run.stdout


class WorktreeHarness:
    def __init__(self, root: Path) -> None:
        self.top = root / "repository"
        self.top.mkdir()
        git(self.top, "init", "-q")
        self.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")
        self.write("b.txt", "b\n")
        self.write(".gitignore", "ignored/\n*.log\n.rooignore\n")
        git(self.top, "add", "-A")
        git(self.top, "commit", "-q", "-m", "first")
        self.home = root / "home" / "worktrees"

    def write(self, name: str, text: str) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str:
        return (self.top / name).read_text()

    @property
    def worktrees(self) -> GitWorktrees:
        made = GitWorktrees.open_if_supported(self.top, self.home)
        assert made is not None
        return made

    def own(self) -> tuple[str, ...]:
        """All that is the user's, but for the files."""
        return (
            git(self.top, "rev-parse", "HEAD"),
            git(self.top, "symbolic-ref", "HEAD"),
            git(self.top, "stash", "list"),
            git(self.top, "ls-files", "--stage", "--debug"),
            git(self.top, "diff", "--cached"),
        )


@pytest.fixture
def place(tmp_path: Path) -> WorktreeHarness:
    return WorktreeHarness(tmp_path)


def gone(place: WorktreeHarness, name: str) -> bool:
    known = git(place.top, "worktree", "list") + git(place.top, "branch", "--list")
    return name not in known and not (place.home / name).exists()


@pytest.mark.requirement("worktrees:base")
async def test_a_worktree_has_what_is_not_committed_and_touches_nothing(
    place: WorktreeHarness,
) -> None:
    place.write("a.txt", "changed\n")
    place.write("staged.txt", "staged\n")
    git(place.top, "add", "staged.txt")
    place.write("new/untracked.txt", "new\n")
    place.write("noise.log", "noise\n")
    (place.top / "b.txt").unlink()
    before = place.own()
    root = await place.worktrees.add("child")
    assert root == place.home / "child"
    assert (root / "a.txt").read_text() == "changed\n"
    assert (root / "staged.txt").read_text() == "staged\n"
    assert (root / "new/untracked.txt").read_text() == "new\n"
    assert not (root / "b.txt").exists()
    assert not (root / "noise.log").exists()
    assert git(root, "status", "--short") == ""
    assert git(root, "symbolic-ref", "HEAD").strip() == "refs/heads/joey/child"
    assert place.own() == before
    assert place.home.stat().st_mode & 0o777 == 0o700
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.requirement("worktrees:merge")
async def test_changes_come_back_as_changes_of_files_and_the_worktree_goes(
    place: WorktreeHarness,
) -> None:
    place.write("b.txt", "not committed\n")
    root = await place.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    (root / "made/deep.sh").parent.mkdir()
    (root / "made/deep.sh").write_text("#!/bin/sh\n")
    (root / "made/deep.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "data.bin").write_bytes(b"\0\1\2")
    place.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    before = place.own()
    merge = await place.worktrees.merge("child")
    assert merge.is_clean
    assert merge.files == (
        FileDiffStat("a.txt", 1, 1),
        FileDiffStat("data.bin", None, None),
        FileDiffStat("link", 1, 0),
        FileDiffStat("made/deep.sh", 1, 0),
    )
    assert place.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert place.read("b.txt") == "not committed\n"
    assert os.access(place.top / "made/deep.sh", os.X_OK)
    assert (place.top / "link").readlink() == Path("a.txt")
    assert (place.top / "data.bin").read_bytes() == b"\0\1\2"
    assert place.own() == before
    assert "- a.txt (+1 -1)" in render_merge_report(merge)
    await place.worktrees.remove("child")
    assert gone(place, "child")
    assert place.own() == before


async def test_files_that_the_subtask_removed_go_with_their_empty_directories(
    place: WorktreeHarness,
) -> None:
    place.write("deep/er/file.txt", "x\n")
    root = await place.worktrees.add("child")
    (root / "deep/er/file.txt").unlink()
    (root / "b.txt").unlink()
    (root / "b.txt").mkdir()
    (root / "b.txt/inside").write_text("now a folder\n")
    merge = await place.worktrees.merge("child")
    assert merge.is_clean
    assert not (place.top / "deep").exists()
    assert place.read("b.txt/inside") == "now a folder\n"


@pytest.mark.requirement("worktrees:conflict")
async def test_a_conflict_leaves_the_files_alone_and_names_branch_and_worktree(
    place: WorktreeHarness,
) -> None:
    root = await place.worktrees.add("child")
    (root / "a.txt").write_text("theirs\n")
    (root / "fine.txt").write_text("would fit\n")
    place.write("a.txt", "ours\n")
    merge = await place.worktrees.merge("child")
    assert merge.conflicts == ("a.txt",)
    assert place.read("a.txt") == "ours\n"
    assert not (place.top / "fine.txt").exists()
    report = render_merge_report(merge)
    assert str(root) in report
    assert "joey/child" in report
    assert git(place.top, "show", "joey/child:a.txt") == "theirs\n"
    assert "joey" in git(place.top, "log", "-1", "--format=%an", "joey/child")
    assert git(root, "status", "--short") == ""


async def test_siblings_are_merged_one_after_the_other(place: WorktreeHarness) -> None:
    roots = [await place.worktrees.add(name) for name in ("first", "second", "third")]
    (roots[0] / "a.txt").write_text("1\ntwo\nthree\nfour\nfive\n")
    (roots[1] / "a.txt").write_text("one\ntwo\nthree\nfour\n5\n")
    (roots[2] / "a.txt").write_text("I\ntwo\nthree\nfour\nfive\n")
    merges = [await place.worktrees.merge(name) for name in ("first", "second", "third")]
    assert [merge.is_clean for merge in merges] == [True, True, False]
    assert place.read("a.txt") == "1\ntwo\nthree\nfour\n5\n"


@pytest.mark.requirement("worktrees:crash")
@pytest.mark.parametrize("written", range(4))
async def test_a_merge_that_was_broken_off_is_finished(
    place: WorktreeHarness, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Dies after so many files, and is done again."""
    root = await place.worktrees.add("child")
    place.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    (root / "b.txt").unlink()
    (root / "c.txt").write_text("c\n")

    def dying(top: Path, changes: Sequence[TreeChange], made: Path, looks: StatSummaries) -> None:
        apply_changes(top, changes[:written], made, looks)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(APPLY, dying)
        with pytest.raises(KeyboardInterrupt):
            await place.worktrees.merge("child")
    merge = await place.worktrees.merge("child")
    assert merge.is_clean
    assert place.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert not (place.top / "b.txt").exists()
    assert place.read("c.txt") == "c\n"
    assert await place.worktrees.merge("child") == merge
    assert place.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"


async def test_what_the_user_changes_between_a_death_and_the_resumption_is_kept(
    place: WorktreeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await place.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")

    def dying(top: Path, changes: Sequence[TreeChange], made: Path, looks: StatSummaries) -> None:
        apply_changes(top, changes, made, looks)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(APPLY, dying)
        with pytest.raises(KeyboardInterrupt):
            await place.worktrees.merge("child")
    place.write("a.txt", "ONE\ntwo\nthree\nfour\nFIVE\n")
    assert (await place.worktrees.merge("child")).is_clean
    assert place.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"


@pytest.mark.requirement("worktrees:crash")
async def test_a_worktree_that_was_never_whole_is_made_anew_and_one_that_is_stays(
    place: WorktreeHarness,
) -> None:
    root = await place.worktrees.add("child")
    (root / "mine.txt").write_text("work\n")
    assert await place.worktrees.add("child") == root
    assert (root / "mine.txt").exists()
    git(root, "update-ref", "-d", "refs/worktree/joey-base")
    assert await place.worktrees.add("child") == root
    assert not (root / "mine.txt").exists()
    for damage in ("folder", "metadata"):
        broken = root if damage == "folder" else place.top / ".git/worktrees/child"
        shutil.rmtree(broken)
        assert await place.worktrees.add("child") == root
        assert (root / "a.txt").exists()
    await place.worktrees.remove("child")
    await place.worktrees.remove("child")
    assert gone(place, "child")


async def test_a_file_that_git_ignores_is_not_overwritten(place: WorktreeHarness) -> None:
    place.write("secret.log", "mine\n")
    root = await place.worktrees.add("child")
    (root / ".gitignore").write_text("")
    (root / "secret.log").write_text("theirs\n")
    merge = await place.worktrees.merge("child")
    assert "secret.log is there already" in merge.error
    assert place.read("secret.log") == "mine\n"
    assert place.read(".gitignore") != ""


async def test_rules_that_git_ignores_count_in_the_worktree(place: WorktreeHarness) -> None:
    place.write(".rooignore", "b.txt\n")
    root = await place.worktrees.add("child")
    assert (root / ".rooignore").read_text() == "b.txt\n"
    (root / "a.txt").write_text("x\n")
    assert [file.path for file in (await place.worktrees.merge("child")).files] == ["a.txt"]


async def test_a_part_of_a_repository_gets_that_part_and_changes_nothing_else(
    place: WorktreeHarness,
) -> None:
    place.write("part/x.txt", "x\n")
    part = GitWorktrees.open_if_supported(place.top / "part", place.home)
    assert part is not None
    root = await part.add("child")
    assert root == place.home / "child/part"
    (root / "x.txt").write_text("y\n")
    merge = await part.merge("child")
    assert merge.is_clean
    assert [file.path for file in merge.files] == ["x.txt"]
    assert place.read("part/x.txt") == "y\n"
    (root.parent / "a.txt").write_text("outside\n")
    outside = await part.merge("child")
    assert "outside of the workspace" in outside.error
    assert place.read("a.txt").startswith("one")


@pytest.mark.requirement("worktrees:nested")
async def test_a_worktree_of_a_worktree_comes_back_into_that_one(place: WorktreeHarness) -> None:
    outer = await place.worktrees.add("outer")
    (outer / "a.txt").write_text("outer\n")
    below = GitWorktrees.open_if_supported(outer, place.home)
    assert below is not None
    inner = await below.add("inner")
    assert (inner / "a.txt").read_text() == "outer\n"
    (inner / "c.txt").write_text("inner\n")
    assert (await below.merge("inner")).is_clean
    await below.remove("inner")
    assert (outer / "c.txt").read_text() == "inner\n"
    assert not (place.top / "c.txt").exists()
    assert (await place.worktrees.merge("outer")).is_clean
    await place.worktrees.remove("outer")
    assert (place.read("a.txt"), place.read("c.txt")) == ("outer\n", "inner\n")
    assert gone(place, "outer") and gone(place, "inner")


@pytest.mark.requirement("worktrees:harmless")
async def test_nothing_that_the_repository_names_is_run(
    place: WorktreeHarness, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    run = f"touch {trap}; cat"
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.y.driver"):
        git(place.top, "config", key, run)
    git(place.top, "config", "core.fsmonitor", run)
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        script = place.top / ".git/hooks" / hook
        script.write_text(f"#!/bin/sh\ntouch {trap}\n")
        script.chmod(0o755)
    place.write(".gitattributes", "*.txt filter=x merge=y\n")
    root = await place.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    place.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    merge = await place.worktrees.merge("child")
    assert merge.conflicts == ("a.txt",)
    await place.worktrees.remove("child")
    assert not trap.exists()


async def test_a_worktree_that_claims_to_be_another_repository_is_still_its_own(
    place: WorktreeHarness, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    other = WorktreeHarness(tmp_path / "x")
    root = await place.worktrees.add("child")
    (root / ".git").write_text(f"gitdir: {other.top}/.git\n")
    (root / "a.txt").write_text("theirs\n")
    before = other.own()
    assert (await place.worktrees.merge("child")).is_clean
    assert other.own() == before
    assert place.read("a.txt") == "theirs\n"


async def test_work_on_another_branch_comes_back_too(place: WorktreeHarness) -> None:
    root = await place.worktrees.add("child")
    git(root, "checkout", "-q", "-b", "elsewhere")
    (root / "c.txt").write_text("c\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "mine")
    merge = await place.worktrees.merge("child")
    assert merge.branch == "elsewhere"
    assert place.read("c.txt") == "c\n"


async def test_a_repository_without_a_commit_has_worktrees(tmp_path: Path) -> None:
    top = tmp_path / "new"
    top.mkdir()
    git(top, "init", "-q")
    (top / "a.txt").write_text("a\n")
    worktrees = GitWorktrees.open_if_supported(top, tmp_path / "home")
    assert worktrees is not None
    root = await worktrees.add("child")
    (root / "a.txt").write_text("b\n")
    assert (await worktrees.merge("child")).is_clean
    assert (top / "a.txt").read_text() == "b\n"


async def test_without_a_repository_or_with_our_directory_in_it_there_are_none(
    tmp_path: Path, place: WorktreeHarness
) -> None:
    (tmp_path / "plain").mkdir()
    assert GitWorktrees.open_if_supported(tmp_path / "plain", tmp_path / "home") is None
    assert GitWorktrees.open_if_supported(place.top, place.top / "home") is None
    with pytest.raises(ToolError, match="gone"):
        await place.worktrees.merge("nobody")


def test_a_report_of_many_files_is_short() -> None:
    files = tuple(FileDiffStat(f"{n}.txt", 1, 0) for n in range(500))
    report = render_merge_report(MergeResult(files=files, directory="/f", branch="b"))
    assert len(report) < 2000
    assert "450 more" in report
