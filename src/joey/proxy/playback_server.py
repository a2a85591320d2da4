"""HTTP server that answers requests with recorded responses.

Responses are sent chunked, so that a client sees where one was interrupted: its connection breaks
at the same byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec

from joey.errors import ConfigError
from joey.proxy.access import AccessRefusal, ProxyAccess
from joey.proxy.exchange import ExchangeState
from joey.proxy.fixtures import FixtureExchange
from joey.proxy.http_messages import (
    MAX_HEAD_BYTES,
    MessageError,
    RequestHead,
    find_request_framing,
    parse_request_head,
)
from joey.proxy.playback import Playback, ReceivedRequest, Refusal
from joey.proxy.server import LOOPBACK

_MAX_BODY_BYTES = 256 * 1024 * 1024
_READ_BYTES = 256 * 1024
_BODILESS_STATUSES = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "keep-alive", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers of the recorded connection, not of the response."""


@asynccontextmanager
async def run_playback_server(
    playback: Playback,
    port: int,
    *,
    is_paced: bool = False,
    on_refusal: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[str]:
    """Serve until the end of the block; yields the URL that clients use as their base. With
    `is_paced`, pieces of responses are sent at their recorded times. Raises ConfigError if the port
    is taken."""
    clients: set[asyncio.Task[None]] = set()
    access = ProxyAccess()

    async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            await _PlaybackClient(reader, writer, playback, access, is_paced, on_refusal).run()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has left, or the server stops
        finally:
            clients.discard(task)
            writer.close()

    try:
        server = await asyncio.start_server(serve_client, LOOPBACK, port, limit=MAX_HEAD_BYTES)
    except OSError as error:
        raise ConfigError(
            f"Port {port} cannot be used: {os.strerror(error.errno or 0)}. Choose another with"
            " --port."
        ) from error
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.close()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


class _PlaybackClient:
    """One connection, whose requests are answered one after another."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        playback: Playback,
        access: ProxyAccess,
        is_paced: bool,
        on_refusal: Callable[[str], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._playback = playback
        self._access = access
        self._is_paced = is_paced
        self._on_refusal = on_refusal
        self._waiting = b""
        """Bytes received after the current request."""

    async def run(self) -> None:
        is_kept = True
        while is_kept and (data := await self._read_head()):
            try:
                head = parse_request_head(data)
                body = await self._read_body(head)
            except MessageError as error:
                await self._refuse(Refusal(400, f"This is not an HTTP/1.1 request: {error}."))
                return
            is_kept = "close" not in head.get_all("connection") and head.version != b"HTTP/1.0"
            target = self._access.check(head)
            if isinstance(target, AccessRefusal):
                text = "The Host or Origin of this request is not local."
                await self._refuse(Refusal(403, text))
                return
            started = asyncio.get_running_loop().time()
            content_type = ", ".join(head.get_all("content-type"))
            received = ReceivedRequest(head.method, target.decode("latin-1"), content_type, body)
            answer = self._playback.find_answer(received)
            if isinstance(answer, Refusal):
                await self._refuse(answer)
            else:
                is_kept = await self._play(answer, head.method, started) and is_kept

    async def _read_head(self) -> bytes:
        """Read a head; empty at the end of the connection."""
        data = self._waiting.lstrip(b"\r\n")
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = await self._reader.read(_READ_BYTES)
            if not more or len(data) > MAX_HEAD_BYTES:
                return b""
            data = (data + more).lstrip(b"\r\n")
        self._waiting = data[end + 4 :]
        return data[:end]

    async def _read_body(self, head: RequestHead) -> bytes:
        """Read a body. Raises MessageError, or IncompleteReadError if the client left in the
        middle."""
        framing = find_request_framing(head)
        if any(value.lower() == "100-continue" for value in head.get_all("expect")):
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        content: list[bytes] = []
        size = 0
        while True:
            used = framing.feed(self._waiting, content)
            size += used
            self._waiting = self._waiting[used:]
            if framing.is_complete:
                return b"".join(content)
            if size > _MAX_BODY_BYTES:
                raise MessageError("its body is too long")
            self._waiting = await self._reader.read(_READ_BYTES)
            if not self._waiting:
                raise asyncio.IncompleteReadError(b"", None)

    async def _play(self, answer: FixtureExchange, method: str, started: float) -> bool:
        """Play a response; False if the connection is closed."""
        if not answer.status:
            self._writer.transport.abort()
            return False
        has_body = method != "HEAD" and answer.status not in _BODILESS_STATUSES
        lines = [f"HTTP/1.1 {answer.status} {_find_phrase(answer.status)}"]
        lines += [
            f"{name}: {value}"
            for name, value in answer.headers
            if name.lower() not in _OWN_HEADERS and (value.strip("*") or not value)
        ]
        lines += ["transfer-encoding: chunked"] if has_body else []
        head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        if not has_body:
            await self._write(head)
            return True
        self._writer.write(head)
        for piece, due_ms in _iter_pieces(answer, is_paced=self._is_paced):
            if due_ms is not None:
                loop_time = asyncio.get_running_loop().time()
                await asyncio.sleep(max(0.0, started + due_ms / 1000 - loop_time))
            await self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if answer.state in (ExchangeState.DONE, ExchangeState.UNREACHABLE):
            await self._write(b"0\r\n\r\n")
            return True
        self._writer.close()  # without the end of the body
        return False

    async def _refuse(self, refusal: Refusal) -> None:
        self._on_refusal(refusal.text)
        error = {"type": "invalid_request_error", "message": f"joey proxy serve: {refusal.text}"}
        body = msgspec.json.encode({"type": "error", "error": error})
        head = (
            f"HTTP/1.1 {refusal.status} {_find_phrase(refusal.status)}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        await self._write(head.encode("ascii") + body)

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _iter_pieces(
    answer: FixtureExchange, *, is_paced: bool
) -> Iterator[tuple[bytes, float | None]]:
    """Iterate over the body in its recorded pieces, each with its time if that matters."""
    content = answer.response.content
    ends = [tick.offset for tick in answer.ticks[1:]] + [len(content)]
    if not is_paced or not answer.ticks:
        if content:
            yield content, None
        return
    for tick, end in zip(answer.ticks, ends, strict=True):
        if piece := content[tick.offset : end]:
            yield piece, tick.ms


def _find_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Recorded"
