"""Small real servers for tests: one that plays bytes, a relay with TLS, and a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Handler = Callable[[Reader, Writer], Coroutine[Any, Any, None]]

OK_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def run_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that runs `handler` for each connection."""
    tasks: set[asyncio.Task[None]] = set()

    async def guarded(reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client went away, as many tests want it to
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            tasks.discard(task)

    server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def read_request(reader: Reader) -> tuple[bytes, bytes]:
    """Head and body of a request that states its length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head, await reader.readexactly(length)


async def relay_bytes(reader: Reader, writer: Writer, port: int, first: bytes = b"") -> None:
    """Carry bytes both ways between a connection and a port of this machine."""
    up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
    up_writer.write(first)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy_bytes(reader, up_writer))
            both.create_task(_copy_bytes(up_reader, writer))
    except* (ConnectionError, ssl.SSLError):
        pass  # one side is gone: so is the other
    finally:
        up_writer.close()
        with contextlib.suppress(ConnectionError):
            await up_writer.wait_closed()


async def _copy_bytes(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Proxy:
    """Sends every request to one port, whatever host it names."""

    def __init__(self, port: int, refusal: bytes | None = None) -> None:
        self._port = port
        self._refusal = refusal
        self.request_heads: list[bytes] = []

    async def serve(self, reader: Reader, writer: Writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.request_heads.append(head)
        if self._refusal is not None:
            writer.write(self._refusal)
            return
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            head = b""
        await relay_bytes(reader, writer, self._port, head)
