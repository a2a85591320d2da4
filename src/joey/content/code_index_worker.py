"""Work on the code index that runs in threads: open it, read changed files, search.

Two connections, so that a search never waits for reading. A caller that meets damage in the
database gets an error; the next one that opens it throws it away and begins anew.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from joey.content.code_index import BUILD_LOCK_FILE, IndexDirectory
from joey.content.code_index_chunks import Passage, passages
from joey.content.code_index_store import (
    CodeIndexStore,
    DatabaseDamagedError,
    IndexedFileStamp,
    combine,
    cosines,
    has_full_text,
    mix,
    most_alike,
)
from joey.content.outlines import text_of
from joey.errors import ToolError
from joey.ports import CodeSearchHit, Files, Listing

log = logging.getLogger(__name__)

MAX_TEXT_CANDIDATES = 100
_MAX_RANKED_PASSAGES = 400
"""Passages that are looked at to fill the list of hits."""
_LOCK_TIMEOUT_S = 0.5
_COMPLETE_PROPERTY, _MODEL_PROPERTY = "complete", "model"
_CLOSED_MESSAGE = "The code index is closed."
_MAX_EMBEDDED_BYTES = 8_000
"""Bytes of a passage that a model is given: no text has more tokens than bytes, and the usual
models for embeddings take 8,191."""


class IndexWorker:
    def __init__(
        self,
        directory: IndexDirectory,
        files: Files,
        list_files: Callable[[threading.Event], Listing],
    ) -> None:
        self._directory = directory
        self._files = files
        self._list_files = list_files
        self._finding = threading.Lock()
        self._changing = threading.Lock()
        self._reader: CodeIndexStore | None = None
        self._writer: CodeIndexStore | None = None
        self._inode = 0
        self._damaged = False
        self._hidden: set[str] = set()
        """Paths that turned out to be hidden by now: looked at again with the next changes."""
        self.stop = threading.Event()
        self.progress = IndexProgress()
        self.complete = False
        """Everything has been read once; only changes are left."""

    def open(self) -> None:
        """Raises ToolError when there can be no index here."""
        if self.stop.is_set():
            raise ToolError(_CLOSED_MESSAGE)
        if self._is_open():
            return
        with self._changing, self._finding, self._translate_errors():
            if self._is_open():
                return
            if not has_full_text():
                raise ToolError(
                    "This Python's SQLite has no FTS5, so there is no code index. Use search_files."
                )
            self._let_go()
            self._directory.make()
            if self._damaged:
                self._throw_away()
            try:
                self._connect()
            except DatabaseDamagedError as error:
                log.warning("the index in %s is made anew: %s", self._directory.path, error)
                self._throw_away()
                self._connect()

    def _is_open(self) -> bool:
        return (
            self._reader is not None and not self._damaged and self._inode == self._inode_on_disk()
        )

    def _connect(self) -> None:
        self._reader = CodeIndexStore(self._directory.database)
        self._writer = CodeIndexStore(self._directory.database)
        self._inode = self._inode_on_disk()
        self._damaged = False
        self.complete = bool(self._reader.fact(_COMPLETE_PROPERTY))

    def _throw_away(self) -> None:
        """Not while another process reads files in: it meets the damage itself."""
        with self._directory.locked(BUILD_LOCK_FILE) as ours:
            if not ours:
                raise ToolError("The code index is damaged, and in use by another process.")
            self._directory.clear()

    def close(self) -> None:
        with self._changing, self._finding:
            self._let_go()

    # Reading in

    def changes(self) -> IndexChanges:
        """What would have to be read.

        Raises:
            ToolError: the files cannot be listed.
        """
        with self._using_reader() as store:
            stamps = store.stamps()
        doubtful, self._hidden = self._hidden, set()
        list_files = partial(self._list_files, self.stop)
        return compare(self._files.root, list_files, stamps, self._shows, doubtful)

    def take_in(self, changes: IndexChanges) -> bool:
        """False when another process is at it, or when it was stopped."""
        with self._using_writer() as store, self._patient_lock() as ours:
            return ours and take_in(store, self._files.root, changes, self.progress, self.stop)

    def may_read(self) -> bool:
        """Whether no other process is reading files in; else `progress` is that one's."""
        with self._using_writer() as store, self._directory.locked(BUILD_LOCK_FILE) as ours:
            if not ours:
                self.progress.done = int(store.fact("done") or 0)
                self.progress.total = int(store.fact("total") or 0)
                self.complete = bool(store.fact(_COMPLETE_PROPERTY))
            return ours

    def catch_up(self) -> bool:
        """All in one: afterwards the index is complete. False as with `take_in`."""
        with self._using_writer() as store, self._directory.locked(BUILD_LOCK_FILE) as ours:
            if not ours:
                return False
            if not take_in(store, self._files.root, self.changes(), self.progress, self.stop):
                return False
            with store.changes():
                store.set_facts({_COMPLETE_PROPERTY: "yes", "workspace": str(self._files.root)})
            self.complete = True
            return True

    @contextmanager
    def _patient_lock(self) -> Iterator[bool]:
        """A few files are read in quickly, also by another process."""
        latest = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            with self._directory.locked(BUILD_LOCK_FILE) as ours:
                if ours or time.monotonic() > latest or self.stop.is_set():
                    yield ours
                    return
            self.stop.wait(0.02)

    # Finding

    def find(
        self, query: str, directory: str, limit: int, vector: tuple[bytes, bytes] | None = None
    ) -> list[CodeSearchHit]:
        """What fits, without anything that may not be shown now, whatever was read in before.

        `directory` is relative to the workspace, or empty; `vector` has the signs and numbers of
        what the query means.
        """
        with self._using_reader() as store:
            text_matches = store.search_text(query, directory, MAX_TEXT_CANDIDATES)
            alike: dict[int, float] = {}
            if vector is not None:
                signs, numbers = vector
                places = most_alike(signs, store.signs(directory))
                places += [match.place for match in text_matches]
                alike = cosines(numbers, store.vectors(dict.fromkeys(places)))
            matches = combine(text_matches, alike)[:_MAX_RANKED_PASSAGES]
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
            return *store.counts(), store.fact(_MODEL_PROPERTY)

    def keep_vectors_of(self, model: str) -> None:
        """From now on; those of another model are thrown away."""
        with self._using_writer() as store, store.changes():
            store.clear_vectors()
            store.set_facts({_MODEL_PROPERTY: model})

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
    def _using_reader(self) -> Iterator[CodeIndexStore]:
        with self._finding, self._translate_errors():
            yield self._opened(self._reader)

    @contextmanager
    def _using_writer(self) -> Iterator[CodeIndexStore]:
        with self._changing, self._translate_errors():
            yield self._opened(self._writer)

    def _opened(self, store: CodeIndexStore | None) -> CodeIndexStore:
        if store is None:
            raise ToolError(_CLOSED_MESSAGE)
        return store

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DatabaseDamagedError as error:
            self._damaged = True
            self.complete = False
            raise ToolError(
                f"The code index was damaged and is made anew ({error}). Use search_files."
            ) from error
        except (sqlite3.Error, OSError) as error:
            raise ToolError(
                f"The code index in {self._directory.path} cannot be used: {error}. Use "
                "search_files."
            ) from error

    def _let_go(self) -> None:
        for store in (self._reader, self._writer):
            if store is not None:
                store.close()
        self._reader = self._writer = None

    def _inode_on_disk(self) -> int:
        """Tells when another process has thrown the database away."""
        try:
            return self._directory.database.stat().st_ino
        except FileNotFoundError:
            return 0


