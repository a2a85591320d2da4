"""The permission audit of a journal: each call with its decision and outcome.

Everything that ever happened counts, also calls that were rewound later: the files they changed
were changed. Calls that touch nothing but their task are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import CallPart, ToolCall
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Reason
from joey.core.task_types import APPROVAL_ASKS

CallOutcome = Literal["ran", "failed", "rejected", "refused", "unfinished"]


class AuditEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One call and what became of it."""

    ts: int
    tool: str
    subject: str = field(name="about")
    """The command line, the path, the server's tool."""
    decision: Literal["allow", "ask", "deny"]
    outcome: CallOutcome
    rule: str | None = None
    """What allowed or refused it."""
    ask_reason: str | None = field(default=None, name="reason")
    ask_reasons: tuple[Reason, ...] = field(default=(), name="reasons")
    answered_by: str | None = field(default=None, name="by")
    added_rule: str | None = field(default=None, name="always")
    error: str | None = None
    mode: str = ""
    path: str | None = None
    sandbox: SandboxStatus | None = None
    """Of a command: how far it was confined."""


class ReplayableEntry(Struct, frozen=True):
    """The same, with what it takes to decide about it again."""

    entry: AuditEntry
    call: ToolCall
    row_text: str


class _CallRecord:
    """A call while its records are read."""

    def __init__(self, call: ToolCall, mode: str) -> None:
        self.call = call
        self.mode = mode
        self.started_event: ev.ToolStarted | None = None
        self.ask_event: ev.AskOpened | None = None
        self.answer_event: ev.AskAnswered | None = None
        self.failure_event: ev.ToolFailed | None = None
        self.finish_event: ev.ToolFinished | None = None
        self.is_accepted_completion = False
        """The task ended with it: it has no other end."""


def build_audit(records: Iterable[ev.Record]) -> list[ReplayableEntry]:
    """The calls of a task on which something was decided, in their order."""
    reader = _AuditFold()
    for record in records:
        reader.apply(record.event)
    found = (_build_entry(call) for call in reader.calls.values())
    return [each for each in found if each is not None]


class _AuditFold:
    def __init__(self) -> None:
        self.calls: dict[str, _CallRecord] = {}
        self._calls_by_ask_ts: dict[int, _CallRecord] = {}
        self._completion_call: _CallRecord | None = None
        self._mode = ""

    def apply(self, event: ev.Event) -> None:
        match event:
            case (
                ev.TaskCreated(mode=mode) | ev.TaskImported(mode=mode) | ev.ModeSwitched(mode=mode)
            ):
                self._mode = mode
            case ev.ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, CallPart):
                        call = placed.part.call
                        self.calls[call.id] = _CallRecord(call, self._mode)
                        if call.name == COMPLETION_TOOL_NAME:
                            self._completion_call = self.calls[call.id]
            case ev.TaskFinished() if self._completion_call is not None:
                self._completion_call.is_accepted_completion = True
            case ev.AskAnswered() if found := self._calls_by_ask_ts.pop(event.ask_ts, None):
                found.answer_event = event
            case ev.AskWithdrawn():
                self._calls_by_ask_ts.pop(event.ask_ts, None)
            case ev.ToolStarted() | ev.AskOpened() | ev.ToolFailed() | ev.ToolFinished():
                if (found := self.calls.get(event.call_id or "")) is not None:
                    self._apply_to_call(found, event)

    def _apply_to_call(
        self,
        call: _CallRecord,
        event: ev.ToolStarted | ev.AskOpened | ev.ToolFailed | ev.ToolFinished,
    ) -> None:
        match event:
            case ev.ToolStarted():
                call.started_event = event
            case ev.AskOpened() if event.ask in APPROVAL_ASKS:
                call.ask_event = event
                self._calls_by_ask_ts[event.ts] = call
            case ev.ToolFailed():
                call.failure_event = event
            case ev.ToolFinished():
                call.finish_event = event


def _build_entry(found: _CallRecord) -> ReplayableEntry | None:
    shown_event = found.ask_event or found.started_event
    refused = found.failure_event is not None and found.failure_event.rule is not None
    if shown_event is None and not refused:
        return None
    row = shown_event.text if shown_event is not None else ""
    tool = (shown_event.tool if shown_event is not None else None) or found.call.name
    path = (
        shown_event.path
        if shown_event is not None
        else _get_text_argument(found.call.input, "path")
    )
    answer = found.answer_event.answer if found.answer_event is not None else None
    entry = AuditEntry(
        ts=_find_ts(found),
        tool=tool,
        subject=_describe_subject(found.call, row, path),
        decision="ask" if found.ask_event else "allow" if found.started_event else "deny",
        outcome=_determine_outcome(found),
        rule=_find_rule(found),
        sandbox=None if shown_event is None else shown_event.sandbox,
        ask_reason=found.ask_event.reason if found.ask_event else None,
        ask_reasons=found.ask_event.reasons if found.ask_event else (),
        answered_by=answer.by if answer else None,
        added_rule=found.ask_event.always_rule
        if found.ask_event and answer and answer.always
        else None,
        error=found.failure_event.error if found.failure_event else None,
        mode=found.mode,
        path=path,
    )
    return ReplayableEntry(entry, found.call, row)


def _find_ts(found: _CallRecord) -> int:
    events = (found.ask_event, found.started_event, found.failure_event, found.finish_event)
    return next((event.ts for event in events if event is not None), 0)


def _find_rule(found: _CallRecord) -> str | None:
    if found.failure_event is not None and found.failure_event.rule is not None:
        return found.failure_event.rule
    return found.started_event.rule if found.started_event is not None else None


def _determine_outcome(found: _CallRecord) -> CallOutcome:
    if found.failure_event is not None and found.failure_event.rule is not None:
        return "refused"
    if found.ask_event is not None and found.answer_event is None:
        return "unfinished"
    if found.answer_event is not None and not found.answer_event.answer.approves:
        return "rejected"
    if found.finish_event is None:
        return "ran" if found.is_accepted_completion else "unfinished"
    return "failed" if found.finish_event.is_error else "ran"


def _describe_subject(call: ToolCall, row: str, path: str | None) -> str:
    if call.name == "execute_command":
        return row or _get_text_argument(call.input, "command") or ""
    if path:
        return path
    try:
        row_data = msgspec.json.decode(row or "{}")
    except msgspec.DecodeError:
        return row
    if not isinstance(row_data, dict):
        return row
    server, tool = row_data.get("serverName"), row_data.get("toolName") or row_data.get("uri")
    if server:
        return f"{server}/{tool}"
    known = (row_data.get(key) for key in ("path", "url", "name", "mode", "task", "query", "skill"))
    return next((str(value) for value in known if value), "")


def _get_text_argument(arguments: dict[str, Any], key: str) -> str | None:
    value = arguments.get(key)
    return value if isinstance(value, str) else None
