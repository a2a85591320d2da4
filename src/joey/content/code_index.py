"""Code index: search by words or meaning in one workspace, shared by all its tasks.

It is filled in the background. Before a search, the files are compared with the index, while the
search already runs: if nothing changed, its answer is used; a few changed files are indexed and the
search is repeated; if many changed, they are indexed in the background, and the answer says so.

Comparing is cheap enough for every search (a listing by ripgrep and one `lstat` per file) and never
misses an edit. Watching the tree would avoid it, but starting a watch blocks the interpreter while
all directories are walked, ignored ones too, and change events arrive late.

Any process may read the index of a workspace. A process that changes it holds an advisory file
lock, which ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from joey.content.code_index_embeddings import EmbeddingIndex, QueryVector
from joey.core.path_access import ResolvedPath
from joey.errors import ToolError
from joey.ports.content import CodeIndex, CodeIndexState, CodeSearchHit, CodeSearchResult
from joey.ports.model import Embedder
from joey.ports.workspace import Files, Listing
from joey.system.files import PrivateDirectory
from joey.system.locks import try_lock_file

if TYPE_CHECKING:
    from joey.content.blocking_code_index import BlockingCodeIndex


INDEXING_START_DELAY_S = 3.0
"""How long after a task is opened its index is begun, unless a search comes first. A short run
never pays for it, and in a long one it is there before it is asked for; the first request to the
model has long gone out."""

_IndexKey = tuple[Path, str]


class WorkspaceIndexPool:
    """Shared indexes of workspaces; belongs to one event loop."""

    def __init__(self, home: Path, *, persistent: bool = True) -> None:
        """With `kept`, indexes are stored under `home` and remain for later processes."""
        self._parent_directory = home / "index"
        self._directory_class = IndexDirectory if persistent else TemporaryIndexDirectory
        self._indexing_semaphore = asyncio.Semaphore(1)
        self._shared_indexes: dict[_IndexKey, _SharedIndex] = {}

    def open(
        self, files: Files, list_files: FileLister, embedder: Embedder | None = None
    ) -> CodeIndex:
        """Open the index of the workspace of `files` for one task. `list_files` lists every file to
        index, relative to the workspace."""
        key = (files.root, embedder.model_id if embedder is not None else "")
        shared = self._shared_indexes.get(key)
        if shared is None:
            directory = self._directory_class(self._parent_directory, files.root)
            index = WorkspaceIndex(directory, files, list_files, embedder, self._indexing_semaphore)
            shared = self._shared_indexes[key] = _SharedIndex(index)
        shared.user_count += 1
        return TaskCodeIndex(self, key, shared.index)

    async def release(self, key: _IndexKey) -> None:
        """Release the index; the last user closes it."""
        shared = self._shared_indexes[key]
        shared.user_count -= 1
        if shared.user_count == 0:
            del self._shared_indexes[key]
            shared.indexing_timer.cancel()
            await shared.index.close()


class _SharedIndex:
    def __init__(self, index: WorkspaceIndex) -> None:
        self.index = index
        self.user_count = 0
        self.indexing_timer = asyncio.get_running_loop().call_later(
            INDEXING_START_DELAY_S, index.start_indexing
        )


class TaskCodeIndex:
    """One task's use of a shared index."""

    def __init__(self, indexes: WorkspaceIndexPool, key: _IndexKey, index: WorkspaceIndex) -> None:
        self._pool = indexes
        self._key = key
        self._index = index
        self._is_closed = False

    @property
    def state(self) -> CodeIndexState:
        return self._index.state

    async def search(
        self, query: str, directory: ResolvedPath | None, limit: int
    ) -> CodeSearchResult:
        if self._is_closed:
            raise ToolError("The code index is closed.")
        return await self._index.search(query, directory, limit)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._pool.release(self._key)


_protocol_check: type[CodeIndex] = TaskCodeIndex


log = logging.getLogger(__name__)

