"""WebSocket clients: each from its first frame to its last, within limits.

uvicorn's own `send` encodes and frames a message for every client, and waits for the client to read
it. `WebSocketProtocol` writes frames that were encoded once for all clients, and disconnects a
client that does not read in time without waiting for it.
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
from joey.core.messages import replace_lone_surrogates
from joey.core.wire import frames as wire
from joey.core.wire.commands import COMMANDS, Authenticated, Welcome
from joey.server.auth import TOKEN_SUBPROTOCOL_PREFIX, LoginCode, Token, extract_token
from joey.server.feed import ReplaySource, SendQueue
from joey.server.hub import ServerHub

WRONG_TOKEN_CLOSE_CODE = 4401
GOING_AWAY_CLOSE_CODE = 1001
MAX_LOGGED_ID_CHARS = 200
BINARY_FRAME_ERROR = "Frames are text, not binary."

log = logging.getLogger(__name__)
_connection_numbers = itertools.count(1)


class Connections:
    """All connected clients."""

    def __init__(self, hub: ServerHub, token: Token, limits: ConnectionLimits) -> None:
        self.hub = hub
        self.token = token
        self.limits = limits
        self.login_code = LoginCode()
        self._open_connections: set[ClientConnection] = set()

    def __len__(self) -> int:
        return len(self._open_connections)

    async def serve_websocket(self, websocket: WebSocket) -> None:
        """Serve an upgrade request from an allowed address and page."""
        offered = extract_token(websocket.headers, websocket.scope["subprotocols"])
        if offered is not None and not self.token.matches(offered):
            self.hub.counters.refused_count += 1
            log.info("refused", extra={"reason": "token"})
            await asyncio.sleep(self.limits.failed_auth_delay_s)
            await _reject_upgrade(websocket, 401, "The token is wrong.")
            return
        reason = "" if self.hub.is_ready else "The server is shutting down."
        if len(self._open_connections) >= self.limits.max_connections:
            reason = reason or "There are too many connections."
        if reason:
            self.hub.counters.refused_count += 1
            log.warning("refused", extra={"reason": reason})
            await _reject_upgrade(websocket, 503, reason)
            return
        chosen = f"{TOKEN_SUBPROTOCOL_PREFIX}{offered}"
        subprotocol = chosen if chosen in websocket.scope["subprotocols"] else None
        socket: WebSocketProtocol = websocket.scope["extensions"][SOCKET_SCOPE_EXTENSION]
        connection = ClientConnection(self, websocket, socket)
        self._open_connections.add(connection)
        try:
            await websocket.accept(subprotocol)
            await connection.run(authenticated=offered is not None)
        except WebSocketDisconnect:
            pass
        finally:
            self._open_connections.discard(connection)
            connection.close()

    def close(self) -> None:
        """Say goodbye to all clients."""
        for connection in list(self._open_connections):
            connection.disconnect(GOING_AWAY_CLOSE_CODE, "the server stops")


class ClientConnection:
    def __init__(
        self, connections: Connections, websocket: WebSocket, socket: WebSocketProtocol
    ) -> None:
        self.name = f"ws-{next(_connection_numbers)}"
        self._hub = connections.hub
        self._token = connections.token
        self._login_code = connections.login_code
        self._limits = connections.limits
        self._websocket = websocket
        self._socket = socket
        self._send_queue = SendQueue(
            socket, self._hub.find_feed, self._count_resync, connections.limits.drain_timeout_s
        )
        self._requested_replay: tuple[ReplaySource, str, int] | None = None
        socket.on_writable = self._send_queue.flush

    async def run(self, *, authenticated: bool) -> None:
        if not authenticated and not await self._authenticate():
            return
        self._hub.counters.accepted_count += 1
        log.info("connected", extra={"client": self.name})
        services = self._hub.services
        welcome = Welcome(
            version=__version__,
            protocol=wire.PROTOCOL_VERSION,
            capabilities=list(COMMANDS),
            sandbox=await services.probe_sandbox_level(),
            workspace=str(services.workspace),
            home=str(services.home),
        )
        self._hub.add_listener(self._send_queue.send_event)
        self._send_queue.send_response(wire.build_success("welcome", "welcome", welcome))
        rate = RateLimiter(self._limits.frames_per_second, self._limits.burst_frames)
        while True:
            frame = await self._receive_frame()
            await rate.acquire()
            await self._send_queue.wait_for_capacity()
            await self._handle_frame(frame)

    def _schedule_replay(self, task_id: str, source: ReplaySource, first: int) -> None:
        self._requested_replay = (source, task_id, first)

    def disconnect(self, code: int, reason: str) -> None:
        self._send_queue.flush()
        self._socket.force_close(code, reason)

    def close(self) -> None:
        self._hub.remove_listener(self._send_queue.send_event)
        self._socket.on_writable = None
        self._send_queue.close()
        log.info("disconnected", extra={"client": self.name})

    async def _receive_frame(self) -> wire.ParsedCommand | wire.AuthFrame | wire.WireError:
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect(message.get("code", 1005))
        text = message.get("text")
        if text is None:
            return wire.WireError(wire.ErrorCode.INVALID_COMMAND, BINARY_FRAME_ERROR)
        return wire.parse_frame(text)

    async def _authenticate(self) -> bool:
        """Authenticate the client: the first frame must be the token."""
        try:
            async with asyncio.timeout(self._limits.auth_timeout_s):
                frame = await self._receive_frame()
        except TimeoutError:
            frame = wire.WireError(wire.ErrorCode.PERMISSION_DENIED, "No token came.")
        if isinstance(frame, wire.AuthFrame):
            if self._token.matches(frame.token):
                self._respond(wire.build_success("auth", "auth", Authenticated()))
                return True
            if self._login_code.redeem(frame.token):
                granted = Authenticated(token=self._token.value)
                self._respond(wire.build_success("auth", "auth", granted))
                return True
        self._hub.counters.refused_count += 1
        log.info("refused", extra={"client": self.name, "reason": "token"})
        await asyncio.sleep(self._limits.failed_auth_delay_s)
        self._respond(_make_denial(frame))
        self.disconnect(WRONG_TOKEN_CLOSE_CODE, "the token is missing or wrong")
        return False

    async def _handle_frame(
        self, frame: wire.ParsedCommand | wire.AuthFrame | wire.WireError
    ) -> None:
        match frame:
            case wire.WireError():
                self._respond(frame.response)
            case wire.AuthFrame(token):
                is_known = self._token.matches(token)
                self._respond(
                    wire.build_success("auth", "auth", Authenticated())
                    if is_known
                    else _make_denial(frame)
                )
            case wire.ParsedCommand():
                await self._execute_command(frame)

    async def _execute_command(self, command: wire.ParsedCommand) -> None:
        started = time.perf_counter()
        response = await self._hub.execute(command, self._schedule_replay)
        reading, self._requested_replay = self._requested_replay, None
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        self._respond(response, reading, task=command.task_id, ms=took_ms)

    def _respond(
        self,
        response: wire.ResponseFrame,
        replay: tuple[ReplaySource, str, int] | None = None,
        **details: str | float | None,
    ) -> None:
        self._send_queue.send_response(response, replay)
        log.info(
            "command",
            extra={
                "client": self.name,
                "command": _shorten_for_log(response.command_name),
                "request": _shorten_for_log(response.request_id),
                "outcome": response.status,
                "code": response.error.code.value if response.error else None,
                **details,
            },
        )

    def _count_resync(self) -> None:
        self._hub.counters.resync_count += 1
        log.warning("lagging", extra={"client": self.name})


def _shorten_for_log(text: str) -> str:
    return replace_lone_surrogates(text[:MAX_LOGGED_ID_CHARS])


def _make_denial(frame: wire.ParsedCommand | wire.AuthFrame | wire.WireError) -> wire.ResponseFrame:
    request_id, name = "auth", "auth"
    if isinstance(frame, wire.ParsedCommand):
        request_id, name = frame.request_id, frame.spec.name
    message = "The token is missing or wrong."
    return wire.build_failure(request_id, name, wire.ErrorCode.PERMISSION_DENIED, message)


async def _reject_upgrade(websocket: WebSocket, status: int, message: str) -> None:
    await websocket.send_denial_response(PlainTextResponse(f"{message}\n", status))


class ConnectionLimits(Struct, frozen=True):
    max_connections: int = 256
    auth_timeout_s: float = 10.0
    """To say the token in, when it did not come with the request."""
    failed_auth_delay_s: float = 0.5
    """That a wrong token has to wait for its answer."""
    drain_timeout_s: float = 10.0
    """That a client which lost events may take to read that it did."""
    heartbeat_interval_s: float = 20.0
    """Between two pings, and for the answer to one."""
    frames_per_second: float = 50.0
    burst_frames: int = 200
    """Frames that a client may send at once."""


class RateLimiter:
    """Limits messages per second, with bursts. Faster clients are read more slowly."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._available_tokens = float(burst)
        self._last_refill = asyncio.get_running_loop().time()

    async def acquire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._available_tokens = min(
            self._burst, self._available_tokens + (now - self._last_refill) * self._per_second
        )
        self._last_refill = now
        self._available_tokens -= 1
        if self._available_tokens < 0:
            await asyncio.sleep(-self._available_tokens / self._per_second)


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
            # uvicorn would log a rejection as an error of the application.
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

    def force_close(self, code: int, reason: str) -> None:
        """Close without waiting for the client to read pending data."""
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
    """HTTP until the upgrade; silent clients are disconnected."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._handshake_timer = self.loop.call_later(HANDSHAKE_TIMEOUT_S, transport.abort)

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None or self.transport.get_protocol() is not self:
            self._handshake_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshake_timer.cancel()
        super().connection_lost(exc)
