"""Worktrees of subtasks: made from the workspace as it is, and merged back into it.

    base      the workspace when the subtask began: its commit and uncommitted changes
    theirs    what the subtask made of it
    merge     the workspace when the subtask returned, with `theirs` merged into it

`base` and `merge` are refs of the worktree itself, so they are removed with it. `base` is set when
the worktree is complete; without it, creating the worktree was interrupted and starts over. `merge`
is set before the first file of the workspace is written. If it exists, files may have been written:
then `merge` is merged into the present files, over the commit it came from, which leaves alone what
is done and does what is not.

A git that a killed process started may still be at work, so each git holds the worktree's lock for
as long as it lives. The lock's file exists only while something works on the worktree.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from joey.core.file_state import FileDiffStat, WorktreeMergeResult
from joey.errors import ToolError
from joey.ports.workspace import Worktrees
from joey.system.files import make_private_directory
from joey.system.locks import try_lock_file, wait_for_lock
from joey.workspace.files import to_printable_name
from joey.workspace.git.process import find_repository_root
from joey.workspace.git.trees import (
    SUBMODULE_MODE,
    ConcurrentChangeError,
    GitTrees,
    TreeChange,
    apply_changes,
    read_file_signatures,
)

_BASE_REF, _MERGE_REF = "refs/worktree/joey-base", "refs/worktree/joey-merge"
_LOCK_TIMEOUT_S = 30.0
_MAX_MERGE_ATTEMPTS = 3
_KEEPS_CHANGING_TEXT = "files of the workspace keep changing"
_RULE_FILE_PATTERNS = (
    *(".rooignore", ".roomodes", ".roo", ".roorules*", ".clinerules*"),
    "AGENTS*.md",
)
"""What tells us what we may see and do; it counts in a worktree also when git ignores it."""
_MAX_COPIED_FILES = 1000
_MAX_COPIED_FILE_BYTES = 4 * 1024 * 1024


class GitWorktrees:
    def __init__(self, root: Path, directory: Path) -> None:
        """`root` is the workspace; worktrees are created in `directory`."""
        self._workspace = root
        self._worktrees_directory = directory

    @classmethod
    def open_if_supported(cls, root: Path, directory: Path) -> GitWorktrees | None:
        """Open worktrees; None without a repository, or in one that would contain its own
        worktrees."""
        top = find_repository_root(root)
        return None if top is None or directory.is_relative_to(top) else cls(root, directory)

    def get_directory(self, name: str) -> Path:
        return self._worktrees_directory / name

    def get_branch(self, name: str) -> str:
        return f"joey/{name}"

    def _exists(self, name: str) -> bool:
        return os.path.lexists(self.get_directory(name))

    def _get_lock_path(self, name: str) -> Path:
        return self._worktrees_directory / f"{name}.lock"

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncIterator[int]:
        """Lock a worktree. Raises ToolError if a process is still working in it."""
        lock = await wait_for_lock(partial(self._try_lock, name), _LOCK_TIMEOUT_S)
        if lock is None:
            raise ToolError(f"another process is at work on {self.get_directory(name)}")
        try:
            yield lock
        finally:
            self._get_lock_path(name).unlink(missing_ok=True)
            os.close(lock)

    def _try_lock(self, name: str) -> int | None:
        try:
            make_private_directory(self._worktrees_directory)
            self._worktrees_directory.chmod(0o700)
            return try_lock_file(self._get_lock_path(name))
        except OSError as error:
            directory = self._worktrees_directory
            raise ToolError(f"{directory} cannot be used: {error.strerror or error}") from error

    async def add(self, name: str) -> Path:
        async with self._lock(name) as lock:
            ours = await GitTrees.open_at(self._workspace, lock)
            theirs = await self._open_worktree(ours, name, lock)
            if theirs is None or await theirs.resolve_revision(_BASE_REF) is None:
                if self._exists(name) or self._get_admin_directory(ours, name).exists():
                    await self._remove(name, lock)
                await self._create(ours, name, lock)
            return self.get_directory(name) / ours.paths.prefix

    async def _create(self, ours: GitTrees, name: str, lock: int) -> None:
        await ours.check_version()
        directory = self.get_directory(name)
        tree, head = await ours.write_snapshot_tree(), await ours.resolve_revision("HEAD")
        if head is None or await ours.resolve_revision("HEAD^{tree}") != tree:
            parents = [] if head is None else [head]
            base = await ours.create_commit(tree, parents, f"The workspace when task {name} began")
        else:
            base = head
        await ours.run_text(
            "worktree", "add", "-q", "-B", self.get_branch(name), str(directory), base
        )
        directory.chmod(0o700)
        wanted = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--")
        listed = (await ours.run_text(*wanted, *_RULE_FILE_PATTERNS)).split("\0")
        to = directory / ours.paths.prefix
        await asyncio.to_thread(_copy_files, self._workspace, to, [each for each in listed if each])
        if (theirs := await self._open_worktree(ours, name, lock)) is None:
            raise ToolError(f"git did not create a worktree in {directory}")
        await theirs.run_text("update-ref", _BASE_REF, base)

    async def _open_worktree(self, ours: GitTrees, name: str, lock: int) -> GitTrees | None:
        """Open git in the worktree with its own git directory, whatever its `.git` says."""
        directory, own = self.get_directory(name), self._get_admin_directory(ours, name)
        if not own.is_dir() or not directory.is_dir():
            return None
        return await GitTrees.open_at(
            directory, lock, {"GIT_DIR": str(own), "GIT_WORK_TREE": str(directory)}
        )

    def _get_admin_directory(self, ours: GitTrees, name: str) -> Path:
        """Return the repository's data about a worktree."""
        return ours.paths.common_directory / "worktrees" / name

    async def merge(
        self, name: str, refusal: Callable[[str], str] | None = None
    ) -> WorktreeMergeResult:
        async with self._lock(name) as lock:
            return await self._merge(name, refusal, lock)

    async def _merge(
        self, name: str, refusal: Callable[[str], str] | None, lock: int
    ) -> WorktreeMergeResult:
        ours = await GitTrees.open_at(self._workspace, lock)
        theirs = await self._open_worktree(ours, name, lock)
        base = None if theirs is None else await theirs.resolve_revision(_BASE_REF)
        if theirs is None or base is None:
            raise ToolError(f"the worktree {self.get_directory(name)} is gone")
        # No process works there now: files left by a killed git would block.
        for left in self._get_admin_directory(ours, name).rglob("*.lock"):
            left.unlink(missing_ok=True)
        done = await self._commit_all(theirs, name)
        prefix = ours.paths.prefix
        counted = await ours.count_changed_lines(base, done)
        hindrance = await _WorktreeMerger(self._workspace, ours, theirs, refusal).merge(base, done)
        branch = await theirs.run_text("rev-parse", "--abbrev-ref", "HEAD")
        return WorktreeMergeResult(
            changed_files=tuple(
                FileDiffStat(_format_path(path, prefix), *lines) for path, *lines in counted
            ),
            directory=str(self.get_directory(name)),
            branch=self.get_branch(name) if branch == "HEAD" else branch,
            conflicts=tuple(_format_path(path, prefix) for path in hindrance.conflicts),
            error=hindrance.error,
            is_partial=hindrance.is_partial,
        )

    async def _commit_all(self, theirs: GitTrees, name: str) -> str:
        """Commit all changes and return their tree."""
        tree, head = await theirs.stage_and_write_tree(), await theirs.resolve_revision("HEAD")
        if await theirs.resolve_revision("HEAD^{tree}") != tree:
            parents = [] if head is None else [head]
            commit = await theirs.create_commit(tree, parents, f"Work of task {name}")
            await theirs.run_text("update-ref", "-m", "commit: joey", "HEAD", commit)
        return tree

    async def remove(self, name: str) -> None:
        async with self._lock(name) as lock:
            await self._remove(name, lock)

    async def _remove(self, name: str, lock: int) -> None:
        directory = self.get_directory(name)
        common = (await GitTrees.open_at(self._workspace, lock)).paths.common_directory
        # Not from the workspace: it may be the very worktree that goes.
        ours = await GitTrees.open_at(common, lock, {"GIT_DIR": str(common)})
        if self._exists(name):
            try:
                await ours.run_text("worktree", "remove", "--force", "--force", str(directory))
            except ToolError:  # it was never whole, or is no longer
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        # Not `worktree prune`: it would remove the user's worktrees that are currently missing.
        own = self._get_admin_directory(ours, name)
        await asyncio.to_thread(shutil.rmtree, own, ignore_errors=True)
        if await ours.resolve_revision(f"refs/heads/{self.get_branch(name)}") is not None:
            await ours.run_text("update-ref", "-d", f"refs/heads/{self.get_branch(name)}")


