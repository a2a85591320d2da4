"""A recording proxy in front of a service that a test plays byte by byte."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from joey.proxy.exchange import Exchange, Wire
from joey.proxy.filing import open_filed_book
from joey.proxy.recorder import ExchangeRecorder
from joey.proxy.routes import Routes, make_upstream
from joey.proxy.server import ListenOptions, run_proxy_server
from joey.proxy.spool import SpoolFile
from joey.server.auth import Token
from tests.harness.fork_server import start_process

WAIT_S = 60
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Recorded(NamedTuple):
    exchange: Exchange
    request: bytes
    response: bytes


class WatchedRecorder(ExchangeRecorder):
    def __init__(self, book: Path, failures: list[str], *, keeps_bodies: bool) -> None:
        super().__init__(book, failures.append, keeps_bodies=keeps_bodies)
        self.ended = asyncio.Event()

    def file(self, spool: SpoolFile) -> None:
        super().file(spool)
        self.ended.set()


class Proxy:
    """A proxy in this process."""

    def __init__(
        self, url: str, book: Path, recorder: WatchedRecorder, failures: list[str]
    ) -> None:
        self.url = url
        self.port = int(url.split("/")[2].rpartition(":")[2])
        self.book = book
        self.recorder = recorder
        self.failures = failures

    def list_recorded(self) -> list[Recorded]:
        return list_recorded(self.book)

    async def wait_for_recorded(self, count: int = 1) -> list[Recorded]:
        """Return when so many exchanges have ended."""
        async with asyncio.timeout(WAIT_S):
            while len(found := self.list_recorded()) < count:
                self.recorder.ended.clear()
                await self.recorder.ended.wait()
        return found


def list_recorded(book: Path) -> list[Recorded]:
    with open_filed_book(book) as opened:
        return [
            Recorded(each, opened.request_body(each.id), opened.response_body(each.id))
            for each in opened.exchanges()
        ]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    """A service that plays `handler` on each connection; its URL."""

    playing: set[asyncio.Task[None] | None] = set()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        playing.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        await close(writer)

    server = await asyncio.start_server(play, "127.0.0.1", 0, backlog=1024)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()
        await asyncio.gather(*filter(None, playing))


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def open_proxy(
    directory: Path,
    upstream: str,
    *,
    token: Token | None = None,
    openai: str = "",
    keeps_encoding: bool = False,
    keeps_bodies: bool = True,
) -> AsyncIterator[Proxy]:
    book = directory / "book.sqlite"
    failures: list[str] = []
    recorder = WatchedRecorder(book, failures, keeps_bodies=keeps_bodies)
    anthropic = make_upstream(upstream, "address")
    routes = Routes(
        {Wire.ANTHROPIC: anthropic, Wire.OPENAI: make_upstream(openai or upstream, "address")},
        {"named": anthropic},
    )
    options = ListenOptions(0, token=token, keeps_encoding=keeps_encoding)
    try:
        async with asyncio.timeout(WAIT_S), run_proxy_server(options, routes, recorder) as url:
            yield Proxy(url, book, recorder, failures)
    finally:
        await asyncio.to_thread(recorder.close)


def build_request(
    target: str = "/v1/messages", /, *, body: bytes = b"", method: str = "POST", **headers: str
) -> bytes:
    fields = {
        "Host": "localhost:PORT",
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def send(port: int, data: bytes, size: int = -1) -> bytes:
    """What comes back until the connection ends, or until so many bytes came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data.replace(b"localhost:PORT", b"localhost:%d" % port))
        return await (reader.read() if size < 0 else reader.readexactly(size))
    finally:
        await close(writer)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a request with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return head, await reader.readexactly(int(value))
    return head, b""


class ProxyProcess(NamedTuple):
    process: Process
    url: str
    book: Path

    @property
    def port(self) -> int:
        return int(self.url.split("/")[2].rpartition(":")[2])

    @property
    def spool_name(self) -> str:
        """Of its own directory of the spool, while it runs."""
        spool = self.book.with_name(f"{self.book.name}-spool")
        (own,) = (name for name in list_names(spool) if name.startswith(f"{self.process.pid}-"))
        return own


@asynccontextmanager
async def start_proxy(
    book: Path, upstream: str, *options: str, env: dict[str, str] | None = None
) -> AsyncIterator[ProxyProcess]:
    """`joey proxy` as a process of its own, killed at the end unless it has ended."""
    process = await start_process(
        *("proxy", "--port", "0", "--json", "--db", str(book)),
        *("--anthropic", upstream, "--openai", upstream, *options),
        env={**os.environ, **(env or {})},
        cwd=Path.cwd(),
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            line = await process.stdout.readline()
        yield ProxyProcess(process, json.loads(line)["url"], book)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


async def run_joey(
    *arguments: str, env: dict[str, str] | None = None, given: bytes | None = None
) -> Ended:
    stdin = PIPE if given is not None else DEVNULL
    process = await start_process(
        *arguments, env={**os.environ, **(env or {})}, cwd=Path.cwd(), stdin=stdin
    )
    async with asyncio.timeout(WAIT_S):
        stdout, stderr = await process.communicate(given)
    return Ended(process.returncode or 0, stdout.decode(), stderr.decode())


def list_names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(OK)
    await writer.drain()
