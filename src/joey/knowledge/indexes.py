"""The code indexes of a process: one for each workspace, kept as long as a task uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from joey.errors import ToolError
from joey.knowledge.index import ListFiles, WorkspaceIndex
from joey.knowledge.index_folder import IndexFolder, PassingFolder
from joey.ports import CodeAnswer, CodeIndex, Embedder, Files, IndexState, Place

IDLE_SECONDS = 3.0
"""How long after a task is opened its index is begun, unless a search comes first. A short run
never pays for it, and in a long one it is there before it is asked for; the first request to the
model has long gone out."""

_Key = tuple[Path, str]


class Indexes:
    """Belongs to one event loop."""

    def __init__(self, home: Path, *, kept: bool = True) -> None:
        """With `kept`, they are under `home` and there for the next process too."""
        self._parent = home / "index"
        self._folder = IndexFolder if kept else PassingFolder
        self._turn = asyncio.Semaphore(1)
        self._shared: dict[_Key, _Shared] = {}

    def open(
        self, files: Files, list_files: ListFiles, embedder: Embedder | None = None
    ) -> CodeIndex:
        """The index of the workspace of `files`, for one task. `list_files` names every file that
        may be in it, relative to the workspace."""
        key = (files.root, embedder.model if embedder is not None else "")
        shared = self._shared.get(key)
        if shared is None:
            folder = self._folder(self._parent, files.root)
            index = WorkspaceIndex(folder, files, list_files, embedder, self._turn)
            shared = self._shared[key] = _Shared(index)
        shared.users += 1
        return TaskIndex(self, key, shared.index)

    async def leave(self, key: _Key) -> None:
        """One user less; the last one closes the index."""
        shared = self._shared[key]
        shared.users -= 1
        if shared.users == 0:
            del self._shared[key]
            shared.idle.cancel()
            await shared.index.close()


class _Shared:
    def __init__(self, index: WorkspaceIndex) -> None:
        self.index = index
        self.users = 0
        self.idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, index.begin)


class TaskIndex:
    """What one task has of a shared index."""

    def __init__(self, indexes: Indexes, key: _Key, index: WorkspaceIndex) -> None:
        self._indexes = indexes
        self._key = key
        self._index = index
        self._closed = False

    @property
    def state(self) -> IndexState:
        return self._index.state

    async def search(self, query: str, folder: Place | None, limit: int) -> CodeAnswer:
        if self._closed:
            raise ToolError("The code index is closed.")
        return await self._index.search(query, folder, limit)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._indexes.leave(self._key)


_fits: type[CodeIndex] = TaskIndex
