"""Tables of the book, and connections to its file.

`exchange` has one row for each recorded exchange. Its columns from `client` on, and the tables
`prefix`, `reply`, `session` and `client_name`, belong to the analysis: they are empty when
an exchange is filed, and are filled when a command first reads it (an exchange without a `session`
has not been analysed). What the analysis needs is in the exchange and its bodies, so these columns
can be cleared and filled again at any time.

The file is never opened with `open` while a connection exists: closing it would drop the locks
that SQLite holds for the whole process, and another process might remove the write-ahead log.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from joey.errors import StoreError
from joey.system.files import (
    PRIVATE_FILE_MODE,
    check_regular_file,
    create_file,
    make_private_directory,
)
from joey.system.sqlite import enable_write_ahead_log, transaction

SCHEMA_VERSION = 1
_SQLITE_APPLICATION_ID = 0x4A4F4550
_BUSY_TIMEOUT_S = 30.0
_SCHEMA_SQL = """
    CREATE TABLE exchange (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        spool TEXT UNIQUE,
        wire TEXT NOT NULL,
        method TEXT NOT NULL,
        path TEXT NOT NULL,
        upstream TEXT NOT NULL,
        status INTEGER NOT NULL,
        state TEXT NOT NULL,
        user_agent TEXT NOT NULL,
        task_id TEXT,
        request_headers TEXT NOT NULL,
        response_headers TEXT NOT NULL,
        request_bytes INTEGER NOT NULL,
        response_bytes INTEGER NOT NULL,
        has_bodies INTEGER NOT NULL,
        sha BLOB NOT NULL,
        first_byte REAL,
        seconds REAL NOT NULL,
        ticks BLOB NOT NULL,
        failure TEXT NOT NULL,
        client TEXT, client_by TEXT, model TEXT, session INTEGER, parent INTEGER,
        kind TEXT, stream INTEGER, input INTEGER, output INTEGER, cache_reads INTEGER,
        cache_writes INTEGER, cost REAL, cost_by TEXT, stop TEXT, format TEXT, error TEXT
    );
    CREATE INDEX exchange_by_time ON exchange (at, id);
    CREATE INDEX exchange_by_session ON exchange (session, at, id);
    CREATE INDEX exchange_by_task ON exchange (task_id) WHERE task_id IS NOT NULL;
    CREATE TABLE piece (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, data BLOB NOT NULL
    );
    CREATE TABLE part (
        exchange INTEGER NOT NULL REFERENCES exchange ON DELETE CASCADE,
        place INTEGER NOT NULL, piece INTEGER NOT NULL, PRIMARY KEY (exchange, place)
    ) WITHOUT ROWID;
    CREATE INDEX part_by_piece ON part (piece);
    CREATE TABLE answer (
        exchange INTEGER NOT NULL REFERENCES exchange ON DELETE CASCADE,
        place INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (exchange, place)
    );
    CREATE TABLE prefix (
        hash BLOB NOT NULL, exchange INTEGER NOT NULL REFERENCES exchange ON DELETE CASCADE,
        messages INTEGER NOT NULL, PRIMARY KEY (hash, exchange)
    ) WITHOUT ROWID;
    CREATE INDEX prefix_by_exchange ON prefix (exchange);
    CREATE TABLE reply (
        mark TEXT NOT NULL, exchange INTEGER NOT NULL REFERENCES exchange ON DELETE CASCADE,
        PRIMARY KEY (mark, exchange)
    ) WITHOUT ROWID;
    CREATE INDEX reply_by_exchange ON reply (exchange);
    CREATE TABLE session (
        id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, client TEXT, client_by TEXT,
        first INTEGER, last INTEGER, title TEXT, real INTEGER
    );
    CREATE UNIQUE INDEX session_by_key ON session (key) WHERE key IS NOT NULL;
    CREATE TABLE client_name (fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
"""
"""`spool` names the spool file that an exchange was filed from, so that none is filed twice.
`part` lists the pieces of a request's body, `answer` those of a response's. `prefix` maps the hash
of a request's messages to it, `reply` the values by which later requests show a response."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the book's file, creating it with mode 0600 and its directory with 0700. Raises
    StoreError."""
    try:
        make_private_directory(path.parent)
        try:
            with create_file(path, PRIVATE_FILE_MODE) as file:
                os.fchmod(file.fileno(), PRIVATE_FILE_MODE)
        except FileExistsError:
            check_regular_file(path.stat())
        return _connect_file(path)
    except OSError as error:
        raise StoreError(f"The book {path} cannot be opened: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise StoreError(
            f"The book {path} cannot be used: {error}. Name another file with --db, or move it"
            " away."
        ) from error


def _connect_file(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, _BUSY_TIMEOUT_S, isolation_level=None)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        enable_write_ahead_log(connection, _BUSY_TIMEOUT_S)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        if version == 0:
            version = _create_tables(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if (application, version) != (_SQLITE_APPLICATION_ID, SCHEMA_VERSION):
            raise StoreError(
                f"{path} is not a book of this version of joey. Name another file with --db, or"
                " move it away."
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection) -> int:
    """Create the tables of a new file, unless another process has just done so; return the schema
    version."""
    with transaction(connection):
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _SCHEMA_SQL.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_SQLITE_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            found = SCHEMA_VERSION
    return found
