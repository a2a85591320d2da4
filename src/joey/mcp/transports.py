"""Transports to MCP servers: standard input and output, streamable HTTP, SSE.

Stdio: one JSON message per line. The library's own transport is not used because it reads lines of
any length and passes on more of the environment.

HTTP: the library's transports over a custom client, which limits the size of messages, only sends
to the configured origin, and detects what the library hides: that a login is needed, or that the
server has lost the session.

Imports the MCP library at the top; only `session` imports it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, jsonrpc_message_adapter
from msgspec import Struct

from joey.mcp.config import ServerConfig, ServerEntry
from joey.mcp.message_limits import (
    MAX_MESSAGE_BYTES,
    BoundedLineSplitter,
    MessageStreams,
    to_bounded_message,
)
from joey.mcp.process import StderrTail, launch_server
from joey.system.subprocess import STDERR, STDIN, Process

_FLUSH_TIMEOUT_S = 0.5
_EXIT_GRACE_S = 0.5
"""To leave by itself once its input has ended."""
_TERMINATE_GRACE_S = 1.0


@asynccontextmanager
async def open_stdio_streams(
    entry: ServerEntry, workspace: Path, environment: Mapping[str, str], stderr_tail: StderrTail
) -> AsyncIterator[MessageStreams]:
    """Start a server; on exit, it and all its child processes have ended. Raises LaunchError."""
    process = launch_server(entry, workspace, environment)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_read_messages(process, incoming))
    writing = asyncio.create_task(_write_messages(process, outgoing, incoming))
    process.relay(STDERR, stderr_tail.feed)
    try:
        yield read, write
    finally:
        try:
            write.close()
            await asyncio.wait([writing], timeout=_FLUSH_TIMEOUT_S)
            process.close_pipe(STDIN)
            stderr_tail.exit_code = await process.wait(_EXIT_GRACE_S)
            if stderr_tail.exit_code is None:
                await process.end(grace_s=_TERMINATE_GRACE_S)
        finally:
            # Also after a second cancellation.
            try:
                await process.end()
            finally:
                for job in (reading, writing):
                    job.cancel()
                await asyncio.gather(reading, writing, return_exceptions=True)
                for stream in (incoming, read, write, outgoing):
                    stream.close()


async def _read_messages(
    process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    lines = BoundedLineSplitter()
    with incoming:
        while data := await process.read():
            for line in lines.feed(data):
                text = await to_bounded_message(line)
                if not text.lstrip().startswith(b"{"):
                    continue  # Some print greetings or logs where only messages belong.
                message = _parse_message(text)
                if message is None:
                    continue
                try:
                    await incoming.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


def _parse_message(text: bytes) -> JSONRPCMessage | None:
    """Parse a message; None if it is not one. Incomplete or invalid UTF-8 is replaced."""
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        pass
    try:
        value = json.loads(text.decode("utf-8", "replace"))
        repaired = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return jsonrpc_message_adapter.validate_json(
            repaired.decode("utf-16", "replace"), by_name=False
        )
    except (ValueError, RecursionError):
        return None


async def _write_messages(
    process: Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await process.write(text.encode() + b"\n")
            except OSError:
                incoming.close()  # It no longer listens, so no answer can arrive.
                return


_CONNECT_TIMEOUT_S = 30.0
_IDLE_TIMEOUT_S = 3600.0
"""Without a word on a stream of events; calls have limits of their own."""
_MAX_SSE_MESSAGE_BYTES = 1024 * 1024 - 4096
"""The library takes no larger event on an SSE transport."""
_SSE_OVERHEAD_BYTES = 64 * 1024
_SSE_CONTENT_TYPE = "text/event-stream"
_SSE_DATA_PREFIX = b"data: "


class HttpState(Struct):
    """Facts from a server's responses other than messages."""

    error_status: int = 0
    """Of the latest response that was refused."""
    on_session_lost: Callable[[], None] = lambda: None
    """The server knows the session no more."""


@asynccontextmanager
async def open_http_streams(
    config: ServerConfig, auth: httpx2.Auth | None, http_state: HttpState
) -> AsyncIterator[MessageStreams]:
    entry = config.entry
    url = entry.url or ""
    limit = _MAX_SSE_MESSAGE_BYTES if config.transport == "sse" else MAX_MESSAGE_BYTES

    def make_client(
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        async def inspect(response: httpx2.Response) -> None:
            _inspect_and_bound_response(response, http_state, limit)

        return httpx2.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            timeout=timeout or httpx2.Timeout(_CONNECT_TIMEOUT_S, read=_IDLE_TIMEOUT_S),
            auth=auth,
            event_hooks={"response": [inspect]},
        )

    if config.transport == "sse":
        headers = dict(entry.headers)
        async with sse_client(
            url,
            headers,
            _CONNECT_TIMEOUT_S,
            _IDLE_TIMEOUT_S,
            httpx_client_factory=make_client,
            auth=auth,
        ) as streams:
            yield streams
        return
    async with (
        make_client(entry.headers, auth=auth) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES + _SSE_OVERHEAD_BYTES
        ) as streams,
    ):
        yield streams


def _inspect_and_bound_response(
    response: httpx2.Response, http_state: HttpState, limit: int
) -> None:
    if response.status_code >= 400:
        http_state.error_status = response.status_code
        if response.status_code == 404 and MCP_SESSION_ID in response.request.headers:
            http_state.on_session_lost()
    if response.headers.get("content-encoding", "identity") != "identity":
        # It was not requested, and a small body could expand to any size.
        raise httpx2.DecodingError("the server compresses its answer, which is not supported")
    is_stream = response.headers.get("content-type", "").lower().startswith(_SSE_CONTENT_TYPE)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    bounded = BoundedEventStream if is_stream else BoundedJsonBody
    response.stream = bounded(response.stream, limit)


class BoundedEventStream(httpx2.AsyncByteStream):
    """An event stream in which no line is longer than the limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_line_bytes: int) -> None:
        self._inner = inner
        self._max_line_bytes = max_line_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = BoundedLineSplitter(self._max_line_bytes)
        async for data in self._inner:
            for line in lines.feed(data):
                yield await to_bounded_message(line, _SSE_DATA_PREFIX) + b"\n"
        yield await to_bounded_message(lines.flush(), _SSE_DATA_PREFIX)

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedJsonBody(BoundedEventStream):
    """A body with a single message."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = BoundedLineSplitter(self._max_line_bytes)
        async for data in self._inner:
            # In JSON, newlines have no meaning outside of strings and are not allowed inside.
            for _ in lines.feed(data.replace(b"\n", b" ")):
                pass
        yield await to_bounded_message(lines.flush())
