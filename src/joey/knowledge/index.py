"""The code index of one workspace, shared by all its tasks.

It is filled in the background. Before a search, the files are compared with what is known, while
the search already runs: where nothing changed, its answer stands; a few changed files are read in
and the search is made again; many are left to the background, and the answer says so.

Comparing is cheap enough to be done every time (a listing by ripgrep and one `lstat` a file), and
never misses an edit. Watching the tree would save it, but starting a watch holds the interpreter
still for as long as it takes to walk all folders, ignored ones too, and news of a change comes
later than the change.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from joey.errors import ToolError
from joey.knowledge.index_folder import IndexFolder
from joey.knowledge.index_meaning import Meaning, Wanted
from joey.ports import CodeAnswer, CodeHit, Embedder, Files, IndexState, Listing, Place

if TYPE_CHECKING:
    from joey.knowledge.index_work import IndexWork

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds that a search waits for an index that is being filled: a small workspace is done by
then, and the model spared a turn."""
FEW = 100
"""Changed files that are read in before the answer."""
_POLL = 0.25
_CUT = "Only the first {:,} files of the workspace are indexed."

ListFiles = Callable[[threading.Event], Listing]
"""May take its time, until the event is set: it is called in a thread."""
T = TypeVar("T")


class WorkspaceIndex:
    """Belongs to one event loop."""

    def __init__(
        self,
        folder: IndexFolder,
        files: Files,
        list_files: ListFiles,
        embedder: Embedder | None,
        turn: asyncio.Semaphore,
    ) -> None:
        """`turn` is held while files are read in: one workspace at a time is enough."""
        self._folder = folder
        self._files = files
        self._list_files = list_files
        self._embedder = embedder
        self._turn = turn
        self._refreshing = asyncio.Lock()
        self._work: IndexWork | None = None
        self._meaning: Meaning | None = None
        self._job: asyncio.Task[None] | None = None
        self._embedding: asyncio.Task[None] | None = None
        self._problem = ""

    @property
    def state(self) -> IndexState:
        if self._work is None:
            return IndexState(ready=False, problem=self._problem)
        progress = self._work.progress
        return IndexState(self._work.complete, progress.done, progress.total, self._problem)

    def begin(self) -> None:
        """Fill it, or take in what changed, in the background."""
        if self._job is None or self._job.done():
            self._job = asyncio.create_task(self._catch_up(), name="joey-index")

    async def search(self, query: str, folder: Place | None, limit: int) -> CodeAnswer:
        work = await self._ready()
        prefix = "" if folder is None or folder.path == self._files.root else folder.shown

        async def find(wanted: Wanted) -> tuple[list[CodeHit], str]:
            wanted = await self._meaning.standing(wanted) if self._meaning else wanted
            return await asyncio.to_thread(
                work.find, query, prefix, limit, wanted.vector
            ), wanted.note

        async def ask() -> tuple[Wanted, list[CodeHit], str]:
            wanted = await self._meaning.of_query(query) if self._meaning else Wanted()
            return wanted, *await find(wanted)

        try:
            (wanted, hits, unknown), (changed, note) = await asyncio.gather(
                ask(), self._refresh(work)
            )
            if changed:
                hits, unknown = await find(wanted)
        except ToolError:
            if not work.complete:
                self.begin()
            raise
        if unknown and wanted.vector is not None:
            self._begin_embedding()
        return CodeAnswer(tuple(hits), " ".join(filter(None, (note, unknown))))

    async def close(self) -> None:
        if self._work is not None:
            self._work.stop.set()
        tasks = [task for task in (self._job, self._embedding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._work is not None:
            await asyncio.to_thread(self._work.close)
        self._folder.leave()
        if self._embedder is not None:
            await self._embedder.close()

    # Searching

    async def _ready(self) -> IndexWork:
        """Raises ToolError when there is nothing to search in yet; the text says how far it is."""
        work = await self._open()
        if not work.complete:
            self.begin()
            assert self._job is not None
            await asyncio.wait([self._job], timeout=PATIENCE)
        if not work.complete:
            raise ToolError(self._problem or _unready(self.state))
        return work

    async def _refresh(self, work: IndexWork) -> tuple[bool, str]:
        """Take in what changed, if it is little; whether something did, and a note."""
        if self._is_busy:
            return False, _behind(self.state)
        async with self._refreshing:
            changes = await asyncio.to_thread(work.changes)
            note = _CUT.format(changes.listed) if changes.cut else ""
            if changes.count == 0:
                return False, note
            if changes.count > FEW:
                self.begin()
                work.progress.done, work.progress.total = 0, changes.count
                return False, _behind(self.state)
            if not await asyncio.to_thread(work.take_in, changes):
                return False, "Another process is reading files in: the latest may be missing."
            self._begin_embedding()
            return True, note

    # Filling

    @property
    def _is_busy(self) -> bool:
        return self._job is not None and not self._job.done()

    async def _open(self) -> IndexWork:
        # Imported on need: SQLite takes a while to load, and most tasks never come here.
        from joey.knowledge.index_work import IndexWork

        if self._work is None:
            self._work = IndexWork(self._folder, self._files, self._list_files)
            if self._embedder is not None:
                self._meaning = Meaning(self._embedder, self._folder, self._work)
        try:
            await asyncio.to_thread(self._work.open)
        except ToolError as error:
            self._problem = str(error)
            raise
        return self._work

    async def _catch_up(self) -> None:
        try:
            await self._read_everything()
            self._problem = ""
        except ToolError as error:
            log.warning("the code index of %s: %s", self._files.root, error)
            self._problem = str(error)
        except Exception as error:
            log.exception("the code index of %s failed by a defect", self._files.root)
            self._problem = f"The code index failed: {error!r}. Use search_files."
        else:
            self._begin_embedding()

    async def _read_everything(self) -> None:
        while True:
            work = await self._open()
            if await asyncio.to_thread(work.may_read):
                async with self._turn:
                    if await _in_background(work.catch_up):
                        return
            await asyncio.sleep(_POLL)

    def _begin_embedding(self) -> None:
        if self._meaning is not None and (self._embedding is None or self._embedding.done()):
            self._embedding = asyncio.create_task(self._meaning.complete(), name="joey-vectors")


def _unready(state: IndexState) -> str:
    far = f"{state.done} of {state.total} files are read" if state.total else "it was just begun"
    return f"The code index is not ready yet: {far}. Use search_files meanwhile."


def _behind(state: IndexState) -> str:
    return (
        f"The index is taking in changes ({state.done} of {state.total} files): the latest may be"
        " missing."
    )


async def _in_background(work: Callable[[], T]) -> T:
    """In a thread that does not keep the process from ending, as those of asyncio do."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, result))

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended before the work
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="joey-index", daemon=True).start()
    return await future
