"""Batches for programs: started from Python, followed as events, with the results of the command.

One background task follows a batch; any number of subscribers read its events from the first one
on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypedDict, Unpack

from msgspec import Struct, structs

from joey.batch.coordinator import Coordinator, Snapshot
from joey.batch.items import Item, ItemDefaults, build_items
from joey.batch.lists import QueuedList, cancel_items, queue_list
from joey.batch.orders import Order
from joey.batch.results import ResultLine
from joey.batch.status import build_status
from joey.batch.store import BatchStore
from joey.batch.tables import BatchOptions


class ItemStarted(Struct, frozen=True):
    """An item is being worked on, for the first time or again."""

    item: str


class ItemEnded(Struct, frozen=True):
    """An attempt of an item ended; the same line is in `results.jsonl`."""

    result: ResultLine


class Spent(Struct, frozen=True):
    """The total cost of the batch so far, all attempts included."""

    cost: float


BatchEvent = ItemStarted | ItemEnded | Spent


class Batch:
    """A list of items being worked through."""

    def __init__(self, store: BatchStore, queued: QueuedList, coordinator: Coordinator) -> None:
        self.id = queued.batch_id
        self.missing = queued.missing
        """Items of earlier lists that are missing from this one; their results are kept."""
        self.changed = queued.changed
        """Items that differ from the earlier list, whose version is used."""
        self._store, self._queued, self._coordinator = store, queued, coordinator
        self._events: list[BatchEvent] = []
        self._has_news = asyncio.Event()
        self._running: set[str] = set()
        self._cost = -1.0
        self._following = asyncio.create_task(self._follow())

    async def events(self) -> AsyncIterator[BatchEvent]:
        """Iterate over the events since `start` and new ones, until nothing is waiting or running.
        Raises WorkersFailError, StoreError."""
        seen = 0
        while True:
            has_ended = self._following.done()
            while seen < len(self._events):
                yield self._events[seen]
                seen += 1
            if has_ended:
                await self._following
                return
            self._has_news.clear()
            if seen == len(self._events) and not self._following.done():
                await self._has_news.wait()

    async def results(self) -> list[ResultLine]:
        """Return the latest result of each item, in list order, once nothing is waiting or running.
        Raises WorkersFailError, StoreError."""
        await asyncio.shield(self._following)
        rows = await asyncio.to_thread(self._store.tables.load_items, self.id)
        lines = {row.id: row.line for row in rows}
        found = (lines.get(item) for item in self._queued.selected)
        return [line for line in found if line is not None]

    async def status(self) -> dict[str, Any]:
        """The object of `joey batch status --json`."""
        return await asyncio.to_thread(build_status, self._store)

    async def cancel(self, items: Sequence[str] = (), *, now: bool = False) -> list[str]:
        """Cancel waiting items, by default all, and with `now` running ones too; return their ids.
        Raises UserError if the batch has no such item."""
        return await asyncio.to_thread(cancel_items, self._store, items, stop_running=now)

    async def close(self) -> None:
        """Stop following, and stop the workers started for the batch."""
        self._following.cancel()
        with suppress(asyncio.CancelledError, Exception):  # reported to subscribers of the events
            await self._following

    async def _follow(self) -> None:
        try:
            async with aclosing(self._coordinator.follow()) as snapshots:  # type: ignore[type-var]
                async for snapshot in snapshots:
                    self._publish(snapshot)
        finally:
            self._has_news.set()

    def _publish(self, snapshot: Snapshot) -> None:
        before = len(self._events)
        ended = {line.item for line in snapshot.ended if line.started is not None}
        started = (ended | set(snapshot.running)) - self._running
        self._events += [ItemStarted(item) for item in sorted(started)]
        self._events += [ItemEnded(line) for line in snapshot.ended]
        self._running = set(snapshot.running)
        if snapshot.cost != self._cost:
            self._events.append(Spent(snapshot.cost))
            self._cost = snapshot.cost
        if len(self._events) > before:
            self._has_news.set()


class RunOptions(TypedDict, total=False):
    """Options of `joey batch run`."""

    workers: int
    """Processes to start on this machine (1); 0: others drive the items."""
    width: int
    attempts: int
    at_once: int | None
    group_at_once: int | None
    total_cost: float | None
    total_seconds: float | None


class Fleet:
    """An open store of batches."""

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._batches: list[Batch] = []

    async def start(
        self,
        items: Iterable[Mapping[str, Any] | Item],
        order: Order | None = None,
        **options: Unpack[RunOptions],
    ) -> Batch:
        """Queue a list, or the missing part of it, and let worker processes of this machine drive
        it. Raises ListError (then nothing was started), ConfigError, StoreError."""
        order = order or Order()
        workers = options.get("workers", 1)
        batch_options = BatchOptions(
            order=order,
            attempts=options.get("attempts", 2),
            width=options.get("width", 4),
            at_once=options.get("at_once"),
            group_at_once=options.get("group_at_once"),
            total_cost=options.get("total_cost"),
            total_seconds=options.get("total_seconds"),
        )
        checked = _check_items(items, order)
        since = await asyncio.to_thread(self._count_lines)
        queued = await asyncio.to_thread(queue_list, self._store, checked, checked, batch_options)
        coordinator = Coordinator(self._store, queued.batch_id, workers=workers, since=since)
        batch = Batch(self._store, queued, coordinator)
        self._batches.append(batch)
        return batch

    async def close(self) -> None:
        """Stop the workers that were started here."""
        for batch in self._batches:
            await batch.close()
        await asyncio.to_thread(self._store.close)

    def _count_lines(self) -> int:
        self._store.results.refresh()
        return len(self._store.results.lines)


def _check_items(items: Iterable[Mapping[str, Any] | Item], order: Order) -> list[Item]:
    defaults = ItemDefaults(
        template=order.prompt,
        repo=order.repo,
        ref=order.ref,
        setup=order.setup,
        check=order.check,
    )
    rows = (structs.asdict(each) if isinstance(each, Item) else each for each in items)
    return build_items(((f"item {n}", row) for n, row in enumerate(rows, 1)), defaults)
