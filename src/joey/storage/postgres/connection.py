"""Connections to Postgres: addresses, timeouts, and the meaning of errors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg import errors

from joey.core.redaction import strip_url_password
from joey.errors import ConfigError, StoreError

_CONNECT_TIMEOUT_S = 5
_RETRY_DELAY_S = 0.2
_SERVER_KEEPALIVES = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
)
"""A host that is cut off loses its locks after about 11 seconds."""
_RETRIED_SQL_STATES = ("08", "57P", "53300", "40")
"""Beginnings: connection errors, restarts, too many connections, serialization failures."""

T = TypeVar("T")

# It warns of each lost connection, which is handled here.
logging.getLogger("psycopg").setLevel(logging.ERROR)


def check_url(url: str) -> str:
    """Return the address if it names a Postgres database. Raises ConfigError."""
    try:
        is_address = urlsplit(url).scheme in ("postgresql", "postgres")
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            f"{strip_url_password(url)} is not a store address: use postgresql://HOST/DATABASE."
        )
    return url


def connect(url: str) -> psycopg.Connection[Any]:
    """Raises psycopg.Error."""
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        application_name="joey",
        options=_SERVER_KEEPALIVES,
        keepalives=1,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )


def is_connection_lost(error: Exception) -> bool:
    """Whether the statement may be retried with another connection."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state.startswith(_RETRIED_SQL_STATES)


def translate(error: psycopg.Error, url: str) -> StoreError:
    """Translate an error for the user."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    address = strip_url_password(url)
    if isinstance(error, errors.DiskFull):
        return StoreError(
            f"the disk of {strip_url_password(url)} is full: {reason}. Free some space there."
        )
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return StoreError(f"{address} has no joey store yet. Run `joey store init {address}`.")
    return StoreError(f"the store {strip_url_password(url)} cannot be used: {reason}")


class SharedConnection:
    """One connection for the threads of a process, reopened when it is lost."""

    def __init__(self, url: str, check: Callable[[], None] | None = None) -> None:
        """`check` raises if a retry is pointless."""
        self._url = url
        self._check = check
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def fetch(
        self, sql: str, values: Sequence[Any] = (), *, retry_s: float = 20.0
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, which must be harmless if executed twice. Raises
        StoreError."""

        def execute(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

        return self.run(execute, retry_s=retry_s)

    def run(self, work: Callable[[psycopg.Connection[Any]], T], *, retry_s: float = 20.0) -> T:
        """Run a function with the connection, again if it is lost meanwhile. Raises StoreError."""
        end = time.monotonic() + retry_s
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connection = connect(self._url)
                    return work(self._connection)
                except psycopg.Error as error:
                    if not is_connection_lost(error) or time.monotonic() > end:
                        raise translate(error, self._url) from error
                    self._discard()
                if self._check is not None:
                    self._check()
                time.sleep(_RETRY_DELAY_S)

    def close(self) -> None:
        with self._lock:
            self._discard()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
