"""One open task, told to everybody: its events are folded once and each frame is encoded once.

Rows that stream are shown at most every fiftieth of a second or so, and long ones less often, so
that the bytes sent grow with the time that passes and not with the square of the text.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
from collections.abc import Callable, Sequence

from joey.core.events import PASSING, Countdown
from joey.core.history.ui import Change
from joey.core.wire.encoder import Narrator, row_ts
from joey.core.wire.events import MessagePayload
from joey.core.wire.frames import EventFrame
from joey.engine.bus import Heard
from joey.engine.task import Task
from joey.server.tidings import Tidings

INTERVAL = 0.05
"""Seconds between two looks at the same growing row."""
UNHURRIED = 16_384
"""Bytes of a frame that make the interval twice as long."""

log = logging.getLogger(__name__)

Tell = Callable[[Tidings], None]


class TaskFeed:
    def __init__(self, task: Task, tell: Tell) -> None:
        self.task = task
        self.frames: list[EventFrame] = []
        """Everything durable that was told, in order."""
        self._seqs: list[int] = []
        self._narrator = Narrator(task.id)
        self._tell = tell
        self._due: dict[int, float] = {}
        self._growing: dict[int, asyncio.TimerHandle] = {}
        self._subscription = task.subscribe(0)
        self._reader: asyncio.Task[None] | None = None

    @property
    def seq(self) -> int:
        """The last record that was told."""
        return self._narrator.seq

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
        return self._narrator.growing()

    async def _read(self) -> None:
        async for heard in self._subscription:
            try:
                self._take(heard)
            except Exception:
                log.exception("task %s: an event could not be told", self.task.id)
        for timer in self._growing.values():
            timer.cancel()

    def _take(self, heard: Heard) -> None:
        event = heard.event
        if type(event) not in PASSING:
            self._take_durable(heard)
            return
        for change in self._narrator.changed(event):
            self._grow(change)
        if isinstance(event, Countdown):
            self._tell(Tidings(self._narrator.countdown(event)))

    def _take_durable(self, heard: Heard) -> None:
        for frame in self._narrator.tell(heard.seq, heard.event):
            self.frames.append(frame)
            # A frame that is not the last of its record counts as told when its record is.
            self._seqs.append(heard.seq)
            if isinstance(frame.payload, MessagePayload):
                self._settle(row_ts(frame.payload))
            if heard.seq > self.task.bus.opened_at:
                self._tell(Tidings(frame))

    def _grow(self, change: Change) -> None:
        now = asyncio.get_running_loop().time()
        if change.action == "created" or now >= self._due.get(change.ts, 0.0):
            self._show(change)
        elif change.ts not in self._growing:
            self._growing[change.ts] = asyncio.get_running_loop().call_at(
                self._due[change.ts], self._show, change
            )

    def _show(self, change: Change) -> None:
        self._settle(change.ts)
        frame = self._narrator.row_frame(change)
        if frame is None:
            return
        tidings = Tidings(frame, change.ts)
        wait = INTERVAL * (1 + len(tidings.data) / UNHURRIED)
        self._due[change.ts] = asyncio.get_running_loop().time() + wait
        self._tell(tidings)

    def _settle(self, ts: int) -> None:
        self._due.pop(ts, None)
        if timer := self._growing.pop(ts, None):
            timer.cancel()
