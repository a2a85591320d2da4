"""Responses of the three model APIs, decoded into text, calls as they were written, and usage.

The decoders are those of joey's own providers. An interrupted response, or an error, yields the
part before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from joey.core import messages as msg
from joey.errors import ProviderError
from joey.providers.anthropic import AnthropicStreamDecoder
from joey.providers.errors import JSON_DECODE_ERRORS, ServiceInfo
from joey.providers.openai import OpenAiStreamDecoder
from joey.providers.responses import ResponsesStreamDecoder
from joey.providers.sse import ServerSentEvent, SseReader
from joey.providers.sse_transport import StreamDecoder
from joey.proxy.exchange import Exchange, ExchangeState, find_header
from joey.proxy.request_blocks import ModelApi, reply_marks

_DECODERS: dict[ModelApi, type[StreamDecoder]] = {
    ModelApi.MESSAGES: AnthropicStreamDecoder,
    ModelApi.CHAT: OpenAiStreamDecoder,
    ModelApi.RESPONSES: ResponsesStreamDecoder,
}
_MAX_ERROR_CHARS = 500
_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


class RecordedCall(Struct, frozen=True):
    """A structured call as the model wrote it."""

    id: str
    name: str
    arguments: str


class RecordedReply(Struct, frozen=True, kw_only=True):
    text: str = ""
    reasoning: str = ""
    calls: tuple[RecordedCall, ...] = ()
    usage: msg.Usage | None = None
    stop: str | None = None
    response_id: str | None = None
    error: str = ""
    """The error the service sent instead of a reply, or in the middle of one."""
    is_complete: bool = False
    """The service said that the reply ends here."""

    @property
    def marks(self) -> frozenset[str]:
        marks = reply_marks(self.text, [call.id for call in self.calls])
        return marks | {f"response {self.response_id}"} if self.response_id else marks

    @property
    def has_content(self) -> bool:
        """Whether the model returned anything, even an empty reply."""
        return bool(self.calls or self.text.strip() or (self.is_complete and not self.error))


def decode_reply(api: ModelApi, exchange: Exchange, body: bytes) -> RecordedReply:
    if exchange.status >= 400 or not exchange.status:
        body = decompress(body, exchange.content_encoding)
        text = describe_error_body(body) if body else exchange.error
        return RecordedReply(error=text or f"HTTP {exchange.status}")
    builder = _ReplyBuilder()
    chunks = ReplyChunks(api, exchange, body)
    for chunk in chunks:
        builder.add(chunk)
    return builder.build(error=chunks.error, is_complete=chunks.is_complete)


class ReplyChunks:
    """The pieces of a reply, in order, as far as they arrived. `error` and `is_complete` are set
    after iteration."""

    def __init__(self, api: ModelApi, exchange: Exchange, body: bytes) -> None:
        self._api = api
        self._body = decompress(body, exchange.content_encoding)
        self._content_type = find_header(exchange.response_headers, "content-type")
        self._is_cut = exchange.state is not ExchangeState.DONE
        self.error = ""
        """The error the service sent in the middle of the reply, or why the reply cannot be
        read."""
        self.is_complete = False
        """The service said that the reply ends here."""

    def __iter__(self) -> Iterator[msg.Chunk]:
        decoder = _DECODERS[self._api](ServiceInfo(self._api.value, "", "", ""))
        try:
            for event in self._iter_events():
                yield from decoder.feed(event)
        except ProviderError as error:
            self.error = (error.response or str(error))[:_MAX_ERROR_CHARS]
        self.is_complete = decoder.is_answer_complete

    def _iter_events(self) -> Iterator[ServerSentEvent]:
        if "event-stream" in self._content_type or not self._body.lstrip().startswith(b"{"):
            reader = SseReader()
            yield from reader.feed(self._body)
            if not self._is_cut:  # otherwise the last event is incomplete
                yield from reader.feed(b"\n\n")
            return
        if self._api is not ModelApi.MESSAGES:
            if not self._is_cut:
                yield ServerSentEvent("", self._body)
            return
        try:
            message = msgspec.json.decode(self._body)
        except JSON_DECODE_ERRORS:
            return  # interrupted: a document cannot be read before its end
        if isinstance(message, dict):
            yield from _iter_message_events(message)


def decompress(body: bytes, encoding: str) -> bytes:
    """Decompress a body as far as possible; brotli and zstd are not supported."""
    if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    window_bits = (zlib.MAX_WBITS | 32,) if encoding.lower() != "deflate" else (15, -15)
    for bits in window_bits:
        try:
            return zlib.decompressobj(bits).decompress(body, _MAX_DECOMPRESSED_BYTES)
        except zlib.error:
            continue
    return body


def describe_error_body(body: bytes) -> str:
    """Return the message in an error's body, or the body."""
    try:
        parsed = msgspec.json.decode(body)
    except JSON_DECODE_ERRORS:
        return body.decode("utf-8", "replace")[:_MAX_ERROR_CHARS]
    match parsed:
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text[:_MAX_ERROR_CHARS]
        case _:
            return body.decode("utf-8", "replace")[:_MAX_ERROR_CHARS]


class _ReplyBuilder:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, tuple[list[str], list[str], list[str]]] = {}
        """Fragments of ids, names and arguments, by the index of the call."""
        self._usage: msg.Usage | None = None
        self._stop: str | None = None
        self._response_id: str | None = None

    def add(self, chunk: msg.Chunk) -> None:
        match chunk:
            case msg.TextChunk():
                self._texts.append(chunk.text)
            case msg.ReasoningChunk():
                self._reasoning.append(chunk.text)
            case msg.CallChunk():
                ids, names, arguments = self._calls.setdefault(chunk.index, ([], [], []))
                ids += [chunk.id] if chunk.id else []
                names += [chunk.name] if chunk.name else []
                arguments += [chunk.arguments] if chunk.arguments else []
            case msg.UsageChunk():
                self._usage = chunk.usage
            case msg.StopChunk():
                self._stop = chunk.reason or self._stop
                self._response_id = chunk.response_id or self._response_id
            case _:
                pass

    def build(self, *, error: str, is_complete: bool) -> RecordedReply:
        calls = (
            RecordedCall("".join(ids[:1]), "".join(names[:1]), "".join(arguments))
            for ids, names, arguments in self._calls.values()
        )
        return RecordedReply(
            text="".join(self._texts),
            reasoning="".join(self._reasoning),
            calls=tuple(calls),
            usage=self._usage,
            stop=self._stop,
            response_id=self._response_id,
            error=error,
            is_complete=is_complete,
        )


def _iter_message_events(message: dict[str, Any]) -> Iterator[ServerSentEvent]:
    """Convert a whole Anthropic message into the events that would have streamed it."""
    yield _build_event({"type": "message_start", "message": message})
    content = message.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        start = {"type": "content_block_start", "index": index, "content_block": block}
        yield _build_event(start)
        yield _build_event({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message.get("stop_reason")}
    yield _build_event({"type": "message_delta", "delta": delta, "usage": message.get("usage")})
    yield _build_event({"type": "message_stop"})


def _build_event(fields: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(str(fields["type"]), msgspec.json.encode(fields))
