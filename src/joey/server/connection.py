"""One client over a WebSocket, from its first frame to its last."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from joey import __version__
from joey.core.wire.commands import COMMANDS, Done, Welcome
from joey.core.wire.frames import (
    PROTOCOL,
    AuthFrame,
    Command,
    ErrorCode,
    Response,
    WireError,
    failure,
    parse_frame,
    success,
)
from joey.server.auth import SUBPROTOCOL, Token, offered_token
from joey.server.hub import Hub
from joey.server.limits import Limits, Rate
from joey.server.outbox import Outbox, Source
from joey.server.socket import EXTENSION, Socket

WRONG_TOKEN = 4401
GOING_AWAY = 1001
UNSUPPORTED = "Frames are text, not binary."

log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class Connections:
    """Everybody who is connected."""

    def __init__(self, hub: Hub, token: Token, limits: Limits) -> None:
        self.hub = hub
        self.token = token
        self.limits = limits
        self._open: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, websocket: WebSocket) -> None:
        """A request for an upgrade that came by a known address from a known page."""
        offered = offered_token(websocket.headers, websocket.scope["subprotocols"])
        if offered is not None and not self.token.fits(offered):
            self.hub.counters.refused += 1
            log.info("refused", extra={"reason": "token"})
            await asyncio.sleep(self.limits.failed_auth_seconds)
            await _deny(websocket, 401, "The token is wrong.")
            return
        if (reason := self._full()) is not None:
            self.hub.counters.refused += 1
            log.warning("refused", extra={"reason": reason})
            await _deny(websocket, 503, reason)
            return
        chosen = f"{SUBPROTOCOL}{offered}"
        subprotocol = chosen if chosen in websocket.scope["subprotocols"] else None
        socket: Socket = websocket.scope["extensions"][EXTENSION]
        connection = Connection(self, websocket, socket)
        self._open.add(connection)
        try:
            await websocket.accept(subprotocol)
            await connection.run(authenticated=offered is not None)
        except WebSocketDisconnect:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _full(self) -> str | None:
        """Why nobody else is let in at the moment."""
        if not self.hub.ready:
            return "The server is shutting down."
        if len(self._open) >= self.limits.connections:
            return "There are too many connections."
        return None

    def close(self) -> None:
        """Say goodbye to everybody."""
        for connection in list(self._open):
            connection.leave(GOING_AWAY, "the server stops")


class Connection:
    def __init__(self, all_: Connections, websocket: WebSocket, socket: Socket) -> None:
        self.name = f"ws-{next(_numbers)}"
        self._hub = all_.hub
        self._token = all_.token
        self._limits = all_.limits
        self._websocket = websocket
        self._socket = socket
        self._outbox = Outbox(socket, self._hub.feed, self._count_resync, all_.limits.drain_seconds)
        self._reading: tuple[Source, str, int] | None = None
        socket.on_writable = self._outbox.flush

    async def run(self, *, authenticated: bool) -> None:
        if not authenticated and not await self._authenticate():
            return
        self._hub.counters.accepted += 1
        log.info("connected", extra={"client": self.name})
        welcome = await self._welcome()
        self._hub.listen(self._outbox.tell)
        self._outbox.respond(success("welcome", "welcome", welcome))
        rate = Rate(self._limits.frames_per_second, self._limits.burst)
        while True:
            frame = await self._receive()
            await rate.take()
            await self._outbox.room()
            await self._answer(frame)

    def read_back(self, task_id: str, source: Source, since: int) -> None:
        self._reading = (source, task_id, since)

    def leave(self, code: int, reason: str) -> None:
        self._outbox.flush()
        self._socket.cut(code, reason)

    def close(self) -> None:
        self._hub.unlisten(self._outbox.tell)
        self._socket.on_writable = None
        self._outbox.close()
        log.info("disconnected", extra={"client": self.name})

    async def _receive(self) -> Command | AuthFrame | WireError:
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect(message.get("code", 1005))
        text = message.get("text")
        if text is None:
            return WireError(ErrorCode.INVALID_COMMAND, UNSUPPORTED)
        return parse_frame(text)

    async def _authenticate(self) -> bool:
        """The first frame has to be the token."""
        try:
            async with asyncio.timeout(self._limits.auth_seconds):
                frame = await self._receive()
        except TimeoutError:
            frame = WireError(ErrorCode.PERMISSION_DENIED, "No token came.")
        if isinstance(frame, AuthFrame) and self._token.fits(frame.token):
            self._outbox.respond(success("auth", "auth", Done()))
            return True
        self._hub.counters.refused += 1
        log.info("refused", extra={"client": self.name, "reason": "token"})
        await asyncio.sleep(self._limits.failed_auth_seconds)
        self._outbox.respond(_denied(frame))
        self.leave(WRONG_TOKEN, "the token is missing or wrong")
        return False

    async def _answer(self, frame: Command | AuthFrame | WireError) -> None:
        match frame:
            case WireError():
                log.info("misunderstood", extra={"client": self.name, "code": frame.code.value})
                self._outbox.respond(frame.response)
            case AuthFrame(token):
                if self._token.fits(token):
                    self._outbox.respond(success("auth", "auth", Done()))
                else:
                    self._outbox.respond(_denied(frame))
            case Command():
                await self._execute(frame)

    async def _execute(self, command: Command) -> None:
        started = time.perf_counter()
        response = await self._hub.execute(command, self)
        reading, self._reading = self._reading, None
        self._outbox.respond(response, reading)
        log.log(
            logging.DEBUG if response.status == "success" else logging.INFO,
            "command",
            extra={
                "client": self.name,
                "command": command.kind.name,
                "task": command.task_id,
                "request": command.request_id,
                "ms": round((time.perf_counter() - started) * 1000, 1),
                "code": response.error.code.value if response.error else None,
            },
        )

    async def _welcome(self) -> Welcome:
        return Welcome(
            version=__version__,
            protocol=PROTOCOL,
            capabilities=list(COMMANDS),
            sandbox=await self._hub.setup.sandbox(),
            workspace=str(self._hub.setup.workspace),
            home=str(self._hub.setup.home),
        )

    def _count_resync(self) -> None:
        self._hub.counters.resyncs += 1
        log.warning("lagging", extra={"client": self.name})


def _denied(frame: Command | AuthFrame | WireError) -> Response:
    message = "The token is missing or wrong."
    if isinstance(frame, Command):
        return failure(frame.request_id, frame.kind.name, ErrorCode.PERMISSION_DENIED, message)
    return failure("auth", "auth", ErrorCode.PERMISSION_DENIED, message)


async def _deny(websocket: WebSocket, status: int, message: str) -> None:
    await websocket.send_denial_response(PlainTextResponse(f"{message}\n", status))