def _embedded(text: str) -> str:
    return text.encode(errors="replace")[:_MAX_EMBEDDED_BYTES].decode(errors="ignore")


MAX_FILE_BYTES = 1024 * 1024
_BATCH_SIZE = 50
"""Files in one transaction."""
_BINARY_CHECK_CHARS = 8192
_STAMP_SETTLING_NS = 100_000_000
UNSETTLED_STAMP: IndexedFileStamp = (0, 0, 0, 0)
"""Of a file that was changed a moment ago: it may be changed again within the same tick of the
disk's clock and look the same, so it is like no other."""
_DIRECTORY_FLAGS = (
    os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
)
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class IndexChanges(Struct, frozen=True):
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    listed: int
    cut: bool
    """There are more files than are listed."""

    @property
    def count(self) -> int:
        return len(self.changed) + len(self.gone)


class IndexProgress:
    """How far reading is; looked at by others meanwhile."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0


def compare(
    root: Path,
    list_files: Callable[[], Listing],
    known: Mapping[str, IndexedFileStamp],
    shows: Callable[[str], bool],
    doubtful: Collection[str] = (),
) -> IndexChanges:
    """What of the listed files is new or different, and what is known but listed no more.

    A file that must not be shown counts as not listed; those that are known are asked about only
    when they have changed, or are `doubtful`. Listing and looking at what is known take
    about as long, and are done at the same time.
    """
    with ThreadPoolExecutor(1) as pool:
        listed = pool.submit(list_files)
        seen = {path: _stamp_on_disk(f"{root}/{path}") for path in known}
        listing = listed.result()
    changed = []
    left = set(known)
    for path in listing.entries:
        stamp = seen[path] if path in known else _stamp_on_disk(f"{root}/{path}")
        if stamp is None:
            continue
        if stamp != UNSETTLED_STAMP and stamp == known.get(path) and path not in doubtful:
            left.discard(path)
        elif shows(path):
            left.discard(path)
            changed.append(path)
    return IndexChanges(tuple(changed), tuple(left), len(listing.entries), listing.truncated)


def take_in(
    store: CodeIndexStore,
    root: Path,
    changes: IndexChanges,
    progress: IndexProgress,
    stop: threading.Event,
) -> bool:
    """Read what changed; False when it was stopped before the end."""
    progress.done, progress.total = 0, changes.count
    work = [*((path, False) for path in changes.gone), *((path, True) for path in changes.changed)]
    for start in range(0, len(work), _BATCH_SIZE):
        with store.changes():
            for path, is_there in work[start : start + _BATCH_SIZE]:
                if stop.is_set():
                    return False
                _take_in_file(store, root, path, is_there)
                progress.done += 1
            store.set_facts({"done": str(progress.done), "total": str(progress.total)})
    return True


def _take_in_file(store: CodeIndexStore, root: Path, path: str, is_there: bool) -> None:
    read = _read(root, path) if is_there else None
    if read is None:
        store.drop(path)
        return
    stamp, data = read
    digest = blake2b(data, digest_size=16).digest()
    if not store.restamp(path, stamp, digest):
        store.put(path, stamp, digest, _passages(path, data))


def _passages(path: str, data: bytes) -> list[Passage]:
    """None for what is no text, or too much of it; such a file is known, but not found."""
    if len(data) > MAX_FILE_BYTES:
        return []
    text = text_of(data)
    return [] if "\0" in text[:_BINARY_CHECK_CHARS] else passages(path, text)


def _read(root: Path, path: str) -> tuple[IndexedFileStamp, bytes] | None:
    """What the file looks like and holds; None when it is not there any more, or no file."""
    try:
        descriptor = _open(root, path)
    except OSError as error:
        # A folder that is a link by now may lead anywhere.
        return None if error.errno in (errno.ELOOP, errno.ENOTDIR) else _unreadable(root / path)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        size = facts.st_size
        return _stamp(facts), file.read(MAX_FILE_BYTES + 1) if size <= MAX_FILE_BYTES else b"\0"


def _open(root: Path, path: str) -> int:
    """Down from the root, without following a link that was put there after the listing."""
    *directories, name = path.split("/")
    current = os.open(root, _DIRECTORY_FLAGS)
    try:
        for directory in directories:
            below = os.open(directory, _DIRECTORY_FLAGS, dir_fd=current)
            os.close(current)
            current = below
        return os.open(name, _READ_FLAGS, dir_fd=current)
    finally:
        os.close(current)


def _unreadable(path: Path) -> tuple[IndexedFileStamp, bytes] | None:
    """A file that may not be read is known, so that it is not tried again until it changes."""
    stamp = _stamp_on_disk(path)
    return None if stamp is None else (stamp, b"")


def _stamp_on_disk(path: Path | str) -> IndexedFileStamp | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return _stamp(facts) if stat.S_ISREG(facts.st_mode) else None


def _stamp(facts: os.stat_result) -> IndexedFileStamp:
    if abs(time.time_ns() - facts.st_ctime_ns) < _STAMP_SETTLING_NS:
        return UNSETTLED_STAMP
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino
