"""Failures in recorded conversations: errors, interrupted replies, calls that failed.

A client's complaint about a reply arrives with the next request; it counts for the request that got
the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from joey.core.parsing.parts import is_output_limit
from joey.core.text import compile_regex, to_one_line
from joey.proxy.call_formats import list_faulty_calls, list_known_tools
from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import Exchange, ExchangeState
from joey.proxy.recordings import RecordedTurn
from joey.proxy.reply_decoder import RecordedReply
from joey.proxy.request_blocks import ModelRequestBody, list_texts

_MAX_TEXT_CHARS = 200
_COMPLAINT_RE = compile_regex(
    r"\A\s*\[ERROR\]|did not (?:call|use) (?:a|any) tool|retry with a tool use"
    r"|missing value for required parameter|without value for required parameter"
    r"|\bInputValidationError\b|no such tool (?:available|exists)|unknown tool[:\s]"
    r"|invalid tool (?:use|call|name)|model tried to call unavailable tool"
    r"|invalid (?:tool )?(?:parameters|arguments)\b|tool \S+ not found"
    r"|arguments provided to the tool are invalid|validation failed for tool|unsupported call:"
    r"|params must have required property|failed to parse (?:function )?arguments",
    re.IGNORECASE,
)
_OPENING_CHARS = 300
"""Complaints begin the client's message; further on, the same text may come from a file."""


_ENDED_STATES = {
    False: (ExchangeState.DONE,),
    True: (ExchangeState.DONE, ExchangeState.CUT_CLIENT),
}
"""Judged by whether the reply is complete: clients that have it may not wait for the end of the
body."""


class FailureKind(StrEnum):
    COMPLAINT = "complaint"
    CUT = "cut"
    HTTP = "http"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"


class Failure(Struct, frozen=True):
    session: int
    turn: int
    """The request whose reply caused the failure."""
    kind: FailureKind
    text: str


def list_reply_failures(
    turn: RecordedTurn, exchange: Exchange, request: ModelRequestBody, reply: RecordedReply
) -> Iterator[Failure]:
    def build(kind: FailureKind, text: str) -> Failure:
        return Failure(turn.session, turn.turn, kind, to_one_line(text, _MAX_TEXT_CHARS))

    if exchange.state is ExchangeState.UNREACHABLE or exchange.status >= 400:
        status = f"HTTP {exchange.status}: " if exchange.status else ""
        yield build(FailureKind.HTTP, status + (reply.error or exchange.error))
        return
    if reply.error:
        yield build(FailureKind.HTTP, reply.error)
    elif exchange.state not in _ENDED_STATES[reply.is_complete]:
        yield build(FailureKind.CUT, f"{exchange.state}: {exchange.error}".rstrip(": "))
    elif is_output_limit(reply.stop):
        yield build(FailureKind.CUT, f"output limit ({reply.stop})")
    elif not reply.is_complete:
        yield build(FailureKind.CUT, "the response ended before the reply was complete")
    for call in list_faulty_calls(request, reply, list_known_tools(request)):
        yield build(FailureKind(call.fault.value), call.text)


def find_complaint(request: ModelRequestBody) -> str | None:
    """Find the client's complaint about the latest reply."""
    messages = request.messages
    replies = [number for number, block in enumerate(messages) if block.role == "assistant"]
    for block in messages[replies[-1] + 1 :] if replies else ():
        for text in list_texts(block):
            if _COMPLAINT_RE.search(text[:_OPENING_CHARS]):
                return to_one_line(text, _MAX_TEXT_CHARS)
    return None


def find_answered_turn(turn: RecordedTurn, earlier: Sequence[RecordedTurn]) -> RecordedTurn | None:
    """Find the turn whose reply this one answers: the one that it continues, or if that got no
    reply, the turn continued by that one."""
    by_exchange = {each.exchange_id: each for each in earlier}
    found = by_exchange.get(turn.parent or 0)
    while found is not None and found.call_format is None:
        found = by_exchange.get(found.parent or 0)
    if found is None and turn.kind is RequestKind.EDITED:
        replied = [e for e in earlier if e.kind is not RequestKind.SIDE and e.call_format]
        found = replied[-1] if replied else None
    return found
