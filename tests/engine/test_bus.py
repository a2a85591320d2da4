"""Events are numbered, can be replayed from any number, and never wait for a slow reader."""

from __future__ import annotations

import asyncio

import pytest

from joey.core.events import Event, RowAdded, RowDelta
from joey.engine import bus as bus_module
from joey.engine.bus import EventBus, NumberedEvent, RecordCache


def said(n: int) -> RowAdded:
    return RowAdded(ts=n, say="text", text=str(n))


def bus_of(count: int) -> EventBus:
    bus = EventBus(RecordCache(tuple), lambda event: None)
    for n in range(1, count + 1):
        bus.publish(said(n))
    return bus


async def read(bus: EventBus, since: int | None, count: int) -> list[NumberedEvent]:
    async with asyncio.timeout(60):
        with bus.subscribe(since) as subscription:
            return [await anext(subscription) for _ in range(count)]


@pytest.mark.contract("events:replay")
async def test_a_subscriber_gets_what_it_missed_and_then_what_comes() -> None:
    bus = bus_of(3)
    with bus.subscribe(1) as subscription:
        bus.publish(RowDelta(ts=9, delta="x"))
        bus.publish(said(4))
        async with asyncio.timeout(60):
            got = [await anext(subscription) for _ in range(3)]
    assert [item.seq for item in got] == [2, 3, 4]


async def test_transient_events_repeat_the_number_of_the_last_durable_one() -> None:
    bus = bus_of(2)
    with bus.subscribe() as subscription:
        bus.publish(RowDelta(ts=9, delta="x"))
        bus.publish(said(3))
        async with asyncio.timeout(60):
            got = [(await anext(subscription)).seq for _ in range(2)]
    assert got == [2, 3]


@pytest.mark.contract("events:replay")
async def test_a_slow_reader_loses_transient_events_but_no_durable_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus_module, "MAX_BACKLOG_EVENTS", 10)
    bus = bus_of(0)
    with bus.subscribe() as subscription:
        for n in range(1, 31):
            bus.publish(said(n))
            bus.publish(RowDelta(ts=n, delta="x"))
        async with asyncio.timeout(60):
            got = [await anext(subscription) for _ in range(30)]
    assert [item.seq for item in got] == list(range(1, 31))


async def test_what_cannot_be_recorded_is_not_announced() -> None:
    def full(item: NumberedEvent) -> None:
        raise OSError("no space left")

    bus = EventBus(RecordCache(tuple), full)
    with bus.subscribe() as subscription:
        with pytest.raises(OSError, match="no space"):
            bus.publish(said(1))
        bus.close()
        assert [event async for event in subscription] == []
    assert bus.last_seq == 0


async def test_a_closed_bus_ends_every_subscription_after_it_was_read() -> None:
    bus = bus_of(2)
    bus.close()
    with bus.subscribe(0) as subscription:
        events: list[Event] = [item.event async for item in subscription]
    assert events == [said(1), said(2)]
