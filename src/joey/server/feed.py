"""Delivery of frames: a feed for each open task, a send queue for each client.

A feed folds the events of its task once and encodes each frame once for all clients. Streaming rows
are sent about every 50 milliseconds, and long ones less often, so that the bytes sent grow with
time and not with the square of the text.

Responses are always sent; while a client does not read them, its commands are not read either.
Events are dropped when too many pile up: the client is told to subscribe again from its last
position (`resync`), gets no more events of those tasks until it does, and is disconnected if it
does not even read that. A task subscribed to from an earlier number is replayed at the client's
pace, and ends with the current state of growing rows.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from msgspec import Struct, structs
from websockets.frames import Frame, Opcode

from joey.core.events import TRANSIENT_EVENTS, RetryCountdown
from joey.core.history.ui import RowChange, get_ts
from joey.core.wire.event_encoder import FrameEncoder, ReplayNormalizer
from joey.core.wire.events import MessagePayload, ResyncPayload
from joey.core.wire.frames import EventFrame, ResponseFrame, encode_frame
from joey.engine.bus import NumberedEvent
from joey.engine.task import Task
from joey.presentation.questions import build_ask_view


class Broadcast:
    def __init__(self, frame: EventFrame, row_ts: int | None = None) -> None:
        self.frame = frame
        self.row_ts = row_ts
        """The growing row that it shows; a later one of the same row may take its place."""

    @cached_property
    def json_bytes(self) -> bytes:
        """The frame as JSON."""
        return encode_frame(self.frame)

    @cached_property
    def packet(self) -> bytes:
        """The frame as sent: a server's frames are not masked, so they are the same for all
        clients."""
        return encode_text_packet(self.json_bytes)

    def merge_earlier(self, unsent: Broadcast | None) -> Broadcast:
        """Merge an earlier frame of the same row; it is still new to a client that was not sent the
        earlier one."""
        match unsent, self.frame.payload:
            case Broadcast(frame=EventFrame(payload=MessagePayload(action="created"))), payload:
                created = structs.replace(payload, action="created")
                return Broadcast(structs.replace(self.frame, payload=created), self.row_ts)
            case _:
                return self


def encode_text_packet(data: bytes) -> bytes:
    """A WebSocket text frame."""
    return Frame(Opcode.TEXT, data).serialize(mask=False)


ROW_UPDATE_INTERVAL_S = 0.05
BYTES_PER_EXTRA_INTERVAL = 16_384
"""A frame of this size makes the interval twice as long."""

log = logging.getLogger(__name__)

BroadcastCallback = Callable[[Broadcast], None]


class TaskFeed:
    def __init__(self, task: Task, broadcast: BroadcastCallback) -> None:
        self.task = task
        self.frames: list[EventFrame] = []
        """Everything durable that was told, in order."""
        self._frame_seqs: list[int] = []
        self._encoder = FrameEncoder(task.id, build_ask_view)
        self._broadcast = broadcast
        self._next_update_times: dict[int, float] = {}
        self._update_timers: dict[int, asyncio.TimerHandle] = {}
        self._subscription = task.subscribe(0)
        self._reader_task: asyncio.Task[None] | None = None

    @property
    def seq(self) -> int:
        """The last published record."""
        return self._encoder.last_seq

    def start(self, on_end: Callable[[], None]) -> None:
        """Start publishing; `on_end` is called when the task was closed and everything is
        published."""
        self._reader_task = asyncio.create_task(
            self._read_events(), name=f"joey-feed-{self.task.id}"
        )
        self._reader_task.add_done_callback(lambda _: on_end())

    async def close(self) -> None:
        """Publish the rest and stop. The task must have been closed before."""
        if self._reader_task is not None:
            await self._reader_task
        self._subscription.close()

    def find_index_after(self, seq: int, part: int | None = None) -> int:
        """Find the index of the first frame after a record, or after a part of it."""
        return _find_index_after(self._frame_seqs, seq, part)

    def build_partial_frames(self) -> Sequence[EventFrame]:
        """Build frames of the growing rows in their current state."""
        return self._encoder.encode_open_rows()

    async def _read_events(self) -> None:
        async for numbered in self._subscription:
            try:
                self._handle_event(numbered)
            except Exception:
                log.exception("task %s: an event could not be sent", self.task.id)
        for timer in self._update_timers.values():
            timer.cancel()

    def _handle_event(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if type(event) in TRANSIENT_EVENTS:
            for change in self._encoder.apply_transient(event):
                self._schedule_row_update(change)
            if isinstance(event, RetryCountdown):
                self._broadcast(Broadcast(self._encoder.encode_countdown(event)))
            return
        for frame in self._encoder.encode(numbered.seq, numbered.event):
            self.frames.append(frame)
            # A frame that is not the last of its record counts as told when its record is.
            self._frame_seqs.append(numbered.seq)
            if isinstance(frame.payload, MessagePayload):
                self._cancel_row_update(get_ts(frame.payload.message))
            if numbered.seq > self.task.bus.opened_at_seq:
                self._broadcast(Broadcast(frame))

    def _schedule_row_update(self, change: RowChange) -> None:
        now = asyncio.get_running_loop().time()
        if change.action == "created" or now >= self._next_update_times.get(change.ts, 0.0):
            self._broadcast_row(change)
        elif change.ts not in self._update_timers:
            self._update_timers[change.ts] = asyncio.get_running_loop().call_at(
                self._next_update_times[change.ts], self._broadcast_row, change
            )

    def _broadcast_row(self, change: RowChange) -> None:
        self._cancel_row_update(change.ts)
        frame = self._encoder.encode_row(change)
        if frame is None:
            return
        broadcast = Broadcast(frame, change.ts)
        wait = ROW_UPDATE_INTERVAL_S * (1 + len(broadcast.json_bytes) / BYTES_PER_EXTRA_INTERVAL)
        self._next_update_times[change.ts] = asyncio.get_running_loop().time() + wait
        self._broadcast(broadcast)

    def _cancel_row_update(self, ts: int) -> None:
        self._next_update_times.pop(ts, None)
        if timer := self._update_timers.pop(ts, None):
            timer.cancel()


MAX_QUEUED_BYTES = 4 * 1024 * 1024
MAX_QUEUED_EVENTS = 1000
TRY_AGAIN_LATER_CLOSE_CODE = 1013


class ClientTransport(Protocol):
    """The connection to the client."""

    @property
    def can_write(self) -> bool: ...

    def write(self, packet: bytes) -> None: ...

    def force_close(self, code: int, reason: str) -> None: ...


class StoredTaskFrames(Struct, frozen=True):
    """Frames of a task that is not open here, from its journal."""

    frames: Sequence[EventFrame]
    frame_seqs: Sequence[int]
    seq: int

    def find_index_after(self, seq: int, part: int | None = None) -> int:
        return _find_index_after(self.frame_seqs, seq, part)

    def build_partial_frames(self) -> Sequence[EventFrame]:
        return ()


def _find_index_after(frame_seqs: Sequence[int], seq: int, part: int | None) -> int:
    end = bisect.bisect_right(frame_seqs, seq)
    return end if part is None else min(bisect.bisect_left(frame_seqs, seq) + part + 1, end)


ReplaySource = TaskFeed | StoredTaskFrames
"""Told frames of a task, in order; those of an open task keep coming."""


class _ReplayCursor:
    """The position of a replay."""

    def __init__(self, source: ReplaySource, first: int) -> None:
        self.source = source
        self.position = first
        self.normalizer = ReplayNormalizer()
        self.is_started = False

    def read_next(self) -> EventFrame | None:
        if self.position >= len(self.source.frames):
            return None
        self.position += 1
        return self.normalizer.normalize(self.source.frames[self.position - 1])


class _QueuedPacket(Struct):
    packet: bytes | None
    """None when another item took its place."""
    broadcast: Broadcast | None = None
    replay_cursor: _ReplayCursor | None = None


class SendQueue:
    def __init__(
        self,
        transport: ClientTransport,
        find_source: Callable[[str], ReplaySource | None],
        on_resync: Callable[[], None],
        drain_timeout_s: float,
    ) -> None:
        self._transport = transport
        self._drain_timeout_s = drain_timeout_s
        self._find_source = find_source
        self._on_resync = on_resync
        self._queue: deque[_QueuedPacket] = deque()
        self._queued_row_updates: dict[tuple[str | None, int | None], _QueuedPacket] = {}
        self._replay_cursors: dict[str, _ReplayCursor] = {}
        self._muted_task_ids: set[str | None] = set()
        self._queued_event_count = 0
        self._queued_event_bytes = 0
        self._queued_response_bytes = 0
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._drain_timer: asyncio.TimerHandle | None = None

    # Adding frames ---------------------------------------------------------------------------

    def send_event(self, broadcast: Broadcast) -> None:
        """Queue an event."""
        task_id = broadcast.frame.task_id
        if task_id in self._muted_task_ids or task_id in self._replay_cursors:
            return
        self._write_or_queue(broadcast)
        if self._queue:
            self.flush()

    def _write_or_queue(self, broadcast: Broadcast) -> None:
        if not self._queue and self._transport.can_write:
            self._transport.write(broadcast.packet)
            return
        row = broadcast.frame.task_id, broadcast.row_ts
        if (before := self._queued_row_updates.get(row)) is not None:
            # The row as it looked before need not be sent any more. The new look is put at the
            # end: it must not overtake what was told before it.
            broadcast = broadcast.merge_earlier(before.broadcast)
            self._subtract_from_totals(before)
            before.packet = None
        item = _QueuedPacket(broadcast.packet, broadcast)
        if broadcast.row_ts is not None:
            self._queued_row_updates[row] = item
        self._queue.append(item)
        self._queued_event_count += 1
        self._queued_event_bytes += len(broadcast.packet)
        if (
            self._queued_event_count > MAX_QUEUED_EVENTS
            or self._queued_event_bytes > MAX_QUEUED_BYTES
        ):
            self._drop_queued_events()

    def send_response(
        self, response: ResponseFrame, replay: tuple[ReplaySource, str, int] | None = None
    ) -> None:
        """Queue the response to a command, then, if requested, a task from an earlier frame on."""
        packet = encode_text_packet(encode_frame(response))
        started = None
        if replay is not None:
            source, task_id, first = replay
            started = self._replay_cursors[task_id] = _ReplayCursor(source, first)
            self._muted_task_ids.discard(task_id)
        self._queue.append(_QueuedPacket(packet, replay_cursor=started))
        self._queued_response_bytes += len(packet)
        if self._queued_response_bytes > MAX_QUEUED_BYTES:
            self._has_capacity.clear()
        self.flush()

    async def wait_for_capacity(self) -> None:
        """Wait until the client has read enough of its responses."""
        await self._has_capacity.wait()

    def close(self) -> None:
        self._queue.clear()
        self._replay_cursors.clear()
        self._has_capacity.set()
        if self._drain_timer is not None:
            self._drain_timer.cancel()

    # Taking frames ------------------------------------------------------------------------

    def flush(self) -> None:
        while self._transport.can_write:
            sent = self._send_next_queued()
            read = self._send_next_replayed()
            if not sent and not read:
                break
        if self._queue:
            return
        # Events without a task cannot be subscribed to: they are sent again from here on.
        self._muted_task_ids.discard(None)
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    def _send_next_queued(self) -> bool:
        while self._queue:
            item = self._queue.popleft()
            if item.packet is None:
                continue
            self._subtract_from_totals(item)
            self._transport.write(item.packet)
            if item.replay_cursor is not None:
                item.replay_cursor.is_started = True
            return True
        return False

    def _send_next_replayed(self) -> bool:
        for task_id, cursor in list(self._replay_cursors.items()):
            if not cursor.is_started or not self._transport.can_write:
                continue
            frame = cursor.read_next()
            if frame is None:
                self._finish_replay(task_id, cursor)
            else:
                self._transport.write(encode_text_packet(encode_frame(frame)))
            return True
        return False

    def _finish_replay(self, task_id: str, cursor: _ReplayCursor) -> None:
        """Finish a replay and continue live, also if the task was opened meanwhile."""
        live = self._find_source(task_id)
        if live is None or live is cursor.source:
            del self._replay_cursors[task_id]
            for frame in cursor.source.build_partial_frames():
                self._write_or_queue(
                    Broadcast(cursor.normalizer.normalize(frame), get_ts(frame.payload.message))
                )
            return
        cursor.position = live.find_index_after(cursor.source.seq)
        cursor.source = live

    def _subtract_from_totals(self, item: _QueuedPacket) -> None:
        assert item.packet is not None
        if item.broadcast is None:
            self._queued_response_bytes -= len(item.packet)
            if self._queued_response_bytes <= MAX_QUEUED_BYTES:
                self._has_capacity.set()
            return
        self._queued_event_count -= 1
        self._queued_event_bytes -= len(item.packet)
        row = item.broadcast.row_ts
        if row is not None:
            self._queued_row_updates.pop((item.broadcast.frame.task_id, row), None)

    def _drop_queued_events(self) -> None:
        dropped = {
            item.broadcast.frame.task_id
            for item in self._queue
            if item.packet is not None and item.broadcast is not None
        }
        self._queue = deque(item for item in self._queue if item.broadcast is None)
        self._queued_row_updates.clear()
        self._queued_event_count = self._queued_event_bytes = 0
        self._on_resync()
        for task_id in sorted(dropped, key=str):
            self._muted_task_ids.add(task_id)
            frame = EventFrame(
                event_name="resync",
                task_id=task_id,
                payload=ResyncPayload(task_id=task_id),
                seq=0,
            )
            packet = encode_text_packet(encode_frame(frame))
            self._queue.append(_QueuedPacket(packet))
            self._queued_response_bytes += len(packet)
        if self._drain_timer is None:
            self._drain_timer = asyncio.get_running_loop().call_later(
                self._drain_timeout_s,
                self._transport.force_close,
                TRY_AGAIN_LATER_CLOSE_CODE,
                "too slow: connect again and subscribe",
            )
