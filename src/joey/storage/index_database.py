"""Database of the task index: its SQLite file, kept in step with the task directories.

The file is a cache: if it is damaged, or was created by another version, it is deleted and created
again. If it is not writable (a read-only home, a full disk), a private temporary database replaces
it for the process, and is filled from the directories each time. If two processes open the file at
once, the one that holds the lock on the home directory creates it.

A task directory is read again if the time, size or inode of its indexed files has changed. These
are read first, so a change meanwhile is seen the next time. Checking a directory takes some
microseconds: up to `ALWAYS_SCAN_MAX_TASKS` tasks, all are checked for each answer. With more, they
are checked if the last time was `FULL_SCAN_INTERVAL_S` ago; in between, the modification time of
the directory of all tasks shows which were added and removed, joey's own processes report what they
write, and tasks that are about to be shown are checked.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.errors import StoreError
from joey.ports.storage import IndexProgressCallback, TaskMetadata
from joey.storage.index_text import TOKENIZER, read_conversation_text, to_storable_text
from joey.storage.task_directory import (
    HISTORY_ITEM_FILE,
    INDEX_FILE,
    JOURNAL_FILE,
    METADATA_FILE,
    UI_HISTORY_FILE,
)
from joey.storage.task_list import parse_task_id, summarize_task
from joey.system.files import PRIVATE_FILE_MODE, check_regular_file, create_file
from joey.system.locks import lock_directory
from joey.system.sqlite import enable_write_ahead_log, transaction

SCHEMA_VERSION = 1
_SQLITE_APPLICATION_ID = 0x4A4F4559
_CACHE_KIB = 32 * 1024
_PRIMARY_CODE_MASK = 0xFF
_CORRUPTION_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SCHEMA_SQL = f"""
    CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE tasks (
        number INTEGER PRIMARY KEY,
        folder TEXT NOT NULL UNIQUE,
        id TEXT NOT NULL,
        place TEXT NOT NULL,
        parent TEXT,
        status TEXT NOT NULL,
        updated INTEGER NOT NULL,
        bare INTEGER NOT NULL,
        own INTEGER NOT NULL,
        mark TEXT NOT NULL,
        said TEXT NOT NULL,
        searched TEXT,
        about BLOB NOT NULL
    );
    CREATE INDEX tasks_by_id ON tasks (id);
    CREATE INDEX tasks_by_time ON tasks (updated, id, bare);
    CREATE INDEX tasks_by_place ON tasks (place, updated, id, bare);
    CREATE INDEX tasks_by_status ON tasks (status, updated, id, bare);
    CREATE INDEX tasks_by_parent ON tasks (parent) WHERE parent IS NOT NULL;
    CREATE INDEX tasks_unsearched ON tasks (number) WHERE searched IS NOT said;
    CREATE VIRTUAL TABLE words USING fts5(
        title, said, {TOKENIZER}
    );
    PRAGMA application_id = {_SQLITE_APPLICATION_ID};
    PRAGMA user_version = {SCHEMA_VERSION};
"""
"""`bare`: the folder's name is the id, without our prefix. `mark` tells whether the folder has
changed since it was read, `said` whether its conversation has; `searched` is the `said` whose words
are in `words` (null: none)."""


class SchemaMismatchError(Exception):
    """The file was written by another version of joey, or by another program."""


class IndexDatabase:
    """One connection, opened when it is first needed."""

    def __init__(self, home: Path, busy_timeout_s: float) -> None:
        """`busy_timeout_s` is the number of seconds to wait for another writer."""
        self.path = home / INDEX_FILE
        self.warnings: list[str] = []
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._has_tried_deletion = False
        self._is_temporary = False

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection. Raises sqlite3.Error, OSError or SchemaMismatchError; `recover` handles
        these."""
        if self._connection is None:
            if self._is_temporary:
                # Without a name SQLite keeps it in memory, or in an unlinked file if it is large.
                self._connection = _connect("", self._busy_timeout_s)
                self._connection.executescript(_SCHEMA_SQL)
            else:
                self._connection = self._open_file()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def recover(self, error: Exception) -> None:
        """Recover from a failure, so that the operation can be retried. Raises StoreError if
        nothing is left to try."""
        self.close()
        if self._is_temporary:
            raise StoreError(f"the tasks cannot be indexed: {error}") from error
        is_mismatch = isinstance(error, SchemaMismatchError)
        is_damaged = is_mismatch or _get_primary_error_code(error) in _CORRUPTION_CODES
        if is_damaged and not self._has_tried_deletion:
            self._has_tried_deletion = True
            self._delete_file()
            what = "has a different version" if is_mismatch else "was damaged"
            self.warnings.append(f"the index of tasks ({self.path}) {what}, and is rebuilt")
            return
        self._is_temporary = True
        if not isinstance(error, FileNotFoundError):
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.warnings.append(
                f"the index of tasks ({self.path}) cannot be used: {reason}; reading every task "
                f"folder instead"
            )

    def _open_file(self) -> sqlite3.Connection:
        with lock_directory(self.path.parent):
            try:
                with create_file(self.path, PRIVATE_FILE_MODE) as file:
                    os.fchmod(file.fileno(), PRIVATE_FILE_MODE)
            except FileExistsError:
                # It is not opened: closing it would drop locks of other connections of ours.
                check_regular_file(self.path.lstat())
            self._inode = self.path.stat().st_ino
            connection = _connect(str(self.path), self._busy_timeout_s)
            try:
                enable_write_ahead_log(connection, self._busy_timeout_s)
                for pragma in ("synchronous = NORMAL", "secure_delete = ON"):
                    connection.execute(f"PRAGMA {pragma}")
                _ensure_schema(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _delete_file(self) -> None:
        """Delete the damaged file, unless another process has replaced it meanwhile."""
        try:
            with lock_directory(self.path.parent):
                if self._inode in (0, self.path.stat().st_ino):
                    for suffix in ("-wal", "-shm", ""):
                        Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError:
            self._is_temporary = True


def _connect(path: str, busy_timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _ensure_schema(connection: sqlite3.Connection) -> None:
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if (layout, application) == (SCHEMA_VERSION, _SQLITE_APPLICATION_ID):
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or layout or application:
        raise SchemaMismatchError(f"layout {layout}")
    connection.executescript(f"BEGIN; {_SCHEMA_SQL} COMMIT;")


def _get_primary_error_code(error: Exception) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE_MASK


ALWAYS_SCAN_MAX_TASKS = 2_000
FULL_SCAN_INTERVAL_S = 600
_MTIME_SETTLED_NS = 2_000_000_000
"""After that a folder's time tells every later change from the one that set it."""
_MAX_SQLITE_INTEGER = 2**63 - 1
_BATCH_SIZE = 500
_MAX_BATCH_TEXT_CHARS = 2 * 1024 * 1024

_log = logging.getLogger(__name__)


class IndexedFingerprint(Struct, frozen=True, array_like=True):
    """The indexed state of a directory, to detect changes."""

    row_id: int
    directory_name: str
    has_joey_metadata: bool
    fingerprint: str
    conversation_fingerprint: str


FINGERPRINT_COLUMNS = "number, folder, own, mark, said"


class IndexEntry(Struct, frozen=True):
    """A task's entry in the index."""

    directory_name: str
    metadata: TaskMetadata
    has_joey_metadata: bool
    fingerprint: str
    conversation_fingerprint: str


class IndexSync(Struct):
    _connection: sqlite3.Connection
    _tasks_directory: Path
    _on_progress: IndexProgressCallback | None

    def update(self, *, refresh: bool = False) -> None:
        """Raises sqlite3.Error, OSError."""
        now = time.time_ns()
        checked = self._read_scan_time("checked")
        try:
            if refresh or checked is None or self._is_full_scan_due(now, checked):
                self._scan_all(now)
            elif self._read_scan_time("listed") != (changed := self._read_tasks_mtime()):
                self._scan_names(now, changed)
        except sqlite3.OperationalError as error:
            if checked is None or _get_primary_error_code(error) not in _BUSY_CODES:
                raise
            _log.info("another process is writing the index of tasks; it is read as it is")

    def refresh_changed(self, known: Iterable[IndexedFingerprint]) -> bool:
        """Refresh changed directories; return whether any of them has changed."""
        if stale := [row.directory_name for row in known if not self._is_current(row)]:
            self._index_directories(stale)
        return bool(stale)

    def index_conversations(self, where: str, values: Sequence[object]) -> None:
        """Index the conversations of tasks whose text is not in the index yet."""
        sql = f"SELECT number, folder, said FROM tasks WHERE searched IS NOT said AND {where}"
        missing = self._connection.execute(sql, values).fetchall()
        done = 0
        while done < len(missing):
            texts = self._read_conversations(missing[done : done + _BATCH_SIZE])
            with transaction(self._connection):
                for number, said, text in texts:
                    self._store_conversation(number, said, text)
            done += len(texts)
            self._report_progress(done, len(missing))

    def _read_conversations(
        self, rows: Sequence[tuple[int, str, str]]
    ) -> list[tuple[int, str, str]]:
        """Read the conversations of the first of these tasks: as many as fit in one transaction, so
        that other writers do not wait for long."""
        texts: list[tuple[int, str, str]] = []
        room = _MAX_BATCH_TEXT_CHARS
        for number, directory, said in rows:
            text = read_conversation_text(self._tasks_directory / directory)
            texts.append((number, said, text))
            room -= len(text)
            if room <= 0:
                break
        return texts

    def _store_conversation(self, number: int, said: str, text: str) -> None:
        sql = "SELECT about FROM tasks WHERE number = ?"
        about = self._connection.execute(sql, (number,)).fetchone()
        if about is None:
            return
        title = msgspec.json.decode(about[0], type=TaskMetadata).title
        self._connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
        self._connection.execute(
            "INSERT INTO words (rowid, title, said) VALUES (?, ?, ?)",
            (number, to_storable_text(title), text),
        )
        self._connection.execute("UPDATE tasks SET searched = ? WHERE number = ?", (said, number))

    def _is_full_scan_due(self, now: int, checked: int) -> bool:
        if not 0 <= now - checked <= FULL_SCAN_INTERVAL_S * 1_000_000_000:
            return True
        (count,) = self._connection.execute("SELECT count(*) FROM tasks").fetchone()
        return bool(count <= ALWAYS_SCAN_MAX_TASKS)

    def _scan_all(self, now: int) -> None:
        # Known tasks are read first: those missing in the later listing are really gone.
        rows = self._connection.execute(f"SELECT {FINGERPRINT_COLUMNS} FROM tasks")
        known = {row[1]: IndexedFingerprint(*row) for row in rows}
        changed, names = self._read_tasks_mtime(), self._list_directory_names()
        stale = (
            name
            for name in sorted(names)
            if parse_task_id(name) and not (name in known and self._is_current(known[name]))
        )
        self._index_directories(stale, len(names - known.keys()))
        with transaction(self._connection):
            delete_entries(self._connection, known.keys() - names)
            self._write_scan_times(now, changed, checked=now)

    def _scan_names(self, now: int, changed: int) -> None:
        known = {directory for (directory,) in self._connection.execute("SELECT folder FROM tasks")}
        names = self._list_directory_names()
        self._index_directories(name for name in names - known if parse_task_id(name))
        with transaction(self._connection):
            delete_entries(self._connection, known - names)
            self._write_scan_times(now, changed)

    def _index_directories(self, names: Iterable[str], expected: int = 0) -> None:
        """Index the contents of these directories."""
        done = 0
        names = iter(names)
        while batch := list(islice(names, _BATCH_SIZE)):
            rows = {name: self._build_entry(name) for name in batch}
            with transaction(self._connection):
                for name, row in rows.items():
                    if row is None:
                        delete_entries(self._connection, (name,))
                    else:
                        upsert_entry(self._connection, row)
            done += len(batch)
            self._report_progress(done, max(done, expected))

    def _build_entry(self, name: str) -> IndexEntry | None:
        path = f"{self._tasks_directory}/{name}"
        mark, said = fingerprint_task(path)
        described = summarize_task(name, path) if mark else None
        if described is None or not described.has_joey_metadata:
            mark = _fingerprint_directory(path)
            described = summarize_task(name, path)
        if described is None:
            return None
        return IndexEntry(name, described.metadata, described.has_joey_metadata, mark, said)

    def _is_current(self, row: IndexedFingerprint) -> bool:
        path = f"{self._tasks_directory}/{row.directory_name}"
        mark, said = fingerprint_task(path)
        if not row.has_joey_metadata:
            mark = _fingerprint_directory(path)
        return (mark, said) == (row.fingerprint, row.conversation_fingerprint)

    def _list_directory_names(self) -> set[str]:
        try:
            with os.scandir(self._tasks_directory) as entries:
                return {entry.name for entry in entries}
        except FileNotFoundError:
            return set()

    def _read_tasks_mtime(self) -> int:
        try:
            return self._tasks_directory.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _read_scan_time(self, name: str) -> int | None:
        sql = "SELECT value FROM facts WHERE name = ?"
        row = self._connection.execute(sql, (name,)).fetchone()
        return None if row is None else int(row[0])

    def _write_scan_times(self, now: int, changed: int, **facts: int) -> None:
        facts["listed"] = changed if now - changed > _MTIME_SETTLED_NS else 0
        self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def _report_progress(self, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(done, total)


def upsert_entry(connection: sqlite3.Connection, row: IndexEntry) -> None:
    """Insert an entry, in a transaction. Earlier texts of the task are checked again."""
    task = row.metadata
    place = str(Path(task.workspace)) if task.workspace else ""
    updated = min(task.updated, _MAX_SQLITE_INTEGER)
    values = (row.directory_name, task.id, place, task.parent_id, task.status, updated)
    flags = (row.directory_name == task.id, row.has_joey_metadata)
    connection.execute(
        "INSERT INTO tasks (folder, id, place, parent, status, updated, bare, own, mark, said,"
        " about) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (folder) DO UPDATE SET (id, place, parent, status, updated, own, mark, said,"
        " about, searched) = (excluded.id, excluded.place, excluded.parent, excluded.status,"
        " excluded.updated, excluded.own, excluded.mark, excluded.said, excluded.about, NULL)",
        (*values, *flags, row.fingerprint, row.conversation_fingerprint, msgspec.json.encode(task)),
    )


def delete_entries(connection: sqlite3.Connection, directories: Iterable[str]) -> None:
    """Delete entries, in a transaction."""
    for directory in directories:
        numbers = connection.execute("SELECT number FROM tasks WHERE folder = ?", (directory,))
        for (number,) in numbers.fetchall():
            connection.execute("DELETE FROM words WHERE rowid = ?", (number,))
            connection.execute("DELETE FROM tasks WHERE number = ?", (number,))


def fingerprint_task(path: str) -> tuple[str, str]:
    """Return fingerprints of a directory's description of its task, and of the conversation."""
    mark = _fingerprint_file(f"{path}/{METADATA_FILE}")
    return mark, _fingerprint_file(f"{path}/{UI_HISTORY_FILE}")


def _fingerprint_file(path: str) -> str:
    """Return the fingerprint of a file, which changes with it; empty if it does not exist."""
    try:
        # Making a Path would take longer than the look.
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return ""
    return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"


def _fingerprint_directory(path: str) -> str:
    """Return the fingerprint of a directory that is described by all its files."""
    files = (METADATA_FILE, HISTORY_ITEM_FILE, JOURNAL_FILE, UI_HISTORY_FILE)
    return " ".join(map(_fingerprint_file, (path, *(f"{path}/{name}" for name in files))))
