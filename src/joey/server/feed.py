"""Delivery of frames: a feed for each open task, a send queue for each client.

A feed folds the events of its task once and encodes each frame once for all clients. Streaming rows
are sent about every 50 milliseconds, and long ones less often, so that the bytes sent grow with
time and not with the square of the text.

Responses are always sent; a client that does not take them is not read from. Events are dropped
when too many pile up: the client is told to subscribe again from where it was (`resync`), gets no
more events of those tasks until it does, and is disconnected if it does not even read that. A task
subscribed to from an earlier number is replayed at the pace of the client; last come the rows that
still grow, as they are then.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from websockets.frames import Frame, Opcode

from joey.core.events import TRANSIENT_EVENTS, RetryCountdown
from joey.core.history.ui import RowChange
from joey.core.wire.encoder import FrameEncoder, ReplayNormalizer, get_row_ts
from joey.core.wire.events import MessagePayload, ResyncPayload
from joey.core.wire.frames import EventFrame, ResponseFrame, encode_frame
from joey.engine.bus import NumberedEvent
from joey.engine.task import Task


class Broadcast:
    def __init__(self, frame: EventFrame, row: int | None = None) -> None:
        self.frame = frame
        self.row = row
        """The growing row that it shows; a later one of the same row may take its place."""

    @cached_property
    def data(self) -> bytes:
        """JSON."""
        return encode_frame(self.frame)

    @cached_property
    def packet(self) -> bytes:
        """As it travels: a server's frames are not masked, so they are the same for everybody."""
        return text_packet(self.data)


def text_packet(data: bytes) -> bytes:
    """A WebSocket text frame."""
    return Frame(Opcode.TEXT, data).serialize(mask=False)


ROW_UPDATE_INTERVAL_S = 0.05
"""Seconds between two looks at the same growing row."""
BYTES_PER_EXTRA_INTERVAL = 16_384
"""Bytes of a frame that make the interval twice as long."""

log = logging.getLogger(__name__)

BroadcastCallback = Callable[[Broadcast], None]


