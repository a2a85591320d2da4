"""Between a transport and the library's session: what passes, and the moment it is over.

The library starts a task for everything that a server sends, however much that is. What joey has
no use for (logs, news about resources) ends here, and a server that asks more and more without
hearing the answers is let go. It also checks every part of an answer, and keeps a long note for
each that is wrong: answers of very many parts end here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import anyio
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

Streams: TypeAlias = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]

MOST_OPEN = 64
"""Questions of a server that may wait for an answer."""
MOST_PARTS = 20_000
"""Lists, objects and their members in an answer, without what is passed on as it is."""
_AS_IT_IS = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta"})
_TOO_MANY = -32011
_PASSING = frozenset(
    {
        "notifications/cancelled",
        "notifications/progress",
        "notifications/resources/list_changed",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)


class Gate:
    """A pair of streams around another one."""

    def __init__(self, streams: Streams, on_end: Callable[[str], None]) -> None:
        """`on_end` is called once, with why it is over."""
        self.read = GateReader(streams[0], self)
        self.write = GateWriter(streams[1], self)
        self._on_end = on_end
        self._open = 0

    def admits(self, message: object) -> bool:
        """Raises EOFError when this server has to go."""
        match message:
            case JSONRPCNotification(method=method):
                return method in _PASSING
            case JSONRPCRequest():
                self._open += 1
                if self._open > MOST_OPEN:
                    self.end("it asks faster than it takes answers")
                    raise EOFError
        return True

    def answered(self, message: object) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._open -= 1

    def end(self, reason: str) -> None:
        on_end, self._on_end = self._on_end, _ignore
        on_end(reason)


class GateReader:
    def __init__(self, inner: ReadStream[SessionMessage | Exception], gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    @property
    def last_context(self) -> Any:
        """The library asks for it, to follow requests through."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.receive()
            if isinstance(item, Exception):
                continue
            if self._gate.admits(item.message):
                return SessionMessage(_bounded(item.message), item.metadata)
            # Nothing else in this loop waits when messages pour in.
            await asyncio.sleep(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, EOFError):
            self._gate.end("the connection was closed")
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class GateWriter:
    def __init__(self, inner: WriteStream[SessionMessage], gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def send(self, item: SessionMessage) -> None:
        await self._inner.send(item)
        self._gate.answered(item.message)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _bounded(message: JSONRPCMessage) -> JSONRPCMessage:
    if not isinstance(message, JSONRPCResponse) or _has_few_parts(message.result):
        return message
    said = f"The answer was left out: it had more than {MOST_PARTS:,} parts."
    error = ErrorData(code=_TOO_MANY, message=said)
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)


def _has_few_parts(value: dict[str, Any]) -> bool:
    left = MOST_PARTS
    waiting: list[Any] = [value]
    while waiting and left > 0:
        match waiting.pop():
            case dict(members):
                left -= len(members)
                waiting += (part for name, part in members.items() if name not in _AS_IT_IS)
            case list(members):
                left -= len(members)
                if left > 0:
                    waiting += members
    return left > 0


def _ignore(_: str) -> None: ...
