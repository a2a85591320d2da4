"""Checkpoints of a workspace, for all its tasks: saved, compared, restored, deleted with a task.

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

from joey.core.file_state import FileChange, FileDiff, LeftFile
from joey.errors import CheckpointError
from joey.system.files import FileFingerprint
from joey.workspace.checkpoints.diff import (
    build_patch,
    diff_snapshots,
    iter_blobs,
    load_file_diffs,
    read_blob_sizes,
    to_file_change,
)
from joey.workspace.checkpoints.refs import (
    Checkpoint,
    CheckpointGarbageCollector,
    RetentionLimits,
    build_task_refs_path,
    delete_refs,
    list_refs,
    read_checkpoint,
    read_last_checkpoint,
    write_checkpoint,
)
from joey.workspace.checkpoints.restore import FileRestorer, remove_interrupted_leftovers
from joey.workspace.checkpoints.scan import WorkspaceSnapshot, check_workspace
from joey.workspace.checkpoints.shadow_repo import ShadowDirectory, ShadowGitError, ShadowRepository
from joey.workspace.checkpoints.snapshot import Snapshotter
from joey.workspace.git.trees import TreeChange

log = logging.getLogger(__name__)

_MAX_NAMED_FILES = 5


class _LastCheckpoint(Struct, frozen=True):
    """The checkpoint that was saved last, valid as long as the shadow repository is unchanged."""

    checkpoint: Checkpoint
    task_id: str
    shadow_signature: tuple[FileFingerprint, ...]


class WorkspaceCheckpoints:
    """The checkpoints of a workspace; belongs to one event loop."""

    def __init__(
        self, root: Path, home: Path, directory: ShadowDirectory, limits: RetentionLimits
    ) -> None:
        """`root` and `home` must be resolved."""
        self._workspace = root
        self._joey_home = home
        self._shadow_directory = directory
        self._snapshotter = Snapshotter(root, home, limits.max_bytes)
        self._garbage_collector = CheckpointGarbageCollector(
            directory, root, self._open_shadow, limits
        )
        self._operation_lock = asyncio.Lock()
        self._first_scan_task: asyncio.Task[None] | None = None
        self._garbage_collection_task: asyncio.Task[None] | None = None
        self._early_save_tasks: set[asyncio.Task[None]] = set()
        self._last_checkpoint: _LastCheckpoint | None = None

    def prewarm(self, task_id: str) -> None:
        saving = asyncio.create_task(self._save_early(task_id))
        self._early_save_tasks.add(saving)
        saving.add_done_callback(self._early_save_tasks.discard)

    async def _save_early(self, task_id: str) -> None:
        try:
            await self.save(task_id)
        except CheckpointError as error:
            # Whoever saves meets it again.
            log.info("no first checkpoint of %s: %s", self._workspace, error)

    async def save(self, task_id: str) -> str:
        check_workspace(self._workspace, self._joey_home)
        if self._first_scan_task is None:
            self._first_scan_task = asyncio.create_task(self._run_first_scan())
        # It continues after its caller times out.
        await asyncio.shield(self._first_scan_task)
        async with self._open_shadow() as git:
            last = await self._find_last_checkpoint(git, task_id)
            sight = await self._take_snapshot(git)
            if last is None or last.snapshot != sight:
                last = Checkpoint(write_checkpoint(git, task_id, sight), sight)
                self._schedule_garbage_collection()
            self._snapshotter.anchor_baseline(git, build_task_refs_path(task_id))
            self._last_checkpoint = _LastCheckpoint(
                last, task_id, git.build_signature(build_task_refs_path(task_id))
            )
        return last.id

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        check_workspace(self._workspace, self._joey_home)
        async with self._open_shadow() as git:
            return [to_file_change(one) for one in await self._diff_checkpoints(git, since, until)]

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        check_workspace(self._workspace, self._joey_home)
        async with self._open_shadow() as git:
            return await load_file_diffs(git, await self._diff_checkpoints(git, since, until))

    async def build_patch(self, since: str) -> bytes:
        check_workspace(self._workspace, self._joey_home)
        async with self._open_shadow() as git:
            earlier = (await read_checkpoint(git, since)).snapshot
            return await build_patch(git, earlier, await self._take_snapshot(git))

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        check_workspace(self._workspace, self._joey_home)
        async with self._open_shadow() as git:
            wanted, now = (await read_checkpoint(git, to)).snapshot, await self._take_snapshot(git)
            if not (found := await diff_snapshots(git, now, wanted)):
                return []
            if before is not None:
                since = await diff_snapshots(
                    git, (await read_checkpoint(git, before)).snapshot, now
                )
                others = {one.path for one in since}
                if names := [to_file_change(one).path for one in found if one.path in others]:
                    raise CheckpointError(
                        f"files were modified outside joey: {_format_names(names)}."
                    )
            # But for files that git was told to ignore after they were first kept.
            if gone := [one for one in found if one.kind == "removed"]:
                ignored = await self._snapshotter.scanner.list_indexed_but_ignored(git)
                gone = [one for one in gone if one.path not in ignored]
            back = [one for one in found if one.kind != "removed"]
            # Before anything is touched: all of it must be there.
            sizes = await read_blob_sizes(git, (one.new_blob for one in back))
            return await self._restore_files(git, gone, back, sizes)

    async def list_unrestorable_files(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        check_workspace(self._workspace, self._joey_home)
        inside = {path: place for path in paths if (place := self._to_git_path(path)) is not None}
        async with self._open_shadow() as git:
            too_large = (await self._take_snapshot(git)).skipped_files
            scanner = self._snapshotter.scanner
            ignored = await scanner.find_ignored(git, inside.values()) if inside else set()
        found = []
        for path in paths:
            if (place := inside.get(path)) is None:
                found.append(LeftFile(path, "outside"))
            elif place in ignored or b".git" in place.lower().split(b"/"):
                found.append(LeftFile(path, "ignored"))
            elif place in too_large:
                found.append(LeftFile(path, "large"))
        return found

    def _to_git_path(self, path: str) -> bytes | None:
        """Return the path as git knows it: with links resolved."""
        named = self._workspace / path
        place = Path(os.path.realpath(named.parent), named.name)
        if not place.is_relative_to(self._workspace):
            return None
        return os.fsencode(place.relative_to(self._workspace))

    async def discard_task(self, task_id: str) -> None:
        if not self._shadow_directory.repository_path.exists():
            return
        async with self._open_shadow() as git:
            await delete_refs(git, await list_refs(git, task_id))
            if not await list_refs(git):
                await asyncio.to_thread(self._shadow_directory.remove_repositories)
                self._snapshotter.reset()
                return
        self._schedule_garbage_collection(at_once=True)

    async def close(self) -> None:
        """Close the store; background work is interrupted and continued by the next process."""
        others = (self._first_scan_task, self._garbage_collection_task)
        at_work = [*self._early_save_tasks, *(task for task in others if task is not None)]
        for task in at_work:
            task.cancel()
        await asyncio.gather(*at_work, return_exceptions=True)

    async def _run_first_scan(self) -> None:
        try:
            async with self._open_shadow(low_priority=True) as git:
                await self._take_snapshot(git)
        except CheckpointError as error:
            # Whoever saves meets it again.
            log.info("no first checkpoint of %s: %s", self._workspace, error)

    @asynccontextmanager
    async def _open_shadow(self, *, low_priority: bool = False) -> AsyncIterator[ShadowRepository]:
        try:
            async with self._operation_lock, self._shadow_directory.acquire_lock() as lock:
                if lock.was_last_owner_interrupted:
                    await asyncio.to_thread(self._shadow_directory.remove_stale_git_files)
                    await asyncio.to_thread(
                        remove_interrupted_leftovers,
                        self._workspace,
                        self._shadow_directory.recovery_path,
                    )
                git = ShadowRepository(
                    self._shadow_directory, self._workspace, lock, low_priority=low_priority
                )
                git.create_if_missing()
                yield git
        except OSError as error:
            raise CheckpointError(
                f"the checkpoints in {self._shadow_directory.path} cannot be used: {error}."
            ) from error

    async def _take_snapshot(self, git: ShadowRepository) -> WorkspaceSnapshot:
        """Take a snapshot of the current files. If the shadow repository is damaged, recreate as
        much as needed: its index, which only costs time, else all of it."""
        try:
            return await self._snapshotter.take_snapshot(git)
        except ShadowGitError as refusal:
            log.warning(
                "the index of the checkpoints of %s is made anew: %s", self._workspace, refusal
            )
        self._snapshotter.reset()
        git.index_path.unlink(missing_ok=True)
        self._shadow_directory.remove_stale_git_files()
        try:
            return await self._snapshotter.take_snapshot(git)
        except ShadowGitError as refusal:
            aside = self._shadow_directory.move_away_damaged_repository()
            log.warning("checkpoints of %s are now in %s: %s", self._workspace, aside, refusal)
        self._snapshotter.reset()
        git.create_if_missing()
        return await self._snapshotter.take_snapshot(git)

    async def _find_last_checkpoint(self, git: ShadowRepository, task_id: str) -> Checkpoint | None:
        last = self._last_checkpoint
        if (
            last is not None
            and last.task_id == task_id
            and last.shadow_signature == git.build_signature(build_task_refs_path(task_id))
        ):
            return last.checkpoint
        try:
            return await read_last_checkpoint(git, task_id)
        except CheckpointError as error:
            log.warning("the last checkpoint of task %s cannot be read: %s", task_id, error)
            return None

    async def _diff_checkpoints(
        self, git: ShadowRepository, since: str, until: str | None
    ) -> list[TreeChange]:
        earlier = (await read_checkpoint(git, since)).snapshot
        later = (
            await self._take_snapshot(git)
            if until is None
            else (await read_checkpoint(git, until)).snapshot
        )
        return await diff_snapshots(git, earlier, later)

    async def _restore_files(
        self,
        git: ShadowRepository,
        gone: Sequence[TreeChange],
        back: Sequence[TreeChange],
        sizes: dict[str, int],
    ) -> list[FileChange]:
        work = FileRestorer(self._workspace, self._shadow_directory.recovery_path)
        done: list[FileChange] = []
        failed: list[str] = []

        def attempt(one: TreeChange, data: bytes | None) -> None:
            try:
                if data is None:
                    is_done = work.remove_file(one.path)
                else:
                    is_done = work.write_file(one.path, one.new_mode, data)
            except OSError as error:
                failed.append(f"{to_file_change(one).path} ({error.strerror or error})")
            else:
                done.extend([to_file_change(one)] if is_done else [])

        work.write_recovery_file([one.path for one in (*gone, *back)])
        for one in gone:
            await asyncio.to_thread(attempt, one, None)
        holders: dict[str, list[TreeChange]] = {}
        for one in back:
            holders.setdefault(one.new_blob, []).append(one)
        async for blob, data in iter_blobs(git, sizes):
            for one in holders[blob]:
                await asyncio.to_thread(attempt, one, data)
        await asyncio.to_thread(work.finish)
        if failed:
            raise CheckpointError(
                f"{len(done)} files were restored, but not {_format_names(failed)}. Move what is in"
                " the way and try again."
            )
        return sorted(done, key=lambda change: change.path)

    def _schedule_garbage_collection(self, *, at_once: bool = False) -> None:
        if self._garbage_collection_task is None or self._garbage_collection_task.done():
            self._garbage_collection_task = asyncio.create_task(
                self._collect_garbage_if_due(at_once)
            )

    async def _collect_garbage_if_due(self, at_once: bool) -> None:
        try:
            if at_once or await asyncio.to_thread(self._garbage_collector.is_due):
                await self._garbage_collector.run()
        except (CheckpointError, OSError) as error:
            log.warning("old checkpoints of %s are not collected: %s", self._workspace, error)


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED_FILES
    return ", ".join(names[:_MAX_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
