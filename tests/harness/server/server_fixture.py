"""A server in this process on a real port, a scripted model, and clients that check every frame."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from joey.app import Application, open_engine, open_store
from joey.server.auth import Token
from joey.server.hub import ServerHub
from joey.server.serve import RunningServer, ServeOptions, run_server
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer, TurnSelector, by_conversation
from tests.harness.server.json_schema_check import find_violations

TOKEN = "a-token-for-tests-0123456789"
TIMEOUT_S = 60.0
Frame = dict[str, Any]


class CommandFailedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Wire(Protocol):
    async def send(self, data: str | bytes, /) -> None: ...

    async def recv(self) -> str | bytes: ...


class FrameClient:
    """A client that knows nothing of joey but its frames, each of which it checks."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.events: list[Frame] = []
        """Every event so far."""
        self._numbers = itertools.count(1)

    async def frame(self) -> Frame:
        async with asyncio.timeout(TIMEOUT_S):
            data = await self._wire.recv()
        assert isinstance(data, str)
        frame: Frame = json.loads(data)
        assert find_violations(frame) == [], data[:2000]
        if frame["type"] == "event":
            self.events.append(frame)
        return frame

    async def raw(self, data: str | bytes) -> Frame:
        """Send anything; the next response."""
        await self._wire.send(data)
        while (frame := await self.frame())["type"] != "response":
            pass
        return frame

    async def ask(self, name: str, task_id: str | None = None, /, **arguments: Any) -> Any:
        """Send a command and wait for its data; events that come first are kept."""
        request_id = f"req{next(self._numbers)}"
        frame: Frame = {"type": "command", "commandName": name, "requestId": request_id}
        if task_id is not None:
            frame["taskId"] = task_id
        if arguments:
            frame["arguments"] = arguments
        response = await self.raw(json.dumps(frame))
        assert (response["requestId"], response["commandName"]) == (request_id, name)
        if response["status"] == "error":
            raise CommandFailedError(**response["error"])
        return response["data"]

    async def event(
        self, *names: str, since: int = 0, where: Callable[[Frame], bool] | None = None
    ) -> Frame:
        """The first event of these names among those after the first `since`, or the next."""
        position = since
        while True:
            while position < len(self.events):
                event = self.events[position]
                position += 1
                if event["eventName"] in names and (where is None or where(event)):
                    return event
            await self.frame()

    async def asked(self, kind: str, since: int = 0) -> int:
        """The `ts` of a question of this kind."""
        names = ("taskInteractive", "taskIdle", "taskResumable")
        event = await self.event(
            *names, since=since, where=lambda event: bool(event["payload"]["ask"] == kind)
        )
        return int(event["payload"]["askTs"])

    def names(self) -> list[str]:
        return [event["eventName"] for event in self.events]

    def rows(self, task_id: str | None = None) -> list[Frame]:
        """Rows as a page would hold them, in the order of their `ts`."""
        return rows_of(self.events, task_id)


class Peer(FrameClient):
    """With the library `websockets`."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__(socket)
        self.socket = socket


def rows_of(events: Sequence[Frame], task_id: str | None = None) -> list[Frame]:
    rows: dict[int, Frame] = {}
    for event in events:
        if event["eventName"] == "message" and task_id in (None, event["taskId"]):
            row = event["payload"]["message"]
            rows[row["ts"]] = row
    return [rows[ts] for ts in sorted(rows)]


class ServerFixture:
    def __init__(
        self, hub: ServerHub, listening: RunningServer, model: ModelServer, root: Path
    ) -> None:
        self.hub = hub
        self.listening = listening
        self.model = model
        self.home = root / "home"
        self.workspace = root / "work"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.listening.port}/ws"

    @asynccontextmanager
    async def peer(self, **options: Any) -> AsyncIterator[Peer]:
        async with self.socket(**options) as socket:
            peer = Peer(socket)
            welcome = await peer.frame()
            assert welcome["requestId"] == "welcome"
            yield peer

    def socket(
        self,
        *,
        token: str | None = TOKEN,
        subprotocol: str | None = None,
        origin: str | None = None,
        host: str | None = None,
        path: str = "/ws",
        **options: Any,
    ) -> connect:
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        if host is not None:
            headers["Host"] = host
        return connect(
            f"ws://127.0.0.1:{self.listening.port}{path}",
            additional_headers=headers,
            origin=Origin(origin) if origin else None,
            subprotocols=[Subprotocol(subprotocol)] if subprotocol else None,
            **{
                "max_size": None,
                "max_queue": None,
                "compression": None,
                "open_timeout": TIMEOUT_S,
                **options,
            },
        )


@asynccontextmanager
async def open_server(
    root: Path, *turns: Turn | TurnSelector, options: ServeOptions | None = None, **settings: Any
) -> AsyncIterator[ServerFixture]:
    """A server whose model plays these turns to every conversation."""
    (root / "work").mkdir(exist_ok=True)
    (root / "home").mkdir(exist_ok=True)
    (root / "home" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    async with ModelServer(by_conversation(turns)) as model:
        env = {"ANTHROPIC_API_KEY": "key-of-the-environment", "ANTHROPIC_BASE_URL": model.url}
        env |= {"PATH": "/usr/bin:/bin"}
        setup = Application(workspace=root / "work", home=root / "home", env=env)
        hub = ServerHub(open_engine(home=setup.home, env=env), open_store(setup.home), setup)
        async with run_server(hub, Token(TOKEN), options or ServeOptions(port=0)) as listening:
            yield ServerFixture(hub, listening, model, root)


def done(result: str = "all done") -> Turn:
    return Turn(call("attempt_completion", {"result": result}))
