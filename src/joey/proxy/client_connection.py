"""Connection of a client: passes its requests to a service, and the responses back.

Each client connection has one connection to a service at a time, kept open as long as the client
keeps its own. So both sides see what they would see without a proxy: pipelined requests, reused
connections, a cut at any byte.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from enum import Enum, auto
from fcntl import ioctl
from http import HTTPStatus
from termios import TIOCOUTQ
from typing import cast

import msgspec
from msgspec import Struct

from joey.errors import UserError
from joey.proxy.access import AccessRefusal, ProxyAccess
from joey.proxy.exchange import Exchange, ExchangeState
from joey.proxy.http_messages import (
    MAX_HEAD_BYTES,
    MessageError,
    RequestHead,
    find_request_framing,
    parse_request_head,
    parse_response_head,
)
from joey.proxy.message_streams import RequestStream, ResponseStream
from joey.proxy.recorder import ExchangeRecorder, Recording
from joey.proxy.routes import Route, Routes
from joey.proxy.upstream_connection import UpstreamConnection, UpstreamConnector

log = logging.getLogger(__name__)

_HEAD_END = b"\r\n\r\n"
_MAX_WAITING_BYTES = 256 * 1024
_LINGER_S = 2.0
_RESET_POLL_INTERVAL_S = 0.01
_RESET_POLLS = 300
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_REFUSALS = {
    AccessRefusal.FOREIGN: (
        HTTPStatus.FORBIDDEN,
        "joey proxy serves programs on this machine: the Host or Origin of this request is not"
        " local.",
    ),
    AccessRefusal.NO_TOKEN: (
        HTTPStatus.UNAUTHORIZED,
        "joey proxy needs its token here: as /~TOKEN at the beginning of the path, or in the header"
        " x-joey-token.",
    ),
}


class ProxyServices(Struct, frozen=True):
    """Services shared by all connections."""

    routes: Routes
    access: ProxyAccess
    recorder: ExchangeRecorder
    connector: UpstreamConnector
    keeps_encoding: bool
    connections: set[ProxiedConnection]


class _Phase(Enum):
    RELAYING = auto()
    TUNNEL = auto()
    REFUSED = auto()
    """We have sent our own response. Remaining input is drained so that the client can read the
    response instead of a connection error."""
    CLOSED = auto()


class _ExchangeStreams:
    def __init__(self, head: RequestHead, route: Route, recording: Recording) -> None:
        """Raises MessageError."""
        self.head = head
        self.route = route
        self.recording = recording
        self.request = RequestStream(find_request_framing(head), recording)
        self.response = ResponseStream(head.method, recording)


class ProxiedConnection(asyncio.Protocol):
    def __init__(self, services: ProxyServices) -> None:
        self._services = services
        self._phase = _Phase.RELAYING
        self._transport: asyncio.Transport | None = None
        self._waiting = b""
        """Bytes from the client that cannot be forwarded yet."""
        self._searched = 0
        self._exchange: _ExchangeStreams | None = None
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_upstream_full = False
        self._refusal = ""
        """The text of our own response."""

    # Called by asyncio ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._services.connections.add(self)

    def data_received(self, data: bytes) -> None:
        match self._phase:
            case _Phase.TUNNEL:
                if self._upstream is not None:
                    self._upstream.send(data)
            case _Phase.REFUSED:
                self._record_unsent(data)
            case _Phase.RELAYING:
                self._waiting = self._waiting + data if self._waiting else data
                self._process()

    def eof_received(self) -> bool | None:
        if self._phase is _Phase.TUNNEL and self._upstream and self._upstream.send_end():
            return True
        self._handle_client_end()
        self._phase = _Phase.CLOSED
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._services.connections.discard(self)
        self._handle_client_end()
        self._phase = _Phase.CLOSED

    def pause_writing(self) -> None:
        if self._upstream is not None:
            self._upstream.set_reading(False)

    def resume_writing(self) -> None:
        if self._upstream is not None:
            self._upstream.set_reading(True)

    # Called by the upstream connection --------------------------------------------------------

    def handle_upstream_data(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None or exchange.response.is_complete:
            self._write(data)  # not requested, but without a proxy it would arrive
            return
        self._write(exchange.response.feed(data))
        if exchange.response.is_tunnel and self._phase is _Phase.RELAYING:
            self._phase = _Phase.TUNNEL
            waiting, self._waiting = self._waiting, b""
            self.data_received(waiting)
        self._finish_if_complete()

    def handle_upstream_end(self, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self._upstream = None
        if exchange is None or exchange.response.is_complete:
            is_cut = False
        else:
            is_cut = error is not None or not exchange.response.ends_with_connection
            self._write(exchange.response.take_unfinished_head())
        if exchange is not None:
            exchange.recording.end(ExchangeState.CUT_UPSTREAM if is_cut else ExchangeState.DONE)
        self._phase = _Phase.CLOSED
        is_idle = exchange is None or exchange.request.is_complete
        if (is_cut and error) or (is_idle and isinstance(error, ConnectionResetError)):
            self._reset(_RESET_POLLS)
        elif exchange is not None and not exchange.request.is_complete:
            self._waiting = b""
            self._close_slowly()
        elif self._transport is not None:
            self._transport.close()

    def set_client_reading(self, is_reading: bool) -> None:
        self._is_upstream_full = not is_reading
        self._apply_backpressure()

    # Requests ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection because the proxy stops."""
        if self._exchange is not None:
            self._exchange.recording.end(ExchangeState.CUT_KILLED)
            self._exchange = None
        self._handle_client_end()
        if self._transport is not None:
            self._transport.abort()

    def _process(self) -> None:
        """Pass on as much of the received data as possible."""
        try:
            while self._waiting and self._phase is _Phase.RELAYING:
                if self._exchange is None and not self._begin_exchange():
                    break
                exchange = self._exchange
                if exchange is None or exchange.request.is_complete or self._upstream is None:
                    break
                used = exchange.request.feed(self._waiting)
                self._upstream.send(self._waiting[:used])
                self._waiting = self._waiting[used:]
        except MessageError as error:
            self._refuse(
                HTTPStatus.BAD_REQUEST, f"joey proxy cannot forward this request: {error}."
            )
            self._handle_client_end()
        self._finish_if_complete()
        self._apply_backpressure()

    def _apply_backpressure(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_upstream_full or len(self._waiting) > _MAX_WAITING_BYTES:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _begin_exchange(self) -> bool:
        """Begin an exchange if the head of a request is complete and accepted. Raises
        MessageError."""
        self._waiting = self._waiting.lstrip(b"\r\n")
        end = self._waiting.find(_HEAD_END, max(self._searched - len(_HEAD_END), 0))
        self._searched = len(self._waiting)
        if (end if end >= 0 else self._searched) > MAX_HEAD_BYTES:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            limit = f"{MAX_HEAD_BYTES // 1024} KB"
            self._refuse(status, f"joey proxy accepts request headers of at most {limit}.")
            return False
        if end < 0:
            return False
        head = parse_request_head(self._waiting[:end])
        self._waiting = self._waiting[end + len(_HEAD_END) :]
        self._searched = 0
        target = self._services.access.check(head)
        if isinstance(target, AccessRefusal):
            self._refuse(*_REFUSALS[target])
            return False
        if not target.startswith(b"/"):
            raise MessageError(
                "its target is not a path; set this address as the client's base URL"
            )
        route = self._services.routes.find(head, target)
        if route is None:
            self._refuse(HTTPStatus.NOT_FOUND, "joey proxy has no profile with that name.")
            return False
        self._open_exchange(head, route)
        return True

    def _open_exchange(self, head: RequestHead, route: Route) -> None:
        """Raises MessageError."""
        find_request_framing(head)
        recording = self._services.recorder.open(
            Exchange(
                at=0,
                wire=route.wire,
                method=head.method,
                path=route.target.decode("latin-1"),
                upstream=route.upstream.url,
                request_headers=head.headers,
            )
        )
        self._exchange = _ExchangeStreams(head, route, recording)
        if self._upstream is not None and self._upstream.upstream != route.upstream:
            self._upstream.close()
            self._upstream = None
        if self._upstream is not None:
            self._send_head(self._exchange)
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(self._exchange))

    async def _connect(self, exchange: _ExchangeStreams) -> None:
        connector = self._services.connector
        try:
            self._upstream = await connector.connect(exchange.route.upstream, self)
            if self._exchange is not exchange:
                return  # the service has closed the connection already
            self._send_head(exchange)
        except (UserError, ValueError) as error:  # ValueError: a host that is no name
            self._refuse(HTTPStatus.BAD_GATEWAY, f"joey proxy: {error}", exchange.recording)
            waiting, self._waiting = self._waiting, b""
            self._record_unsent(waiting)
            self._apply_backpressure()
            return
        self._process()

    def _send_head(self, exchange: _ExchangeStreams) -> None:
        assert self._upstream is not None
        upstream = exchange.route.upstream
        head = upstream.build_head(
            exchange.head,
            exchange.route.target,
            keeps_encoding=self._services.keeps_encoding,
            proxy=self._services.connector.find_proxy(upstream),
        )
        self._upstream.send(head)

    def _finish_if_complete(self) -> None:
        exchange = self._exchange
        if (
            exchange is None
            or self._phase is not _Phase.RELAYING
            or not (exchange.request.is_complete and exchange.response.is_complete)
        ):
            return
        exchange.recording.end(ExchangeState.DONE)
        self._exchange = None
        if self._waiting:
            self._process()

    # Ends -------------------------------------------------------------------------------------

    def _handle_client_end(self) -> None:
        """Handle a client that left: its response is cancelled, so that it is not paid for."""
        if self._connecting is not None:
            self._connecting.cancel()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()
        self._is_upstream_full = False
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        state = ExchangeState.CUT_CLIENT
        if exchange.response.is_complete or exchange.response.is_tunnel:
            state = ExchangeState.DONE
        elif self._phase is _Phase.REFUSED and upstream is None:
            state = ExchangeState.UNREACHABLE
        exchange.recording.end(state, self._refusal)

    def _refuse(self, status: HTTPStatus, text: str, recording: Recording | None = None) -> None:
        """Answer instead of a service, and close the connection."""
        self._phase = _Phase.REFUSED
        self._refusal = text
        body = msgspec.json.encode(
            {"type": "error", "error": {"type": "joey_proxy_error", "message": text}}
        )
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close"
        ).encode("ascii")
        if recording is not None:
            recording.add_response_head(parse_response_head(head), is_framed=True)
            if recording.keeps_response:
                recording.add_response(body)
        self._write(head + _HEAD_END + body)
        self._close_slowly()

    def _close_slowly(self) -> None:
        """Close while the client is still sending: read for a while, since it would otherwise get
        an error instead of the answer."""
        if self._transport is None or self._transport.is_closing():
            return
        self._is_upstream_full = False
        self._apply_backpressure()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)

    def _record_unsent(self, data: bytes) -> None:
        """Record a request that is sent to no service. It ends with its last byte, or with the
        connection."""
        exchange = self._exchange
        if exchange is None:
            return
        try:
            exchange.request.feed(data)
        except MessageError as error:
            log.debug("the body of a rejected request is malformed: %s", error)
        else:
            if not exchange.request.is_complete:
                return
        self._exchange = None
        exchange.recording.end(ExchangeState.UNREACHABLE, self._refusal)

    def _reset(self, polls: int) -> None:
        """Reset the connection as the service did, after everything received is delivered."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        connection: socket.socket = transport.get_extra_info("socket")
        if polls and (transport.get_write_buffer_size() or _count_unsent(connection)):
            loop = asyncio.get_running_loop()
            loop.call_later(_RESET_POLL_INTERVAL_S, self._reset, polls - 1)
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _count_unsent(connection: socket.socket) -> int:
    """Count the bytes that the peer has not acknowledged."""
    try:
        return int(struct.unpack("i", ioctl(connection.fileno(), TIOCOUTQ, bytes(4)))[0])
    except OSError:
        return 0
