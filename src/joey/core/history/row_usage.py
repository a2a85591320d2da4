"""What a task has used, by the rows that somebody else wrote for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.event_base import TokenUsage

_MAX_SAFE = 2**53
_Row = dict[str, Any]


class _Request(Struct, rename="camel"):
    """The text of a request's row. Old ones also hold all that was sent, which is passed over."""

    tokens_in: Any = 0
    tokens_out: Any = 0
    cache_writes: Any = 0
    cache_reads: Any = 0
    cost: Any = 0.0


_decode = msgspec.json.Decoder(_Request).decode
_NOTHING = _Request()


def usage_of_rows(rows: Iterable[_Row]) -> TokenUsage:
    """The totals of all requests and summaries."""
    sent = received = written = read = 0
    cost = 0.0
    for row in rows:
        match row.get("say"):
            case "api_req_started":
                request = _request(row)
                sent += _count(request.tokens_in)
                received += _count(request.tokens_out)
                written += _count(request.cache_writes)
                read += _count(request.cache_reads)
                cost += _cost(request.cost)
            case "condense_context":
                cost += _cost(_condensed(row).get("cost"))
    return TokenUsage(
        total_tokens_in=sent,
        total_tokens_out=received,
        total_cache_writes=written,
        total_cache_reads=read,
        total_cost=cost,
    )


def context_of_rows(rows: Sequence[_Row]) -> int:
    """How full the window was after the latest request or summary that tells."""
    for row in reversed(rows):
        tokens = 0
        match row.get("say"):
            case "api_req_started":
                request = _request(row)
                tokens = _count(request.tokens_in) + _count(request.tokens_out)
            case "condense_context":
                tokens = _count(_condensed(row).get("newContextTokens"))
        if tokens:
            return tokens
    return 0


def _request(row: _Row) -> _Request:
    text = row.get("text")
    try:
        return _decode(text) if isinstance(text, str) else _NOTHING
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _NOTHING  # rows of an interrupted save, or of a program that writes words there


def _condensed(row: _Row) -> _Row:
    told = row.get("contextCondense")
    return told if isinstance(told, dict) else {}


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < _MAX_SAFE else 0


def _cost(cost: Any) -> float:
    return float(cost) if isinstance(cost, int | float) and 0 <= cost < _MAX_SAFE else 0.0
