"""WebSocket clients: each from its first frame to its last, within limits.

uvicorn's own `send` encodes and frames a message for every client, and waits for the client to take
it. `WebSocketProtocol` writes frames that were encoded once for all clients, and cuts a client that
does not read in time without waiting for it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

from joey import __version__
from joey.core.wire.commands import COMMANDS, Done, Welcome
from joey.core.wire.frames import (
    PROTOCOL_VERSION,
    AuthFrame,
    ErrorCode,
    ParsedCommand,
    ResponseFrame,
    WireError,
    build_failure,
    build_success,
    parse_frame,
)
from joey.server.auth import TOKEN_SUBPROTOCOL_PREFIX, Token, offered_token
from joey.server.feed import ReplaySource, SendQueue
from joey.server.hub import ServerHub

WRONG_TOKEN_CLOSE_CODE = 4401
GOING_AWAY_CLOSE_CODE = 1001
BINARY_FRAME_ERROR = "Frames are text, not binary."

log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class Connections:
    """Everybody who is connected."""

    def __init__(self, hub: ServerHub, token: Token, limits: ConnectionLimits) -> None:
        self.hub = hub
        self.token = token
        self.limits = limits
        self._open: set[ClientConnection] = set()

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
        chosen = f"{TOKEN_SUBPROTOCOL_PREFIX}{offered}"
        subprotocol = chosen if chosen in websocket.scope["subprotocols"] else None
        socket: WebSocketProtocol = websocket.scope["extensions"][SOCKET_SCOPE_EXTENSION]
        connection = ClientConnection(self, websocket, socket)
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
            connection.leave(GOING_AWAY_CLOSE_CODE, "the server stops")


class ClientConnection:
    def __init__(self, all_: Connections, websocket: WebSocket, socket: WebSocketProtocol) -> None:
        self.name = f"ws-{next(_numbers)}"
        self._hub = all_.hub
        self._token = all_.token
        self._limits = all_.limits
        self._websocket = websocket
        self._socket = socket
        self._outbox = SendQueue(
            socket, self._hub.feed, self._count_resync, all_.limits.drain_seconds
        )
        self._reading: tuple[ReplaySource, str, int] | None = None
        socket.on_writable = self._outbox.flush

    async def run(self, *, authenticated: bool) -> None:
        if not authenticated and not await self._authenticate():
            return
        self._hub.counters.accepted += 1
        log.info("connected", extra={"client": self.name})
        welcome = await self._welcome()
        self._hub.listen(self._outbox.send_event)
        self._outbox.respond(build_success("welcome", "welcome", welcome))
        rate = RateLimiter(self._limits.frames_per_second, self._limits.burst)
        while True:
            frame = await self._receive()
            await rate.take()
            await self._outbox.room()
            await self._answer(frame)

    def read_back(self, task_id: str, source: ReplaySource, since: int) -> None:
        self._reading = (source, task_id, since)

    def leave(self, code: int, reason: str) -> None:
        self._outbox.flush()
        self._socket.cut(code, reason)

    def close(self) -> None:
        self._hub.unlisten(self._outbox.send_event)
        self._socket.on_writable = None
        self._outbox.close()
        log.info("disconnected", extra={"client": self.name})

    async def _receive(self) -> ParsedCommand | AuthFrame | WireError:
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect(message.get("code", 1005))
        text = message.get("text")
        if text is None:
            return WireError(ErrorCode.INVALID_COMMAND, BINARY_FRAME_ERROR)
        return parse_frame(text)

    async def _authenticate(self) -> bool:
        """The first frame has to be the token."""
        try:
            async with asyncio.timeout(self._limits.auth_seconds):
                frame = await self._receive()
        except TimeoutError:
            frame = WireError(ErrorCode.PERMISSION_DENIED, "No token came.")
        if isinstance(frame, AuthFrame) and self._token.fits(frame.token):
            self._outbox.respond(build_success("auth", "auth", Done()))
            return True
        self._hub.counters.refused += 1
        log.info("refused", extra={"client": self.name, "reason": "token"})
        await asyncio.sleep(self._limits.failed_auth_seconds)
        self._outbox.respond(_denied(frame))
        self.leave(WRONG_TOKEN_CLOSE_CODE, "the token is missing or wrong")
        return False

    async def _answer(self, frame: ParsedCommand | AuthFrame | WireError) -> None:
        match frame:
            case WireError():
                log.info("misunderstood", extra={"client": self.name, "code": frame.code.value})
                self._outbox.respond(frame.response)
            case AuthFrame(token):
                if self._token.fits(token):
                    self._outbox.respond(build_success("auth", "auth", Done()))
                else:
                    self._outbox.respond(_denied(frame))
            case ParsedCommand():
                await self._execute(frame)

    async def _execute(self, command: ParsedCommand) -> None:
        started = time.perf_counter()
        response = await self._hub.execute(command, self)
        reading, self._reading = self._reading, None
        self._outbox.respond(response, reading)
        log.log(
            logging.DEBUG if response.status == "success" else logging.INFO,
            "command",
            extra={
                "client": self.name,
                "command": command.spec.name,
                "task": command.task_id,
                "request": command.request_id,
                "ms": round((time.perf_counter() - started) * 1000, 1),
                "code": response.error.code.value if response.error else None,
            },
        )

    async def _welcome(self) -> Welcome:
        return Welcome(
            version=__version__,
            protocol=PROTOCOL_VERSION,
            capabilities=list(COMMANDS),
            sandbox=await self._hub.setup.probe_sandbox_level(),
            workspace=str(self._hub.setup.workspace),
            home=str(self._hub.setup.home),
        )

    def _count_resync(self) -> None:
        self._hub.counters.resyncs += 1
        log.warning("lagging", extra={"client": self.name})


def _denied(frame: ParsedCommand | AuthFrame | WireError) -> ResponseFrame:
    message = "The token is missing or wrong."
    if isinstance(frame, ParsedCommand):
        return build_failure(
            frame.request_id, frame.spec.name, ErrorCode.PERMISSION_DENIED, message
        )
    return build_failure("auth", "auth", ErrorCode.PERMISSION_DENIED, message)


async def _deny(websocket: WebSocket, status: int, message: str) -> None:
    await websocket.send_denial_response(PlainTextResponse(f"{message}\n", status))


class ConnectionLimits(Struct, frozen=True):
    connections: int = 256
    auth_seconds: float = 10.0
    """To say the token in, when it did not come with the request."""
    failed_auth_seconds: float = 0.5
    """That a wrong token has to wait for its answer."""
    drain_seconds: float = 10.0
    """That a client which lost events may take to read that it did."""
    heartbeat_seconds: float = 20.0
    """Between two pings, and for the answer to one."""
    frames_per_second: float = 50.0
    burst: int = 200
    """Frames that a client may send at once."""


class RateLimiter:
    """So many messages a second, more in a burst. Whoever sends faster is read more slowly."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._left = float(burst)
        self._last = asyncio.get_running_loop().time()

    async def take(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_second)


