"""A client of Roo's IPC socket, by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from joey.server.hub import ServerHub
from joey.server.ipc import serve_ipc
from joey.testing.script import Turn
from tests.harness.client.serving import open_harness

TIMEOUT_S = 60.0


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = ""
        self.events: list[tuple[str, list[Any]]] = []
        """Names and tuples of all events so far."""

    def send(self, name: str, data: Any = None) -> None:
        command = {"commandName": name} if data is None else {"commandName": name, "data": data}
        message = {"type": "TaskCommand", "origin": "client", "clientId": self.client_id}
        self.write(json.dumps({"type": "message", "data": message | {"data": command}}).encode())

    def write(self, frame: bytes) -> None:
        self.writer.write(frame + b"\x0c")

    async def message(self) -> dict[str, Any]:
        """The next message of the server."""
        async with asyncio.timeout(TIMEOUT_S):
            frame = await self.reader.readuntil(b"\x0c")
        envelope = json.loads(frame[:-1])
        assert envelope["type"] == "message"
        message: dict[str, Any] = envelope["data"]
        assert message["origin"] == "server"
        return message

    async def event(self, *names: str) -> list[Any]:
        """The payload of the next event with one of these names."""
        while True:
            data = (await self.message())["data"]
            self.events.append((data["eventName"], data["payload"]))
            if data["eventName"] in names:
                payload: list[Any] = data["payload"]
                return payload

    async def asked(self, ask: str) -> dict[str, Any]:
        """The row of the next question of a kind."""
        while True:
            [said] = await self.event("message")
            row: dict[str, Any] = said["message"]
            if row.get("ask") == ask and said["action"] in ("created", "updated"):
                return row


@asynccontextmanager
async def connected(path: Path, *, limit: int = 64 * 1024 * 1024) -> AsyncIterator[Peer]:
    """`limit`: bytes that are read ahead."""
    reader, writer = await asyncio.open_unix_connection(path, limit=limit)
    peer = Peer(reader, writer)
    try:
        ack = await peer.message()
        assert ack["type"] == "Ack"
        peer.client_id = ack["data"]["clientId"]
        yield peer
    finally:
        writer.close()
        # A server that cut us has closed it already.
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def serving(root: Path, *turns: Turn) -> AsyncIterator[tuple[ServerHub, Path]]:
    path = root / "private" / "roo.sock"
    async with open_harness(root, turns) as (place, _):
        hub = place.hub()
        async with serve_ipc(hub, path):
            try:
                yield hub, path
            finally:
                await hub.close()


def new_task(text: str, **configuration: object) -> dict[str, object]:
    return {"text": text, "configuration": configuration}
