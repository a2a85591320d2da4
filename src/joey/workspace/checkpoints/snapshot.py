"""The snapshot of a workspace's current files, taken with as little work as possible.

If it is certain which files have changed since the last snapshot, and these are few, git is only
asked which of the new ones it ignores; objects and trees are written here (`objects.py`). In all
other cases git checks everything (`scan.py`), and before that, its index is updated with the files
that were added and removed without it: a file once known stays known.

Changes are found by the times of files (`run_quick_scan`). Most steps change little, and in a small
workspace that is faster than starting a program; for a large one the quick scan is not used. A
timestamp proves that a file is unchanged only if it is older than the scan by more than a tick of
the clock that stamps files: a write in the same tick would look the same. More recent files count
as changed the next time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, structs

from joey.errors import CheckpointError
from joey.system.files import FileFingerprint, open_regular_file
from joey.workspace.checkpoints.objects import TreeCache, TreeEntry, write_object
from joey.workspace.checkpoints.scan import (
    MAX_FILE_BYTES,
    IndexUpdatePlan,
    WorkspaceScanner,
    WorkspaceSnapshot,
    append_pending_index_entries,
    build_exclude_rules,
    plan_index_update,
)
from joey.workspace.checkpoints.shadow_repo import ShadowGitError, ShadowRepository
from joey.workspace.git.process import describe_blocking_file
from joey.workspace.pipes_and_devices import can_block_git

log = logging.getLogger(__name__)

_MAX_FILES_WITHOUT_GIT = 100
"""For more, git is faster."""
_MAX_BYTES_WITHOUT_GIT = 32 * 1024 * 1024
_INDEX_FILE = "index"
_GIT_CONTROL_NAMES = {b".git", b".gitignore"}
"""They change what is kept of other files."""


class _Baseline(Struct, frozen=True):
    """The observed files at some moment that are still in the repository."""

    snapshot: WorkspaceSnapshot
    quick_scan: QuickScan
    """From before the look."""
    anchor_path: str
    """What keeps the objects in the repository."""
    anchor_signature: tuple[FileFingerprint, ...]


class Snapshotter:
    def __init__(self, root: Path, home: Path, max_bytes: int) -> None:
        """`max_bytes` bytes are read at once."""
        self._workspace = root
        self._joey_home = os.fsencode(home)
        self._ignored_directories: frozenset[bytes] = frozenset()
        """Folders that git ignores as a whole, and that are not looked into."""
        self._is_too_large_for_quick_scan = False
        """Also without these."""
        self._max_bytes_without_git = min(max_bytes, _MAX_BYTES_WITHOUT_GIT)
        self.scanner = WorkspaceScanner(root, home, max_bytes)
        self._tree_cache = TreeCache()
        self._baseline: _Baseline | None = None
        self._latest_snapshot_and_scan: tuple[WorkspaceSnapshot, QuickScan | None] | None = None
        self._ignored_files: set[bytes] = set()
        """Files of which git has said so, with the rules as they are."""

    async def take_snapshot(self, git: ShadowRepository) -> WorkspaceSnapshot:
        """Take a snapshot. Raises CheckpointError, or ShadowGitError if the repository may be
        damaged."""
        try:
            place = os.fsencode(self._workspace) + b"/"
            ignored = (place + directory for directory in self._ignored_directories)
            skipped = frozenset({self._joey_home, *ignored})
            seen = await asyncio.to_thread(run_quick_scan, self._workspace, skipped)
            is_large = seen is None
        except OSError as error:  # it changes just now, or git has to say what is wrong with it
            log.info("git looks at %s: %s", self._workspace, error)
            seen, is_large = None, False
        for path, (mode, *_) in seen.file_stats.items() if seen is not None else ():
            if can_block_git(path, mode):
                reason = describe_blocking_file(self._workspace / os.fsdecode(path))
                raise CheckpointError(f"files are not kept: {reason}.")
        if (sight := await self._snapshot_from_baseline(git, seen)) is None:
            self._ignored_files.clear()
            sight, added = await self.scanner.scan(git)
            if seen is not None:
                seen = seen.mark_unsettled(added - seen.file_stats.keys())
            if is_large or self._ignored_directories:
                seen = await self._update_ignored_directories(git, seen, is_large=is_large)
            self._set_baseline(git, sight, seen, _INDEX_FILE)
        self._latest_snapshot_and_scan = (sight, seen)
        return sight

    def anchor_baseline(self, git: ShadowRepository, refs: str) -> None:
        """Anchor the baseline, which one of these refs keeps in the repository."""
        if self._latest_snapshot_and_scan is not None:
            self._set_baseline(git, *self._latest_snapshot_and_scan, refs)

    def reset(self) -> None:
        """Reset after the index was replaced."""
        self.scanner.reset()
        self._baseline = self._latest_snapshot_and_scan = None
        self._ignored_files.clear()

    async def _update_ignored_directories(
        self, git: ShadowRepository, seen: QuickScan | None, *, is_large: bool
    ) -> QuickScan | None:
        """Update ignored directories after git has scanned; a baseline with other ignored
        directories is invalid."""
        before, self._ignored_directories = self._ignored_directories, frozenset()
        self._is_too_large_for_quick_scan = self._is_too_large_for_quick_scan or (
            is_large and bool(before)
        )
        if not self._is_too_large_for_quick_scan:
            try:
                self._ignored_directories = await self.scanner.list_ignored_directories(git)
            except ShadowGitError as refusal:
                log.info("all folders of %s are looked into: %s", self._workspace, refusal)
            self._is_too_large_for_quick_scan = is_large and not self._ignored_directories
        return seen if self._ignored_directories == before else None

    def _set_baseline(
        self, git: ShadowRepository, sight: WorkspaceSnapshot, seen: QuickScan | None, holder: str
    ) -> None:
        self._baseline = (
            None if seen is None else _Baseline(sight, seen, holder, git.build_signature(holder))
        )

    async def _snapshot_from_baseline(
        self, git: ShadowRepository, seen: QuickScan | None
    ) -> WorkspaceSnapshot | None:
        """Take a snapshot based on the baseline; None if git has to scan."""
        basis = self._baseline
        if (
            basis is None
            or seen is None
            or basis.quick_scan.exclude_rules != seen.exclude_rules
            or git.build_signature(basis.anchor_path) != basis.anchor_signature
        ):
            return None
        if not (changed := seen.find_changed_since(basis.quick_scan)):
            return basis.snapshot
        names = {name for path in changed for name in path.lower().split(b"/")}
        if len(changed) > _MAX_FILES_WITHOUT_GIT or names & _GIT_CONTROL_NAMES:
            return None
        try:
            return await self._snapshot_changes(git, basis.snapshot, seen, changed)
        except (ShadowGitError, OSError) as error:
            log.info("git looks at %s: %s", self._workspace, error)
            return None

    async def _snapshot_changes(
        self, git: ShadowRepository, before: WorkspaceSnapshot, seen: QuickScan, changed: set[bytes]
    ) -> WorkspaceSnapshot | None:
        await self._tree_cache.load_trees(git, before.tree, changed)
        known = {path for path in changed if self._tree_cache.has_file(before.tree, path)}
        others = await self._filter_unignored(git, seen, changed - known)
        letters = [(b"M" if path in seen.file_stats else b"D", path) for path in known]
        plan = plan_index_update(self._workspace, letters, others)
        if plan.added_bytes > self._max_bytes_without_git:
            return None
        left_out = (before.skipped_files - changed) | plan.skipped_files
        if not plan.paths_to_add and not plan.paths_to_remove:
            return WorkspaceSnapshot(before.tree, left_out)
        kept, tree = await asyncio.to_thread(self._write_objects, git, before.tree, plan)
        new = {path: entry for path, entry in kept.items() if path not in known}
        append_pending_index_entries(git, new, plan.paths_to_remove)
        return WorkspaceSnapshot(tree, left_out)

    async def _filter_unignored(
        self, git: ShadowRepository, seen: QuickScan, new: Iterable[bytes]
    ) -> set[bytes]:
        """Filter out files that git ignores."""
        modes = {path: seen.file_stats[path][0] if path in seen.file_stats else 0 for path in new}
        asked = {
            path
            for path, mode in modes.items()
            if path not in self._ignored_files and (stat.S_ISREG(mode) or stat.S_ISLNK(mode))
        }
        if asked:
            self._ignored_files |= await self.scanner.find_ignored(git, asked)
        return asked - self._ignored_files

    def _write_objects(
        self, git: ShadowRepository, tree: str, plan: IndexUpdatePlan
    ) -> tuple[dict[bytes, TreeEntry], str]:
        """Write objects and the tree. Raises OSError."""
        place = os.fsencode(self._workspace) + b"/"
        kept = {path: _write_blob(git.repository_path, place + path) for path in plan.paths_to_add}
        return kept, self._tree_cache.write_changed_tree(
            git.repository_path, tree, dict.fromkeys(plan.paths_to_remove) | kept
        )


def _write_blob(repository: Path, path: bytes) -> TreeEntry:
    """Write a blob. Raises OSError if the file is gone or has changed."""
    if stat.S_ISLNK(os.lstat(path).st_mode):
        target = os.readlink(path)  # noqa: PTH115 (bytes)
        return TreeEntry(b"120000", write_object(repository, b"blob", target))
    with open_regular_file(path, follow_symlinks=False) as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(f"{os.fsdecode(path)!r} has changed while it was kept")
    kind = b"100755" if mode & stat.S_IXUSR else b"100644"
    return TreeEntry(kind, write_object(repository, b"blob", data))


MAX_SCANNED_ENTRIES = 1_500
_TIMESTAMP_TICK_NS = 20_000_000
_COARSE_TIMESTAMP_TICK_NS = 3_000_000_000
"""Where files are stamped with whole milliseconds, or with seconds."""
_COARSE_RESOLUTION_NS = 1_000_000

_StatTuple = tuple[int, int, int, int, int]


class QuickScan(Struct, frozen=True):
    """All files of the workspace, by kind, size and times."""

    file_stats: dict[bytes, _StatTuple]
    unsettled_files: frozenset[bytes]
    """Those whose times say nothing yet."""
    exclude_rules: bytes
    """By which files from above the workspace are left out."""

    def mark_unsettled(self, paths: frozenset[bytes]) -> QuickScan:
        """Mark files that git found after the scan: they may be gone again before the next one."""
        return structs.replace(self, unsettled_files=self.unsettled_files | paths)

    def find_changed_since(self, earlier: QuickScan) -> set[bytes]:
        """Find files that may have changed."""
        if self.file_stats == earlier.file_stats:
            return set(earlier.unsettled_files)
        different = self.file_stats.items() ^ earlier.file_stats.items()
        return {path for path, _ in different} | earlier.unsettled_files


def run_quick_scan(root: Path, skipped_paths: frozenset[bytes]) -> QuickScan | None:
    """Scan for a few milliseconds at most, blocking; None if there are too many files. Skipped
    directories are absolute paths. Raises OSError if a directory cannot be read, or is just
    changing."""
    now = time.time_ns()
    files: dict[bytes, _StatTuple] = {}
    fresh: list[bytes] = []
    top = os.fsencode(root)
    pending, count = [top], 0
    while pending:
        with os.scandir(pending.pop()) as found:
            for entry in found:
                count += 1
                if count > MAX_SCANNED_ENTRIES:
                    return None
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    # A repository's own folder says nothing about the files beside it.
                    if entry.name != b".git" and entry.path not in skipped_paths:
                        pending.append(entry.path)
                    continue
                path, changed = entry.path[len(top) + 1 :], facts.st_ctime_ns
                identity = (facts.st_mode, facts.st_ino)
                files[path] = (*identity, facts.st_size, facts.st_mtime_ns, changed)
                is_fine = changed % _COARSE_RESOLUTION_NS
                if now - changed <= (_TIMESTAMP_TICK_NS if is_fine else _COARSE_TIMESTAMP_TICK_NS):
                    fresh.append(path)
    return QuickScan(files, frozenset(fresh), build_exclude_rules(root))
