"""Limits on the messages of an MCP server: their size, their parts, their number.

The library starts a task for every message of a server, without a limit. Messages that joey does
not need (logs, resource updates) are dropped here, and a server that keeps sending requests without
reading the answers is disconnected. The library also validates every part of an answer, and keeps a
long note about each invalid one: answers with too many parts are rejected here too.

A server may answer with a line of any length. Bytes beyond the limit are read and discarded; the
others become a shorter valid message that answers the same request and says that it was truncated.
So memory is bounded, and the model still gets the beginning.

Imports the MCP library at the top; only `session` and `transports` import it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeAlias, TypeVar

import anyio
import msgspec
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from msgspec import Struct

from joey.core.parsing.json_stream import JsonScanner

MessageStreams: TypeAlias = tuple[
    ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]
]

MAX_OPEN_REQUESTS = 64
"""Questions of a server that may wait for an answer."""
MAX_RESULT_PARTS = 20_000
"""Lists, objects and their members in an answer, without what is passed on as it is."""
_UNCOUNTED_KEYS = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta"})
_TOO_MANY_PARTS_CODE = -32011
_ALLOWED_NOTIFICATIONS = frozenset(
    {
        "notifications/cancelled",
        "notifications/progress",
        "notifications/resources/list_changed",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)


class MessageLimiter:
    """A pair of streams around another pair."""

    def __init__(self, streams: MessageStreams, on_end: Callable[[str], None]) -> None:
        """`on_end` is called once with the reason of the end."""
        self.reader = LimitedReader(streams[0], self)
        self.writer = LimitedWriter(streams[1], self)
        self._on_end = on_end
        self._open_request_count = 0

    def admit_message(self, message: object) -> bool:
        """Check a message. Raises EOFError if this server must be disconnected."""
        match message:
            case JSONRPCNotification(method=method):
                return method in _ALLOWED_NOTIFICATIONS
            case JSONRPCRequest():
                self._open_request_count += 1
                if self._open_request_count > MAX_OPEN_REQUESTS:
                    self.report_end("it sends requests faster than it reads responses")
                    raise EOFError
        return True

    def record_response(self, message: object) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._open_request_count -= 1

    def report_end(self, reason: str) -> None:
        on_end, self._on_end = self._on_end, _ignore_end
        on_end(reason)


StreamT = TypeVar(
    "StreamT", bound=ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]
)


class LimitedStream(Generic[StreamT]):
    def __init__(self, inner: StreamT, limiter: MessageLimiter) -> None:
        self._inner = inner
        self._limiter = limiter

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class LimitedReader(LimitedStream[ReadStream[SessionMessage | Exception]]):
    @property
    def last_context(self) -> Any:
        """The context that the library uses to track requests."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.receive()
            if isinstance(item, Exception):
                continue
            if self._limiter.admit_message(item.message):
                return SessionMessage(_replace_oversized_result(item.message), item.metadata)
            # Yield to the event loop when many messages arrive.
            await asyncio.sleep(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, EOFError):
            self._limiter.report_end("the connection was closed")
            raise StopAsyncIteration from None


class LimitedWriter(LimitedStream[WriteStream[SessionMessage]]):
    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        self._limiter.record_response(item.message)


def _replace_oversized_result(message: JSONRPCMessage) -> JSONRPCMessage:
    if not isinstance(message, JSONRPCResponse) or _is_within_part_limit(message.result):
        return message
    note = f"The answer was left out: it had more than {MAX_RESULT_PARTS:,} parts."
    error = ErrorData(code=_TOO_MANY_PARTS_CODE, message=note)
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)


def _is_within_part_limit(value: dict[str, Any]) -> bool:
    remaining = MAX_RESULT_PARTS
    waiting: list[Any] = [value]
    while waiting and remaining > 0:
        match waiting.pop():
            case dict(members):
                remaining -= len(members)
                waiting += (part for name, part in members.items() if name not in _UNCOUNTED_KEYS)
            case list(members):
                remaining -= len(members)
                if remaining > 0:
                    waiting += members
    return remaining > 0


def _ignore_end(_: str) -> None: ...


MAX_MESSAGE_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 4096
"""Some put the id last."""
_MESSAGE_ID_RE = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*[,}]')
_MESSAGE_TOO_LONG_CODE = -32010


class TruncatedLine(Struct, frozen=True):
    """A line that was truncated."""

    head: bytes
    tail: bytes
    full_size: int


class BoundedLineSplitter:
    """Bytes in, complete lines out, none longer than the limit."""

    def __init__(self, max_line_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._head = bytearray()
        self._tail = b""
        self._line_size = 0
        """Of the line that is being read."""

    def feed(self, data: bytes) -> Iterator[bytes | TruncatedLine]:
        """Add bytes and return complete lines without their newlines."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._append(piece)
            yield self.flush()
        self._append(rest)

    def _append(self, piece: bytes) -> None:
        self._line_size += len(piece)
        capacity = self._max_line_bytes - len(self._head)
        self._head += piece[:capacity]
        if len(piece) > capacity:
            self._tail = (self._tail + piece[capacity:][-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def flush(self) -> bytes | TruncatedLine:
        """Return the incomplete line read so far."""
        line, size, tail = bytes(self._head), self._line_size, self._tail
        self._head, self._tail, self._line_size = bytearray(), b"", 0
        return line if size <= self._max_line_bytes else TruncatedLine(line, tail, size)


async def to_bounded_message(line: bytes | TruncatedLine, prefix: bytes = b"") -> bytes:
    """Return the line, or the shorter message that replaces it; empty if no request waits for it.
    `prefix` precedes a message in its line (`data: ` in an event stream)."""
    if isinstance(line, bytes):
        return line
    # Parsing ten megabytes takes a while, and must not block the event loop.
    head = line.head.removeprefix(prefix)
    message = await asyncio.to_thread(build_truncated_message, head, line.tail, line.full_size)
    return b"" if message is None else prefix + message


def build_truncated_message(head: bytes, tail: bytes, size: int) -> bytes | None:
    """Build a message that replaces one of `size` bytes; None if no request waits for it."""
    scanner = JsonScanner()
    scanner.feed(head.decode("utf-8", "ignore"))
    message = scanner.build_snapshot()
    if "method" in message:
        return None
    if "id" not in message:
        found = _MESSAGE_ID_RE.findall(tail)
        if not found:
            return None
        message["id"] = msgspec.json.decode(found[-1])
    note = f"The answer was cut: it had {size:,} bytes, and at most {len(head):,} are taken."
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    result = _truncate_result(message.get("result"), note)
    error = {"code": _MESSAGE_TOO_LONG_CODE, "message": note}
    return msgspec.json.encode(
        answer | ({"error": error} if result is None else {"result": result})
    )


def _truncate_result(result: Any, note: str) -> dict[str, Any] | None:
    """Return a truncated result of a tool or a resource; other messages cannot be truncated."""
    match result:
        case {"content": list(items)}:
            texts = [item for item in items if _has_text(item) and item.get("type") == "text"]
            content = [*texts, {"type": "text", "text": f"[{note}]"}]
            return {"content": content, "isError": result.get("isError") is True}
        case {"contents": list(items)}:
            texts = [item for item in items if _has_text(item) and isinstance(item.get("uri"), str)]
            if texts:
                texts.append({"uri": texts[-1]["uri"], "text": f"[{note}]"})
                return {"contents": texts}
    return None


def _has_text(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("text"), str)
