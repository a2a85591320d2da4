"""The checkpoint stores of a process: one per workspace, open as long as a task uses it.

Everything else in this package is loaded when the first checkpoint is due.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from joey.errors import CheckpointError
from joey.ports import Checkpoints, FileChange, FileDiff, LeftFile

if TYPE_CHECKING:
    from joey.workspace.checkpoints.store import WorkspaceCheckpoints

_PREWARM_DELAY_S = 0.1


class CheckpointStorePool:
    """Belongs to one event loop. Nothing is loaded, opened or made before a task needs it."""

    def __init__(self, home: Path, *, kept: bool = True) -> None:
        """With `kept`, they are under `home` and there for the next process too."""
        self._home = home
        self._kept = kept
        self._passing: Path | None = None
        self._shared: dict[Path, _SharedStore] = {}

    def lease(
        self, workspace: Path, *, max_age_days: float = 30, max_megabytes: float = 2048
    ) -> TaskCheckpoints:
        """The checkpoints of a workspace, for one task. Limits are those of its first task."""
        root = Path(os.path.realpath(workspace))
        shared = self._shared.get(root)
        if shared is None:
            shared = self._shared[root] = _SharedStore(root, (max_age_days, max_megabytes))
        shared.users += 1
        return TaskCheckpoints(self, shared)

    def open(self, shared: _SharedStore) -> WorkspaceCheckpoints:
        """What the tasks of a workspace share, made when the first of them needs it."""
        if shared.store is None:
            from joey.workspace.checkpoints.refs import RetentionLimits
            from joey.workspace.checkpoints.shadow_repo import ShadowDirectory
            from joey.workspace.checkpoints.store import WorkspaceCheckpoints

            home = Path(os.path.realpath(self._home))
            directory = ShadowDirectory(self._parent(home), shared.root)
            shared.store = WorkspaceCheckpoints(
                shared.root, home, directory, RetentionLimits(*shared.limits)
            )
        return shared.store

    async def leave(self, shared: _SharedStore) -> None:
        """One user less; the last one closes."""
        shared.users -= 1
        if shared.users:
            return
        del self._shared[shared.root]
        if shared.store is not None:
            await shared.store.close()
        if not self._shared and self._passing is not None:
            from shutil import rmtree

            passing, self._passing = self._passing, None
            rmtree(passing, ignore_errors=True)

    def _parent(self, home: Path) -> Path:
        if self._kept:
            return home / "checkpoints"
        if self._passing is None:
            from tempfile import mkdtemp

            self._passing = Path(mkdtemp(prefix="joey-checkpoints-"))
        return self._passing


class _SharedStore:
    def __init__(self, root: Path, limits: tuple[float, float]) -> None:
        self.root = root
        self.limits = limits
        self.users = 0
        self.store: WorkspaceCheckpoints | None = None


class TaskCheckpoints:
    """What one task has of the checkpoints of its workspace."""

    def __init__(self, stores: CheckpointStorePool, shared: _SharedStore) -> None:
        self._stores = stores
        self._shared = shared
        self._closed = False

    def prewarm(self, task_id: str) -> None:
        """In a moment: the first request to the model goes out before it."""
        asyncio.get_running_loop().call_later(_PREWARM_DELAY_S, self._begin, task_id)

    def _begin(self, task_id: str) -> None:
        if not self._closed:
            self._store.prewarm(task_id)

    async def save(self, task_id: str) -> str:
        return await self._store.save(task_id)

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        return await self._store.list_changes(since, until)

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        return await self._store.diff(since, until)

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        return await self._store.restore(to, before)

    async def list_unrestorable(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        return await self._store.list_unrestorable(paths)

    async def discard_task(self, task_id: str) -> None:
        await self._store.discard_task(task_id)

    async def size(self) -> int:
        """Bytes on disk that the checkpoints of the workspace take."""
        return await self._store.size()

    async def collect(self) -> None:
        """Drop checkpoints that are too old or too many, and what only they held."""
        await self._store.collect()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._stores.leave(self._shared)

    @property
    def _store(self) -> WorkspaceCheckpoints:
        if self._closed:
            raise CheckpointError("the checkpoints of this task are closed.")
        return self._stores.open(self._shared)


_fits: type[Checkpoints] = TaskCheckpoints
