"""The event decoder: frames of a server, repeats dropped, turned back into events of the engine.

A frame shows a row as it is now; an event says what happened to it. The event is the difference to
the row as it was before. What the protocol does not carry is filled in: a call is named after its
row (`row_<ts>`), each part of a reply is a `ReplyReceived` of its own, and an event without a row
has the `ts` of the latest one.

`TaskMirror` mirrors a remote task across lost connections. The `seq` of a frame says that
everything up to that record has been sent, so after a loss the client asks for what follows the
last one it saw. A record may be sent in several frames; those that arrived before the loss come
again, and are recognized by their content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    CheckpointSaved,
    CommandOutputDelta,
    ContextCondensed,
    ContextTruncated,
    Event,
    MessageQueued,
    MessageUnqueued,
    ModeSwitched,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    RowPart,
    SubtaskSpawned,
    TaskAborted,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskFinished,
    TaskPaused,
    TaskRewound,
    TaskStarted,
    TaskUnpaused,
    TodosChanged,
    TokenUsage,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    ToolTally,
    UsageChanged,
    UserMessage,
)
from joey.core.history.ui import REPLY_ROW_KINDS, RequestInfo
from joey.core.messages import ReasoningPart, TextPart, Usage
from joey.core.models import ToolProtocol
from joey.core.task import Answer, AskKind, Response, Todo
from joey.core.wire.frames import EventFrame

RowData = Mapping[str, Any]


class EventDecoder:
    def __init__(self, rows: Iterable[RowData] = ()) -> None:
        """`rows` are known already: only what happens to them later is news."""
        self._rows: dict[int, RowData] = {row["ts"]: row for row in rows}
        self._queue: dict[str, Any] = {}
        self._result = ""
        self._asked: int | None = None
        """The question that has no answer yet."""
        self._ts = max(self._rows, default=0)

    def feed(self, frame: EventFrame) -> list[Event]:
        """What has happened, according to this frame."""
        if frame.event_name == "message":
            return self.feed_row(frame.payload["message"])
        if frame.event_name == "taskRewound":
            return [self._rewound(frame.payload)]
        if frame.event_name == "queuedMessagesUpdated":
            return list(self._queued(frame.payload["queue"]))
        event = self._event(frame.event_name, frame.task_id or "", frame.payload)
        return [] if event is None else [event]

    def _rewound(self, payload: Mapping[str, Any]) -> Event:
        """To which record it went is not told; the rows that came back follow as news."""
        for ts in payload["removed"]:
            self._rows.pop(ts, None)
        self._asked = None
        return TaskRewound(ts=self._ts, to_seq=0, last_row_ts=payload["messageTs"])

    def feed_row(self, row: RowData) -> list[Event]:
        """What has happened to this row since it was last seen."""
        ts = row["ts"]
        before = self._rows.get(ts, {})
        self._rows[ts] = row
        self._ts = max(self._ts, ts)
        if row["type"] == "ask":
            if before.get("type") != "ask":
                self._asked = ts
            return list(_asked(row, before))
        match row.get("say"):
            case "text" if "partial" not in row:
                return [] if before else [_user_said(row, first=True)]
            case "user_feedback":
                return [] if before else [_user_said(row, first=False)]
            case "text" | "reasoning":
                return list(_replied(row, before))
            case "tool":
                return list(_called(row, before))
            case "command_output":
                return list(_output(row, before))
            case "api_req_started":
                return list(_requested(row, before))
            case "condense_context" | "sliding_window_truncation":
                return list(_reduced(row, before))
            case "checkpoint_saved":
                return [] if before else [_saved(row)]
            case _:
                return list(self._said(row, before))

    def _said(self, row: RowData, before: RowData) -> Iterator[Event]:
        if row.get("partial"):
            return
        text, say = row.get("text", ""), str(row.get("say"))
        if not before or before.get("partial") or before.get("say") != say:
            if say == "completion_result":
                self._result = text
            images = tuple(row.get("images", ()))
            yield RowAdded(ts=row["ts"], say=say, text=text, images=images)
        yield from _finished(row, before)

    def _queued(self, queue: list[dict[str, Any]]) -> Iterator[Event]:
        now = {item["id"]: item for item in queue}
        for id in self._queue.keys() - now.keys():
            yield MessageUnqueued(ts=self._ts, id=id)
        for id, item in now.items():
            if id not in self._queue:
                images = tuple(item.get("images", ()))
                ts = item.get("timestamp", self._ts)
                yield MessageQueued(ts=ts, id=id, text=item.get("text", ""), images=images)
        self._queue = now

    def _event(self, name: str, task_id: str, payload: Mapping[str, Any]) -> Event | None:
        ts = self._ts
        match name:
            case "taskCreated":
                return _created(ts, task_id, payload)
            case "taskStarted":
                return TaskStarted(ts=ts)
            case "taskCompleted":
                return TaskCompleted(
                    ts=ts,
                    result=self._result,
                    usage=_usage(payload),
                    tool_usage=msgspec.convert(payload["toolUsage"], dict[str, ToolTally]),
                )
            case "taskFinished":
                return TaskFinished(ts=ts)
            case "taskAborted":
                return TaskAborted(ts=ts, reason=payload["reason"])
            case "taskFailed":
                return TaskFailed(ts=ts, code=payload["code"], message=payload["message"])
            case "taskAskResponded":
                self._asked = None
                return _answered(ts, payload)
            case "taskActive" if self._asked is not None:
                withdrawn, self._asked = self._asked, None
                return AskWithdrawn(ts=ts, ask_ts=withdrawn)
            case "taskTokenUsageUpdated":
                return UsageChanged(ts=ts, usage=_usage(payload))
            case "taskModeSwitched":
                return ModeSwitched(ts=ts, mode=payload["modeSlug"])
            case "taskToolFailed":
                return ToolFailed(ts=ts, tool=payload["toolName"], error=str(payload["error"]))
            case "todosUpdated":
                todos = msgspec.convert(payload["todos"], tuple[Todo, ...])
                return TodosChanged(ts=ts, todos=todos)
            case "countdown":
                return RetryCountdown(
                    ts=ts,
                    seconds=payload["seconds"],
                    message=payload["message"],
                    attempt=payload.get("attempt", 1),
                )
            case _:
                return _of_subtasks(ts, name, payload)


def _of_subtasks(ts: int, name: str, payload: Mapping[str, Any]) -> Event | None:
    match name:
        case "taskSpawned":
            return SubtaskSpawned(ts=ts, child_id=payload["childTaskId"])
        case "taskPaused":
            return TaskPaused(ts=ts, child_ids=tuple(payload.get("childTaskIds", ())))
        case "taskUnpaused":
            return TaskUnpaused(ts=ts)
        case _:
            return None


def _created(ts: int, task_id: str, payload: Mapping[str, Any]) -> TaskCreated:
    return TaskCreated(
        ts=ts,
        task_id=task_id,
        workspace=payload.get("workspace", ""),
        mode=payload.get("mode", ""),
        protocol=ToolProtocol(payload.get("protocol") or ToolProtocol.NATIVE),
        profile=payload.get("profile", "default"),
        model=payload.get("model", ""),
        parent_id=payload.get("parentId"),
    )


def _usage(payload: Mapping[str, Any]) -> TokenUsage:
    return msgspec.convert(payload["usage"], TokenUsage)


def _answered(ts: int, payload: Mapping[str, Any]) -> AskAnswered:
    answer = Answer(Response(payload["response"]), by=payload["by"])
    return AskAnswered(ts=ts, ask_ts=payload["askTs"], answer=answer)


def _saved(row: RowData) -> CheckpointSaved:
    facts = row.get("checkpoint") or {}
    own = bool(facts.get("suppressMessage"))
    return CheckpointSaved(
        ts=row["ts"], id=row.get("text", ""), previous_id=facts.get("from"), is_own_change=own
    )


def _user_said(row: RowData, *, first: bool) -> UserMessage:
    images = tuple(row.get("images", ()))
    return UserMessage(ts=row["ts"], text=row.get("text", ""), images=images, is_first=first)


def _reduced(row: RowData, before: RowData) -> Iterator[Event]:
    """The row says how much was hidden; what the model is shown instead does not travel."""
    ts = row["ts"]
    if row.get("partial"):
        if not before:
            yield RowOpened(ts=ts, say=str(row["say"]))
    elif info := row.get("contextCondense"):
        yield ContextCondensed(
            ts=ts,
            condense_id=info["condenseId"],
            summary=info["summary"],
            content=(),
            tokens_before=info["prevContextTokens"],
            tokens_after=info["newContextTokens"],
            cost=info["cost"],
        )
    elif info := row.get("contextTruncation"):
        yield ContextTruncated(
            ts=ts,
            truncation_id=info["truncationId"],
            hidden_message_count=info["messagesRemoved"],
            tokens_before=info["prevContextTokens"],
            tokens_after=info["newContextTokens"],
        )


def _asked(row: RowData, before: RowData) -> Iterator[Event]:
    if before.get("type") != "ask":
        yield ask_of(row)
    yield from _finished(row, before)


def ask_of(row: RowData) -> AskOpened:
    """The question that a row puts."""
    return AskOpened(
        ts=row["ts"],
        ask=AskKind(row["ask"]),
        text=row.get("text", ""),
        tool=row.get("tool"),
        path=row.get("path"),
        diff=row.get("diff"),
        is_protected=bool(row.get("isProtected")),
        always_rule=row.get("alwaysRule"),
        reason=row.get("reason"),
        sandbox=row.get("sandbox"),
        call_id=_call_id(row) if row.get("tool") else None,
    )


def _replied(row: RowData, before: RowData) -> Iterator[Event]:
    ts, say, text = row["ts"], row["say"], row.get("text", "")
    if before and not before.get("partial"):
        return
    if row.get("partial") and not before:
        yield RowOpened(ts=ts, say=say)
    if (before or row.get("partial")) and (delta := _growth(row, before)):
        yield RowDelta(ts=ts, delta=delta)
    if not row.get("partial"):
        part = TextPart(text) if say == "text" else ReasoningPart(text)
        yield ReplyReceived(ts=ts, parts=(RowPart(ts, part),))


def _called(row: RowData, before: RowData) -> Iterator[Event]:
    tool = row.get("tool", "")
    if row.get("partial"):
        if not before:
            yield RowOpened(ts=row["ts"], say="tool", tool=tool, call_id=_call_id(row))
        return
    if not before or before.get("partial"):
        yield ToolStarted(
            ts=row["ts"],
            call_id=_call_id(row),
            tool=tool,
            text=row.get("text", ""),
            path=row.get("path"),
            diff=row.get("diff"),
            rule=row.get("rule"),
            sandbox=row.get("sandbox"),
        )
    yield from _finished(row, before)


def _finished(row: RowData, before: RowData) -> Iterator[Event]:
    if "result" in row and "result" not in before:
        yield ToolFinished(
            ts=row["ts"],
            call_id=_call_id(row),
            tool=row.get("tool", ""),
            content=row["result"],
            row_ts=row["ts"],
        )


def _output(row: RowData, before: RowData) -> Iterator[Event]:
    if before and not before.get("partial"):
        return
    if (before or row.get("partial")) and (delta := _growth(row, before)):
        yield CommandOutputDelta(ts=row["ts"], output=delta)
    if not row.get("partial"):
        yield RowAdded(ts=row["ts"], say="command_output", text=row.get("text", ""))


def _requested(row: RowData, before: RowData) -> Iterator[Event]:
    info = msgspec.json.decode(row.get("text") or "{}", type=RequestInfo)
    if not before:
        yield RequestStarted(ts=row["ts"], api_protocol=info.api_protocol or "")
    if not _is_over(info) or row.get("text") == before.get("text"):
        return
    usage = None
    if info.tokens_in is not None or info.tokens_out is not None:
        usage = Usage(
            input=info.tokens_in or 0,
            output=info.tokens_out or 0,
            cache_writes=info.cache_writes or 0,
            cache_reads=info.cache_reads or 0,
        )
    yield RequestEnded(
        ts=row["ts"],
        request_ts=row["ts"],
        usage=usage,
        cost=info.cost,
        cancel_reason=info.cancel_reason,
        error=info.streaming_failed_message,
    )


def _is_over(info: RequestInfo) -> bool:
    return info.cost is not None or info.cancel_reason is not None


def _growth(row: RowData, before: RowData) -> str:
    """What was added since; nothing when the text was rewritten."""
    old, new = before.get("text", ""), row.get("text", "")
    return new[len(old) :] if new.startswith(old) else ""


def _call_id(row: RowData) -> str:
    return f"row_{row['ts']}"


END_EVENT_NAMES = frozenset({"taskFinished", "taskAborted", "taskFailed"})
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


class TaskMirror:
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
        self.runs = False
        self._rows: dict[int, RowData] = {row["ts"]: row for row in self.first_rows}
        self._open: set[int] = set()
        self._seen_contents: set[bytes] = set()
        """What came with this `seq`: perhaps the beginning of the next record already."""
        self._reader = EventDecoder(self._rows.values())

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
            self._seen_contents.clear()
            self.seq = frame.seq
        if not is_passing(frame):
            content = _content(frame)
            if content in self._seen_contents:
                return None
            self._seen_contents.add(content)
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
        if frame.event_name in END_EVENT_NAMES:
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
            if ts < request_ts and frame.payload["message"].get("say") in REPLY_ROW_KINDS:
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
