"""Checkpoints of a workspace, for all its tasks: saved, compared, restored, forgotten with a task.

`save` takes a snapshot of the files (`snapshot.py`) and makes a commit of it (`refs.py`);
`list_changes` and `diff` compare two commits (`diff.py`); `restore` writes back the files in which
the workspace differs from one (`restore.py`). Only one of these runs at a time, in this process and
among all processes: each holds the lock of the shadow directory (`shadow_repo.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from joey.errors import CheckpointError
from joey.ports import Checkpoints, FileChange, FileDiff, LeftFile
from joey.workspace.checkpoints.diff import TreeDifference, blob_sizes, blobs, differences, texts
from joey.workspace.checkpoints.refs import (
    Checkpoint,
    CheckpointCollector,
    RetentionLimits,
    drop,
    keep,
    last_of,
    moment,
    refs,
    refs_of,
)
from joey.workspace.checkpoints.restore import FileRestorer, clean_up
from joey.workspace.checkpoints.scan import WorkspaceSnapshot, check_workspace
from joey.workspace.checkpoints.shadow_repo import ShadowDirectory, ShadowGitError, ShadowRepository
from joey.workspace.checkpoints.snapshot import Snapshotter

log = logging.getLogger(__name__)

_MAX_NAMED_FILES = 5


class _LastCheckpoint(Struct, frozen=True):
    """The checkpoint that was saved last. It is that of its task as long as the shadow is as it
    was."""

    moment: Checkpoint
    task_id: str
    shadow: tuple[tuple[int, ...], ...]

    def is_last(self, git: ShadowRepository, task_id: str) -> bool:
        return task_id == self.task_id and git.marks(refs_of(task_id)) == self.shadow


class WorkspaceCheckpoints:
    """Belongs to one event loop."""

    def __init__(
        self, root: Path, home: Path, directory: ShadowDirectory, limits: RetentionLimits
    ) -> None:
        """`root` and `home` are resolved."""
        self._root = root
        self._home = home
        self._directory = directory
        self._looker = Snapshotter(root, home, limits.bytes)
        self._collection = CheckpointCollector(directory, root, self._opened, limits)
        self._turn = asyncio.Lock()
        self._first: asyncio.Task[None] | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._ahead: set[asyncio.Task[None]] = set()
        self._kept: _LastCheckpoint | None = None

    def prewarm(self, task_id: str) -> None:
        self._begin_looking()
        saving = asyncio.create_task(self._save_ahead(task_id))
        self._ahead.add(saving)
        saving.add_done_callback(self._ahead.discard)

    def _begin_looking(self) -> None:
        if self._first is None:
            self._first = asyncio.create_task(self._begin())

    async def _save_ahead(self, task_id: str) -> None:
        try:
            await self.save(task_id)
        except CheckpointError as error:
            # Whoever saves meets it again.
            log.info("no first checkpoint of %s: %s", self._root, error)

    async def save(self, task_id: str) -> str:
        check_workspace(self._root, self._home)
        await self._begun()
        async with self._opened() as git:
            last = await self._last(git, task_id)
            sight = await self._look(git)
            if last is None or last.sight != sight:
                last = Checkpoint(keep(git, task_id, sight), sight)
                self._collect_soon()
            self._looker.rely_on(git, refs_of(task_id))
            self._kept = _LastCheckpoint(last, task_id, git.marks(refs_of(task_id)))
        return last.id

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        check_workspace(self._root, self._home)
        async with self._opened() as git:
            return [one.change for one in await self._compare(git, since, until)]

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        check_workspace(self._root, self._home)
        async with self._opened() as git:
            return await texts(git, await self._compare(git, since, until))

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        check_workspace(self._root, self._home)
        async with self._opened() as git:
            wanted, now = (await moment(git, to)).sight, await self._look(git)
            found = await differences(git, now, wanted)
            if not found:
                return []
            if before is not None:
                since = await differences(git, (await moment(git, before)).sight, now)
                _refuse_changed(found, {one.path for one in since})
            gone = [one for one in found if one.kind == "removed"]
            if gone:  # but for files that git was told to ignore after they were first kept
                ignored = await self._looker.ignored(git)
                gone = [one for one in gone if one.path not in ignored]
            back = [one for one in found if one.kind != "removed"]
            # Before anything is touched: all of it must be there.
            sizes = await blob_sizes(git, (one.blob for one in back))
            return await self._bring_back(git, gone, back, sizes)

    async def list_unrestorable(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        check_workspace(self._root, self._home)
        inside = {path: place for path in paths if (place := self._inside(path)) is not None}
        async with self._opened() as git:
            too_large = (await self._look(git)).left_out
            ignored = await self._looker.ignored_of(git, inside.values()) if inside else set()
        found = []
        for path in paths:
            place = inside.get(path)
            if place is None:
                found.append(LeftFile(path, "outside"))
            elif place in ignored or b".git" in place.lower().split(b"/"):
                found.append(LeftFile(path, "ignored"))
            elif place in too_large:
                found.append(LeftFile(path, "large"))
        return found

    def _inside(self, path: str) -> bytes | None:
        """As git knows it: links on the way are followed."""
        named = self._root / path
        place = Path(os.path.realpath(named.parent), named.name)
        if not place.is_relative_to(self._root):
            return None
        return os.fsencode(place.relative_to(self._root))

    async def discard_task(self, task_id: str) -> None:
        if not self._directory.repository.exists():
            return
        async with self._opened() as git:
            await drop(git, await refs(git, task_id))
            if not await refs(git):
                await asyncio.to_thread(self._directory.clear)
                self._looker.forget()
                return
        self._collect_soon(at_once=True)

    async def size(self) -> int:
        """Bytes on disk that the checkpoints of this workspace take."""
        return await asyncio.to_thread(self._directory.size)

    async def collect(self) -> None:
        """Drop checkpoints that are too old or too many, and what only they held."""
        if self._collecting is not None:
            await asyncio.shield(self._collecting)
        if self._directory.repository.exists():
            await self._collection.run()

    async def close(self) -> None:
        """What is at work in the background is broken off; the next process goes on with it."""
        others = (self._first, self._collecting)
        at_work = [*self._ahead, *(task for task in others if task is not None)]
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)

    async def _begin(self) -> None:
        try:
            check_workspace(self._root, self._home)
            async with self._opened(gentle=True) as git:
                await self._look(git)
        except CheckpointError as error:
            # Whoever saves meets it again.
            log.info("no first checkpoint of %s: %s", self._root, error)

    async def _begun(self) -> None:
        """Have looked at the files once: that goes on when who waits for it has no more time."""
        self._begin_looking()
        assert self._first is not None
        await asyncio.shield(self._first)

    @asynccontextmanager
    async def _opened(self, *, gentle: bool = False) -> AsyncIterator[ShadowRepository]:
        try:
            async with self._turn, self._directory.locked() as hold:
                if hold.was_broken_off:
                    await asyncio.to_thread(self._directory.remove_locks)
                    await asyncio.to_thread(clean_up, self._root, self._directory.restoring)
                git = ShadowRepository(self._directory, self._root, hold, gentle=gentle)
                git.make()
                yield git
        except OSError as error:
            raise CheckpointError(
                f"the checkpoints in {self._directory.path} cannot be used: {error}."
            ) from error

    async def _look(self, git: ShadowRepository) -> WorkspaceSnapshot:
        """The files as they are now. Where the shadow is damaged, as much of it is made anew as
        has to be: its index, which costs only time, else all of it."""
        try:
            return await self._looker.look(git)
        except ShadowGitError as refusal:
            log.warning("the index of the checkpoints of %s is made anew: %s", self._root, refusal)
        self._looker.forget()
        git.index.unlink(missing_ok=True)
        self._directory.remove_locks()
        try:
            return await self._looker.look(git)
        except ShadowGitError as refusal:
            aside = self._directory.put_aside()
            log.warning("checkpoints of %s are now in %s: %s", self._root, aside, refusal)
        self._looker.forget()
        git.make()
        return await self._looker.look(git)

    async def _last(self, git: ShadowRepository, task_id: str) -> Checkpoint | None:
        if self._kept is not None and self._kept.is_last(git, task_id):
            return self._kept.moment
        try:
            return await last_of(git, task_id)
        except CheckpointError as error:
            log.warning("the last checkpoint of task %s cannot be read: %s", task_id, error)
            return None

    async def _compare(
        self, git: ShadowRepository, since: str, until: str | None
    ) -> list[TreeDifference]:
        earlier = (await moment(git, since)).sight
        later = await self._look(git) if until is None else (await moment(git, until)).sight
        return await differences(git, earlier, later)

    async def _bring_back(
        self,
        git: ShadowRepository,
        gone: Sequence[TreeDifference],
        back: Sequence[TreeDifference],
        sizes: dict[str, int],
    ) -> list[FileChange]:
        work = FileRestorer(self._root, self._directory.restoring)
        done: list[FileChange] = []
        failed: list[str] = []

        def attempt(one: TreeDifference, data: bytes | None) -> None:
            try:
                if data is None:
                    is_done = work.remove(one.path)
                else:
                    is_done = work.write(one.path, one.mode, data)
            except OSError as error:
                failed.append(f"{one.change.path} ({error.strerror or error})")
            else:
                done.extend([one.change] if is_done else [])

        work.begin([one.path for one in (*gone, *back)])
        for one in gone:
            await asyncio.to_thread(attempt, one, None)
        holders: dict[str, list[TreeDifference]] = {}
        for one in back:
            holders.setdefault(one.blob, []).append(one)
        async for blob, data in blobs(git, sizes):
            for one in holders[blob]:
                await asyncio.to_thread(attempt, one, data)
        await asyncio.to_thread(work.end)
        if failed:
            raise CheckpointError(_partly(len(done), failed))
        return sorted(done, key=lambda change: change.path)

    def _collect_soon(self, *, at_once: bool = False) -> None:
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.create_task(self._collect_if_due(at_once))

    async def _collect_if_due(self, at_once: bool) -> None:
        try:
            if at_once or await asyncio.to_thread(self._collection.is_due):
                await self._collection.run()
        except (CheckpointError, OSError) as error:
            log.warning("old checkpoints of %s are not collected: %s", self._root, error)


def _refuse_changed(found: Sequence[TreeDifference], changed: set[bytes]) -> None:
    """Raises CheckpointError."""
    if paths := [one.change.path for one in found if one.path in changed]:
        raise CheckpointError(f"somebody else has changed files meanwhile: {_named(paths)}.")


def _partly(count: int, failed: Sequence[str]) -> str:
    return (
        f"{count} files were restored, but not {_named(failed)}. Move what is in the way and try"
        " again."
    )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED_FILES
    return ", ".join(names[:_MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")


_fits: type[Checkpoints] = WorkspaceCheckpoints
