"""Journals in Postgres: records are committed in groups, each fenced by its task's epoch.

One thread per process writes the records of all of its tasks: 5 ms after an append, or at once if a
caller waits. The same statement compares the epoch, so that a process whose task was taken over
cannot write. A commit whose answer was lost is looked up before it is repeated.
"""

from __future__ import annotations

import logging
import threading
import time
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from msgspec import Struct

from joey.core.events import Record
from joey.errors import StoreError, TaskLostError, TaskStateError
from joey.storage.journal import encode_record
from joey.storage.postgres.connection import connect, is_connection_lost, translate
from joey.storage.postgres.lease import Lease

log = logging.getLogger(__name__)

FLUSH_DELAY_S = 0.005
_RETRY_DELAY_S = 0.2
_COMMIT = """
    with owned as (
        update joey.task set seq = %s, updated = clock_timestamp()
        where id = %s and epoch = %s and seq < %s returning 1)
    insert into joey.record (task_id, seq, epoch, line)
    select %s, r.seq, %s, r.line
    from owned, unnest(%s::bigint[], %s::bytea[]) as r (seq, line)
"""
_RELEASE = "update joey.task set holder = null where id = %s and epoch = %s"


class _Group(Struct, frozen=True):
    """Records that one log has appended, and whether it then releases its task."""

    journal: PostgresJournal
    lines: list[tuple[int, bytes]]
    is_released: bool


