"""Blocking operations of the code index, run in threads: open it, index changed files, search.

There are two connections, so that a search never waits for indexing. If the database is damaged,
the current caller gets an error, and the next one to open it deletes it and starts anew.
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
from joey.content.code_index_chunks import Passage, split_passages
from joey.content.code_index_store import (
    CodeIndexStore,
    DatabaseDamagedError,
    IndexedFileStamp,
    combine_scores,
    compute_cosines,
    find_most_similar,
    has_full_text_search,
    merge_hits,
)
from joey.content.outlines import decode_text
from joey.errors import ToolError
from joey.ports.content import CodeSearchHit
from joey.ports.workspace import Files, Listing
from joey.system.files import NotRegularFileError, open_regular_file_within

log = logging.getLogger(__name__)

MAX_TEXT_CANDIDATES = 100
_MAX_RANKED_PASSAGES = 400
_LOCK_TIMEOUT_S = 0.5
_COMPLETE_PROPERTY, _MODEL_PROPERTY = "complete", "model"
_CLOSED_MESSAGE = "The code index is closed."
_MAX_EMBEDDED_BYTES = 8_000
"""No text has more tokens than bytes, and the usual models for embeddings take 8,191."""


class BlockingCodeIndex:
    def __init__(
        self,
        directory: IndexDirectory,
        files: Files,
        list_files: Callable[[threading.Event], Listing],
    ) -> None:
        self._directory = directory
        self._files = files
        self._list_files = list_files
        self._reader_lock = threading.Lock()
        self._writer_lock = threading.Lock()
        self._reader: CodeIndexStore | None = None
        self._writer: CodeIndexStore | None = None
        self._database_inode = 0
        self._is_damaged = False
        self._hidden_paths: set[str] = set()
        """Paths that turned out to be hidden by now: looked at again with the next changes."""
        self.stop_event = threading.Event()
        self.progress = IndexProgress()
        self.is_complete = False
        """Everything has been read once; only changes are left."""

    def open(self) -> None:
        """Open the index. Raises ToolError if no index is possible here."""
        if self.stop_event.is_set():
            raise ToolError(_CLOSED_MESSAGE)
        if self._is_open():
            return
        with self._writer_lock, self._reader_lock, self._translate_errors():
            if self._is_open():
                return
            if not has_full_text_search():
                raise ToolError(
                    "This Python's SQLite has no FTS5, so there is no code index. Use search_files."
                )
            self._close_stores()
            self._directory.create()
            if self._is_damaged:
                self._delete_database()
            try:
                self._connect()
            except DatabaseDamagedError as error:
                log.warning("rebuilding the index in %s: %s", self._directory.path, error)
                self._delete_database()
                self._connect()

    def _is_open(self) -> bool:
        return (
            self._reader is not None
            and not self._is_damaged
            and self._database_inode == self._read_database_inode()
        )

    def _connect(self) -> None:
        self._reader = CodeIndexStore(self._directory.database_path)
        self._writer = CodeIndexStore(self._directory.database_path)
        self._database_inode = self._read_database_inode()
        self._is_damaged = False
        self.is_complete = bool(self._reader.get_property(_COMPLETE_PROPERTY))

    def _delete_database(self) -> None:
        """Delete the database, unless another process is indexing: it will find the damage
        itself."""
        with self._directory.try_lock(BUILD_LOCK_FILE) as ours:
            if not ours:
                raise ToolError("The code index is damaged, and in use by another process.")
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._directory.database_path}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        with self._writer_lock, self._reader_lock:
            self._close_stores()

    # Reading in

    def find_changes(self) -> IndexChanges:
        """Find files to index. Raises ToolError if the files cannot be listed."""
        with self._use_reader() as store:
            stamps = store.load_stamps()
        doubtful, self._hidden_paths = self._hidden_paths, set()
        list_files = partial(self._list_files, self.stop_event)
        return find_file_changes(self._files.root, list_files, stamps, self._is_visible, doubtful)

    def index_changes(self, changes: IndexChanges) -> bool:
        """Index changed files; False if another process is indexing, or if stopped."""
        with self._use_writer() as store, self._lock_with_timeout() as ours:
            return ours and index_file_changes(
                store, self._files.root, changes, self.progress, self.stop_event
            )

    def can_index(self) -> bool:
        """Yield whether no other process is indexing; otherwise `progress` is that process's."""
        with self._use_writer() as store, self._directory.try_lock(BUILD_LOCK_FILE) as ours:
            if not ours:
                self.progress.done_files = int(store.get_property("done") or 0)
                self.progress.total_files = int(store.get_property("total") or 0)
                self.is_complete = bool(store.get_property(_COMPLETE_PROPERTY))
            return ours

    def index_everything(self) -> bool:
        """Complete the index in one go; returns False like `index_file_changes`."""
        with self._use_writer() as store, self._directory.try_lock(BUILD_LOCK_FILE) as ours:
            if not ours:
                return False
            if not index_file_changes(
                store, self._files.root, self.find_changes(), self.progress, self.stop_event
            ):
                return False
            with store.transaction():
                store.set_properties(
                    {_COMPLETE_PROPERTY: "yes", "workspace": str(self._files.root)}
                )
            self.is_complete = True
            return True

    @contextmanager
    def _lock_with_timeout(self) -> Iterator[bool]:
        """Wait briefly for the lock: another process indexes a few files quickly."""
        latest = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            with self._directory.try_lock(BUILD_LOCK_FILE) as ours:
                if ours or time.monotonic() > latest or self.stop_event.is_set():
                    yield ours
                    return
            self.stop_event.wait(0.02)

    # Finding

    def search(
        self, query: str, directory: str, limit: int, vector: tuple[bytes, bytes] | None = None
    ) -> list[CodeSearchHit]:
        """Search passages, without files that may not be shown now. `directory` is relative to the
        workspace, or empty; `vector` holds the signs and numbers of the query's embedding."""
        with self._use_reader() as store:
            text_matches = store.search_text(query, directory, MAX_TEXT_CANDIDATES)
            alike: dict[int, float] = {}
            if vector is not None:
                signs, numbers = vector
                passage_ids = find_most_similar(signs, store.iter_vector_signs(directory))
                passage_ids += [match.passage_id for match in text_matches]
                alike = compute_cosines(numbers, store.iter_vectors(dict.fromkeys(passage_ids)))
            matches = combine_scores(text_matches, alike)[:_MAX_RANKED_PASSAGES]
            shows = cache(self._is_visible)
            found = (passage for passage in store.load_passages(matches) if shows(passage.path))
            return merge_hits(found, limit)

    def _is_visible(self, path: str) -> bool:
        try:
            resolved_path = self._files.resolve(path)
        except ToolError:
            return False
        if resolved_path.is_ignored or not resolved_path.is_inside:
            self._hidden_paths.add(path)
            return False
        return True

    # Vectors

    def get_vector_coverage(self) -> tuple[int, int, str]:
        """Return the number of passages, how many have a vector, and the vectors' model."""
        with self._use_reader() as store:
            return *store.count_passages_and_vectors(), store.get_property(_MODEL_PROPERTY)

    def switch_embedding_model(self, model: str) -> None:
        """Switch to another embedding model and delete the vectors of other models."""
        with self._use_writer() as store, store.transaction():
            store.clear_vectors()
            store.set_properties({_MODEL_PROPERTY: model})

    def list_passages_without_vectors(
        self, after: int, limit: int
    ) -> tuple[int, list[tuple[int, str]]]:
        """Return the last place read, and (place, text) of passages that may be sent to a model."""
        with self._use_reader() as store:
            rows = store.list_passages_without_vectors(after, limit)
        shows = cache(self._is_visible)
        texts = [
            (passage_id, _truncate_for_embedding(f"{path}\n{text}"))
            for passage_id, path, text in rows
            if shows(path)
        ]
        return rows[-1][0] if rows else 0, texts

    def save_vectors(self, vectors: Sequence[tuple[int, tuple[bytes, bytes]]]) -> None:
        """Save vectors by place."""
        with self._use_writer() as store, store.transaction():
            store.save_vectors(vectors)

    # The two connections

    @contextmanager
    def _use_reader(self) -> Iterator[CodeIndexStore]:
        with self._reader_lock, self._translate_errors():
            yield self._require_open(self._reader)

    @contextmanager
    def _use_writer(self) -> Iterator[CodeIndexStore]:
        with self._writer_lock, self._translate_errors():
            yield self._require_open(self._writer)

    def _require_open(self, store: CodeIndexStore | None) -> CodeIndexStore:
        if store is None:
            raise ToolError(_CLOSED_MESSAGE)
        return store

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DatabaseDamagedError as error:
            self._is_damaged = True
            self.is_complete = False
            raise ToolError(
                f"The code index was damaged and is made anew ({error}). Use search_files."
            ) from error
        except (sqlite3.Error, OSError) as error:
            raise ToolError(
                f"The code index in {self._directory.path} cannot be used: {error}. Use "
                "search_files."
            ) from error

    def _close_stores(self) -> None:
        for store in (self._reader, self._writer):
            if store is not None:
                store.close()
        self._reader = self._writer = None

    def _read_database_inode(self) -> int:
        """Return the inode of the database, which shows when another process has deleted it."""
        try:
            return self._directory.database_path.stat().st_ino
        except FileNotFoundError:
            return 0


