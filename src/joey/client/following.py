"""What a client knows of one task far away: frames in, each once and in order, whatever the
connection goes through.

`seq` of a frame says that everything up to that record has been told, so after a loss the client
asks for what comes after the last one it saw. A record may be told in several frames; those that
came before the cut come again, and are known by their content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from joey.client.reader import EventReader, RowData, ask_of
from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    Event,
    TaskAborted,
    TaskCompleted,
    TaskFailed,
    TaskFinished,
    TaskPaused,
    TaskRewound,
    TaskStarted,
    TaskUnpaused,
    TokenUsage,
    UsageChanged,
)
from joey.core.history.ui import STREAMED
from joey.core.wire.frames import EventFrame

ENDINGS = frozenset({"taskFinished", "taskAborted", "taskFailed"})
"""Events after which a task rests."""


def is_passing(frame: EventFrame) -> bool:
    """The frame shows work in progress; a client that missed it has missed nothing."""
    match frame.event_name:
        case "message":
            return bool(frame.payload["message"].get("partial"))
        case "countdown":
            return True
        case _:
            return False


class Following:
    """The rows, the open question and the frames of one task, as far as they were heard."""

    def __init__(self, rows: Iterable[RowData], seq: int) -> None:
        self.seq = seq
        """The last record that was told."""
        self.first = seq
        """The record after which `frames` begins."""
        self.first_rows: Sequence[RowData] = list(rows)
        """The rows as they were then."""
        self.frames: list[EventFrame] = []
        """All that lasts."""
        self.growing: dict[int, EventFrame] = {}
        """The latest look of each row that has not ended, by its `ts`."""
        self.pending: AskOpened | None = None
        self.usage = TokenUsage()
        self.waits_for: tuple[str, ...] = ()
        """Subtasks."""
        self.runs = False
        self._rows: dict[int, RowData] = {row["ts"]: row for row in self.first_rows}
        self._open: set[int] = set()
        self._told: set[bytes] = set()
        """What came with this `seq`: perhaps the beginning of the next record already."""
        self._reader = EventReader(self._rows.values())

    @property
    def rows(self) -> Sequence[RowData]:
        """All rows that are finished, in the order of their `ts`."""
        return [self._rows[ts] for ts in sorted(self._rows)]

    def row(self, ts: int) -> RowData | None:
        return self._rows.get(ts)

    def take(self, frame: EventFrame) -> EventFrame | None:
        """The frame as it is to be passed on; None when it was passed on before."""
        if frame.seq < self.seq:
            return None
        if frame.seq > self.seq:
            self._told.clear()
            self.seq = frame.seq
        if not is_passing(frame):
            content = _content(frame)
            if content in self._told:
                return None
            self._told.add(content)
        self._fold(frame)
        if frame.event_name == "taskRewound":
            self._forget(frame.payload["removed"])
        frame = self._renamed(frame)
        self._note_growth(frame)
        if not is_passing(frame):
            self.frames.append(frame)
        return frame

    def _forget(self, removed: Iterable[int]) -> None:
        """The task was rewound: these rows are gone."""
        for ts in removed:
            self._rows.pop(ts, None)
            self._open.discard(ts)
            self.growing.pop(ts, None)

    def rejoin(self) -> None:
        """Frames come again after a gap: what still grows comes with them."""
        self.growing.clear()

    def settle(self, ask_ts: int | None, usage: TokenUsage, runs: bool) -> None:
        """How the task stands, by the server's own account."""
        self.usage, self.runs = usage, runs
        row = self.row(ask_ts) if ask_ts is not None else None
        if ask_ts is None:
            self.pending = None
        elif row is not None and (self.pending is None or self.pending.ts != ask_ts):
            self.pending = ask_of(row)

    def _renamed(self, frame: EventFrame) -> EventFrame:
        """`created` or `updated` as seen from here."""
        if frame.event_name != "message":
            return frame
        row = frame.payload["message"]
        known = row["ts"] in self._open or row["ts"] in self._rows
        self._open.discard(row["ts"])
        if is_passing(frame):
            self._open.add(row["ts"])
        else:
            self._rows[row["ts"]] = row
        return renamed(frame, known=known)

    def _note_growth(self, frame: EventFrame) -> None:
        if frame.event_name in ENDINGS:
            self.growing.clear()
        if frame.event_name != "message":
            return
        row = frame.payload["message"]
        self.growing.pop(row["ts"], None)
        if is_passing(frame):
            self.growing[row["ts"]] = frame
        elif row.get("say") == "api_req_started":
            self._drop_broken_off(row["ts"])

    def _drop_broken_off(self, request_ts: int) -> None:
        """What an earlier reply left unfinished will never be finished."""
        for ts, frame in list(self.growing.items()):
            if ts < request_ts and frame.payload["message"].get("say") in STREAMED:
                del self.growing[ts]

    def _fold(self, frame: EventFrame) -> None:
        for event in self._reader.feed(frame):
            self._apply(event)

    def _apply(self, event: Event) -> None:
        match event:
            case AskOpened():
                self.pending = event
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts):
                if self.pending is not None and self.pending.ts == ts:
                    self.pending = None
            case TaskStarted():
                self.runs = True
            case TaskPaused(child_ids=child_ids):
                self.waits_for = child_ids
            case TaskUnpaused():
                self.waits_for = ()
            case TaskFinished() | TaskAborted() | TaskFailed() | TaskRewound():
                self.pending, self.runs = None, False
            case UsageChanged(usage=usage) | TaskCompleted(usage=usage):
                self.usage = usage


def renamed(frame: EventFrame, *, known: bool) -> EventFrame:
    """A row, `updated` when it is known and else `created`."""
    action = "updated" if known else "created"
    if frame.payload["action"] == action:
        return frame
    return msgspec.structs.replace(frame, payload={**frame.payload, "action": action})


def _content(frame: EventFrame) -> bytes:
    payload: Any = frame.payload
    if frame.event_name == "message":
        payload = payload["message"]
    return msgspec.json.encode([frame.event_name, payload], order="deterministic")
