"""Anthropic's stream events as chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.chunks import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    StopChunk,
    TextChunk,
    UsageChunk,
)
from joey.core.messages import Usage
from joey.providers import errors
from joey.providers.errors import Service
from joey.providers.sse import ServerEvent


class _Delta(Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Block(Struct):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(Struct):
    id: str | None = None
    usage: _Usage | None = None


class _Event(Struct):
    type: str | None = None
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_KNOWN = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "error",
    }
)


class AnthropicStream:
    """The state of one answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._blocks: dict[int, _OpenBlock] = {}
        self._last_kind: str | None = None
        self._response_id: str | None = None
        self._fresh = self._writes = self._reads = self._output = 0
        self.is_complete = False

    @property
    def is_final(self) -> bool:
        return self.is_complete

    def feed(self, event: ServerEvent) -> Iterable[Chunk]:
        said = self._parse(event)
        if said is None:
            return ()
        match said.type:
            case "content_block_delta":
                return self._delta(said.index, said.delta) if said.delta else ()
            case "content_block_start":
                return self._start(said.index, said.content_block) if said.content_block else ()
            case "content_block_stop":
                return self._stop(said.index)
            case "message_start":
                return self._opened(said.message) if said.message else ()
            case "message_delta":
                return self._summed_up(said)
            case "message_stop":
                self.is_complete = True
                return ()
            case "error":
                raise errors.in_stream(self._service, said.error)
            case _:
                return ()

    def _parse(self, event: ServerEvent) -> _Event | None:
        """None for events that we do not know: the service may add kinds at any time."""
        try:
            return _decode(event.data)
        except msgspec.ValidationError as error:
            kind = _kind_of(event.data)
            if kind not in _KNOWN:
                return None
            raise errors.malformed(self._service, f"an odd {kind} event") from error
        except errors.NOT_JSON as error:
            if event.event == "ping":
                return None
            raise errors.malformed(self._service, "an event that is not JSON") from error

    def _delta(self, index: int, delta: _Delta) -> Iterable[Chunk]:
        match delta.type:
            case "text_delta":
                return (TextChunk(delta.text),) if delta.text else ()
            case "input_json_delta":
                if not delta.partial_json:
                    return ()
                if (block := self._blocks.get(index)) is not None:
                    block.input = None
                return (CallChunk(index, arguments=delta.partial_json),)
            case "thinking_delta":
                return (ReasoningChunk(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                if (block := self._blocks.get(index)) is not None:
                    block.signature += delta.signature or ""
                return ()
            case _:
                return ()

    def _start(self, index: int, block: _Block) -> Iterable[Chunk]:
        before, self._last_kind = self._last_kind, block.type
        self._blocks[index] = _OpenBlock(block.type, block.signature or "", block.input)
        match block.type:
            case "text":
                # Two blocks of text in a row are two paragraphs; nothing else keeps them apart.
                text = ("\n" if before == "text" else "") + (block.text or "")
                return (TextChunk(text),) if text else ()
            case "tool_use":
                return (CallChunk(index, id=block.id, name=block.name),)
            case "thinking":
                return (ReasoningChunk(block.thinking),) if block.thinking else ()
            case "redacted_thinking":
                return (ReasoningChunk(redacted=block.data or ""),)
            case _:
                return ()

    def _stop(self, index: int) -> Iterable[Chunk]:
        block = self._blocks.pop(index, None)
        if block is None:
            return ()
        if block.kind == "thinking" and block.signature:
            return (ReasoningChunk(signature=block.signature),)
        if block.kind != "tool_use":
            return ()
        if block.input:  # some gateways give the whole input at the start, and no deltas
            whole = msgspec.json.encode(block.input).decode()
            return (CallChunk(index, arguments=whole), CallEndChunk(index))
        return (CallEndChunk(index),)

    def _opened(self, message: _Message) -> Iterable[Chunk]:
        self._response_id = message.id
        return self._count(message.usage)

    def _summed_up(self, event: _Event) -> Iterable[Chunk]:
        chunks = list(self._count(event.usage))
        if event.delta is not None and event.delta.stop_reason:
            chunks.append(StopChunk(event.delta.stop_reason, self._response_id))
        return chunks

    def _count(self, usage: _Usage | None) -> Iterable[Chunk]:
        """Each figure is a total so far; one that is left out keeps its value."""
        if usage is None:
            return ()
        if usage.input_tokens is not None:
            self._fresh = usage.input_tokens
        if usage.output_tokens is not None:
            self._output = usage.output_tokens
        if usage.cache_creation_input_tokens is not None:
            self._writes = usage.cache_creation_input_tokens
        if usage.cache_read_input_tokens is not None:
            self._reads = usage.cache_read_input_tokens
        total = Usage(
            input=self._fresh + self._writes + self._reads,
            output=self._output,
            cache_writes=self._writes,
            cache_reads=self._reads,
        )
        return (UsageChunk(total),)


def _kind_of(data: bytes) -> str:
    try:
        body = msgspec.json.decode(data)
    except errors.NOT_JSON:
        return "error"  # not even JSON behind what was wrong first: never to be passed over
    kind = body.get("type") if isinstance(body, dict) else None
    return kind if isinstance(kind, str) else ""


class _OpenBlock(Struct):
    """A content block between its start and its stop."""

    kind: str | None
    signature: str
    input: Any
