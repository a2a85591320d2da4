"""The permission audit of a journal: each call with its decision and outcome.

Everything that ever happened counts, also calls that were rewound later: the files they changed
were changed. Calls that touch nothing but their task are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    Event,
    ModeSwitched,
    Record,
    ReplyReceived,
    TaskCreated,
    TaskFinished,
    TaskImported,
    ToolFailed,
    ToolFinished,
    ToolStarted,
)
from joey.core.history.api import COMPLETION_TOOL
from joey.core.messages import CallPart, ToolCall
from joey.core.permissions.policy import SandboxStatus
from joey.core.task import APPROVAL_ASKS

CallOutcome = Literal["ran", "failed", "rejected", "refused", "unfinished"]


class AuditEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One call and what became of it."""

    ts: int
    tool: str
    about: str
    """The command line, the path, the server's tool."""
    decision: Literal["allow", "ask", "deny"]
    outcome: CallOutcome
    rule: str | None = None
    """What allowed or refused it."""
    reason: str | None = None
    by: str | None = None
    always: str | None = None
    error: str | None = None
    mode: str = ""
    path: str | None = None
    sandbox: SandboxStatus | None = None
    """Of a command: how far it was confined."""


class ReplayableEntry(Struct, frozen=True):
    """The same, with what it takes to decide about it again."""

    judged: AuditEntry
    call: ToolCall
    row: str


class _CallRecord:
    """A call while its records are read."""

    def __init__(self, call: ToolCall, mode: str) -> None:
        self.call = call
        self.mode = mode
        self.announced: ToolStarted | None = None
        self.asked: AskOpened | None = None
        self.answered: AskAnswered | None = None
        self.failed: ToolFailed | None = None
        self.finished: ToolFinished | None = None
        self.accepted = False
        """The task ended with it: it has no other end."""


def recorded(records: Iterable[Record]) -> list[ReplayableEntry]:
    """The calls of a task on which something was decided, in their order."""
    reader = _AuditFold()
    for record in records:
        reader.read(record.event)
    found = (_recorded(call) for call in reader.calls.values())
    return [each for each in found if each is not None]


class _AuditFold:
    def __init__(self) -> None:
        self.calls: dict[str, _CallRecord] = {}
        self._asks: dict[int, _CallRecord] = {}
        self._completion: _CallRecord | None = None
        self._mode = ""

    def read(self, event: Event) -> None:
        match event:
            case TaskCreated(mode=mode) | TaskImported(mode=mode) | ModeSwitched(mode=mode):
                self._mode = mode
            case ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, CallPart):
                        call = placed.part.call
                        self.calls[call.id] = _CallRecord(call, self._mode)
                        if call.name == COMPLETION_TOOL:
                            self._completion = self.calls[call.id]
            case TaskFinished() if self._completion is not None:
                self._completion.accepted = True
            case AskAnswered() if found := self._asks.pop(event.ask_ts, None):
                found.answered = event
            case AskWithdrawn():
                self._asks.pop(event.ask_ts, None)
            case ToolStarted() | AskOpened() | ToolFailed() | ToolFinished():
                if (found := self.calls.get(event.call_id or "")) is not None:
                    self._note(found, event)

    def _note(
        self, call: _CallRecord, event: ToolStarted | AskOpened | ToolFailed | ToolFinished
    ) -> None:
        match event:
            case ToolStarted():
                call.announced = event
            case AskOpened() if event.ask in APPROVAL_ASKS:
                call.asked = event
                self._asks[event.ts] = call
            case ToolFailed():
                call.failed = event
            case ToolFinished():
                call.finished = event


def _recorded(found: _CallRecord) -> ReplayableEntry | None:
    shown_event = found.asked or found.announced
    refused = found.failed is not None and found.failed.rule is not None
    if shown_event is None and not refused:
        return None
    row = shown_event.text if shown_event is not None else ""
    tool = (shown_event.tool if shown_event is not None else None) or found.call.name
    path = shown_event.path if shown_event is not None else _text(found.call.input, "path")
    answer = found.answered.answer if found.answered is not None else None
    judged = AuditEntry(
        ts=_ts(found),
        tool=tool,
        about=_about(found.call, row, path),
        decision="ask" if found.asked else "allow" if found.announced else "deny",
        outcome=_outcome(found),
        rule=_rule(found),
        sandbox=None if shown_event is None else shown_event.sandbox,
        reason=found.asked.reason if found.asked else None,
        by=answer.by if answer else None,
        always=found.asked.always_rule if found.asked and answer and answer.always else None,
        error=found.failed.error if found.failed else None,
        mode=found.mode,
        path=path,
    )
    return ReplayableEntry(judged, found.call, row)


def _ts(found: _CallRecord) -> int:
    events = (found.asked, found.announced, found.failed, found.finished)
    return next((event.ts for event in events if event is not None), 0)


def _rule(found: _CallRecord) -> str | None:
    if found.failed is not None and found.failed.rule is not None:
        return found.failed.rule
    return found.announced.rule if found.announced is not None else None


def _outcome(found: _CallRecord) -> CallOutcome:
    if found.failed is not None and found.failed.rule is not None:
        return "refused"
    if found.asked is not None and found.answered is None:
        return "unfinished"
    if found.answered is not None and not found.answered.answer.approves:
        return "rejected"
    if found.finished is None:
        return "ran" if found.accepted else "unfinished"
    return "failed" if found.finished.is_error else "ran"


def _about(call: ToolCall, row: str, path: str | None) -> str:
    if call.name == "execute_command":
        return row or _text(call.input, "command") or ""
    if path:
        return path
    try:
        facts = msgspec.json.decode(row or "{}")
    except msgspec.DecodeError:
        return row
    if not isinstance(facts, dict):
        return row
    server, tool = facts.get("serverName"), facts.get("toolName") or facts.get("uri")
    if server:
        return f"{server}/{tool}"
    known = (facts.get(key) for key in ("path", "url", "name", "mode", "task", "query", "skill"))
    return next((str(value) for value in known if value), "")


def _text(arguments: dict[str, Any], key: str) -> str | None:
    value = arguments.get(key)
    return value if isinstance(value, str) else None
