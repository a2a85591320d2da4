"""The connection to a server: its address and token, and a WebSocket that reconnects.

The owner gets event frames in `handle`, learns of a lost connection in `handle_connection_lost`,
and recovers in `handle_reconnected`. If the connection is lost before a command's response, the
command fails: only its caller can know whether it may be sent twice.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec
from msgspec import UNSET, Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from joey.core.wire.frames import CommandFrame, ErrorCode, ErrorInfo, EventFrame, ResponseFrame
from joey.errors import UserError

if TYPE_CHECKING:
    from joey.client.remote import RemoteEngine

log = logging.getLogger(__name__)

RECONNECT_TIMEOUT_S = 60.0
HANDSHAKE_TIMEOUT_S = 10.0
INITIAL_BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
MAX_FRAME_BYTES = 256 * 1024 * 1024
"""A whole history may come in one response."""
WELCOME_REQUEST_ID = "welcome"
UNAUTHORIZED_CLOSE_CODE = 4401
CONNECTION_LOST = "CONNECTION_LOST"
PERMISSION_DENIED = "PERMISSION_DENIED"
API_NOT_READY = "API_NOT_READY"
"""What a server says on its way down."""


class RemoteError(UserError):
    """The server rejected a command, or cannot be reached."""

    def __init__(self, message: str, code: str = CONNECTION_LOST) -> None:
        super().__init__(message)
        self.code = code
        """The error code of the API, or `CONNECTION_LOST`."""


class _PendingRequest:
    """A command without a response yet."""

    def __init__(self, on_response: Callable[[Any], None] | None) -> None:
        self.response_future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.on_response = on_response

    def resolve(self, response: ResponseFrame) -> None:
        if self.response_future.done():
            return
        if response.status == "success":
            if self.on_response is not None:
                self.on_response(response.data)
            self.response_future.set_result(response.data)
            return
        error = response.error or ErrorInfo(ErrorCode.SERVER_ERROR, "no reason given")
        self.response_future.set_exception(RemoteError(error.message, str(error.code)))

    def fail(self, error: RemoteError) -> None:
        if not self.response_future.done():
            self.response_future.set_exception(error)


class ServerConnection:
    def __init__(
        self,
        address: ServerAddress,
        listener: RemoteEngine,
        reconnect_timeout_s: float = RECONNECT_TIMEOUT_S,
    ) -> None:
        self._address = address
        self._listener = listener
        self._reconnect_timeout_s = reconnect_timeout_s
        self._websocket: ClientConnection | None = None
        self._online_event = asyncio.Event()
        self._offline_event = asyncio.Event()
        self._pending_requests: dict[str, _PendingRequest] = {}
        self._last_request_number = 0
        self._connection_task: asyncio.Task[None] | None = None
        self.fatal_error: RemoteError | None = None
        """Why there will be no connection any more."""
        self.welcome: Mapping[str, Any] = {}
        """What the server said of itself."""

    async def open(self) -> None:
        """Open the connection. Raises RemoteError if no server answers or it rejects the token."""
        if not self._address.token:
            raise RemoteError(
                "there is no token for the server: `joey serve` leaves one in"
                " $JOEY_HOME/server.token; for a server elsewhere, set JOEY_TOKEN",
                PERMISSION_DENIED,
            )
        socket = await self._connect()
        self._connection_task = asyncio.create_task(
            self._maintain_connection(socket), name="joey-connection"
        )
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                await self._online_event.wait()
        except TimeoutError as error:
            await self.close()
            raise RemoteError(f"{self._address.url} is not a joey server: no welcome") from error
        except asyncio.CancelledError:
            await self.close()  # a cancelled caller has nothing to close
            raise
        if self.fatal_error is not None:
            raise self.fatal_error

    async def close(self) -> None:
        self.fatal_error = self.fatal_error or RemoteError("the connection was closed")
        if self._connection_task is not None:
            self._connection_task.cancel()
            await asyncio.wait([self._connection_task])
        self._give_up(self.fatal_error)

    async def request(
        self,
        name: str,
        task_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        then: Callable[[Any], None] | None = None,
        retry: bool = False,
    ) -> Any:
        """Send a command and return the data of its response. `then` gets the data too, before any
        frame that follows it. A request that changes nothing may set `retry`: it is sent again if
        the connection is lost or the server shuts down. Raises RemoteError if the server rejected
        it or the connection was lost."""
        while True:
            await self._online_event.wait()
            if self.fatal_error is not None:
                raise self.fatal_error
            try:
                return await self._send_request(name, task_id, arguments, then)
            except RemoteError as error:
                if not retry:
                    raise
                await self.wait_to_retry(error)

    async def wait_to_retry(self, error: RemoteError) -> None:
        """Wait until a failed request can be repeated; raise the error if it cannot."""
        if error.code not in (CONNECTION_LOST, API_NOT_READY) or self.fatal_error is not None:
            raise error
        if error.code == API_NOT_READY:
            try:
                async with asyncio.timeout(self._reconnect_timeout_s):
                    await self._offline_event.wait()
            except TimeoutError:
                raise error from None

    async def _send_request(
        self,
        name: str,
        task_id: str | None,
        arguments: Mapping[str, Any] | None,
        then: Callable[[Any], None] | None,
    ) -> Any:
        assert self._websocket is not None
        self._last_request_number += 1
        frame = CommandFrame(
            command_name=name,
            request_id=str(self._last_request_number),
            task_id=UNSET if task_id is None else task_id,
            arguments=dict(arguments) if arguments else None,
        )
        pending = self._pending_requests[frame.request_id] = _PendingRequest(then)
        try:
            await self._websocket.send(msgspec.json.encode(frame).decode())
            return await pending.response_future
        except ConnectionClosed as error:
            raise _build_lost_error(name) from error
        finally:
            self._pending_requests.pop(frame.request_id, None)

    # Keeping the connection

    async def _maintain_connection(self, socket: ClientConnection) -> None:
        try:
            while True:
                await self._receive_frames(socket)
                socket = await self._reconnect()
        except RemoteError as error:
            self._give_up(error)
        except Exception as error:
            log.exception("the connection to %s ended because of a bug", self._address.url)
            self._give_up(RemoteError(f"the connection ended because of a bug: {error!r}"))

    async def _receive_frames(self, socket: ClientConnection) -> None:
        """Receive frames until the connection is lost."""
        self._websocket = socket
        restoring: asyncio.Task[None] | None = None
        try:
            async for text in socket:
                frame = _FRAME_DECODER.decode(text)
                if isinstance(frame, EventFrame):
                    self._listener.handle(frame)
                elif frame.request_id == WELCOME_REQUEST_ID:
                    self.welcome = frame.data
                    self._offline_event.clear()
                    self._online_event.set()
                    restoring = asyncio.ensure_future(self._notify_reconnected())
                elif pending := self._pending_requests.get(frame.request_id):
                    pending.resolve(frame)
        except msgspec.DecodeError as error:
            raise RemoteError(f"the server does not speak joey's protocol: {error}") from error
        except ConnectionClosed as closed:
            log.info("lost the connection to %s: %s", self._address.url, closed)
        finally:
            self._handle_disconnect(restoring)
            await socket.close()
        if socket.close_code == UNAUTHORIZED_CLOSE_CODE:
            raise _build_denied_error(self._address)

    async def _notify_reconnected(self) -> None:
        try:
            await self._listener.handle_reconnected()
        except RemoteError as error:
            log.info("could not continue after reconnecting: %s", error)

    def _handle_disconnect(self, restoring: asyncio.Task[None] | None) -> None:
        self._websocket = None
        self._online_event.clear()
        self._offline_event.set()
        if restoring is not None:
            restoring.cancel()
        if self.fatal_error is None:
            self._listener.handle_connection_lost()
        for pending in self._pending_requests.values():
            pending.fail(_build_lost_error("the command"))

    def _give_up(self, error: RemoteError) -> None:
        self.fatal_error = error
        self._online_event.set()  # tell callers that wait for a connection that there will be none
        for pending in self._pending_requests.values():
            pending.fail(error)
        self._listener.handle_connection_failed(error)

    async def _reconnect(self) -> ClientConnection:
        pause = INITIAL_BACKOFF_S
        try:
            async with asyncio.timeout(self._reconnect_timeout_s):
                while True:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                    pause = min(2 * pause, MAX_BACKOFF_S)
                    try:
                        return await self._connect()
                    except RemoteError as error:
                        if error.code != CONNECTION_LOST:
                            raise
                        log.info("still no connection: %s", error)
        except TimeoutError as error:
            raise RemoteError(
                f"the server at {self._address.url} did not come back within"
                f" {self._reconnect_timeout_s:g} seconds"
            ) from error

    async def _connect(self) -> ClientConnection:
        address = self._address
        try:
            return await connect(
                address.url,
                additional_headers={"Authorization": f"Bearer {address.token}"},
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=HANDSHAKE_TIMEOUT_S,
                proxy=None if address.is_local else True,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status == 401:
                raise _build_denied_error(address) from error
            body = error.response.body.decode("utf-8", "replace").strip()[:200]
            message = f"the server at {address.url} refused ({status}): {body}"
            raise RemoteError(
                message, PERMISSION_DENIED if status == 403 else CONNECTION_LOST
            ) from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise RemoteError(
                f"there is no joey server at {address.url} ({error}); `joey serve` starts one, and"
                " a server elsewhere is named by its address (joey attach --url URL)"
            ) from error


_FRAME_DECODER: msgspec.json.Decoder[EventFrame | ResponseFrame] = msgspec.json.Decoder(
    EventFrame | ResponseFrame
)


def _build_lost_error(subject: str) -> RemoteError:
    return RemoteError(
        f"the connection was lost before {subject} was answered; it may have been executed"
    )


def _build_denied_error(address: ServerAddress) -> RemoteError:
    return RemoteError(
        f"the server at {address.url} wants another token: give it as JOEY_TOKEN,"
        " or with the link that `joey serve` prints",
        PERMISSION_DENIED,
    )


DEFAULT_URL = "ws://127.0.0.1:7800/ws"
_WEBSOCKET_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class ServerAddress(Struct, frozen=True):
    url: str
    token: str | None
    is_local: bool
    """The server is on this machine."""


def resolve_server_address(
    url: str | None, token: str | None, env: Mapping[str, str]
) -> ServerAddress:
    """Resolve the server at `url`, which may also be the link that `joey serve` prints. The token
    is the argument, else that of the link, else `JOEY_TOKEN`, else the one that a server on this
    machine left in `$JOEY_HOME/server.token`, which is sent nowhere else. Raises UserError for an
    invalid address."""
    parts = urlsplit(url or DEFAULT_URL)
    if parts.scheme not in _WEBSOCKET_SCHEMES or not parts.hostname:
        raise UserError(f"{url!r} is not the address of a server; one looks like {DEFAULT_URL}")
    path = parts.path if parts.path not in ("", "/") else "/ws"
    is_local = _is_loopback(parts.hostname)
    linked = parse_qs(parts.fragment).get("token", [""])[0]
    token = (
        token or linked or env.get("JOEY_TOKEN") or (_read_stored_token(env) if is_local else None)
    )
    plain = urlunsplit((_WEBSOCKET_SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))
    return ServerAddress(plain, token, is_local)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_stored_token(env: Mapping[str, str]) -> str | None:
    home = Path(env["JOEY_HOME"]) if env.get("JOEY_HOME") else Path.home() / ".roo"
    try:
        return home.expanduser().joinpath("server.token").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the token in {home}/server.token cannot be read: {error}") from error