class PostgresJournal:
    """The journal of one task that this process holds."""

    def __init__(self, writer: RecordWriter, task_id: str, epoch: int, last_seq: int) -> None:
        self.task_id, self.epoch = task_id, epoch
        self._writer = writer
        self._last_seq = self.safe_seq = last_seq
        self.pending: deque[tuple[int, bytes]] = deque()
        self.is_release_due = False
        self._closed = False
        self._error: StoreError | None = None
        self._waiting: list[tuple[int, AbstractEventLoop, Future[None]]] = []
        self._on_change: Callable[[], None] | None = None

    def append(self, record: Record) -> None:
        """Raises StoreError, TaskStateError."""
        self.check_usable()
        if record.seq <= self._last_seq:
            raise TaskStateError(f"record {record.seq} cannot follow record {self._last_seq}")
        line = encode_record(record).removesuffix(b"\n")
        self._writer.add(self, record.seq, line)
        self._last_seq = record.seq

    async def sync(self) -> None:
        """Return when everything appended so far is committed. Raises StoreError."""
        from asyncio import get_running_loop

        target = self._last_seq
        loop = get_running_loop()
        with self._writer.lock:
            if self._error is not None:
                raise self._error
            if self.safe_seq >= target:
                return
            future: Future[None] = loop.create_future()
            self._waiting.append((target, loop, future))
        self._writer.hurry()
        await future

    def check_usable(self) -> None:
        """Raises StoreError, TaskStateError."""
        if self._closed:
            raise TaskStateError(f"task {self.task_id} is closed")
        if self._error is not None:
            raise self._error
        self._writer.lease.check()

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set a callback that is called from another thread when `safe_seq` rises, or never
        will."""
        self._on_change = callback

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def close(self) -> None:
        """Release the task once everything is committed, without waiting for that."""
        if not self._closed:
            self._closed = True
            self._writer.release(self)

    # Called by the writer

    def settle(self, seq: int, error: StoreError | None = None) -> None:
        """Settle records up to `seq`: they are committed, or no more will be."""
        with self._writer.lock:
            self.safe_seq = max(self.safe_seq, seq)
            if error is not None and self._error is None:
                self._error = error
                self.pending.clear()
            over = [each for each in self._waiting if error is not None or each[0] <= seq]
            self._waiting = [each for each in self._waiting if each not in over]
        for _, loop, future in over:
            _call_in_loop(loop, _resolve, future, error)
        if self._on_change is not None:
            self._on_change()


def _resolve(future: Future[None], error: StoreError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _call_in_loop(loop: AbstractEventLoop, *call: Any) -> None:
    try:
        loop.call_soon_threadsafe(*call)
    except RuntimeError:  # the loop is closed, and no caller waits
        log.debug("no caller waits for the commit any more")


class RecordWriter:
    """Commits what the journals of this process append."""

    def __init__(self, url: str, lease: Lease) -> None:
        self._url = url
        self.lease = lease
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._dirty: dict[PostgresJournal, None] = {}
        self._is_writing = False
        self._is_urgent = False
        self._is_started = False
        self._connection: psycopg.Connection[Any] | None = None
        self._in_flight: list[_Group] = []
        lease.on_lost(self._fail_all)

    def add(self, journal: PostgresJournal, seq: int, line: bytes) -> None:
        with self.lock:
            journal.pending.append((seq, line))
            self._mark_dirty(journal)

    def release(self, journal: PostgresJournal) -> None:
        with self.lock:
            journal.is_release_due = True
            self._mark_dirty(journal)
        self.hurry()

    def hurry(self) -> None:
        """Commit pending records at once."""
        with self.lock:
            self._is_urgent = True
            self._changed.notify_all()

    def drain(self, timeout_s: float | None = None) -> None:
        """Return when nothing is left to commit."""
        self.hurry()
        with self.lock:
            self._changed.wait_for(lambda: not self._dirty and not self._is_writing, timeout_s)

    def close(self, timeout_s: float) -> None:
        self.drain(timeout_s)
        with self.lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _mark_dirty(self, journal: PostgresJournal) -> None:
        self._dirty[journal] = None
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="joey-records", daemon=True).start()
        self._changed.notify_all()

    def _fail_all(self) -> None:
        """Fail the commits that callers wait for, because the lease is lost."""
        error = TaskLostError(self.lease.lost_reason or "The lease of this process has expired.")
        with self.lock:
            journals = [*self._dirty, *(group.journal for group in self._in_flight)]
        for journal in journals:
            journal.settle(0, error)

    def _run(self) -> None:
        while True:
            groups = self._take_groups()
            try:
                self._commit(groups)
            except Exception as error:
                log.exception("records could not be committed")
                for group in groups:
                    group.journal.settle(0, StoreError(f"records could not be committed: {error}"))
            with self.lock:
                self._is_writing, self._in_flight = False, []
                self._changed.notify_all()

    def _take_groups(self) -> list[_Group]:
        with self.lock:
            self._changed.wait_for(lambda: bool(self._dirty))
            self._changed.wait_for(lambda: self._is_urgent, FLUSH_DELAY_S)
            journals = sorted(self._dirty, key=lambda journal: journal.task_id)
            groups: list[_Group] = []
            for journal in journals:
                groups.append(_Group(journal, list(journal.pending), journal.is_release_due))
                journal.pending.clear()
            self._dirty.clear()
            self._is_urgent = False
            self._is_writing, self._in_flight = True, groups
        return groups

    def _commit(self, groups: Sequence[_Group]) -> None:
        while True:
            try:
                self.lease.check()
                results = self._write(groups)
                break
            except TaskLostError as error:
                for group in groups:
                    group.journal.settle(0, error)
                return
            except psycopg.Error as error:
                self._discard_connection()
                if is_connection_lost(error):
                    time.sleep(_RETRY_DELAY_S)
                elif len(groups) > 1:
                    for group in groups:
                        self._commit([group])
                    return
                else:
                    groups[0].journal.settle(0, translate(error, self._url))
                    return
        for group, failure in results:
            last = group.lines[-1][0] if group.lines and failure is None else 0
            group.journal.settle(last, failure)

    def _write(self, groups: Sequence[_Group]) -> list[tuple[_Group, StoreError | None]]:
        """Write all groups in one transaction and one round trip; return the rejected ones."""
        if self._connection is None:
            self._connection = connect(self._url)
        connection, commits = self._connection, []
        with connection.pipeline():
            for group in groups:
                if group.lines:
                    commits.append((group, connection.execute(_COMMIT, _build_values(group))))
                if group.is_released:
                    held = (group.journal.task_id, group.journal.epoch)
                    connection.execute(_RELEASE, held)
        written = {id(group): cursor.rowcount for group, cursor in commits}
        return [
            (group, None if written.get(id(group), 1) else self._explain_refusal(group))
            for group in groups
        ]

    def _explain_refusal(self, group: _Group) -> StoreError | None:
        """Explain a rejection; None if an earlier commit, whose answer was lost, has written these
        records."""
        assert self._connection is not None
        row = self._connection.execute(
            "select epoch, seq from joey.task where id = %s", (group.journal.task_id,)
        ).fetchone()
        if row is not None and row[0] == group.journal.epoch and row[1] >= group.lines[-1][0]:
            return None
        return build_lost_error(group.journal.task_id, group.journal.epoch)

    def _discard_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _build_values(group: _Group) -> tuple[object, ...]:
    journal = group.journal
    numbers, lines = [each[0] for each in group.lines], [each[1] for each in group.lines]
    return (
        *(numbers[-1], journal.task_id, journal.epoch, numbers[0]),
        *(journal.task_id, journal.epoch, numbers, lines),
    )


def build_lost_error(task_id: str, epoch: int) -> TaskLostError:
    return TaskLostError(
        f"Task {task_id} was taken over by another process (epoch {epoch} is over), so this one"
        " stopped working on it."
    )