class _MergeObstacle(Struct, frozen=True):
    """Raised with the obstacle of a merge; empty if there is none."""

    conflicts: tuple[bytes, ...] = ()
    error: str = ""
    is_partial: bool = False


class _WorktreeMerger:
    """Merges one worktree into the workspace."""

    def __init__(
        self,
        root: Path,
        ours: GitTrees,
        theirs: GitTrees,
        get_refusal_reason: Callable[[str], str] | None,
    ) -> None:
        self._get_refusal_reason = get_refusal_reason
        self._repository_root = find_repository_root(root) or root
        self._workspace_prefix = os.fsencode(ours.paths.prefix)
        self._workspace_trees = ours
        self._worktree_trees = theirs

    async def merge(self, base: str, done: str) -> _MergeObstacle:
        planned = await self._worktree_trees.resolve_revision(_MERGE_REF)
        if (
            planned is None
            or await self._worktree_trees.resolve_revision(f"{planned}^2^{{tree}}") != done
        ):
            now = await self._workspace_trees.write_snapshot_tree()
            ours = await self._workspace_trees.create_commit(now, [base], "The workspace")
            theirs = await self._workspace_trees.create_commit(done, [base], "The worktree")
            merged = await self._workspace_trees.merge_commits(ours, theirs)
            changes = await self._workspace_trees.list_changes(now, merged.tree)
            hindrance = _MergeObstacle(merged.conflicts, self._explain_obstacle(changes))
            if hindrance != _MergeObstacle():
                return hindrance
            planned = await self._workspace_trees.create_commit(
                merged.tree, [ours, theirs], "Merged"
            )
            await self._worktree_trees.run_text("update-ref", _MERGE_REF, planned)
            if not await self._apply_or_explain(now, merged.tree, changes):
                return _MergeObstacle()
        return await self._resume_merge(planned)

    async def _resume_merge(self, planned: str) -> _MergeObstacle:
        """Merge the rest into files that may have been changed again."""
        for _ in range(_MAX_MERGE_ATTEMPTS):
            now = await self._workspace_trees.write_snapshot_tree()
            here = await self._workspace_trees.create_commit(now, [f"{planned}^"], "The workspace")
            merged = await self._workspace_trees.merge_commits(here, planned)
            changes = await self._workspace_trees.list_changes(now, merged.tree)
            problem = self._explain_obstacle(changes)
            if not merged.conflicts and not problem:
                problem = await self._apply_or_explain(now, merged.tree, changes)
                if not problem:
                    return _MergeObstacle()
            hindrance = _MergeObstacle(merged.conflicts, problem, is_partial=True)
        await self._worktree_trees.run_text("update-ref", "-d", _MERGE_REF)
        return hindrance

    async def _apply_or_explain(self, now: str, tree: str, changes: Sequence[TreeChange]) -> str:
        """Apply changes; return what prevented it, if anything."""
        import tempfile  # on need: it is slow to load

        try:
            with tempfile.TemporaryDirectory(prefix="joey-") as made:
                await self._workspace_trees.export_files(tree, changes, Path(made))
                looks = read_file_signatures(self._repository_root, changes)
                if await self._workspace_trees.write_snapshot_tree() != now:
                    return _KEEPS_CHANGING_TEXT
                await asyncio.to_thread(
                    apply_changes, self._repository_root, changes, Path(made), looks
                )
        except ConcurrentChangeError:
            return _KEEPS_CHANGING_TEXT
        except OSError as error:
            return f"a file cannot be written: {error.strerror or error}"
        return ""

    def _explain_obstacle(self, changes: Sequence[TreeChange]) -> str:
        for change in changes:
            shown = to_printable_name(os.fsdecode(change.path))
            if not change.path.startswith(self._workspace_prefix):
                return f"{shown} lies outside of the workspace"
            if SUBMODULE_MODE in (change.old_mode, change.new_mode):
                return f"{shown} is a repository of its own"
            place = self._repository_root / os.fsdecode(change.path)
            is_directory = place.is_dir() and not place.is_symlink()
            if change.is_new and os.path.lexists(place) and not is_directory:
                return f"{shown} is there already, ignored by git"
            if self._get_refusal_reason and (why := self._get_refusal_reason(str(place))):
                return why
        return ""


def _format_path(path: bytes, prefix: str) -> str:
    named = os.fsdecode(path)
    return to_printable_name(os.path.relpath(named, prefix) if prefix else named)


def _copy_files(root: Path, to: Path, names: Sequence[str]) -> None:
    for name in names[:_MAX_COPIED_FILES]:
        source, target = root / name, to / name
        if source.is_symlink() or not source.is_file() or os.path.lexists(target):
            continue
        if source.stat().st_size <= _MAX_COPIED_FILE_BYTES:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


_protocol_check: type[Worktrees] = GitWorktrees
