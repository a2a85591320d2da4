"""Transactions and write-ahead logs of SQLite databases that several processes open."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

_POLL_INTERVAL_S = 0.01


def enable_write_ahead_log(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Enable the write-ahead log, waiting for a connection that has just created the database, as
    SQLite itself does not. Raises sqlite3.Error."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)
        else:
            return


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write everything in the block or nothing; other writers wait. Must not be nested."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
