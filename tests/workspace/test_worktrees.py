"""Worktrees of subtasks: the user's index, branches and stashes are never touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from joey.core.file_state import FileDiffStat, WorktreeMergeResult
from joey.core.prompts.messages_to_model import render_merge_report
from joey.errors import ToolError
from joey.workspace.git.trees import FileSignatures, TreeChange, apply_changes
from joey.workspace.git.worktrees import GitWorktrees
from tests.harness.workspace.git import git

APPLY = "joey.workspace.git.worktrees.apply_changes"


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
def harness(tmp_path: Path) -> WorktreeHarness:
    return WorktreeHarness(tmp_path)


def gone(place: WorktreeHarness, name: str) -> bool:
    known = git(place.top, "worktree", "list") + git(place.top, "branch", "--list")
    return name not in known and not (place.home / name).exists()


@pytest.mark.contract("worktrees:changes")
async def test_a_worktree_has_what_is_not_committed_and_touches_nothing(
    harness: WorktreeHarness,
) -> None:
    harness.write("a.txt", "changed\n")
    harness.write("staged.txt", "staged\n")
    git(harness.top, "add", "staged.txt")
    harness.write("new/untracked.txt", "new\n")
    harness.write("noise.log", "noise\n")
    (harness.top / "b.txt").unlink()
    before = harness.own()
    root = await harness.worktrees.add("child")
    assert root == harness.home / "child"
    assert (root / "a.txt").read_text() == "changed\n"
    assert (root / "staged.txt").read_text() == "staged\n"
    assert (root / "new/untracked.txt").read_text() == "new\n"
    assert not (root / "b.txt").exists()
    assert not (root / "noise.log").exists()
    assert git(root, "status", "--short") == ""
    assert git(root, "symbolic-ref", "HEAD").strip() == "refs/heads/joey/child"
    assert harness.own() == before
    assert harness.home.stat().st_mode & 0o777 == 0o700
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.contract("worktrees:changes")
async def test_changes_come_back_as_changes_of_files_and_the_worktree_goes(
    harness: WorktreeHarness,
) -> None:
    harness.write("b.txt", "not committed\n")
    root = await harness.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    (root / "made/deep.sh").parent.mkdir()
    (root / "made/deep.sh").write_text("#!/bin/sh\n")
    (root / "made/deep.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "data.bin").write_bytes(b"\0\1\2")
    harness.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    before = harness.own()
    merge = await harness.worktrees.merge("child")
    assert merge.is_clean
    assert merge.changed_files == (
        FileDiffStat("a.txt", 1, 1),
        FileDiffStat("data.bin", None, None),
        FileDiffStat("link", 1, 0),
        FileDiffStat("made/deep.sh", 1, 0),
    )
    assert harness.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert harness.read("b.txt") == "not committed\n"
    assert os.access(harness.top / "made/deep.sh", os.X_OK)
    assert (harness.top / "link").readlink() == Path("a.txt")
    assert (harness.top / "data.bin").read_bytes() == b"\0\1\2"
    assert harness.own() == before
    assert "- a.txt (+1 -1)" in render_merge_report(merge)
    await harness.worktrees.remove("child")
    assert gone(harness, "child")
    assert harness.own() == before


async def test_files_that_the_subtask_removed_go_with_their_empty_directories(
    harness: WorktreeHarness,
) -> None:
    harness.write("deep/er/file.txt", "x\n")
    root = await harness.worktrees.add("child")
    (root / "deep/er/file.txt").unlink()
    (root / "b.txt").unlink()
    (root / "b.txt").mkdir()
    (root / "b.txt/inside").write_text("now a folder\n")
    merge = await harness.worktrees.merge("child")
    assert merge.is_clean
    assert not (harness.top / "deep").exists()
    assert harness.read("b.txt/inside") == "now a folder\n"


@pytest.mark.contract("worktrees:changes")
async def test_a_conflict_leaves_the_files_alone_and_names_branch_and_worktree(
    harness: WorktreeHarness,
) -> None:
    root = await harness.worktrees.add("child")
    (root / "a.txt").write_text("theirs\n")
    (root / "fine.txt").write_text("would fit\n")
    harness.write("a.txt", "ours\n")
    merge = await harness.worktrees.merge("child")
    assert merge.conflicts == ("a.txt",)
    assert harness.read("a.txt") == "ours\n"
    assert not (harness.top / "fine.txt").exists()
    report = render_merge_report(merge)
    assert str(root) in report
    assert "joey/child" in report
    assert git(harness.top, "show", "joey/child:a.txt") == "theirs\n"
    assert "joey" in git(harness.top, "log", "-1", "--format=%an", "joey/child")
    assert git(root, "status", "--short") == ""


async def test_siblings_are_merged_one_after_the_other(harness: WorktreeHarness) -> None:
    roots = [await harness.worktrees.add(name) for name in ("first", "second", "third")]
    (roots[0] / "a.txt").write_text("1\ntwo\nthree\nfour\nfive\n")
    (roots[1] / "a.txt").write_text("one\ntwo\nthree\nfour\n5\n")
    (roots[2] / "a.txt").write_text("I\ntwo\nthree\nfour\nfive\n")
    merges = [await harness.worktrees.merge(name) for name in ("first", "second", "third")]
    assert [merge.is_clean for merge in merges] == [True, True, False]
    assert harness.read("a.txt") == "1\ntwo\nthree\nfour\n5\n"


@pytest.mark.contract("worktrees:changes")
@pytest.mark.parametrize("written", range(4))
async def test_a_merge_that_was_broken_off_is_finished(
    harness: WorktreeHarness, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Dies after so many files, and is done again."""
    root = await harness.worktrees.add("child")
    harness.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    (root / "b.txt").unlink()
    (root / "c.txt").write_text("c\n")

    def dying(top: Path, changes: Sequence[TreeChange], made: Path, looks: FileSignatures) -> None:
        apply_changes(top, changes[:written], made, looks)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(APPLY, dying)
        with pytest.raises(KeyboardInterrupt):
            await harness.worktrees.merge("child")
    merge = await harness.worktrees.merge("child")
    assert merge.is_clean
    assert harness.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert not (harness.top / "b.txt").exists()
    assert harness.read("c.txt") == "c\n"
    assert await harness.worktrees.merge("child") == merge
    assert harness.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"


