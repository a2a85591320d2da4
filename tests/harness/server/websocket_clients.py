"""Two clients that know nothing of joey: Python's `websockets`, and `ws` of npm."""

from __future__ import annotations

import asyncio
import base64
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection

from tests.harness.server.server_fixture import TIMEOUT_S, TOKEN, FrameClient, ServerFixture

JS = Path(__file__).parent / "js"
MAX_LINE_BYTES = 64 * 1024 * 1024


class Client:
    """One of the two libraries, and the way to a server with it."""

    def __init__(self, packages: Path | None) -> None:
        self._packages = packages

    @asynccontextmanager
    async def connect(self, here: ServerFixture) -> AsyncIterator[ForeignClient]:
        async with here.socket() if self._packages is None else node(here, self._packages) as wire:
            foreign = ForeignClient(wire)
            welcome = await foreign.frame()
            assert welcome["requestId"] == "welcome"
            yield foreign


class ForeignClient(FrameClient):
    def __init__(self, wire: ClientConnection | NodeSocket) -> None:
        super().__init__(wire)
        self._wire = wire

    def stop_reading(self) -> None:
        match self._wire:
            case NodeSocket():
                self._wire.send_order({"pause": True})
            case ClientConnection():
                self._wire.transport.pause_reading()

    def read_on(self) -> None:
        match self._wire:
            case NodeSocket():
                self._wire.send_order({"resume": True})
            case ClientConnection():
                self._wire.transport.resume_reading()


class NodeSocket:
    """A socket of `ws`, in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def send_order(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")

    async def send(self, data: str | bytes) -> None:
        if isinstance(data, str):
            self.send_order({"text": data})
        else:
            self.send_order({"base64": base64.b64encode(data).decode()})

    async def recv(self) -> str:
        message = await self.read_line()
        assert "frame" in message, message
        return json.dumps(message["frame"])

    async def read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the client in node ended"
        message: dict[str, Any] = json.loads(line)
        return message

    async def close(self) -> None:
        """Leave as a client should; what is still heard is passed over."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while "close" not in await self.read_line():
            pass


@asynccontextmanager
async def node(here: ServerFixture, packages: Path) -> AsyncIterator[NodeSocket]:
    (packages / "pipe.mjs").write_bytes((JS / "pipe.mjs").read_bytes())
    process = await asyncio.create_subprocess_exec(
        *("node", "pipe.mjs", here.url, TOKEN),
        cwd=packages,
        stdin=PIPE,
        stdout=PIPE,
        limit=MAX_LINE_BYTES,
    )
    socket = NodeSocket(process)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            assert await socket.read_line() == {"open": True}
        yield socket
        async with asyncio.timeout(TIMEOUT_S):
            await socket.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
