"""What providers yield while a reply streams in. One vocabulary for all of them.

A provider yields these in the order of its own stream; `UsageChunk` and `StopChunk` may come at
any moment and more than once. Failures are raised as `ProviderError`, never yielded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from joey.core.messages import Usage


class TextChunk(Struct, frozen=True, tag="text"):
    text: str


class ReasoningChunk(Struct, frozen=True, omit_defaults=True, tag="reasoning"):
    text: str = ""
    signature: str | None = None
    """Seals the reasoning so far (Anthropic)."""
    redacted: str | None = None
    """A whole redacted thinking block."""
    details: tuple[Any, ...] = ()
    """Provider items to keep beside the text (OpenRouter's `reasoning_details`)."""


class CallChunk(Struct, frozen=True, omit_defaults=True, tag="tool_call_partial"):
    """A piece of a call: `arguments` is a delta. Any of the fields may come late or never."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class CallEndChunk(Struct, frozen=True, tag="tool_call_end"):
    """The provider says that no more arguments follow for this index."""

    index: int


class UsageChunk(Struct, frozen=True, tag="usage"):
    """Totals so far: each one replaces the one before."""

    usage: Usage


class StopChunk(Struct, frozen=True, omit_defaults=True, tag="stop"):
    reason: str | None = None
    """As the provider words it: `end_turn`, `tool_use`, `max_tokens`, `stop`, `length`…"""
    response_id: str | None = None


Chunk = TextChunk | ReasoningChunk | CallChunk | CallEndChunk | UsageChunk | StopChunk


def joined(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Neighbouring pieces of the same text or call as one: for what came together anyway.

    When there is an error, what came before it comes first."""
    last: object = None
    pieces: list[str] = []
    try:
        for chunk in chunks:
            this, piece = _piece(chunk)
            if pieces and this != last:
                yield _whole(last, pieces)
                pieces = []
            if this is None:
                yield chunk
            else:
                pieces.append(piece)
            last = this
    except Exception:
        if pieces:
            yield _whole(last, pieces)
        raise
    if pieces:
        yield _whole(last, pieces)


def _piece(chunk: Chunk) -> tuple[object, str]:
    """What it is a piece of, and the piece; None where it is more than a piece."""
    match chunk:
        case CallChunk(index, None, None, str(arguments)) if arguments:
            return index, arguments
        case TextChunk(text):
            return TextChunk, text
        case ReasoningChunk(text, None, None, ()):
            return ReasoningChunk, text
        case _:
            return None, ""


def _whole(of: object, pieces: list[str]) -> Chunk:
    text = "".join(pieces)
    if isinstance(of, int):
        return CallChunk(of, arguments=text)
    return TextChunk(text) if of is TextChunk else ReasoningChunk(text)
