"""Many clients watching one streaming task, beside the bare `websockets` library.

`python -m bench.fanout [CLIENTS]`. A model says a word sixteen times a second; each is told to
all clients, as a row that grows. The words are moments of the machine's clock, so that every
client knows how long each took. The library broadcasts frames of the same shape and size at the
same moments. Server and clients are processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.crowd import LoopLagMonitor
from bench.runs import build_environment
from bench.tables import print_table

CLIENT_COUNT = 1000
CHUNK_COUNT = 160
CHUNK_INTERVAL_S = 0.0625
AUTH_TOKEN = "a-token-for-the-benchmark"
SERVER_NAMES = ("websockets", "joey")


def main(clients: int = CLIENT_COUNT) -> None:
    rows = [["", "events/s", "p50 ms", "p99 ms", "worst ms", "CPU s", "loop lag ms", "RSS MB"]]
    for server_name in SERVER_NAMES:
        report = asyncio.run(measure(server_name, clients))
        rows.append([server_name, *report])
    print_table(f"{clients} clients watching one task that says {CHUNK_COUNT} words", rows)


async def measure(server_name: str, clients: int) -> list[str]:
    command = [sys.executable, "-m", "bench.fanout", "--serve", server_name, str(clients)]
    server = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=build_environment()
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    loop = asyncio.get_running_loop()
    watchers = []
    for _ in range(clients):
        _, watcher = await loop.create_connection(MinimalClient, "127.0.0.1", port)
        await watcher.upgraded
        watchers.append(watcher)
    server.stdin.write(b"go\n")
    started = time.monotonic()
    async with asyncio.timeout(120):
        await asyncio.gather(*(watcher.finished for watcher in watchers))
    seconds = time.monotonic() - started
    server.stdin.close()
    report = json.loads(await server.stdout.readline())
    for watcher in watchers:
        watcher.transport.abort()
    await server.wait()
    delays = sorted(delay for watcher in watchers for delay in watcher.delays)
    return [
        f"{len(delays) / seconds:.0f}",
        *(f"{delays[int(len(delays) * part)] * 1000:.1f}" for part in (0.5, 0.99)),
        f"{delays[-1] * 1000:.1f}",
        f"{report['cpu']:.1f}",
        f"{report['lag'] * 1000:.0f}",
        f"{report['rss']:.0f}",
    ]


class MinimalClient(asyncio.Protocol):
    """The smallest client: it takes frames apart and looks at the last moment in each."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        loop = asyncio.get_running_loop()
        self.upgraded: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.delays: list[float] = []
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        host, port = transport.get_extra_info("peername")
        lines = (
            "GET /ws HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            f"Authorization: Bearer {AUTH_TOKEN}",
        )
        transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.upgraded.done():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            assert self._buffer.startswith(b"HTTP/1.1 101"), bytes(self._buffer)
            del self._buffer[: end + 4]
            self.upgraded.set_result(None)
        while (frame := self._take_frame()) is not None:
            self._handle_frame(frame)

    def _take_frame(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + size:
            return None
        frame = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return frame

    def _handle_frame(self, frame: bytes) -> None:
        if b'"partial":true' not in frame:
            return
        text = frame[: frame.index(b'","partial"')]
        if (moment := text.rpartition(b" ")[2]).isdigit():
            self.delays.append(time.monotonic() - int(moment) / 1e9)
        # Two words that come too close to each other are told together.
        if text.count(b" ") == CHUNK_COUNT and not self.finished.done():
            self.finished.set_result(None)


# The servers ----------------------------------------------------------------------------------


async def iter_timestamps() -> AsyncIterator[str]:
    due = time.monotonic()
    for _ in range(CHUNK_COUNT):
        due += CHUNK_INTERVAL_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield f" {time.monotonic_ns()}"


async def serve(server_name: str, clients: int) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    report = await (serve_joey if server_name == "joey" else serve_websockets)(lines, clients)
    print(json.dumps(report), flush=True)


class ResourceMeter:
    def __init__(self) -> None:
        self._lag_monitor = LoopLagMonitor()
        self._start_cpu_s = time.process_time()

    def build_report(self) -> dict[str, Any]:
        self._lag_monitor.stop()
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "cpu": time.process_time() - self._start_cpu_s,
            "lag": self._lag_monitor.max_lag_s,
            "rss": rss,
        }


async def serve_websockets(lines: asyncio.StreamReader, clients: int) -> dict[str, Any]:
    from websockets.asyncio.server import ServerConnection, broadcast
    from websockets.asyncio.server import serve as listen

    from joey.core.history.ui import Row
    from joey.core.wire.events import MessagePayload
    from joey.core.wire.frames import EventFrame, encode_frame

    connections: set[ServerConnection] = set()

    async def handler(connection: ServerConnection) -> None:
        connections.add(connection)
        await connection.wait_closed()
        connections.discard(connection)

    async with listen(handler, "127.0.0.1", 0, compression=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await lines.readline()
        meter, text = ResourceMeter(), ""
        async for word in iter_timestamps():
            text += word
            row = Row(ts=1, type="say", say="text", text=text, partial=True)
            payload = MessagePayload(action="updated", message=row)
            frame = EventFrame(event_name="message", task_id="t", payload=payload, seq=5)
            broadcast(connections, encode_frame(frame), text=True)
        await lines.read()
        return meter.build_report()


async def serve_joey(lines: asyncio.StreamReader, clients: int) -> dict[str, Any]:
    from joey.app import Application, open_engine
    from joey.server.auth import Token
    from joey.server.hub import ServerHub
    from joey.server.serve import ServeOptions, run_server
    from joey.server.websocket import ConnectionLimits
    from joey.storage.task_store import EphemeralStore

    with TemporaryDirectory(prefix="joey-bench-") as directory:
        setup = Application(workspace=Path(directory), home=Path(directory, "home"))
        engine = open_engine(home=setup.home)
        hub = ServerHub(engine, EphemeralStore(Path(directory)), setup)
        options = ServeOptions(port=0, limits=ConnectionLimits(max_connections=clients))
        async with run_server(hub, Token(AUTH_TOKEN), options) as listening:
            print(listening.port, flush=True)
            await lines.readline()
            meter = ResourceMeter()
            await run_streaming_task(hub)
            await lines.read()
            return meter.build_report()


async def run_streaming_task(hub: Any) -> None:
    """A real task whose model says the moments."""
    from joey.core.messages import TextChunk
    from joey.core.models import ModelInfo

    class Model:
        model = ModelInfo("clock")
        api_protocol = "anthropic"
        window_advice = ""

        async def prepare(self) -> None: ...

        async def stream(self, request: Any) -> AsyncIterator[TextChunk]:
            async for word in iter_timestamps():
                yield TextChunk(word)
            await asyncio.get_running_loop().create_future()

        async def close(self) -> None:
            pass

    from msgspec import structs

    make = hub.engine._make_bench
    hub.engine._make_bench = lambda options: structs.replace(make(options), provider=Model())
    await hub.run("startNewTask", {"text": "say what time it is"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(sys.argv[2], int(sys.argv[3])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else CLIENT_COUNT)
