"""Servers behind an address: streamable HTTP, and the older streams of events (SSE).

The library's transports over a client of ours, which keeps messages to a size, sends nothing to
anywhere but the configured origin, and notices what the library hides: that a login is needed,
or that the server has forgotten the session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from msgspec import Struct

from joey.mcp.clip import LARGEST, Lines, message_of
from joey.mcp.config import ServerConfig
from joey.mcp.gate import Streams

_CONNECT = 30.0
_IDLE = 3600.0
"""Seconds without a word on a stream of events; calls have limits of their own."""
_LARGEST_SSE = 1024 * 1024 - 4096
"""The library takes no larger event on an SSE transport."""
_SLACK = 64 * 1024
_EVENTS = "text/event-stream"
_DATA = b"data: "


class Remarks(Struct):
    """What the responses of a server said beside its messages."""

    status: int = 0
    """Of the latest response that was refused."""
    on_forgotten: Callable[[], None] = lambda: None
    """The server knows the session no more."""


@asynccontextmanager
async def http_streams(
    config: ServerConfig, auth: httpx2.Auth | None, remarks: Remarks
) -> AsyncIterator[Streams]:
    entry = config.entry
    url = entry.url or ""
    limit = _LARGEST_SSE if config.transport == "sse" else LARGEST

    def make_client(
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        async def look(response: httpx2.Response) -> None:
            _look(response, remarks, limit)

        return httpx2.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            timeout=timeout or httpx2.Timeout(_CONNECT, read=_IDLE),
            auth=auth,
            event_hooks={"response": [look]},
        )

    if config.transport == "sse":
        headers = dict(entry.headers)
        async with sse_client(
            url, headers, _CONNECT, _IDLE, httpx_client_factory=make_client, auth=auth
        ) as streams:
            yield streams
        return
    async with (
        make_client(entry.headers, auth=auth) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=LARGEST + _SLACK
        ) as streams,
    ):
        yield streams


def _look(response: httpx2.Response, remarks: Remarks, limit: int) -> None:
    if response.status_code >= 400:
        remarks.status = response.status_code
        if response.status_code == 404 and MCP_SESSION_ID in response.request.headers:
            remarks.on_forgotten()
    if response.headers.get("content-encoding", "identity") != "identity":
        # It was not asked for, and a small body could unfold to any size.
        raise httpx2.DecodingError("the server compresses its answer, which is not taken")
    is_stream = response.headers.get("content-type", "").lower().startswith(_EVENTS)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    bounded = BoundedEvents if is_stream else BoundedBody
    response.stream = bounded(response.stream, limit)


class BoundedEvents(httpx2.AsyncByteStream):
    """A stream of events in which no line is longer than the limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = Lines(self._limit)
        async for data in self._inner:
            for line in lines.feed(data):
                yield await message_of(line, _DATA) + b"\n"
        yield await message_of(lines.close(), _DATA)

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedBody(BoundedEvents):
    """A body that is one message."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = Lines(self._limit)
        async for data in self._inner:
            # Outside of strings a newline means nothing in JSON, and in them it cannot stand.
            for _ in lines.feed(data.replace(b"\n", b" ")):
                pass
        yield await message_of(lines.close())
