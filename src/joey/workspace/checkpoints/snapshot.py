"""The snapshot of a workspace's present files, taken with as little work as possible.

Where it is certain which files have changed since the last snapshot, and these are few, git is only
asked which of the new ones it ignores; objects and trees are written here (`objects.py`). In all
other cases git looks at everything (`scan.py`), and before it does, its index is told of the files
that came and went without it: a file that was known once stays known.

Changes are found by the times of files (`glance`). Most steps change little, and in a small
workspace that is faster than starting a program; for a large one there is no answer. A time proves
a change only when it is older than the look by more than a tick of the clock that stamps files: a
write in the same tick would look the same. Fresher files count as changed the next time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from joey.errors import CheckpointError
from joey.workspace.blocking_files import is_obstacle_of_git
from joey.workspace.checkpoints.objects import TreeCache, TreeEntry, write_object
from joey.workspace.checkpoints.scan import (
    MAX_FILE_BYTES,
    IndexUpdatePlan,
    WorkspaceScanner,
    WorkspaceSnapshot,
    note_news,
    rules_text,
    sort_out,
)
from joey.workspace.checkpoints.shadow_repo import ShadowGitError, ShadowRepository
from joey.workspace.git.process import waits_for

log = logging.getLogger(__name__)

_MAX_DIRECT_FILES = 100
"""Files; for more, git is faster."""
_MAX_DIRECT_BYTES = 32 * 1024 * 1024
_INDEX_FILE = "index"


class _Baseline(Struct, frozen=True):
    """What was seen at some moment, and is still held by the repository."""

    sight: WorkspaceSnapshot
    seen: QuickScan
    """From before the look."""
    holder: str
    """What keeps the objects in the repository."""
    marks: tuple[tuple[int, ...], ...]

    def is_held(self, git: ShadowRepository) -> bool:
        return git.marks(self.holder) == self.marks


class Snapshotter:
    def __init__(self, root: Path, home: Path, most: int) -> None:
        """`most` bytes are read at once."""
        self._root = root
        self._home = os.fsencode(home)
        self._closed: frozenset[bytes] = frozenset()
        """Folders that git ignores as a whole, and that are not looked into."""
        self._is_large = False
        """Also without these."""
        self._most = min(most, _MAX_DIRECT_BYTES)
        self._looker = WorkspaceScanner(root, home, most)
        self._trees = TreeCache()
        self._basis: _Baseline | None = None
        self._latest: tuple[WorkspaceSnapshot, QuickScan | None] | None = None
        self._ignored: set[bytes] = set()
        """Files of which git has said so, with the rules as they are."""

    async def look(self, git: ShadowRepository) -> WorkspaceSnapshot:
        """Raises CheckpointError; a ShadowGitError when the repository may be damaged."""
        try:
            seen = await asyncio.to_thread(glance, self._root, self._passed_over)
            is_large = seen is None
        except OSError as error:  # it changes just now, or git has to say what is wrong with it
            log.info("git looks at %s: %s", self._root, error)
            seen, is_large = None, False
        if seen is not None:
            self._check_obstacles(seen)
        sight = await self._renewed(git, seen)
        if sight is None:
            self._ignored.clear()
            sight = await self._looker.look(git)
            if is_large or self._closed:
                seen = await self._update_ignored_directories(git, seen, is_large=is_large)
            self._rely_on(git, sight, seen, _INDEX_FILE)
        self._latest = (sight, seen)
        return sight

    async def ignored(self, git: ShadowRepository) -> set[bytes]:
        """Files that are known, but by now ignored. Raises CheckpointError."""
        return await self._looker.known_and_ignored(git)

    async def ignored_of(self, git: ShadowRepository, paths: Iterable[bytes]) -> set[bytes]:
        """Which of some files are. Raises CheckpointError."""
        return await self._looker.ignored_of(git, paths)

    def rely_on(self, git: ShadowRepository, refs: str) -> None:
        """What was seen last is kept by one of these refs."""
        if self._latest is not None:
            self._rely_on(git, *self._latest, refs)

    def forget(self) -> None:
        """The index is not what it was."""
        self._looker.forget()
        self._basis = self._latest = None
        self._ignored.clear()

    def _check_obstacles(self, seen: QuickScan) -> None:
        """Raises CheckpointError."""
        for path, (mode, *_) in seen.files.items():
            if is_obstacle_of_git(path, mode):
                reason = waits_for(self._root / os.fsdecode(path))
                raise CheckpointError(f"files are not kept: {reason}.")

    @property
    def _passed_over(self) -> frozenset[bytes]:
        place = os.fsencode(self._root) + b"/"
        return frozenset({self._home, *(place + directory for directory in self._closed)})

    async def _update_ignored_directories(
        self, git: ShadowRepository, seen: QuickScan | None, *, is_large: bool
    ) -> QuickScan | None:
        """After git has looked. What was seen with other folders closed is worth nothing."""
        before, self._closed = self._closed, frozenset()
        self._is_large = self._is_large or (is_large and bool(before))
        if not self._is_large:
            try:
                self._closed = await self._looker.list_ignored_directories(git)
            except ShadowGitError as refusal:
                log.info("all folders of %s are looked into: %s", self._root, refusal)
            self._is_large = is_large and not self._closed
        return seen if self._closed == before else None

    def _rely_on(
        self, git: ShadowRepository, sight: WorkspaceSnapshot, seen: QuickScan | None, holder: str
    ) -> None:
        self._basis = None if seen is None else _Baseline(sight, seen, holder, git.marks(holder))

    async def _renewed(
        self, git: ShadowRepository, seen: QuickScan | None
    ) -> WorkspaceSnapshot | None:
        """None: git has to look."""
        basis = self._basis
        if basis is None or seen is None or basis.seen.rules != seen.rules:
            return None
        if not basis.is_held(git):
            return None
        changed = seen.changed_since(basis.seen)
        if not changed:
            return basis.sight
        if len(changed) > _MAX_DIRECT_FILES or any(map(_is_about_git, changed)):
            return None
        try:
            return await self._changed(git, basis.sight, seen, changed)
        except (ShadowGitError, OSError) as error:
            log.info("git looks at %s: %s", self._root, error)
            return None

    async def _changed(
        self, git: ShadowRepository, before: WorkspaceSnapshot, seen: QuickScan, changed: set[bytes]
    ) -> WorkspaceSnapshot | None:
        await self._trees.load(git, before.tree, changed)
        known = {path for path in changed if self._trees.holds(before.tree, path)}
        others = await self._others(git, seen, changed - known)
        letters = [(b"M" if path in seen.files else b"D", path) for path in known]
        plan = sort_out(self._root, letters, others)
        if plan.size > self._most:
            return None
        left_out = (before.left_out - changed) | plan.left_out
        if not plan.keep and not plan.drop:
            return WorkspaceSnapshot(before.tree, left_out)
        kept, tree = await asyncio.to_thread(self._write, git, before.tree, plan)
        new = {path: entry for path, entry in kept.items() if path not in known}
        note_news(git, new, plan.drop)
        return WorkspaceSnapshot(tree, left_out)

    async def _others(
        self, git: ShadowRepository, seen: QuickScan, new: Iterable[bytes]
    ) -> set[bytes]:
        """Those that git does not ignore."""
        asked = {path for path in new if path not in self._ignored and _is_file(seen, path)}
        if asked:
            self._ignored |= await self._looker.ignored_of(git, asked)
        return asked - self._ignored

    def _write(
        self, git: ShadowRepository, tree: str, plan: IndexUpdatePlan
    ) -> tuple[dict[bytes, TreeEntry], str]:
        """What is kept, and the tree. Raises OSError."""
        place = os.fsencode(self._root) + b"/"
        kept = {path: _kept(git.path, place + path) for path in plan.keep}
        return kept, self._trees.write(git.path, tree, dict.fromkeys(plan.drop) | kept)


def _is_about_git(path: bytes) -> bool:
    """It may change what is kept of others."""
    return any(name in {b".git", b".gitignore"} for name in path.lower().split(b"/"))


def _is_file(seen: QuickScan, path: bytes) -> bool:
    mode = seen.files[path][0] if path in seen.files else 0
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _kept(repository: Path, path: bytes) -> TreeEntry:
    """Raises OSError: it has gone, or is not what it was."""
    if stat.S_ISLNK(os.lstat(path).st_mode):
        target = os.readlink(path)  # noqa: PTH115 (bytes)
        return TreeEntry(b"120000", write_object(repository, b"blob", target))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        data = file.read(MAX_FILE_BYTES + 1)
    if not stat.S_ISREG(mode) or len(data) > MAX_FILE_BYTES:
        raise OSError(f"{os.fsdecode(path)!r} has changed while it was kept")
    executable = mode & stat.S_IXUSR
    return TreeEntry(
        b"100755" if executable else b"100644", write_object(repository, b"blob", data)
    )


MAX_SCANNED_ENTRIES = 1_500
_TIMESTAMP_TICK_NS = 20_000_000
_COARSE_TIMESTAMP_TICK_NS = 3_000_000_000
"""Nanoseconds; the second where files are stamped with whole milliseconds, or with seconds."""
_COARSE_RESOLUTION_NS = 1_000_000

_StatTuple = tuple[int, int, int, int, int]


class QuickScan(Struct, frozen=True):
    """All files of the workspace, by kind, size and times."""

    files: dict[bytes, _StatTuple]
    fresh: frozenset[bytes]
    """Those whose times say nothing yet."""
    rules: bytes
    """By which files from above the workspace are left out."""

    def changed_since(self, earlier: QuickScan) -> set[bytes]:
        """Files that are not certain to be as they were."""
        if self.files == earlier.files:
            return set(earlier.fresh)
        different = self.files.items() ^ earlier.files.items()
        return {path for path, _ in different} | earlier.fresh


def glance(root: Path, passed_over: frozenset[bytes]) -> QuickScan | None:
    """Blocks for some milliseconds at most. None: there is too much. Folders that are passed over
    are named by whole paths. Raises OSError: it cannot be looked into, or changes just now."""
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
                    if entry.name != b".git" and entry.path not in passed_over:
                        pending.append(entry.path)
                    continue
                path = entry.path[len(top) + 1 :]
                files[path] = _of(facts)
                if not _settled(facts, now):
                    fresh.append(path)
    return QuickScan(files, frozenset(fresh), rules_text(root))


def _settled(facts: os.stat_result, now: int) -> bool:
    tick = (
        _TIMESTAMP_TICK_NS
        if facts.st_ctime_ns % _COARSE_RESOLUTION_NS
        else _COARSE_TIMESTAMP_TICK_NS
    )
    return now - facts.st_ctime_ns > tick


def _of(facts: os.stat_result) -> _StatTuple:
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