async def test_what_the_user_changes_between_a_death_and_the_resumption_is_kept(
    harness: WorktreeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await harness.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")

    def dying(top: Path, changes: Sequence[TreeChange], made: Path, looks: FileSignatures) -> None:
        apply_changes(top, changes, made, looks)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(APPLY, dying)
        with pytest.raises(KeyboardInterrupt):
            await harness.worktrees.merge("child")
    harness.write("a.txt", "ONE\ntwo\nthree\nfour\nFIVE\n")
    assert (await harness.worktrees.merge("child")).is_clean
    assert harness.read("a.txt") == "ONE\ntwo\nthree\nfour\nFIVE\n"


@pytest.mark.contract("worktrees:changes")
async def test_a_worktree_that_was_never_whole_is_made_anew_and_one_that_is_stays(
    harness: WorktreeHarness,
) -> None:
    root = await harness.worktrees.add("child")
    (root / "mine.txt").write_text("work\n")
    assert await harness.worktrees.add("child") == root
    assert (root / "mine.txt").exists()
    git(root, "update-ref", "-d", "refs/worktree/joey-base")
    assert await harness.worktrees.add("child") == root
    assert not (root / "mine.txt").exists()
    for damage in ("folder", "metadata"):
        broken = root if damage == "folder" else harness.top / ".git/worktrees/child"
        shutil.rmtree(broken)
        assert await harness.worktrees.add("child") == root
        assert (root / "a.txt").exists()
    await harness.worktrees.remove("child")
    await harness.worktrees.remove("child")
    assert gone(harness, "child")


async def test_a_file_that_git_ignores_is_not_overwritten(harness: WorktreeHarness) -> None:
    harness.write("secret.log", "mine\n")
    root = await harness.worktrees.add("child")
    (root / ".gitignore").write_text("")
    (root / "secret.log").write_text("theirs\n")
    merge = await harness.worktrees.merge("child")
    assert "secret.log is there already" in merge.error
    assert harness.read("secret.log") == "mine\n"
    assert harness.read(".gitignore") != ""


async def test_rules_that_git_ignores_count_in_the_worktree(harness: WorktreeHarness) -> None:
    harness.write(".rooignore", "b.txt\n")
    root = await harness.worktrees.add("child")
    assert (root / ".rooignore").read_text() == "b.txt\n"
    (root / "a.txt").write_text("x\n")
    assert [file.path for file in (await harness.worktrees.merge("child")).changed_files] == [
        "a.txt"
    ]


async def test_a_part_of_a_repository_gets_that_part_and_changes_nothing_else(
    harness: WorktreeHarness,
) -> None:
    harness.write("part/x.txt", "x\n")
    part = GitWorktrees.open_if_supported(harness.top / "part", harness.home)
    assert part is not None
    root = await part.add("child")
    assert root == harness.home / "child/part"
    (root / "x.txt").write_text("y\n")
    merge = await part.merge("child")
    assert merge.is_clean
    assert [file.path for file in merge.changed_files] == ["x.txt"]
    assert harness.read("part/x.txt") == "y\n"
    (root.parent / "a.txt").write_text("outside\n")
    outside = await part.merge("child")
    assert "outside of the workspace" in outside.error
    assert harness.read("a.txt").startswith("one")


@pytest.mark.contract("worktrees:changes")
async def test_a_worktree_of_a_worktree_comes_back_into_that_one(harness: WorktreeHarness) -> None:
    outer = await harness.worktrees.add("outer")
    (outer / "a.txt").write_text("outer\n")
    below = GitWorktrees.open_if_supported(outer, harness.home)
    assert below is not None
    inner = await below.add("inner")
    assert (inner / "a.txt").read_text() == "outer\n"
    (inner / "c.txt").write_text("inner\n")
    assert (await below.merge("inner")).is_clean
    await below.remove("inner")
    assert (outer / "c.txt").read_text() == "inner\n"
    assert not (harness.top / "c.txt").exists()
    assert (await harness.worktrees.merge("outer")).is_clean
    await harness.worktrees.remove("outer")
    assert (harness.read("a.txt"), harness.read("c.txt")) == ("outer\n", "inner\n")
    assert gone(harness, "outer") and gone(harness, "inner")


@pytest.mark.contract("worktrees:changes")
async def test_nothing_that_the_repository_names_is_run(
    harness: WorktreeHarness, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    run = f"touch {trap}; cat"
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.y.driver"):
        git(harness.top, "config", key, run)
    git(harness.top, "config", "core.fsmonitor", run)
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        script = harness.top / ".git/hooks" / hook
        script.write_text(f"#!/bin/sh\ntouch {trap}\n")
        script.chmod(0o755)
    harness.write(".gitattributes", "*.txt filter=x merge=y\n")
    root = await harness.worktrees.add("child")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    harness.write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n")
    merge = await harness.worktrees.merge("child")
    assert merge.conflicts == ("a.txt",)
    await harness.worktrees.remove("child")
    assert not trap.exists()


async def test_a_worktree_that_claims_to_be_another_repository_is_still_its_own(
    harness: WorktreeHarness, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    other = WorktreeHarness(tmp_path / "x")
    root = await harness.worktrees.add("child")
    (root / ".git").write_text(f"gitdir: {other.top}/.git\n")
    (root / "a.txt").write_text("theirs\n")
    before = other.own()
    assert (await harness.worktrees.merge("child")).is_clean
    assert other.own() == before
    assert harness.read("a.txt") == "theirs\n"


async def test_work_on_another_branch_comes_back_too(harness: WorktreeHarness) -> None:
    root = await harness.worktrees.add("child")
    git(root, "checkout", "-q", "-b", "elsewhere")
    (root / "c.txt").write_text("c\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "mine")
    merge = await harness.worktrees.merge("child")
    assert merge.branch == "elsewhere"
    assert harness.read("c.txt") == "c\n"


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
    tmp_path: Path, harness: WorktreeHarness
) -> None:
    (tmp_path / "plain").mkdir()
    assert GitWorktrees.open_if_supported(tmp_path / "plain", tmp_path / "home") is None
    assert GitWorktrees.open_if_supported(harness.top, harness.top / "home") is None
    with pytest.raises(ToolError, match="gone"):
        await harness.worktrees.merge("nobody")


def test_a_report_of_many_files_is_short() -> None:
    files = tuple(FileDiffStat(f"{n}.txt", 1, 0) for n in range(500))
    report = render_merge_report(
        WorktreeMergeResult(changed_files=files, directory="/f", branch="b")
    )
    assert len(report) < 2000
    assert "450 more" in report


@pytest.mark.contract("worktrees:changes")
async def test_a_worktree_is_made_while_the_git_of_a_killed_process_still_works_on_it(
    harness: WorktreeHarness, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    started = harness.top / ".git/refs/heads/joey/child.lock"
    slow_git = programs / "git"
    slow_git.write_text(
        '#!/bin/sh\ncase "$*" in *"worktree add"*)\n'
        f"mkdir {started.parent}; touch {started}; sleep 0.5; rm {started};; esac\n"
        f'exec {shutil.which("git")} "$@"\n'
    )
    slow_git.chmod(0o755)
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from joey.workspace.git.worktrees import GitWorktrees\n"
        "asyncio.run(GitWorktrees(*map(Path, sys.argv[1:])).add('child'))"
    )
    arguments = [sys.executable, "-c", script, str(harness.top), str(harness.home)]
    path = f"{programs}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(*arguments, env={**os.environ, "PATH": path})
    while not started.exists():
        assert process.returncode is None
        await asyncio.sleep(0.01)
    process.kill()
    await process.wait()
    root = await harness.worktrees.add("child")
    assert git(root, "status", "--short") == ""
    (root / "b.txt").write_text("changed\n")
    assert (await harness.worktrees.merge("child")).is_clean
    await harness.worktrees.remove("child")
    assert harness.read("b.txt") == "changed\n"
    assert gone(harness, "child")
    assert list(harness.home.iterdir()) == []
