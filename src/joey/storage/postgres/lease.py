"""The lease of a process on the tasks that it holds: an advisory lock and a heartbeat.

Both use a separate connection. The lock is released at once when the process dies; the heartbeat,
by the database's clock, expires when the process is stopped or cut off. Others may then take over
its tasks. The process itself stops using them a little earlier, by a clock that keeps counting
while it is stopped, and permanently: a lost lease is not renewed.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from joey import __version__
from joey.core.redaction import strip_url_password
from joey.errors import TaskLostError
from joey.storage.postgres.connection import connect, is_connection_lost, translate
from joey.storage.postgres.schema import IS_ALIVE, check_tables

log = logging.getLogger(__name__)

BEAT_S = 0.5
LEASE_S = 18.0
"""Others wait two seconds longer (`schema.IS_ALIVE`)."""
_GUARD_S = 0.25
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clock() -> float:
    """Read a clock in seconds that includes the time when this machine was asleep."""
    return time.clock_gettime(_CLOCK)


class Lease:
    """Keeps a row of `joey.worker` alive, from `acquire` to `release`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        self.width = 0
        """How many items its process drives at once; 0: it is no worker."""
        self.watched_interval_s: float | None = None
        """If set, the lease is only kept while `touch` is called at least this often."""
        self.lost_reason: str | None = None
        self._on_lost: list[Callable[[], None]] = []
        self._connection: psycopg.Connection[Any] | None = None
        self._has_lock = False
        self._last_beat = self._last_touch = 0.0
        self._state_lock = threading.Lock()
        self._released = threading.Event()
        self._is_acquired = False

    def acquire(self) -> None:
        """Acquire the lease. Raises StoreError."""
        with self._state_lock:
            if self._is_acquired:
                return
            began = read_clock()
            self._connection = self._join()
            self._last_beat = self._last_touch = began
            self._is_acquired = True
        for target in (self._keep, self._guard):
            threading.Thread(target=target, name="joey-lease", daemon=True).start()

    def _join(self) -> psycopg.Connection[Any]:
        """Open the connection that holds the lock. Raises StoreError."""
        try:
            connection = connect(self._url)
            try:
                check_tables(connection, self._url)
                connection.execute(f"delete from joey.worker w where not {IS_ALIVE}")
                self._has_lock = _try_lock(connection, self.id)
                connection.execute(
                    """insert into joey.worker (id, host, pid, width, version, seen)
                       values (%s, %s, %s, %s, %s, clock_timestamp())""",
                    (self.id, socket.gethostname(), os.getpid(), self.width, __version__),
                )
            except BaseException:
                connection.close()
                raise
        except psycopg.Error as error:
            raise translate(error, self._url) from error
        return connection

    def touch(self) -> None:
        """Report that the process is working, not only its threads."""
        self._last_touch = read_clock()

    def check(self) -> None:
        """Raises TaskLostError if others may have taken over the tasks."""
        if self.lost_reason is None and self._is_acquired and not self._released.is_set():
            self._check_age()
        if self.lost_reason is not None:
            raise TaskLostError(self.lost_reason)

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Set a callback that is called once, from another thread."""
        self._on_lost.append(callback)

    def release(self) -> None:
        """Release the lock and the connection."""
        with self._state_lock:
            if not self._is_acquired or self._released.is_set():
                self._released.set()
                return
            self._released.set()
        connection = self._connection
        if connection is not None:
            try:
                connection.execute("delete from joey.worker where id = %s", (self.id,))
            except psycopg.Error as error:
                log.debug("the lease %s ends with its connection: %s", self.id, error)
            connection.close()

    # Threads

    def _guard(self) -> None:
        """Notice an expired lease even while the other thread waits for the network."""
        while not self._released.wait(_GUARD_S) and self.lost_reason is None:
            self._check_age()

    def _check_age(self) -> None:
        age = read_clock() - self._last_beat
        if age > LEASE_S:
            self._lose(f"no contact with {strip_url_password(self._url)} for {age:.0f} seconds")

    def _keep(self) -> None:
        while not self._released.wait(BEAT_S) and self.lost_reason is None:
            limit = self.watched_interval_s
            if limit is not None and read_clock() - self._last_touch > limit:
                continue  # this process hangs: let the lease expire
            began = read_clock()
            try:
                is_ours = self._beat()
            except psycopg.Error as error:
                if not is_connection_lost(error):
                    log.warning("the lease %s could not be renewed: %s", self.id, error)
                self._discard_connection()
                continue
            if not is_ours:
                self._lose("another process has taken over its work")
                return
            self._last_beat = began

    def _beat(self) -> bool:
        if self._connection is None:
            self._connection = connect(self._url)
        if not self._has_lock:  # the server may still know the connection that was lost
            self._has_lock = _try_lock(self._connection, self.id)
        cursor = self._connection.execute(
            "update joey.worker set seen = clock_timestamp() where id = %s", (self.id,)
        )
        return cursor.rowcount == 1

    def _discard_connection(self) -> None:
        connection, self._connection, self._has_lock = self._connection, None, False
        if connection is not None:
            connection.close()

    def _lose(self, reason: str) -> None:
        with self._state_lock:
            if self.lost_reason is not None or self._released.is_set():
                return
            self.lost_reason = f"This process stopped: {reason}."
        log.warning("the lease %s is lost: %s", self.id, reason)
        for callback in self._on_lost:
            callback()


def _try_lock(connection: psycopg.Connection[Any], holder_id: str) -> bool:
    row = connection.execute(
        "select pg_try_advisory_lock(hashtextextended(%s, 0))", (holder_id,)
    ).fetchone()
    return row is not None and bool(row[0])