SOCKET_SCOPE_EXTENSION = "joey.socket"
HANDSHAKE_TIMEOUT_S = 10.0
ABORT_DELAY_S = 5.0
"""How long a client that does not read may take to notice that it was cut."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_writable: Callable[[], None] | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions = cast(dict[str, object], self.scope["extensions"])
            extensions[SOCKET_SCOPE_EXTENSION] = self

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            # uvicorn would log a refusal as a defect of the application.
            self.handshake_complete = True

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()

    @property
    def is_closing(self) -> bool:
        return self.close_sent or self.disconnected or self.transport.is_closing()

    @property
    def can_write(self) -> bool:
        return self.writable.is_set() and not self.is_closing

    def write(self, packet: bytes) -> None:
        self.transport.write(packet)

    def cut(self, code: int, reason: str) -> None:
        """Close without waiting for the client to read what is on its way."""
        if not self.is_closing:
            try:
                self.conn.send_close(code, reason)
            except InvalidState:
                self.transport.abort()
                return
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            self.transport.close()
        self.abort_later()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.abort_later()

    def abort_later(self) -> None:
        self.loop.call_later(ABORT_DELAY_S, self.transport.abort)


class HandshakeProtocol(H11Protocol):
    """HTTP, until it is upgraded: whoever says nothing is not kept."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HANDSHAKE_TIMEOUT_S, transport.abort)

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None or self.transport.get_protocol() is not self:
            self._deadline.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)