def _truncate_for_embedding(text: str) -> str:
    return text.encode(errors="replace")[:_MAX_EMBEDDED_BYTES].decode(errors="ignore")


MAX_FILE_BYTES = 1024 * 1024
_BATCH_SIZE = 50
"""Files in one transaction."""
_BINARY_CHECK_CHARS = 8192
_STAMP_SETTLING_NS = 100_000_000
UNSETTLED_STAMP: IndexedFileStamp = (0, 0, 0, 0)
"""Of a file that was changed a moment ago: it may be changed again within the same tick of the
disk's clock and look the same, so it is like no other."""


class IndexChanges(Struct, frozen=True):
    changed_paths: tuple[str, ...]
    removed_paths: tuple[str, ...]
    listed_count: int
    is_truncated: bool
    """There are more files than are listed."""

    @property
    def count(self) -> int:
        return len(self.changed_paths) + len(self.removed_paths)


class IndexProgress:
    """The progress of indexing; read by other threads."""

    def __init__(self) -> None:
        self.done_files = 0
        self.total_files = 0


def find_file_changes(
    root: Path,
    list_files: Callable[[], Listing],
    known: Mapping[str, IndexedFileStamp],
    is_visible: Callable[[str], bool],
    doubtful: Collection[str] = (),
) -> IndexChanges:
    """Find new and changed files, and known files that are no longer listed. A file that must not
    be shown counts as not listed; known files are checked only if they have changed or are
    `doubtful`. Listing and checking known files take about equally long and run in parallel."""
    with ThreadPoolExecutor(1) as pool:
        listed = pool.submit(list_files)
        seen = {path: _read_stamp(f"{root}/{path}") for path in known}
        listing = listed.result()
    changed = []
    left = set(known)
    for path in listing.entries:
        stamp = seen[path] if path in known else _read_stamp(f"{root}/{path}")
        if stamp is None:
            continue
        if stamp != UNSETTLED_STAMP and stamp == known.get(path) and path not in doubtful:
            left.discard(path)
        elif is_visible(path):
            left.discard(path)
            changed.append(path)
    return IndexChanges(tuple(changed), tuple(left), len(listing.entries), listing.truncated)


