"""The checkpoint stores of a process: one per workspace, open as long as a task uses it.

Everything else in this package is loaded when the first checkpoint is due.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.file_state import FileChange, FileDiff, LeftFile
from joey.errors import CheckpointError
from joey.ports.workspace import Checkpoints

if TYPE_CHECKING:
    from joey.workspace.checkpoints.store import WorkspaceCheckpoints

_PREWARM_DELAY_S = 0.1


class CheckpointStorePool:
    """Checkpoint stores for one event loop. Nothing is loaded, opened or created before a task
    needs it."""

    def __init__(self, home: Path, *, persistent: bool = True) -> None:
        """With `persistent`, they are stored under `home` and remain for later processes."""
        self._joey_home = home
        self._is_persistent = persistent
        self._temporary_directory: Path | None = None
        self._shared_stores: dict[Path, _SharedStore] = {}

    def lease(
        self, workspace: Path, *, max_age_days: float = 30, max_megabytes: float = 2048
    ) -> TaskCheckpoints:
        """Lease the checkpoints of a workspace for one task. The first task sets the limits."""
        root = Path(os.path.realpath(workspace))
        if (shared := self._shared_stores.get(root)) is None:
            shared = self._shared_stores[root] = _SharedStore(root, (max_age_days, max_megabytes))
        shared.lease_count += 1
        return TaskCheckpoints(self, shared)

    def open_store(self, shared: _SharedStore) -> WorkspaceCheckpoints:
        """Open the store that the tasks of a workspace share, when the first of them needs it."""
        if shared.store is None:
            from joey.workspace.checkpoints.refs import RetentionLimits
            from joey.workspace.checkpoints.shadow_repo import ShadowDirectory
            from joey.workspace.checkpoints.store import WorkspaceCheckpoints

            home = Path(os.path.realpath(self._joey_home))
            parent = home / "checkpoints" if self._is_persistent else self._temporary_directory
            if parent is None:
                from tempfile import mkdtemp

                parent = self._temporary_directory = Path(mkdtemp(prefix="joey-checkpoints-"))
            directory = ShadowDirectory(parent, shared.workspace)
            shared.store = WorkspaceCheckpoints(
                shared.workspace, home, directory, RetentionLimits(*shared.limits)
            )
        return shared.store

    async def release(self, shared: _SharedStore) -> None:
        """Release the store; the last user closes it."""
        shared.lease_count -= 1
        if shared.lease_count:
            return
        del self._shared_stores[shared.workspace]
        if shared.store is not None:
            await shared.store.close()
        if not self._shared_stores and self._temporary_directory is not None:
            from shutil import rmtree

            temporary, self._temporary_directory = self._temporary_directory, None
            rmtree(temporary, ignore_errors=True)


class _SharedStore(Struct):
    workspace: Path
    limits: tuple[float, float]
    lease_count: int = 0
    store: WorkspaceCheckpoints | None = None


class TaskCheckpoints:
    """One task's use of its workspace's checkpoints."""

    def __init__(self, pool: CheckpointStorePool, shared: _SharedStore) -> None:
        self._pool = pool
        self._shared_store = shared
        self._is_closed = False

    def prewarm(self, task_id: str) -> None:
        """Prewarm after a short delay: the first request to the model is sent before."""
        asyncio.get_running_loop().call_later(_PREWARM_DELAY_S, self._prewarm_store, task_id)

    def _prewarm_store(self, task_id: str) -> None:
        if not self._is_closed:
            self._store.prewarm(task_id)

    async def save(self, task_id: str) -> str:
        return await self._store.save(task_id)

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        return await self._store.list_changes(since, until)

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        return await self._store.diff(since, until)

    async def build_patch(self, since: str) -> bytes:
        return await self._store.build_patch(since)

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        return await self._store.restore(to, before)

    async def list_unrestorable_files(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        return await self._store.list_unrestorable_files(paths)

    async def discard_task(self, task_id: str) -> None:
        await self._store.discard_task(task_id)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._pool.release(self._shared_store)

    @property
    def _store(self) -> WorkspaceCheckpoints:
        if self._is_closed:
            raise CheckpointError("the checkpoints of this task are closed.")
        return self._pool.open_store(self._shared_store)


_protocol_check: type[Checkpoints] = TaskCheckpoints
