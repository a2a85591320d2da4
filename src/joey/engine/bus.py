"""The event bus of a task: numbered events for subscribers, replayed from any number.

The recorder gets an event first: an event that could not be written is not published. A subscriber
that falls too far behind loses its backlog and never delays the task; it catches up by replaying
the durable events it has missed. Only the latest records are kept in memory, older ones are read
again from the journal, so a task that has worked for days needs no more memory than a new one.

On a shared store a record may still be lost after it was appended. Subscribers see it once it is
committed, and transient events after those before them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from joey.core.events import TRANSIENT_EVENTS, Event, Record
from joey.ports.storage import TaskLog

MAX_BACKLOG_EVENTS = 10_000


class NumberedEvent(Struct, frozen=True):
    """An event and its number; a transient one has the number of the last durable event."""

    seq: int
    event: Event


class EventBus:
    def __init__(
        self,
        records: RecordCache,
        record_event: Callable[[NumberedEvent], None],
        shared_log: TaskLog | None = None,
    ) -> None:
        """`shared_log` is the journal, if appended records are not durable at once."""
        self._records = records
        self._record_event = record_event
        self._subscriptions: set[Subscription] = set()
        self._is_closed = False
        self.opened_at_seq = self.last_seq
        """The last record from disk: what comes after it happened in this process."""
        self._shared_log = shared_log
        self._held: deque[NumberedEvent] = deque()
        """What no subscriber is told yet."""
        if shared_log is not None:
            loop = asyncio.get_running_loop()
            shared_log.set_change_callback(lambda: _call_in_loop(loop, self._release_held))

    @property
    def last_seq(self) -> int:
        return self._records.last_seq

    @property
    def published_seq(self) -> int:
        """The number of the last durable event that subscribers may have seen."""
        return self._held[0].seq - 1 if self._held else self.last_seq

    def publish(self, event: Event) -> NumberedEvent:
        is_transient = type(event) in TRANSIENT_EVENTS
        numbered = NumberedEvent(self.last_seq if is_transient else self.last_seq + 1, event)
        self._record_event(numbered)
        if not is_transient:
            self._records.append(Record(numbered.seq, event))  # type: ignore[arg-type]
        if self._shared_log is not None:
            self._held.append(numbered)
            self._release_held()
            return numbered
        for subscription in self._subscriptions:
            subscription.enqueue(numbered)
        return numbered

    def _release_held(self) -> None:
        """Publish held events that are durable by now. If the journal has failed, the rest is never
        published."""
        assert self._shared_log is not None
        safe_seq = self._shared_log.safe_seq
        while self._held and self._held[0].seq <= safe_seq:
            numbered = self._held.popleft()
            is_transient = type(numbered.event) in TRANSIENT_EVENTS
            for subscription in self._subscriptions:
                if is_transient or numbered.seq > subscription.since:
                    subscription.enqueue(numbered)
        if self._is_over:
            self._finish_subscriptions()

    @property
    def _is_over(self) -> bool:
        """Whether no more events will be published."""
        log = self._shared_log
        return self._is_closed and (log is None or log.has_failed or not self._held)

    def list_records_after(self, seq: int) -> Sequence[Record]:
        """List durable events with a higher number than `seq`."""
        return self._records.list_after(seq)

    def subscribe(self, since: int | None = None) -> Subscription:
        """Subscribe to new events; with `since`, first replay those after that number."""
        subscription = Subscription(self, self.last_seq if since is None else since)
        self._subscriptions.add(subscription)
        if self._is_over:
            subscription.finish()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Close the bus: every subscription ends once it has been read."""
        self._is_closed = True
        if self._shared_log is not None:
            self._release_held()
        else:
            self._finish_subscriptions()

    def _finish_subscriptions(self) -> None:
        for subscription in self._subscriptions:
            subscription.finish()


class Subscription:
    """An async iterator over `NumberedEvent`; use as a context manager, or call `close`."""

    def __init__(self, bus: EventBus, since: int) -> None:
        self._bus = bus
        self.since = self._last_seq = since
        self._backlog: deque[NumberedEvent] = deque()
        self._is_behind = since < bus.published_seq
        self._is_finished = False
        self._has_news = asyncio.Event()

    def enqueue(self, numbered: NumberedEvent) -> None:
        if not self._is_behind:
            self._backlog.append(numbered)
        if len(self._backlog) > MAX_BACKLOG_EVENTS:
            self._backlog.clear()
            self._is_behind = True
        self._has_news.set()

    def finish(self) -> None:
        self._is_finished = True
        self._has_news.set()

    def close(self) -> None:
        self._bus.unsubscribe(self)
        self.finish()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> NumberedEvent:
        while True:
            if self._is_behind:
                missed = self._bus.list_records_after(self._last_seq)
                published_seq = self._bus.published_seq  # held events are published later
                self._backlog.extend(
                    NumberedEvent(record.seq, record.event)
                    for record in missed
                    if record.seq <= published_seq
                )
                self._is_behind = False
            if self._backlog:
                numbered = self._backlog.popleft()
                self._last_seq = max(self._last_seq, numbered.seq)
                return numbered
            if self._is_finished:
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed; no subscriber is left
        loop.call_soon_threadsafe(callback)


RECORD_CACHE_SIZE = 1024
"""There may be twice as many before the older half is let go."""


class RecordCache:
    """Keeps the latest records in memory; older ones are read again from the journal, so that long
    tasks need no more memory."""

    def __init__(
        self, read: Callable[[], Sequence[Record]], records: Sequence[Record] = ()
    ) -> None:
        """`read` returns all records ever appended."""
        self._read_all = read
        self._latest_records = list(records[-RECORD_CACHE_SIZE:])
        self._all_records: Sequence[Record] | None = None
        """What was read, until there is more: who goes back asks more than once."""

    @property
    def last_seq(self) -> int:
        """The number of the last record."""
        return self._latest_records[-1].seq if self._latest_records else 0

    def append(self, record: Record) -> None:
        self._all_records = None
        self._latest_records.append(record)
        if len(self._latest_records) > 2 * RECORD_CACHE_SIZE:
            del self._latest_records[:-RECORD_CACHE_SIZE]

    def list_after(self, seq: int) -> Sequence[Record]:
        """List the records with a higher number than `seq`."""
        first = self._latest_records[0].seq if self._latest_records else 1
        if seq + 1 >= first:
            return self._latest_records[seq + 1 - first :]
        if self._all_records is None:
            self._all_records = self._read_all()
        return [record for record in self._all_records if record.seq > seq]
