"""A row that a person sees, in the shape of Roo's `ui_messages.json`, and what makes one."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct, field, structs

from joey.core.asks import APPROVALS
from joey.core.events import (
    AskOpened,
    Event,
    RequestStarted,
    Said,
    ToolAnnounced,
    UserSaid,
)
from joey.core.permissions.claims import Confinement
from joey.core.revisions import CheckpointSaved, ContextCondensed, ContextTruncated

Approval = Literal["pending", "approved", "rejected"]

GROWING = frozenset(
    {"text", "reasoning", "completion_result", "command_output", "api_req_retry_delayed"}
)
"""Rows of the engine's own words that are shown while they grow."""


class CondenseInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of a `condense_context` row."""

    cost: float
    prev_context_tokens: int
    new_context_tokens: int
    summary: str
    condense_id: str


class TruncationInfo(Struct, frozen=True, rename="camel"):
    """Of a `sliding_window_truncation` row."""

    truncation_id: str
    messages_removed: int
    prev_context_tokens: int
    new_context_tokens: int


class CheckpointInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of a `checkpoint_saved` row."""

    to: str
    from_: str | None = field(default=None, name="from")
    suppress_message: bool = False


class Row(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A ClineMessage, with the fields that the seed adds for tools."""

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
    approval_state: Approval | None = None
    result: str | None = None
    is_answered: bool | None = None
    is_protected: bool | None = None
    always_rule: str | None = None
    rule: str | None = None
    """What allowed a call without anybody being asked."""
    reason: str | None = None
    """Why somebody is asked."""
    sandbox: Confinement | None = None
    """Of a command: how far the operating system holds it."""
    context_condense: CondenseInfo | None = None
    context_truncation: TruncationInfo | None = None
    checkpoint: CheckpointInfo | None = None
    task_id: str | None = None
    """The subtask whose result this is."""


class RequestInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`text` of an `api_req_started` row."""

    api_protocol: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_writes: int | None = None
    cache_reads: int | None = None
    cost: float | None = None
    cancel_reason: str | None = None
    streaming_failed_message: str | None = None


def new_row(event: Event) -> Row | None:
    """The row that an event makes by itself, if it makes one."""
    match event:
        case UserSaid():
            return _say(
                event.ts, "text" if event.first else "user_feedback", event.text, event.images
            )
        case RequestStarted():
            return _say(event.ts, "api_req_started", as_json({"apiProtocol": event.api_protocol}))
        case Said(say=say) if say in GROWING:
            return streamed(event.ts, say, event.text)
        case Said(task_id=str(child_id)):
            row = _say(event.ts, event.say, event.text, event.images)
            return structs.replace(row, task_id=child_id)
        case Said():
            return _say(event.ts, event.say, event.text, event.images)
        case ContextCondensed() | ContextTruncated() | CheckpointSaved():
            return revision_row(event)
        case ToolAnnounced():
            return Row(
                ts=event.ts,
                type="say",
                say="tool",
                text=event.text,
                tool=event.tool,
                path=event.path,
                diff=event.diff,
                approval_state="approved",
                rule=event.rule,
                sandbox=event.sandbox,
                partial=False,
            )
        case AskOpened():
            return Row(
                ts=event.ts,
                type="ask",
                ask=event.ask,
                text=event.text,
                tool=event.tool,
                path=event.path,
                diff=event.diff,
                approval_state="pending" if event.ask in APPROVALS else None,
                is_protected=event.protected or None,
                always_rule=event.always,
                reason=event.reason,
                sandbox=event.sandbox,
                partial=False if event.tool is not None else None,
            )
        case _:
            return None


def revision_row(event: ContextCondensed | ContextTruncated | CheckpointSaved) -> Row:
    match event:
        case ContextCondensed():
            condensed = CondenseInfo(
                cost=event.cost or 0.0,
                prev_context_tokens=event.tokens_before,
                new_context_tokens=event.tokens_after,
                summary=event.summary,
                condense_id=event.condense_id,
            )
            return Row(ts=event.ts, type="say", say="condense_context", context_condense=condensed)
        case ContextTruncated():
            truncated = TruncationInfo(
                truncation_id=event.truncation_id,
                messages_removed=event.messages,
                prev_context_tokens=event.tokens_before,
                new_context_tokens=event.tokens_after,
            )
            say = "sliding_window_truncation"
            return Row(ts=event.ts, type="say", say=say, context_truncation=truncated)
        case CheckpointSaved():
            saved = CheckpointInfo(to=event.id, from_=event.before, suppress_message=event.own)
            say = "checkpoint_saved"
            return Row(ts=event.ts, type="say", say=say, text=event.id, checkpoint=saved)


def _say(ts: int, say: str, text: str, images: tuple[str, ...] = ()) -> Row:
    return Row(ts=ts, type="say", say=say, text=text, images=images)


def streamed(ts: int, say: str, text: str) -> Row:
    """A row that people saw grow: it says that it is whole now."""
    return Row(ts=ts, type="say", say=say, text=text, partial=False)


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
