"""The UI history: rows that a user sees, in the shape of Roo's `ui_messages.json`.

The rows are folded from events. A row is identified by its `ts`, which never changes. While a reply
streams, its rows are *open*: transient events extend them, and they are shown with ``partial:
true``. The durable event that closes a row carries its whole content, so the rows on disk never
depend on anything that was not journalled. Every row gets closed: the engine adds a discarded one
as it looks then (`RowAdded`, `CallDropped`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME, CompressedList
from joey.core.messages import ReasoningPart, TextPart
from joey.core.parsing.json_stream import JsonStream
from joey.core.permissions.hosts import CommandNetwork
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Reason
from joey.core.task_types import APPROVAL_ASKS, CallEnding, RowKind, RuleScope
from joey.core.tool_calls import (
    COMMAND_TOOL_NAME,
    ToolCallSummary,
    decode_row,
    summarize_arguments,
    summarize_call_row,
)

__all__ = ["REPLY_ROW_KINDS", "RequestInfo", "Row", "RowChange", "UiHistory"]

REPLY_ROW_KINDS = frozenset({RowKind.TEXT, RowKind.REASONING, RowKind.TOOL})


class RowChange(Struct, frozen=True):
    """A row was created or updated; its content is in the history."""

    action: Literal["created", "updated"]
    ts: int


class OpenRow:
    """A row that is still growing."""

    def __init__(self, opened: ev.RowOpened) -> None:
        self.opening_event = opened
        self.text_pieces: list[str] = []
        self.arguments = JsonStream()

    def to_row(self) -> Row:
        opened = self.opening_event
        if opened.tool is None:
            return Row(
                ts=opened.ts,
                type="say",
                say=opened.say,
                text="".join(self.text_pieces),
                partial=True,
            )
        arguments = self.arguments.parse_partial()
        if opened.tool == COMPLETION_TOOL_NAME:
            result = arguments.get("result")
            return Row(
                ts=opened.ts,
                type="say",
                say=RowKind.COMPLETION_RESULT,
                tool=opened.tool,
                text=result if isinstance(result, str) else "",
                partial=True,
            )
        return _build_arguments_row(opened.ts, opened.tool, arguments, is_partial=True)


class UiHistory:
    def __init__(self) -> None:
        self._rows = RowStore()
        self._open_rows: dict[int, OpenRow] = {}

    @property
    def rows(self) -> Sequence[AnyRow]:
        """All rows that are journalled, ordered by `ts`."""
        return list(self._rows)

    @property
    def rows_with_open(self) -> Sequence[AnyRow]:
        """All rows, with those that are still growing in their current state."""
        growing = [row.to_row() for row in self._open_rows.values()]
        return sorted([*self._rows, *growing], key=get_ts)

    def iter_stored_rows(self) -> Iterator[AnyRow]:
        """Iterate over the journalled rows in their current state."""
        return iter(self._rows)

    @property
    def open_row_timestamps(self) -> Sequence[int]:
        """The `ts` of all rows that are still growing."""
        return sorted(self._open_rows)

    def find_open_row(self, ts: int) -> tuple[Row, str | None] | None:
        """Return a growing row in its current state, with the tool if it shows a call."""
        if (row := self._open_rows.get(ts)) is None:
            return None
        return row.to_row(), row.opening_event.tool

    def get_row(self, ts: int) -> AnyRow | None:
        """Return one row in its current state, open or closed."""
        if open_row := self._open_rows.get(ts):
            return open_row.to_row()
        return self._rows.get(ts)

    def apply(self, event: ev.Event) -> tuple[RowChange, ...]:
        match event:
            case ev.RowDelta() if row := self._open_rows.get(event.ts):
                row.text_pieces.append(event.delta)
                return (RowChange("updated", event.ts),)
            case ev.ArgumentsDelta() if row := self._open_rows.get(event.ts):
                row.arguments.feed(event.delta)
                return (RowChange("updated", event.ts),)
            case ev.RowOpened():
                self._open_rows[event.ts] = OpenRow(event)
                return (RowChange("created", event.ts),)
            case ev.CommandOutputDelta():
                return self._append_command_output(event)
            case ev.RetryCountdown(seconds=seconds) if seconds:
                text = f"{event.message}\n<retry_timer>{seconds}</retry_timer>"
                return self._upsert_partial_row(event.ts, RowKind.API_REQ_RETRY_DELAYED, text)
            case ev.ReplyReceived():
                return self._close_reply_rows(event)
            case ev.RequestEnded():
                return self._update_request_row(event)
            case ev.AskAnswered() | ev.AskWithdrawn():
                return self._update_ask_row(event)
            case ev.ToolFinished(row_ts=int(row_ts)):
                return self._update_row(row_ts, **get_result_fields(event))
            case ev.TaskImported():
                for imported in event.rows:
                    self._rows.put(get_ts(imported), imported)
                return tuple(RowChange("created", get_ts(imported)) for imported in event.rows)
            case ev.ContextCondensed():
                self._rows.compress_before(event.ts)
                return (self._upsert_row(build_context_or_checkpoint_row(event)),)
            case ev.TaskRewound() | ev.TaskForked():
                return self._reject_pending_asks()
            case _:
                new = (
                    _build_dropped_row(event)
                    if isinstance(event, ev.CallDropped)
                    else build_row(event)
                )
                return () if new is None else (self._upsert_row(new),)

    def _upsert_row(self, row: Row) -> RowChange:
        streamed = self._open_rows.pop(row.ts, None) is not None
        seen = self._rows.put(row.ts, row) or streamed
        return RowChange("updated" if seen else "created", row.ts)

    def _upsert_partial_row(self, ts: int, say: str, text: str) -> tuple[RowChange, ...]:
        is_new = ts not in self._open_rows
        if is_new:
            self._open_rows[ts] = OpenRow(ev.RowOpened(ts=ts, say=say))
        self._open_rows[ts].text_pieces = [text]
        return (RowChange("created" if is_new else "updated", ts),)

    def _append_command_output(self, event: ev.CommandOutputDelta) -> tuple[RowChange, ...]:
        known = self._open_rows.get(event.ts)
        if known is None:
            return self._upsert_partial_row(event.ts, RowKind.COMMAND_OUTPUT, event.output)
        known.text_pieces.append(event.output)
        return (RowChange("updated", event.ts),)

    def _update_row(self, ts: int, **fields: Any) -> tuple[RowChange, ...]:
        row = self._rows.get(ts)
        if not isinstance(row, Row):
            return ()
        self._rows.put(ts, structs.replace(row, **fields))
        return (RowChange("updated", ts),)

    def _close_reply_rows(self, event: ev.ReplyReceived) -> tuple[RowChange, ...]:
        changes: list[RowChange] = []
        for placed in event.parts:
            match placed.part:
                case TextPart(text=text) if text.strip():
                    row = build_complete_row(placed.ts, RowKind.TEXT, text)
                case ReasoningPart(text=text) if text:
                    row = build_complete_row(placed.ts, RowKind.REASONING, text)
                case _:
                    continue
            changes.append(self._upsert_row(row))
        return tuple(changes)

    def _update_request_row(self, event: ev.RequestEnded) -> tuple[RowChange, ...]:
        row = self._rows.get(event.request_ts)
        if not isinstance(row, Row) or row.text is None:
            return ()
        started, usage = msgspec.json.decode(row.text, type=RequestInfo), event.usage
        info = RequestInfo(
            api_protocol=started.api_protocol,
            tokens_in=usage.input if usage else None,
            tokens_out=usage.output if usage else None,
            cache_writes=usage.cache_writes if usage else None,
            cache_reads=usage.cache_reads if usage else None,
            cost=event.cost if event.cost is not None or event.cancel_reason else 0.0,
            cancel_reason=event.cancel_reason,
            streaming_failed_message=event.error,
        )
        return self._update_row(event.request_ts, text=encode_json(info))

    def _update_ask_row(self, event: ev.AskAnswered | ev.AskWithdrawn) -> tuple[RowChange, ...]:
        row = self._rows.get(event.ask_ts)
        if not isinstance(row, Row):
            return ()
        answer = event.answer if isinstance(event, ev.AskAnswered) else None
        state = "approved" if answer and answer.approves else "rejected"
        return self._update_row(
            event.ask_ts,
            is_answered=True if answer else None,
            approval_state=row.approval_state and state,
        )

    def _reject_pending_asks(self) -> tuple[RowChange, ...]:
        """Mark unanswered questions as closed, because the task no longer waits for them."""
        ours = [row for row in self._rows if isinstance(row, Row)]
        asked = [row.ts for row in ours if row.approval_state == "pending"]
        return tuple(
            change for ts in asked for change in self._update_row(ts, approval_state="rejected")
        )


ApprovalState = Literal["pending", "approved", "rejected"]

PARTIAL_ROW_KINDS = frozenset(
    {
        RowKind.TEXT,
        RowKind.REASONING,
        RowKind.COMPLETION_RESULT,
        RowKind.COMMAND_OUTPUT,
        RowKind.API_REQ_RETRY_DELAYED,
    }
)
"""Rows of the engine's own words that are shown while they grow."""


class CondenseInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Content of a `condense_context` row."""

    cost: float
    prev_context_tokens: int
    new_context_tokens: int
    summary: str
    condense_id: str


class TruncationInfo(Struct, frozen=True, rename="camel"):
    """Content of a `sliding_window_truncation` row."""

    truncation_id: str
    messages_removed: int
    prev_context_tokens: int
    new_context_tokens: int


class CheckpointInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Content of a `checkpoint_saved` row."""

    checkpoint_id: str = field(name="to")
    previous_checkpoint_id: str | None = field(default=None, name="from")
    suppress_message: bool = False


class Row(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A ClineMessage, with joey's additional fields for tools."""

    ts: int
    type: Literal["ask", "say"]
    ask: str | None = None
    say: str | None = None
    text: str | None = None
    images: tuple[str, ...] = ()
    partial: bool | None = None
    tool: str | None = None
    path: str | None = None
    diff: str | None = None
    approval_state: ApprovalState | None = None
    result: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    ending: CallEnding | None = None
    is_answered: bool | None = None
    is_protected: bool | None = None
    always_rule: str | None = None
    always_scopes: tuple[RuleScope, ...] = ()
    network: CommandNetwork | None = None
    rule: str | None = None
    """What allowed a call without anybody being asked."""
    reason: str | None = None
    reasons: tuple[Reason, ...] = ()
    sandbox: SandboxStatus | None = None
    """Of a command: how far the operating system holds it."""
    summary: ToolCallSummary | None = None
    """Of a call, also while it is still being written."""
    context_condense: CondenseInfo | None = None
    context_truncation: TruncationInfo | None = None
    checkpoint: CheckpointInfo | None = None
    task_id: str | None = None
    """The subtask whose result this is."""


AnyRow = Row | dict[str, Any]
"""A row of this task, or one of an imported history."""


class RequestInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The `text` of an `api_req_started` row."""

    api_protocol: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_writes: int | None = None
    cache_reads: int | None = None
    cost: float | None = None
    cancel_reason: str | None = None
    streaming_failed_message: str | None = None


def build_row(event: ev.Event) -> Row | None:
    """Build the row that an event creates by itself, if any."""
    match event:
        case ev.UserMessage():
            kind = RowKind.TEXT if event.is_first else RowKind.USER_FEEDBACK
            return _build_say_row(event.ts, kind, event.text, event.images)
        case ev.RequestStarted():
            return _build_say_row(
                event.ts, RowKind.API_REQ_STARTED, encode_json({"apiProtocol": event.api_protocol})
            )
        case ev.RowAdded(say=say) if say in PARTIAL_ROW_KINDS:
            return build_complete_row(event.ts, say, event.text)
        case ev.RowAdded(subtask_id=str(child_id)):
            row = _build_say_row(event.ts, event.say, event.text, event.images)
            return structs.replace(row, task_id=child_id)
        case ev.RowAdded():
            return _build_say_row(event.ts, event.say, event.text, event.images)
        case ev.ContextCondensed() | ev.ContextTruncated() | ev.CheckpointSaved():
            return build_context_or_checkpoint_row(event)
        case ev.ToolStarted():
            return Row(
                ts=event.ts,
                type="say",
                say=RowKind.TOOL,
                text=_format_call_text(event),
                tool=event.tool,
                path=event.path,
                diff=event.diff,
                approval_state="approved",
                rule=event.rule,
                sandbox=event.sandbox,
                summary=event.summary,
                partial=False,
            )
        case ev.AskOpened():
            return Row(
                ts=event.ts,
                type="ask",
                ask=event.ask,
                text=event.text,
                tool=event.tool,
                path=event.path,
                diff=event.diff,
                approval_state="pending" if event.ask in APPROVAL_ASKS else None,
                is_protected=event.is_protected or None,
                always_rule=event.always_rule,
                always_scopes=event.always_scopes,
                network=event.network,
                reason=event.reason,
                reasons=event.reasons,
                sandbox=event.sandbox,
                summary=event.summary,
                partial=False if event.tool is not None else None,
            )
        case _:
            return None


def _build_arguments_row(
    ts: int, tool: str, arguments: dict[str, Any], *, is_partial: bool = False
) -> Row:
    """Build the row of a call as the model wrote it: still streaming, or discarded."""
    path = arguments.get("path")
    return Row(
        ts=ts,
        type="say",
        say=RowKind.TOOL,
        tool=tool,
        path=path if isinstance(path, str) else None,
        text=encode_json({"tool": tool} | arguments | {"tool": tool}),
        summary=summarize_arguments(tool, arguments),
        partial=is_partial,
    )


def _build_dropped_row(event: ev.CallDropped) -> Row:
    if event.tool == COMPLETION_TOOL_NAME:  # a presented result names no tool
        row = build_complete_row(event.ts, RowKind.COMPLETION_RESULT, event.text)
        return structs.replace(row, tool=event.tool)
    return _build_arguments_row(event.ts, event.tool, decode_row(event.text))


def _format_call_text(event: ev.ToolStarted) -> str:
    """Format a call as JSON, also for tools whose approval is asked in plain text."""
    match event.tool:
        case name if name == COMMAND_TOOL_NAME:
            return encode_json({"tool": event.tool, "command": event.text})
        case "browser_action" if not event.text.startswith("{"):
            row = {"tool": "browserAction", "action": "launch", "url": event.text}
            return encode_json(row)
        case _:
            return event.text


def get_result_fields(event: ev.ToolFinished) -> dict[str, Any]:
    """Return the fields of a call's row that are set when it ends."""
    return {
        "result": event.content,
        "exit_code": event.exit_code,
        "signal": event.signal,
        "ending": event.ending,
    }


def build_context_or_checkpoint_row(
    event: ev.ContextCondensed | ev.ContextTruncated | ev.CheckpointSaved,
) -> Row:
    match event:
        case ev.ContextCondensed():
            condensed = CondenseInfo(
                cost=event.cost or 0.0,
                prev_context_tokens=event.tokens_before,
                new_context_tokens=event.tokens_after,
                summary=event.summary,
                condense_id=event.condense_id,
            )
            return Row(
                ts=event.ts, type="say", say=RowKind.CONDENSE_CONTEXT, context_condense=condensed
            )
        case ev.ContextTruncated():
            truncated = TruncationInfo(
                truncation_id=event.truncation_id,
                messages_removed=event.hidden_message_count,
                prev_context_tokens=event.tokens_before,
                new_context_tokens=event.tokens_after,
            )
            say = RowKind.SLIDING_WINDOW_TRUNCATION
            return Row(ts=event.ts, type="say", say=say, context_truncation=truncated)
        case ev.CheckpointSaved():
            saved = CheckpointInfo(
                checkpoint_id=event.id,
                previous_checkpoint_id=event.previous_id,
                suppress_message=event.is_own_change,
            )
            say = RowKind.CHECKPOINT_SAVED
            return Row(ts=event.ts, type="say", say=say, text=event.id, checkpoint=saved)


def get_row_summary(row: AnyRow) -> ToolCallSummary | None:
    """Summarize the call that a row shows, if any."""
    if isinstance(row, dict):
        return summarize_call_row(row)
    return row.summary or summarize_call_row(msgspec.to_builtins(row))


def add_row_summary(row: AnyRow | None) -> AnyRow | None:
    """Return the row as it is sent, with a summary, which rows of old journals and other programs
    lack."""
    if row is None or (isinstance(row, Row) and row.summary is not None):
        return row
    if (summary := get_row_summary(row)) is None:
        return row
    if isinstance(row, Row):
        return structs.replace(row, summary=summary)
    return {**row, "summary": summary}


def _build_say_row(ts: int, say: str, text: str, images: tuple[str, ...] = ()) -> Row:
    return Row(ts=ts, type="say", say=say, text=text, images=images)


def build_complete_row(ts: int, say: str, text: str) -> Row:
    """Build the row that replaces a growing row once it is complete."""
    return Row(ts=ts, type="say", say=say, text=text, partial=False)


def encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class RowStore:
    """Stores rows by `ts`; compressed ones are restored together when one of them is accessed,
    which happens only when a user looks at something old."""

    def __init__(self) -> None:
        self._uncompressed_rows: dict[int, AnyRow] = {}
        self._compressed_rows = CompressedList(Row)
        self._compressed_until_ts = 0

    def get(self, ts: int) -> AnyRow | None:
        self._ensure_uncompressed(ts)
        return self._uncompressed_rows.get(ts)

    def put(self, ts: int, row: AnyRow) -> bool:
        """Store a row; return whether there was one with this `ts`."""
        self._ensure_uncompressed(ts)
        known = ts in self._uncompressed_rows
        self._uncompressed_rows[ts] = row
        return known

    def __iter__(self) -> Iterator[AnyRow]:
        """Iterate over all rows in the order of `ts`, as they were at the start."""
        at_hand = [self._uncompressed_rows[ts] for ts in sorted(self._uncompressed_rows)]
        if not self._compressed_rows:
            return iter(at_hand)
        return heapq.merge(iter(self._compressed_rows), at_hand, key=get_ts)

    def compress_before(self, before_ts: int) -> None:
        """Compress rows older than this, which are not expected to change."""
        rows = sorted(self._uncompressed_rows.items())
        old = {ts: row for ts, row in rows if ts < before_ts and isinstance(row, Row)}
        self._compressed_rows.extend([*old.values()])
        for ts in old:
            del self._uncompressed_rows[ts]
        self._compressed_until_ts = max(self._compressed_until_ts, *old, 0)

    def _ensure_uncompressed(self, ts: int) -> None:
        if ts > self._compressed_until_ts or ts in self._uncompressed_rows:
            return
        self._uncompressed_rows |= {row.ts: row for row in self._compressed_rows}
        self._compressed_rows = CompressedList(Row)
        self._compressed_until_ts = 0


def get_ts(row: AnyRow) -> int:
    return int(row["ts"]) if isinstance(row, dict) else row.ts
