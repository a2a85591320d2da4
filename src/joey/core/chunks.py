"""What providers yield while a reply streams in. One vocabulary for all of them.

A provider yields these in the order of its own stream; `UsageChunk` and `StopChunk` may come at
any moment and more than once. Failures are raised as `ProviderError`, never yielded.
"""

from __future__ import annotations

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
