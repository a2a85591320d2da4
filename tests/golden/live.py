"""A running `joey serve` and a client of its WebSocket API."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.golden.program import Program
from tests.harness.cli.binary import LIMIT
from tests.harness.fork_server import start_process

Frame = dict[str, Any]
TOKEN = "a-token-for-tests-0123456789"
YES, NO, MESSAGE = "yesButtonClicked", "noButtonClicked", "messageResponse"
_ASKING = ("taskInteractive", "taskIdle", "taskResumable")


@asynccontextmanager
async def serving(program: Program) -> AsyncIterator[Client]:
    """Serve the program's home until the end of the block, then stop the server cleanly."""
    process = await start_process(
        *("serve", "--port", "0"),
        env={**program.env, "JOEY_TOKEN": TOKEN},
        cwd=program.workspace,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT):
            link = (await process.stdout.readline()).decode().strip()
        assert link, (await process.communicate())[1].decode()
        address = link.partition("/#")[0].replace("http", "ws", 1)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(f"{address}/ws", additional_headers=headers, max_size=None) as socket:
            client = Client(socket)
            client.frames.append(json.loads(await socket.recv()))
            yield client
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT):
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[Frame] = []
        """All that came so far."""
        self._read = 0
        """Events up to here were waited for."""
        self._numbers = itertools.count(1)

    async def _receive(self) -> Frame:
        async with asyncio.timeout(LIMIT):
            frame: Frame = json.loads(await self._socket.recv())
        self.frames.append(frame)
        return frame

    async def ask(self, name: str, task_id: str | None = None, /, **arguments: Any) -> Any:
        """Send a command; the data of the response."""
        request_id = f"request {next(self._numbers)}"
        frame: Frame = {"type": "command", "commandName": name, "requestId": request_id}
        frame |= {"arguments": arguments} | ({} if task_id is None else {"taskId": task_id})
        await self._socket.send(json.dumps(frame))
        while (found := await self._receive()).get("requestId") != request_id:
            pass
        assert found["status"] == "success", found
        return found["data"]

    async def event(self, where: Callable[[Frame], bool]) -> Frame:
        """The next event of this kind after the last that was waited for."""
        while True:
            while self._read < len(self.frames):
                frame = self.frames[self._read]
                self._read += 1
                if frame["type"] == "event" and where(frame):
                    return frame
            await self._receive()

    async def wait_for_event(self, name: str, task_id: str) -> Frame:
        return await self.event(
            lambda frame: frame["eventName"] == name and frame.get("taskId") == task_id
        )

    async def asked(self, task_id: str, kind: str) -> int:
        """The number of the next question of a task, which must be of this kind."""
        frame = await self.event(
            lambda frame: frame["eventName"] in _ASKING and frame["taskId"] == task_id
        )
        assert frame["payload"]["ask"] == kind, frame
        return int(frame["payload"]["askTs"])

    async def answer(self, task_id: str, kind: str, response: str = YES, **given: Any) -> None:
        """Wait for the next question of a task, and answer it."""
        ts = await self.asked(task_id, kind)
        answer = await self.ask("respond", task_id, askTs=ts, response=response, **given)
        assert answer["accepted"], (task_id, kind)

    async def rows(self, task_id: str) -> list[Frame]:
        rows: list[Frame] = (await self.ask("getMessages", task_id))["messages"]
        return rows
