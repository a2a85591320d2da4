"""The event decoder: turns a server's frames back into events of the engine and drops repeats.

A frame shows the current state of a row; an event says what happened to it. The event is the
difference from the row's earlier state. Fields that the protocol does not carry are filled in: a
call is named after its row (`row_<ts>`), each part of a reply becomes a separate `ReplyReceived`,
and an event without a row has the `ts` of the latest one.

`TaskMirror` mirrors a remote task across lost connections. The `seq` of a frame says that
everything up to that record has been sent, so after a loss the client asks for what follows the
last one it saw. A record may be sent in several frames; those that arrived before the loss are sent
again and recognized by their content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from joey.core import events as ev
from joey.core.history.ui import REPLY_ROW_KINDS, RequestInfo
from joey.core.messages import ReasoningPart, TextPart, Usage
from joey.core.task_types import Answer, Response, RowKind
from joey.core.tool_calls import parse_plain_text
from joey.core.wire.frames import EventFrame

RowData = Mapping[str, Any]


class EventDecoder:
    def __init__(self, rows: Iterable[RowData] = ()) -> None:
        """`rows` are known already: only later changes are events."""
        self._rows: dict[int, RowData] = {row["ts"]: row for row in rows}
        self._queued_messages: dict[str, Any] = {}
        self._completion_result = ""
        self._open_ask_ts: int | None = None
        """The question that has no answer yet."""
        self._latest_ts = max(self._rows, default=0)

    def feed(self, frame: EventFrame) -> list[ev.Event]:
        """Decode a frame into events."""
        if frame.event_name == "message":
            return self.feed_row(frame.payload["message"])
        if frame.event_name == "taskRewound":
            return [self._decode_rewind(frame.payload)]
        if frame.event_name == "queuedMessagesUpdated":
            return list(self._decode_queue(frame.payload["queue"]))
        event = self._decode_task_event(frame.event_name, frame.task_id or "", frame.payload)
        return [] if event is None else [event]

    def _decode_rewind(self, payload: Mapping[str, Any]) -> ev.Event:
        """Decode a rewind. Its target is not sent; restored rows follow as new ones."""
        for ts in payload["removed"]:
            self._rows.pop(ts, None)
        self._open_ask_ts = None
        return ev.TaskRewound(ts=self._latest_ts, to_seq=0, last_row_ts=payload["messageTs"])

    def feed_row(self, row: RowData) -> list[ev.Event]:
        """Decode the changes of a row since it was last seen."""
        ts = row["ts"]
        before = self._rows.get(ts, {})
        self._rows[ts] = row
        self._latest_ts = max(self._latest_ts, ts)
        if row["type"] == "ask":
            if before.get("type") != "ask":
                self._open_ask_ts = ts
            opened = [] if before.get("type") == "ask" else [build_ask_opened(row)]
            return [*opened, *_decode_tool_result(row, before)]
        text = row.get("text", "")
        match row.get("say"):
            case RowKind.TEXT if "partial" not in row:
                return [] if before else [_build_event(ev.UserMessage, row, text=text, first=True)]
            case RowKind.USER_FEEDBACK:
                return [] if before else [_build_event(ev.UserMessage, row, text=text)]
            case RowKind.TEXT | RowKind.REASONING:
                return list(_decode_reply_row(row, before))
            case RowKind.TOOL:
                return list(_decode_call_row(row, before))
            case RowKind.COMMAND_OUTPUT:
                return list(_decode_output_row(row, before))
            case RowKind.API_REQ_STARTED:
                return list(_decode_request_row(row, before))
            case RowKind.CONDENSE_CONTEXT | RowKind.SLIDING_WINDOW_TRUNCATION:
                return list(_decode_condense_row(row, before))
            case RowKind.CHECKPOINT_SAVED:
                return [] if before else [_decode_checkpoint_row(row)]
            case _:
                return list(self._decode_plain_say_row(row, before))

    def _decode_plain_say_row(self, row: RowData, before: RowData) -> Iterator[ev.Event]:
        if row.get("partial"):
            return
        text, say = row.get("text", ""), str(row.get("say"))
        if not before or before.get("partial") or before.get("say") != say:
            if tool := row.get("tool"):
                yield ev.CallDropped(ts=row["ts"], tool=tool, text=text)
                yield from _decode_tool_result(row, before)
                return
            if say == RowKind.COMPLETION_RESULT:
                self._completion_result = text
            yield _build_event(ev.RowAdded, row, say=say)
        yield from _decode_tool_result(row, before)

    def _decode_queue(self, queue: list[dict[str, Any]]) -> Iterator[ev.Event]:
        now = {item["id"]: item for item in queue}
        for id in self._queued_messages.keys() - now.keys():
            yield ev.MessageUnqueued(ts=self._latest_ts, id=id)
        for id, item in now.items():
            if id not in self._queued_messages:
                images = tuple(item.get("images", ()))
                ts = item.get("timestamp", self._latest_ts)
                yield ev.MessageQueued(ts=ts, id=id, text=item.get("text", ""), images=images)
        self._queued_messages = now

    def _decode_task_event(
        self, name: str, task_id: str, payload: Mapping[str, Any]
    ) -> ev.Event | None:
        ts = self._latest_ts
        match name:
            case "taskAskResponded":
                self._open_ask_ts = None
                answer = Answer(Response(payload["response"]), by=payload["by"])
                return ev.AskAnswered(ts=ts, ask_ts=payload["askTs"], answer=answer)
            case "taskActive" if self._open_ask_ts is not None:
                withdrawn, self._open_ask_ts = self._open_ask_ts, None
                return ev.AskWithdrawn(ts=ts, ask_ts=withdrawn)
            case _ if name in _TASK_EVENTS:
                kind, keys = _TASK_EVENTS[name]
                known = {"ts": ts, "taskId": task_id, "result": self._completion_result, **payload}
                renamed = {field: payload[key] for field, key in keys.items() if key in payload}
                return _build_event(kind, known, **renamed)
            case _:
                return None


_TASK_EVENTS: dict[str, tuple[type[ev.Event], dict[str, str]]] = {
    "taskCreated": (ev.TaskCreated, {"protocol": "protocol"}),
    "taskStarted": (ev.TaskStarted, {}),
    "taskCompleted": (ev.TaskCompleted, {}),
    "taskFinished": (ev.TaskFinished, {}),
    "taskAborted": (ev.TaskAborted, {}),
    "taskFailed": (ev.TaskFailed, {}),
    "taskTokenUsageUpdated": (ev.UsageChanged, {}),
    "taskModeSwitched": (ev.ModeSwitched, {"mode": "modeSlug"}),
    "taskToolFailed": (ev.ToolFailed, {"tool": "toolName"}),
    "todosUpdated": (ev.TodosChanged, {}),
    "countdown": (ev.RetryCountdown, {}),
    "taskSpawned": (ev.SubtaskSpawned, {"child_id": "childTaskId"}),
    "taskPaused": (ev.TaskPaused, {"child_ids": "childTaskIds"}),
    "taskUnpaused": (ev.TaskUnpaused, {}),
}
"""The events of frames, with the keys of payloads that are named otherwise than the fields."""

E = TypeVar("E", bound=ev.Event)


def _build_event(kind: type[E], source: Mapping[str, Any], **fields: Any) -> E:
    """Build an event from these fields and from those of the row or payload with the same names."""
    for name, stored_name in zip(
        kind.__struct_fields__, kind.__struct_encode_fields__, strict=True
    ):
        first, *rest = name.split("_")
        value = source.get(first + "".join(map(str.title, rest)))
        if value is not None:
            fields.setdefault(stored_name, value)
    return msgspec.convert(fields, kind)


def _decode_checkpoint_row(row: RowData) -> ev.CheckpointSaved:
    checkpoint = row.get("checkpoint") or {}
    own = bool(checkpoint.get("suppressMessage"))
    return ev.CheckpointSaved(
        ts=row["ts"], id=row.get("text", ""), previous_id=checkpoint.get("from"), is_own_change=own
    )


def _decode_condense_row(row: RowData, before: RowData) -> Iterator[ev.Event]:
    """Decode a condensing row. It says how much was hidden; the summary is not sent."""
    ts = row["ts"]
    if row.get("partial"):
        if not before:
            yield ev.RowOpened(ts=ts, say=str(row["say"]))
    elif info := row.get("contextCondense"):
        yield ev.ContextCondensed(
            ts=ts,
            condense_id=info["condenseId"],
            summary=info["summary"],
            content=(),
            tokens_before=info["prevContextTokens"],
            tokens_after=info["newContextTokens"],
            cost=info["cost"],
        )
    elif info := row.get("contextTruncation"):
        yield ev.ContextTruncated(
            ts=ts,
            truncation_id=info["truncationId"],
            hidden_message_count=info["messagesRemoved"],
            tokens_before=info["prevContextTokens"],
            tokens_after=info["newContextTokens"],
        )


def build_ask_opened(row: RowData) -> ev.AskOpened:
    """Build the question that a row asks."""
    return _build_event(ev.AskOpened, row, call_id=_build_call_id(row) if row.get("tool") else None)


def _decode_reply_row(row: RowData, before: RowData) -> Iterator[ev.Event]:
    ts, say, text = row["ts"], row["say"], row.get("text", "")
    if before and not before.get("partial"):
        return
    if row.get("partial") and not before:
        yield ev.RowOpened(ts=ts, say=say)
    if (before or row.get("partial")) and (delta := _get_added_text(row, before)):
        yield ev.RowDelta(ts=ts, delta=delta)
    if not row.get("partial"):
        part = TextPart(text) if say == RowKind.TEXT else ReasoningPart(text)
        yield ev.ReplyReceived(ts=ts, parts=(ev.RowPart(ts, part),))


def _decode_call_row(row: RowData, before: RowData) -> Iterator[ev.Event]:
    tool = row.get("tool", "")
    if row.get("partial"):
        if not before:
            yield ev.RowOpened(
                ts=row["ts"], say=RowKind.TOOL, tool=tool, call_id=_build_call_id(row)
            )
        return
    if not before or before.get("partial"):
        text = row.get("text", "")
        if row.get("approvalState") is None and "partial" in row:
            yield ev.CallDropped(ts=row["ts"], tool=tool, text=text)
        else:
            plain = parse_plain_text(tool, text)
            call_id = _build_call_id(row)
            yield _build_event(ev.ToolStarted, row, call_id=call_id, tool=tool, text=plain)
    yield from _decode_tool_result(row, before)


def _decode_tool_result(row: RowData, before: RowData) -> Iterator[ev.Event]:
    if "result" in row and "result" not in before:
        yield _build_event(
            ev.ToolFinished,
            row,
            call_id=_build_call_id(row),
            tool=row.get("tool", ""),
            content=row["result"],
            row_ts=row["ts"],
        )


def _decode_output_row(row: RowData, before: RowData) -> Iterator[ev.Event]:
    if before and not before.get("partial"):
        return
    if (before or row.get("partial")) and (delta := _get_added_text(row, before)):
        yield ev.CommandOutputDelta(ts=row["ts"], output=delta)
    if not row.get("partial"):
        yield ev.RowAdded(ts=row["ts"], say=RowKind.COMMAND_OUTPUT, text=row.get("text", ""))


def _decode_request_row(row: RowData, before: RowData) -> Iterator[ev.Event]:
    info = msgspec.json.decode(row.get("text") or "{}", type=RequestInfo)
    if not before:
        yield ev.RequestStarted(ts=row["ts"], api_protocol=info.api_protocol or "")
    is_ended = info.cost is not None or info.cancel_reason is not None
    if not is_ended or row.get("text") == before.get("text"):
        return
    usage = None
    if info.tokens_in is not None or info.tokens_out is not None:
        usage = Usage(
            input=info.tokens_in or 0,
            output=info.tokens_out or 0,
            cache_writes=info.cache_writes or 0,
            cache_reads=info.cache_reads or 0,
        )
    yield ev.RequestEnded(
        ts=row["ts"],
        request_ts=row["ts"],
        usage=usage,
        cost=info.cost,
        cancel_reason=info.cancel_reason,
        error=info.streaming_failed_message,
    )


def _get_added_text(row: RowData, before: RowData) -> str:
    """Return the text added since; empty if the text was rewritten."""
    old, new = before.get("text", ""), row.get("text", "")
    return new[len(old) :] if new.startswith(old) else ""


def _build_call_id(row: RowData) -> str:
    return f"row_{row['ts']}"


END_EVENT_NAMES = frozenset({"taskFinished", "taskAborted", "taskFailed"})


def is_transient_frame(frame: EventFrame) -> bool:
    """Whether the frame only shows work in progress, so that a client may miss it."""
    match frame.event_name:
        case "message":
            return bool(frame.payload["message"].get("partial"))
        case "countdown":
            return True
        case _:
            return False


class TaskMirror:
    """The rows, the open question and the frames of one task, as far as received."""

    def __init__(self, rows: Iterable[RowData], seq: int) -> None:
        self.seq = seq
        """The last record that was told."""
        self.opened_at_seq = seq
        """The last record that `initial_rows` include; `durable_frames` begins after it."""
        self.initial_rows: Sequence[RowData] = [row for row in rows if not row.get("partial")]
        """The rows as they were then."""
        self.durable_frames: list[EventFrame] = []
        """All that lasts."""
        self.partial_frames: dict[int, EventFrame] = {}
        """The latest look of each row that has not ended, by its `ts`."""
        self.pending: ev.AskOpened | None = None
        self.usage = ev.TokenUsage()
        self.pending_subtasks: tuple[str, ...] = ()
        """The subtasks that it waits for."""
        self.is_running = False
        """The task works, or waits for an answer."""
        self._rows: dict[int, RowData] = {row["ts"]: row for row in self.initial_rows}
        self._partial_row_timestamps: set[int] = set()
        self._seen_frame_contents: set[bytes] = set()
        """What came with this `seq`: perhaps the beginning of the next record already."""
        self._decoder = EventDecoder(self._rows.values())

    @property
    def rows(self) -> Sequence[dict[str, Any]]:
        """All finished rows, ordered by `ts`."""
        return [dict(self._rows[ts]) for ts in sorted(self._rows)]

    def apply_frame(self, frame: EventFrame) -> EventFrame | None:
        """Apply a frame and return it as it should be passed on; None if it was passed on
        before."""
        if frame.seq < self.seq:
            return None
        if frame.seq > self.seq:
            self._seen_frame_contents.clear()
            self.seq = frame.seq
        if not is_transient_frame(frame):
            payload: Any = frame.payload
            if frame.event_name == "message":
                payload = payload["message"]
            content = msgspec.json.encode([frame.event_name, payload], order="deterministic")
            if content in self._seen_frame_contents:
                return None
            self._seen_frame_contents.add(content)
        for event in self._decoder.feed(frame):
            self._apply_event(event)
        if frame.event_name == "taskRewound":
            for ts in frame.payload["removed"]:
                self._rows.pop(ts, None)
                self._partial_row_timestamps.discard(ts)
                self.partial_frames.pop(ts, None)
        if frame.event_name == "message":
            frame = self._apply_row(frame)
        elif frame.event_name in END_EVENT_NAMES:
            self.partial_frames.clear()
        if not is_transient_frame(frame):
            self.durable_frames.append(frame)
        return frame

    def update_status(self, ask_ts: int | None, usage: ev.TokenUsage, is_running: bool) -> None:
        """Update the status reported by the server."""
        self.usage, self.is_running = usage, is_running
        row = self._rows.get(ask_ts) if ask_ts is not None else None
        if ask_ts is None:
            self.pending = None
        elif row is not None and (self.pending is None or self.pending.ts != ask_ts):
            self.pending = build_ask_opened(row)

    def _apply_row(self, frame: EventFrame) -> EventFrame:
        """Apply a row; return the frame with `created` or `updated` as seen by this client."""
        row = frame.payload["message"]
        ts = row["ts"]
        frame = replace_row_action(
            frame, is_known=ts in self._partial_row_timestamps or ts in self._rows
        )
        self._partial_row_timestamps.discard(ts)
        self.partial_frames.pop(ts, None)
        if is_transient_frame(frame):
            self._partial_row_timestamps.add(ts)
            self.partial_frames[ts] = frame
            return frame
        self._rows[ts] = row
        if row.get("say") == RowKind.API_REQ_STARTED:
            # Unfinished rows of an earlier reply will never be finished.
            self.partial_frames = {
                other: partial
                for other, partial in self.partial_frames.items()
                if other >= ts or partial.payload["message"].get("say") not in REPLY_ROW_KINDS
            }
        return frame

    def _apply_event(self, event: ev.Event) -> None:
        match event:
            case ev.AskOpened():
                self.pending = event
            case ev.AskAnswered(ask_ts=ts) | ev.AskWithdrawn(ask_ts=ts):
                if self.pending is not None and self.pending.ts == ts:
                    self.pending = None
            case ev.TaskStarted():
                self.is_running = True
            case ev.TaskPaused(child_ids=child_ids):
                self.pending_subtasks = child_ids
            case ev.TaskUnpaused():
                self.pending_subtasks = ()
            case ev.TaskFinished() | ev.TaskAborted() | ev.TaskFailed() | ev.TaskRewound():
                self.pending, self.is_running = None, False
            case ev.UsageChanged(usage=usage) | ev.TaskCompleted(usage=usage):
                self.usage = usage


def replace_row_action(frame: EventFrame, *, is_known: bool) -> EventFrame:
    """Return the frame with `updated` if its row is known, else `created`."""
    action = "updated" if is_known else "created"
    if frame.payload["action"] == action:
        return frame
    return msgspec.structs.replace(frame, payload={**frame.payload, "action": action})
