"""What is done with the index in threads: opening it, reading changes in, finding.

Two connections, so that finding never waits for reading in. Whoever meets damage in the database
hears of it; whoever opens it next throws it away and begins anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from joey.errors import ToolError
from joey.knowledge.index_changes import Changes, Progress, compare, take_in
from joey.knowledge.index_folder import BUILDING, IndexFolder
from joey.knowledge.index_ranking import combine, mix
from joey.knowledge.index_store import DamagedError, IndexStore, has_full_text
from joey.knowledge.index_vectors import cosines, most_alike
from joey.ports import CodeHit, Files, Listing

log = logging.getLogger(__name__)

CANDIDATES = 100
_SHOWN_AT_MOST = 400
"""Passages that are looked at to fill the list of hits."""
_LOCK_PATIENCE = 0.5
_COMPLETE, _MODEL = "complete", "model"
_CLOSED = "The code index is closed."
_MOST_EMBEDDED = 8_000
"""Bytes of a passage that a model is given: no text has more tokens than bytes, and the usual
models for embeddings take 8,191."""


class IndexWork:
    def __init__(
        self, folder: IndexFolder, files: Files, list_files: Callable[[threading.Event], Listing]
    ) -> None:
        self._folder = folder
        self._files = files
        self._list_files = list_files
        self._finding = threading.Lock()
        self._changing = threading.Lock()
        self._reader: IndexStore | None = None
        self._writer: IndexStore | None = None
        self._inode = 0
        self._damaged = False
        self._hidden: set[str] = set()
        """Paths that turned out to be hidden by now: looked at again with the next changes."""
        self.stop = threading.Event()
        self.progress = Progress()
        self.complete = False
        """Everything has been read once; only changes are left."""

    def open(self) -> None:
        """Raises ToolError when there can be no index here."""
        if self.stop.is_set():
            raise ToolError(_CLOSED)
        if self._is_open():
            return
        with self._changing, self._finding, self._told():
            if self._is_open():
                return
            if not has_full_text():
                raise ToolError(
                    "This Python's SQLite has no FTS5, so there is no code index. Use search_files."
                )
            self._let_go()
            self._folder.make()
            if self._damaged:
                self._throw_away()
            try:
                self._connect()
            except DamagedError as error:
                log.warning("the index in %s is made anew: %s", self._folder.path, error)
                self._throw_away()
                self._connect()

    def _is_open(self) -> bool:
        return (
            self._reader is not None and not self._damaged and self._inode == self._inode_on_disk()
        )

    def _connect(self) -> None:
        self._reader = IndexStore(self._folder.database)
        self._writer = IndexStore(self._folder.database)
        self._inode = self._inode_on_disk()
        self._damaged = False
        self.complete = bool(self._reader.fact(_COMPLETE))

    def _throw_away(self) -> None:
        """Not while another process reads files in: it meets the damage itself."""
        with self._folder.locked(BUILDING) as ours:
            if not ours:
                raise ToolError("The code index is damaged, and in use by another process.")
            self._folder.clear()

    def close(self) -> None:
        with self._changing, self._finding:
            self._let_go()

    # Reading in

    def changes(self) -> Changes:
        """What would have to be read.

        Raises:
            ToolError: the files cannot be listed.
        """
        with self._using_reader() as store:
            stamps = store.stamps()
        doubtful, self._hidden = self._hidden, set()
        list_files = partial(self._list_files, self.stop)
        return compare(self._files.root, list_files, stamps, self._shows, doubtful)

    def take_in(self, changes: Changes) -> bool:
        """False when another process is at it, or when it was stopped."""
        with self._using_writer() as store, self._patient_lock() as ours:
            return ours and take_in(store, self._files.root, changes, self.progress, self.stop)

    def may_read(self) -> bool:
        """Whether no other process is reading files in; else `progress` is that one's."""
        with self._using_writer() as store, self._folder.locked(BUILDING) as ours:
            if not ours:
                self.progress.done = int(store.fact("done") or 0)
                self.progress.total = int(store.fact("total") or 0)
                self.complete = bool(store.fact(_COMPLETE))
            return ours

    def catch_up(self) -> bool:
        """All in one: afterwards the index is complete. False as with `take_in`."""
        with self._using_writer() as store, self._folder.locked(BUILDING) as ours:
            if not ours:
                return False
            if not take_in(store, self._files.root, self.changes(), self.progress, self.stop):
                return False
            with store.changes():
                store.set_facts({_COMPLETE: "yes", "workspace": str(self._files.root)})
            self.complete = True
            return True

    @contextmanager
    def _patient_lock(self) -> Iterator[bool]:
        """A few files are read in quickly, also by another process."""
        latest = time.monotonic() + _LOCK_PATIENCE
        while True:
            with self._folder.locked(BUILDING) as ours:
                if ours or time.monotonic() > latest or self.stop.is_set():
                    yield ours
                    return
            self.stop.wait(0.02)

    # Finding

    def find(
        self, query: str, folder: str, limit: int, vector: tuple[bytes, bytes] | None = None
    ) -> list[CodeHit]:
        """What fits, without anything that may not be shown now, whatever was read in before.

        `folder` is relative to the workspace, or empty; `vector` has the signs and numbers of
        what the query means.
        """
        with self._using_reader() as store:
            words = store.by_words(query, folder, CANDIDATES)
            alike: dict[int, float] = {}
            if vector is not None:
                signs, numbers = vector
                places = most_alike(signs, store.signs(folder))
                places += [match.place for match in words]
                alike = cosines(numbers, store.vectors(dict.fromkeys(places)))
            matches = combine(words, alike)[:_SHOWN_AT_MOST]
            shows = cache(self._shows)
            found = (passage for passage in store.found(matches) if shows(passage.path))
            return mix(found, limit)

    def _shows(self, path: str) -> bool:
        try:
            place = self._files.resolve(path)
        except ToolError:
            return False
        if place.ignored or not place.inside:
            self._hidden.add(path)
            return False
        return True

    # Vectors

    def vector_counts(self) -> tuple[int, int, str]:
        """Passages, how many of them have a vector, and of which model."""
        with self._using_reader() as store:
            return *store.counts(), store.fact(_MODEL)

    def keep_vectors_of(self, model: str) -> None:
        """From now on; those of another model are thrown away."""
        with self._using_writer() as store, store.changes():
            store.clear_vectors()
            store.set_facts({_MODEL: model})

    def without_vector(self, after: int, limit: int) -> tuple[int, list[tuple[int, str]]]:
        """How far was looked, and (place, text) of passages that may be shown to a model."""
        with self._using_reader() as store:
            rows = store.without_vector(after, limit)
        shows = cache(self._shows)
        texts = [(place, _embedded(f"{path}\n{text}")) for place, path, text in rows if shows(path)]
        return rows[-1][0] if rows else 0, texts

    def put_vectors(self, vectors: Sequence[tuple[int, tuple[bytes, bytes]]]) -> None:
        """By place."""
        with self._using_writer() as store, store.changes():
            store.put_vectors(vectors)

    # The two connections

    @contextmanager
    def _using_reader(self) -> Iterator[IndexStore]:
        with self._finding, self._told():
            yield self._opened(self._reader)

    @contextmanager
    def _using_writer(self) -> Iterator[IndexStore]:
        with self._changing, self._told():
            yield self._opened(self._writer)

    def _opened(self, store: IndexStore | None) -> IndexStore:
        if store is None:
            raise ToolError(_CLOSED)
        return store

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DamagedError as error:
            self._damaged = True
            self.complete = False
            raise ToolError(
                f"The code index was damaged and is made anew ({error}). Use search_files."
            ) from error
        except (sqlite3.Error, OSError) as error:
            raise ToolError(
                f"The code index in {self._folder.path} cannot be used: {error}. Use search_files."
            ) from error

    def _let_go(self) -> None:
        for store in (self._reader, self._writer):
            if store is not None:
                store.close()
        self._reader = self._writer = None

    def _inode_on_disk(self) -> int:
        """Tells when another process has thrown the database away."""
        try:
            return self._folder.database.stat().st_ino
        except FileNotFoundError:
            return 0


def _embedded(text: str) -> str:
    return text.encode(errors="replace")[:_MOST_EMBEDDED].decode(errors="ignore")