SEARCH_WAIT_S = 2.0
"""For an index that is being filled: a small workspace is done by then, the model spared a turn."""
MAX_FOREGROUND_CHANGES = 100
"""Changed files that are read in before the answer."""
_POLL_INTERVAL_S = 0.25
_TRUNCATED_NOTE = "Only the first {:,} files of the workspace are indexed."

FileLister = Callable[[threading.Event], Listing]
"""May take its time, until the event is set: it is called in a thread."""
T = TypeVar("T")


class WorkspaceIndex:
    """The index of one workspace; belongs to one event loop."""

    def __init__(
        self,
        directory: IndexDirectory,
        files: Files,
        list_files: FileLister,
        embedder: Embedder | None,
        indexing_semaphore: asyncio.Semaphore,
    ) -> None:
        """`indexing_semaphore` is held while indexing: one workspace at a time is enough."""
        self._directory = directory
        self._files = files
        self._list_files = list_files
        self._embedder = embedder
        self._indexing_semaphore = indexing_semaphore
        self._refresh_lock = asyncio.Lock()
        self._blocking_index: BlockingCodeIndex | None = None
        self._embedding_index: EmbeddingIndex | None = None
        self._indexing_task: asyncio.Task[None] | None = None
        self._embedding_task: asyncio.Task[None] | None = None
        self._error_message = ""

    @property
    def state(self) -> CodeIndexState:
        if self._blocking_index is None:
            return CodeIndexState(is_ready=False, error=self._error_message)
        progress = self._blocking_index.progress
        return CodeIndexState(
            self._blocking_index.is_complete,
            progress.done_files,
            progress.total_files,
            self._error_message,
        )

    def start_indexing(self) -> None:
        """Fill or update the index in the background."""
        if self._indexing_task is None or self._indexing_task.done():
            self._indexing_task = asyncio.create_task(self._run_indexing(), name="joey-index")

    async def search(
        self, query: str, directory: ResolvedPath | None, limit: int
    ) -> CodeSearchResult:
        work = await self._wait_until_ready()
        prefix = (
            ""
            if directory is None or directory.path == self._files.root
            else directory.display_path
        )

        async def find(wanted: QueryVector) -> tuple[list[CodeSearchHit], str]:
            wanted = (
                await self._embedding_index.add_coverage_note(wanted)
                if self._embedding_index
                else wanted
            )
            return await asyncio.to_thread(
                work.search, query, prefix, limit, wanted.vector
            ), wanted.note

        async def ask() -> tuple[QueryVector, list[CodeSearchHit], str]:
            wanted = (
                await self._embedding_index.embed_query(query)
                if self._embedding_index
                else QueryVector()
            )
            return wanted, *await find(wanted)

        try:
            (wanted, hits, unknown), (changed, note) = await asyncio.gather(
                ask(), self._index_few_changes(work)
            )
            if changed:
                hits, unknown = await find(wanted)
        except ToolError:
            if not work.is_complete:
                self.start_indexing()
            raise
        if unknown and wanted.vector is not None:
            self._start_embedding()
        return CodeSearchResult(tuple(hits), " ".join(filter(None, (note, unknown))))

    async def close(self) -> None:
        if self._blocking_index is not None:
            self._blocking_index.stop_event.set()
        tasks = [task for task in (self._indexing_task, self._embedding_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._blocking_index is not None:
            await asyncio.to_thread(self._blocking_index.close)
        self._directory.close()
        if self._embedder is not None:
            await self._embedder.close()

    # Searching

    async def _wait_until_ready(self) -> BlockingCodeIndex:
        """Wait until the index can be searched. Raises ToolError, which reports the progress, if
        not."""
        work = await self._open_blocking_index()
        if not work.is_complete:
            self.start_indexing()
            assert self._indexing_task is not None
            await asyncio.wait([self._indexing_task], timeout=SEARCH_WAIT_S)
        if not work.is_complete:
            state, far = self.state, "it was just begun"
            if state.total_file_count:
                far = f"{state.indexed_file_count} of {state.total_file_count} files are read"
            raise ToolError(
                self._error_message
                or f"The code index is not ready yet: {far}. Use search_files meanwhile."
            )
        return work

    async def _index_few_changes(self, work: BlockingCodeIndex) -> tuple[bool, str]:
        """Index a few changed files; return whether any changed, and a note."""
        if self._indexing_task is not None and not self._indexing_task.done():
            return False, _format_stale_note(self.state)
        async with self._refresh_lock:
            changes = await asyncio.to_thread(work.find_changes)
            note = _TRUNCATED_NOTE.format(changes.listed_count) if changes.is_truncated else ""
            if changes.count == 0:
                return False, note
            if changes.count > MAX_FOREGROUND_CHANGES:
                self.start_indexing()
                work.progress.done_files, work.progress.total_files = 0, changes.count
                return False, _format_stale_note(self.state)
            if not await asyncio.to_thread(work.index_changes, changes):
                return False, "Another process is reading files in: the latest may be missing."
            self._start_embedding()
            return True, note

    # Filling

    async def _open_blocking_index(self) -> BlockingCodeIndex:
        # Imported late: SQLite is slow to load, and most tasks do not need it.
        from joey.content.blocking_code_index import BlockingCodeIndex

        if self._blocking_index is None:
            self._blocking_index = BlockingCodeIndex(self._directory, self._files, self._list_files)
            if self._embedder is not None:
                self._embedding_index = EmbeddingIndex(
                    self._embedder, self._directory, self._blocking_index
                )
        try:
            await asyncio.to_thread(self._blocking_index.open)
        except ToolError as error:
            self._error_message = str(error)
            raise
        return self._blocking_index

    async def _run_indexing(self) -> None:
        try:
            await self._index_everything()
            self._error_message = ""
        except ToolError as error:
            log.warning("the code index of %s: %s", self._files.root, error)
            self._error_message = str(error)
        except Exception as error:
            log.exception("the code index of %s failed because of a bug", self._files.root)
            self._error_message = f"The code index failed: {error!r}. Use search_files."
        else:
            self._start_embedding()

    async def _index_everything(self) -> None:
        while True:
            work = await self._open_blocking_index()
            if await asyncio.to_thread(work.can_index):
                async with self._indexing_semaphore:
                    if await _run_in_daemon_thread(work.index_everything):
                        return
            await asyncio.sleep(_POLL_INTERVAL_S)

    def _start_embedding(self) -> None:
        if self._embedding_index is not None and (
            self._embedding_task is None or self._embedding_task.done()
        ):
            self._embedding_task = asyncio.create_task(
                self._embedding_index.embed_missing(), name="joey-vectors"
            )


def _format_stale_note(state: CodeIndexState) -> str:
    return (
        f"The index is taking in changes ({state.indexed_file_count} of {state.total_file_count} "
        "files): the latest may be missing."
    )


async def _run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Run in a daemon thread, which does not delay exit, unlike asyncio's threads."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # the caller may be cancelled, but not the work

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="joey-index", daemon=True).start()
    return await asyncio.wrap_future(future)


DATABASE_FILE = "code.sqlite"
BUILD_LOCK_FILE = "build.lock"


class IndexDirectory(PrivateDirectory):
    """A directory that outlives the process."""

    @property
    def database_path(self) -> Path:
        return self.path / DATABASE_FILE

    @contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Try to hold the lock until the end of the block; yield whether it was free."""
        descriptor = try_lock_file(self.path / name)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def close(self) -> None:
        """Close after the last use."""


class TemporaryIndexDirectory(IndexDirectory):
    """A temporary directory, for tasks that store nothing."""

    @cached_property
    def path(self) -> Path:
        from tempfile import mkdtemp

        return Path(mkdtemp(prefix="joey-index-"))

    def close(self) -> None:
        from shutil import rmtree

        if "path" in self.__dict__:  # it was created
            rmtree(self.path, ignore_errors=True)
            del self.path