class TaskFeed:
    def __init__(self, task: Task, broadcast: BroadcastCallback) -> None:
        self.task = task
        self.frames: list[EventFrame] = []
        """Everything durable that was told, in order."""
        self._seqs: list[int] = []
        self._encoder = FrameEncoder(task.id)
        self._broadcast = broadcast
        self._due: dict[int, float] = {}
        self._growing: dict[int, asyncio.TimerHandle] = {}
        self._subscription = task.subscribe(0)
        self._reader: asyncio.Task[None] | None = None

    @property
    def seq(self) -> int:
        """The last record that was told."""
        return self._encoder.seq

    def start(self, ended: Callable[[], None]) -> None:
        """Tell from now on; `ended` is called when the task was closed and all is told."""
        self._reader = asyncio.create_task(self._read(), name=f"joey-feed-{self.task.id}")
        self._reader.add_done_callback(lambda _: ended())

    async def close(self) -> None:
        """Tell what is left and stop. The task must have been closed before."""
        if self._reader is not None:
            await self._reader
        self._subscription.close()

    def after(self, seq: int) -> int:
        """The position in `frames` of the first one that `seq` does not cover."""
        return bisect.bisect_right(self._seqs, seq)

    def growing(self) -> Sequence[EventFrame]:
        """The rows that still grow, as they look now."""
        return self._encoder.encode_open_rows()

    async def _read(self) -> None:
        async for numbered in self._subscription:
            try:
                self._take(numbered)
            except Exception:
                log.exception("task %s: an event could not be told", self.task.id)
        for timer in self._growing.values():
            timer.cancel()

    def _take(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if type(event) not in TRANSIENT_EVENTS:
            self._take_durable(numbered)
            return
        for change in self._encoder.apply_transient(event):
            self._grow(change)
        if isinstance(event, RetryCountdown):
            self._broadcast(Broadcast(self._encoder.encode_countdown(event)))

    def _take_durable(self, numbered: NumberedEvent) -> None:
        for frame in self._encoder.encode(numbered.seq, numbered.event):
            self.frames.append(frame)
            # A frame that is not the last of its record counts as told when its record is.
            self._seqs.append(numbered.seq)
            if isinstance(frame.payload, MessagePayload):
                self._settle(get_row_ts(frame.payload))
            if numbered.seq > self.task.bus.opened_at_seq:
                self._broadcast(Broadcast(frame))

    def _grow(self, change: RowChange) -> None:
        now = asyncio.get_running_loop().time()
        if change.action == "created" or now >= self._due.get(change.ts, 0.0):
            self._show(change)
        elif change.ts not in self._growing:
            self._growing[change.ts] = asyncio.get_running_loop().call_at(
                self._due[change.ts], self._show, change
            )

    def _show(self, change: RowChange) -> None:
        self._settle(change.ts)
        frame = self._encoder.encode_row(change)
        if frame is None:
            return
        broadcast = Broadcast(frame, change.ts)
        wait = ROW_UPDATE_INTERVAL_S * (1 + len(broadcast.data) / BYTES_PER_EXTRA_INTERVAL)
        self._due[change.ts] = asyncio.get_running_loop().time() + wait
        self._broadcast(broadcast)

    def _settle(self, ts: int) -> None:
        self._due.pop(ts, None)
        if timer := self._growing.pop(ts, None):
            timer.cancel()


MAX_QUEUED_BYTES = 4 * 1024 * 1024
MAX_QUEUED_EVENTS = 1000
TRY_AGAIN_LATER_CLOSE_CODE = 1013


class ClientTransport(Protocol):
    """The way to the client."""

    @property
    def can_write(self) -> bool: ...

    def write(self, packet: bytes) -> None: ...

    def cut(self, code: int, reason: str) -> None: ...


class ReplaySource(Protocol):
    """Told frames of a task, in order; those of an open task keep coming."""

    @property
    def frames(self) -> Sequence[EventFrame]: ...

    def after(self, seq: int) -> int: ...

    @property
    def seq(self) -> int: ...

    def growing(self) -> Sequence[EventFrame]:
        """Rows that have not ended, as they look now."""
        ...


class _ReplayCursor:
    """How far a task has been read back."""

    def __init__(self, source: ReplaySource, since: int) -> None:
        self.source = source
        self.position = source.after(since)
        self.replay = ReplayNormalizer()
        self.begun = False

    def next(self) -> EventFrame | None:
        if self.position >= len(self.source.frames):
            return None
        frame = self.source.frames[self.position]
        self.position += 1
        return self.replay.normalize(frame)


class _QueuedPacket:
    __slots__ = ("broadcast", "packet", "reading")

    def __init__(
        self,
        packet: bytes | None,
        broadcast: Broadcast | None = None,
        reading: _ReplayCursor | None = None,
    ) -> None:
        self.packet = packet
        """None when another item took its place."""
        self.broadcast = broadcast
        self.reading = reading


SourceFinder = Callable[[str], ReplaySource | None]


class SendQueue:
    def __init__(
        self,
        link: ClientTransport,
        find_source: SourceFinder,
        on_resync: Callable[[], None],
        drain_seconds: float,
    ) -> None:
        self._link = link
        self._drain_seconds = drain_seconds
        self._find_source = find_source
        self._on_resync = on_resync
        self._queue: deque[_QueuedPacket] = deque()
        self._growing: dict[tuple[str | None, int], _QueuedPacket] = {}
        self._readings: dict[str, _ReplayCursor] = {}
        self._muted: set[str | None] = set()
        self._events = 0
        self._event_bytes = 0
        self._response_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._deadline: asyncio.TimerHandle | None = None

    # What is put in ---------------------------------------------------------------------------

    def send_event(self, broadcast: Broadcast) -> None:
        """An event for everybody."""
        task_id = broadcast.frame.task_id
        if task_id in self._muted or task_id in self._readings:
            return
        self._put(broadcast)
        if self._queue:
            self.flush()

    def _put(self, broadcast: Broadcast) -> None:
        if not self._queue and self._link.can_write:
            self._link.write(broadcast.packet)
            return
        item = _QueuedPacket(broadcast.packet, broadcast)
        if broadcast.row is not None:
            self._replace(broadcast.frame.task_id, broadcast.row, item)
        self._queue.append(item)
        self._events += 1
        self._event_bytes += len(broadcast.packet)
        if self._events > MAX_QUEUED_EVENTS or self._event_bytes > MAX_QUEUED_BYTES:
            self._drop_events()

    def respond(
        self, response: ResponseFrame, reading: tuple[ReplaySource, str, int] | None = None
    ) -> None:
        """The answer to a command; then, when asked for, a task from an earlier number on."""
        packet = text_packet(encode_frame(response))
        started = None
        if reading is not None:
            source, task_id, since = reading
            started = self._readings[task_id] = _ReplayCursor(source, since)
            self._muted.discard(task_id)
        self._queue.append(_QueuedPacket(packet, reading=started))
        self._response_bytes += len(packet)
        if self._response_bytes > MAX_QUEUED_BYTES:
            self._room.clear()
        self.flush()

    async def room(self) -> None:
        """Return when the client has taken enough of what it asked for."""
        await self._room.wait()

    def close(self) -> None:
        self._queue.clear()
        self._readings.clear()
        self._room.set()
        if self._deadline is not None:
            self._deadline.cancel()

    # What is taken out ------------------------------------------------------------------------

    def flush(self) -> None:
        while self._link.can_write:
            sent = self._send_queued()
            read = self._send_read_back()
            if not sent and not read:
                break
        if self._queue:
            return
        # What belongs to no task cannot be subscribed to: it is heard again from here on.
        self._muted.discard(None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _send_queued(self) -> bool:
        while self._queue:
            item = self._queue.popleft()
            if item.packet is None:
                continue
            self._forget(item)
            self._link.write(item.packet)
            if item.reading is not None:
                item.reading.begun = True
            return True
        return False

    def _send_read_back(self) -> bool:
        for task_id, reading in list(self._readings.items()):
            if not reading.begun or not self._link.can_write:
                continue
            frame = reading.next()
            if frame is None:
                self._end_reading(task_id, reading)
            else:
                self._link.write(text_packet(encode_frame(frame)))
            return True
        return False

    def _end_reading(self, task_id: str, reading: _ReplayCursor) -> None:
        """From here on live; a task that was opened while it was read back goes on from there."""
        live = self._find_source(task_id)
        if live is None or live is reading.source:
            del self._readings[task_id]
            for frame in reading.source.growing():
                self._put(Broadcast(reading.replay.normalize(frame), get_row_ts(frame.payload)))
            return
        reading.position = live.after(reading.source.seq)
        reading.source = live

    def _forget(self, item: _QueuedPacket) -> None:
        assert item.packet is not None
        if item.broadcast is None:
            self._response_bytes -= len(item.packet)
            if self._response_bytes <= MAX_QUEUED_BYTES:
                self._room.set()
            return
        self._events -= 1
        self._event_bytes -= len(item.packet)
        row = item.broadcast.row
        if row is not None:
            self._growing.pop((item.broadcast.frame.task_id, row), None)

    def _replace(self, task_id: str | None, row: int, item: _QueuedPacket) -> None:
        """The row as it looked before need not be sent any more. The new look is put at the end:
        it must not overtake what was told before it."""
        before = self._growing.get((task_id, row))
        if before is not None:
            self._forget(before)
            before.packet = None
        self._growing[task_id, row] = item

    def _drop_events(self) -> None:
        dropped = {
            item.broadcast.frame.task_id
            for item in self._queue
            if item.packet is not None and item.broadcast is not None
        }
        self._queue = deque(item for item in self._queue if item.broadcast is None)
        self._growing.clear()
        self._events = self._event_bytes = 0
        self._on_resync()
        for task_id in sorted(dropped, key=str):
            self._muted.add(task_id)
            frame = EventFrame(
                event_name="resync",
                task_id=task_id,
                payload=ResyncPayload(task_id=task_id),
                seq=0,
            )
            packet = text_packet(encode_frame(frame))
            self._queue.append(_QueuedPacket(packet))
            self._response_bytes += len(packet)
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(
                self._drain_seconds, self._give_up
            )

    def _give_up(self) -> None:
        self._link.cut(TRY_AGAIN_LATER_CLOSE_CODE, "too slow: connect again and subscribe")