def index_file_changes(
    store: CodeIndexStore,
    root: Path,
    changes: IndexChanges,
    progress: IndexProgress,
    stop: threading.Event,
) -> bool:
    """Index changed files; False if stopped before the end."""
    progress.done_files, progress.total_files = 0, changes.count
    work = [
        *((path, False) for path in changes.removed_paths),
        *((path, True) for path in changes.changed_paths),
    ]
    for start in range(0, len(work), _BATCH_SIZE):
        with store.transaction():
            for path, is_there in work[start : start + _BATCH_SIZE]:
                if stop.is_set():
                    return False
                _index_file(store, root, path, is_there)
                progress.done_files += 1
            store.set_properties(
                {"done": str(progress.done_files), "total": str(progress.total_files)}
            )
    return True


def _index_file(store: CodeIndexStore, root: Path, path: str, is_there: bool) -> None:
    read = _read_file(root, path) if is_there else None
    if read is None:
        store.remove_file(path)
        return
    stamp, data = read
    digest = blake2b(data, digest_size=16).digest()
    if not store.update_stamp_if_unchanged(path, stamp, digest):
        store.replace_file(path, stamp, digest, _split_file(path, data))


def _split_file(path: str, data: bytes) -> list[Passage]:
    """Split a file; None if it is binary or too long. Such a file is known but cannot be found."""
    if len(data) > MAX_FILE_BYTES:
        return []
    text = decode_text(data)
    return [] if "\0" in text[:_BINARY_CHECK_CHARS] else split_passages(path, text)


def _read_file(root: Path, path: str) -> tuple[IndexedFileStamp, bytes] | None:
    """Read a file's stamp and content; None if it does not exist or is not a regular file."""
    try:
        file = open_regular_file_within(root, path)
    except (IsADirectoryError, NotRegularFileError):
        return None
    except OSError as error:
        # A directory that has become a link may lead anywhere. An unreadable file is recorded as
        # known, so that it is not tried again until it changes.
        is_led_away = error.errno in (errno.ELOOP, errno.ENOTDIR)
        stamp = None if is_led_away else _read_stamp(root / path)
        return None if stamp is None else (stamp, b"")
    with file:
        facts = os.fstat(file.fileno())
        is_small = facts.st_size <= MAX_FILE_BYTES
        return _build_stamp(facts), file.read(MAX_FILE_BYTES + 1) if is_small else b"\0"


def _read_stamp(path: Path | str) -> IndexedFileStamp | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return _build_stamp(facts) if stat.S_ISREG(facts.st_mode) else None


def _build_stamp(facts: os.stat_result) -> IndexedFileStamp:
    if abs(time.time_ns() - facts.st_ctime_ns) < _STAMP_SETTLING_NS:
        return UNSETTLED_STAMP
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino
