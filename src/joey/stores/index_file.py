"""The SQLite file of the index of tasks.

A cache: a file that is damaged, or laid out by another version, is thrown away and made anew.
Where it cannot be written (a read-only home, a full disk), a private temporary database that ends
with the process takes its place, and is filled from the folders each time. Of two processes that
open the file at once, the one that holds the lock on the home folder lays it out.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joey.errors import StoreError
from joey.stores.layout import INDEX
from joey.system.files import FILE_MODE

LAYOUT = 1
_APPLICATION = 0x4A4F4559
_CACHE_KIB = 32 * 1024
_PRIMARY_CODE = 0xFF
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_TABLES = f"""
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
        title, said, tokenize = 'unicode61 remove_diacritics 2'
    );
    PRAGMA application_id = {_APPLICATION};
    PRAGMA user_version = {LAYOUT};
"""
"""`bare`: the folder's name is the id, without our prefix. `mark` tells whether the folder has
changed since it was read, `said` whether its conversation has; `searched` is the `said` whose words
are in `words` (null: none)."""


class OtherLayoutError(Exception):
    """The file was written by another version of joey, or by something else."""


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in _BUSY


class IndexFile:
    """One connection, opened when it is first needed."""

    def __init__(self, home: Path, patience: float) -> None:
        """`patience`: seconds to wait for another process that is just writing."""
        self.path = home / INDEX
        self.notices: list[str] = []
        self._patience = patience
        self._open: sqlite3.Connection | None = None
        self._inode = 0
        self._thrown_away = False
        self._scratch = False

    @property
    def connection(self) -> sqlite3.Connection:
        """Raises sqlite3.Error, OSError or OtherLayoutError; `recover` says what to do then."""
        if self._open is None:
            self._open = self._make_scratch() if self._scratch else self._open_file()
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def recover(self, error: Exception) -> None:
        """Do something about a failure, so that what failed can be tried again.

        Raises:
            StoreError: nothing is left to be tried.
        """
        self.close()
        if self._scratch:
            raise StoreError(f"the tasks cannot be indexed: {error}") from error
        damaged = isinstance(error, OtherLayoutError) or _code(error) in _DAMAGED
        if damaged and not self._thrown_away:
            self._thrown_away = True
            self._throw_away()
            what = "is of another version" if isinstance(error, OtherLayoutError) else "was damaged"
            self.notices.append(f"the index of tasks ({self.path}) {what}, and is made anew")
            return
        self._scratch = True
        if not isinstance(error, FileNotFoundError):
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.notices.append(
                f"the index of tasks ({self.path}) cannot be used: {reason}; every task folder is"
                " read instead"
            )

    def _open_file(self) -> sqlite3.Connection:
        with _only_one(self.path.parent):
            _make_private_file(self.path)
            self._inode = self.path.stat().st_ino
            connection = _connect(str(self.path), self._patience)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA secure_delete = ON")
                _lay_out(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _make_scratch(self) -> sqlite3.Connection:
        # Without a name SQLite keeps it in memory, and in an unlinked file when it gets large.
        connection = _connect("", self._patience)
        connection.executescript(_TABLES)
        return connection

    def _throw_away(self) -> None:
        """Remove the file that was found damaged, unless somebody has replaced it meanwhile."""
        try:
            with _only_one(self.path.parent):
                if self._inode in (0, self.path.stat().st_ino):
                    for suffix in ("-wal", "-shm", ""):
                        Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError:
            self._scratch = True


def _connect(path: str, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _lay_out(connection: sqlite3.Connection) -> None:
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if (layout, application) == (LAYOUT, _APPLICATION):
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or layout or application:
        raise OtherLayoutError(f"layout {layout}")
    connection.executescript(f"BEGIN; {_TABLES} COMMIT;")


def _make_private_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        # It is not opened here: closing it again would drop the locks of other connections of
        # this process.
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(0, "it is not a regular file") from None
        return
    os.fchmod(descriptor, FILE_MODE)
    os.close(descriptor)


@contextmanager
def _only_one(home: Path) -> Iterator[None]:
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _code(error: Exception) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE
