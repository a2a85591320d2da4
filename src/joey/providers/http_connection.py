"""TCP and TLS connections to the address of a URL, through a proxy if the environment names one.

A connection is an asyncio protocol that collects arriving bytes. Unlike with streams, a read costs
one wake-up and no copy, the read timeout is one timer for the whole response instead of one for
each read, and closing the socket is a plain call that works from anywhere, even while a cancelled
reader unwinds.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are read in either case. Loopback is never
sent to a proxy: a model server on this machine is not reachable from another one.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from joey.core.text import compile_regex
from joey.errors import (
    NOT_RUNNING_CODE,
    UNREACHABLE_CODE,
    ConfigError,
    ProviderError,
    ProviderFailureKind,
)
from joey.providers.http_parser import ProtocolError, ResponseEnd, ResponseHead, ResponseReader

if TYPE_CHECKING:
    import ssl


_MAX_BUFFERED_BYTES = 1024 * 1024
_HAPPY_EYEBALLS_DELAY_S = 0.25


class HttpConnection(asyncio.Protocol):
    """Read by one reader at a time; `abort` may be called at any time, repeatedly."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received_chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._is_paused = False
        self._has_ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._read_timeout_timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        """When the connection was put aside for another request."""

    # Called by asyncio ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received_chunks.append(data)
        self._buffered_bytes += len(data)
        is_full = self._buffered_bytes > _MAX_BUFFERED_BYTES
        if is_full and self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake_reader()

    def eof_received(self) -> None:
        self._has_ended = True
        self._wake_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self._error = self._error or exc
        self.clear_read_timeout()
        self._wake_reader()

    # Called by the client ---------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether it is still open, and nothing has arrived since the last response ended."""
        return not (self._has_ended or self._received_chunks or self._transport is None)

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send all pieces at once: each separate write is a system call and perhaps a packet."""
        if self._transport is not None:
            self._transport.writelines(pieces)

    async def receive(self) -> bytes:
        """Return the bytes that have arrived; empty if the peer has closed the connection. Raises
        OSError if the connection broke, TimeoutError if nothing arrived for as long as
        `set_read_timeout` allows."""
        while not self._received_chunks:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return b""
            self._waiter = self._loop.create_future()
            self._waiting_since = self._loop.time()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = b"".join(self._received_chunks)
        self._received_chunks.clear()
        self._buffered_bytes = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def set_read_timeout(self, timeout: float) -> None:
        """Set the longest time to wait for the next bytes."""
        self.clear_read_timeout()
        self._read_timeout_timer = self._loop.call_later(timeout, self._check_read_timeout, timeout)

    def clear_read_timeout(self) -> None:
        if self._read_timeout_timer is not None:
            self._read_timeout_timer.cancel()
            self._read_timeout_timer = None

    def abort(self) -> None:
        """Close the socket now."""
        self.clear_read_timeout()
        self._has_ended = True
        self._received_chunks.clear()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Hand the transport over to another protocol, with the bytes received since it was
        opened."""
        transport, self._transport = self._transport, None
        assert transport is not None, "a connection that was aborted cannot be handed over"
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._received_chunks:
            protocol.data_received(data)
        if self._has_ended:
            protocol.connection_lost(self._error)

    async def start_tls(self, context: ssl.SSLContext, hostname: str) -> None:
        """Start TLS from here on (inside a tunnel)."""
        if self._transport is None:
            raise ConnectionResetError("the connection was closed")
        self._transport = await self._loop.start_tls(
            self._transport, self, context, server_hostname=hostname
        )

    def _wake_reader(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check_read_timeout(self, timeout: float) -> None:
        waited = self._loop.time() - self._waiting_since if self._waiter is not None else 0.0
        if waited >= timeout:
            self._read_timeout_timer = None
            self._error = TimeoutError()
            self._wake_reader()
            return
        self._read_timeout_timer = self._loop.call_later(
            timeout - waited, self._check_read_timeout, timeout
        )


async def connect(
    target: HttpAddress,
    proxy: HttpAddress | None,
    tls: Callable[[], ssl.SSLContext],
    connect_timeout: float,
) -> HttpConnection:
    """Open a connection to `target`, through `proxy` if there is one. Raises ProviderError if the
    host does not exist, does not answer, is too slow or is not trusted; the text says which."""
    first = proxy or target
    opened: HttpConnection | None = None
    try:
        async with asyncio.timeout(connect_timeout):
            # One address leaves nothing to race for, and asyncio's race loses a socket when
            # cancelled.
            is_ip_literal = ":" in first.host or first.host.replace(".", "").isdigit()
            _, opened = await asyncio.get_running_loop().create_connection(
                HttpConnection,
                first.host,
                first.port,
                ssl=tls() if target.is_secure and proxy is None else None,
                happy_eyeballs_delay=None if is_ip_literal else _HAPPY_EYEBALLS_DELAY_S,
            )
            if proxy is not None and target.is_secure:
                await _open_tunnel(opened, target, proxy)
                await opened.start_tls(tls(), target.host)
        return opened
    except BaseException as error:
        if opened is not None:
            opened.abort()
        if isinstance(error, OSError):  # TimeoutError and the errors of TLS among them
            text = describe_connection_failure(error, first, connect_timeout)
            code = None
            if _is_refused(error) and target.is_loopback:
                code = NOT_RUNNING_CODE
            elif _is_refused(error) or isinstance(error, socket.gaierror):
                code = UNREACHABLE_CODE
            raise ProviderError(text, failure=ProviderFailureKind.NETWORK, code=code) from error
        raise


async def _open_tunnel(connection: HttpConnection, target: HttpAddress, proxy: HttpAddress) -> None:
    lines = [f"CONNECT {target.host_and_port} HTTP/1.1", f"Host: {target.host_and_port}"]
    if proxy.proxy_authorization:
        lines.append(f"Proxy-Authorization: {proxy.proxy_authorization}")
    connection.send(["\r\n".join([*lines, "", ""]).encode("latin-1")])
    head = await _read_tunnel_response(connection, proxy)
    if 200 <= head.status < 300:
        return
    advice = " Check the user and password in the proxy's address." if head.status == 407 else ""
    raise ProviderError(
        f"The proxy {proxy.host_and_port} refused to connect to {target.host_and_port}"
        f" ({head.status} {head.reason}).{advice}",
        failure=ProviderFailureKind.NETWORK,
        status=head.status,
    )


async def _read_tunnel_response(connection: HttpConnection, proxy: HttpAddress) -> ResponseHead:
    """Read the answer to CONNECT, which has no body, whatever it says: the tunnel begins after its
    head."""
    received = b""
    while b"\r\n\r\n" not in received:
        data = await connection.receive()
        if not data:
            raise ConnectionResetError("the proxy closed the connection")
        received += data
        if len(received) > 64 * 1024:
            break
    try:
        events = ResponseReader().feed(received[: received.find(b"\r\n\r\n") + 4])
    except ProtocolError as error:
        raise ProviderError(
            f"{proxy.host_and_port} does not respond like a proxy ({error}). Check HTTPS_PROXY.",
            failure=ProviderFailureKind.NETWORK,
        ) from error
    match events:
        case [ResponseHead() as head] | [ResponseHead() as head, ResponseEnd()]:
            return head
        case _:
            raise ConnectionResetError("the proxy sent no answer")


def describe_connection_failure(error: OSError, address: HttpAddress, seconds: float) -> str:
    """Describe for a user why there is no connection, and what to do."""
    where = address.host_and_port
    if isinstance(error, TimeoutError):
        return f"No connection to {where} within {seconds:g} seconds. Check the network."
    if isinstance(error, socket.gaierror):
        return (
            f"There is no host named {address.host!r} (or no network)."
            " Check the base URL and the connection."
        )
    if _is_refused(error):
        return (
            f"Nothing answers at {where} (connection refused)."
            " Check the address, and that the server there is running."
        )
    if type(error).__name__ == "SSLCertVerificationError":
        reason = getattr(error, "verify_message", "") or str(error)
        return (
            f"The certificate of {where} is not trusted ({reason})."
            " If it is your own, name its authority's file in SSL_CERT_FILE."
        )
    return f"No connection to {where}: {error.strerror or error}."


def _is_refused(error: OSError) -> bool:
    """Whether the connection was refused, also if asyncio joined errors of several addresses in one
    text."""
    return isinstance(error, ConnectionRefusedError) or (
        f"[Errno {errno.ECONNREFUSED}]" in str(error)
    )


_URL_RE = compile_regex(
    r"(?P<scheme>https?)://(?:(?P<user>[^@/?#]*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/?#\[\]@]+)(?::(?P<port>\d{1,5}))?(?P<path>[/?][^\s#]*)?",
    re.IGNORECASE,
)
_PERCENT_ESCAPE_RE = compile_regex(rb"%([0-9A-Fa-f]{2})")
_LOOPBACK_HOST_RE = compile_regex(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


class HttpAddress(Struct, frozen=True):
    """One side of a connection."""

    host: str
    port: int
    is_secure: bool
    path: str = "/"
    credentials: str | None = None
    """`user:password` of a proxy, decoded."""

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """The value of the `Host` header: the port only if it is not the default."""
        usual = 443 if self.is_secure else 80
        return self.host_and_port.removesuffix(f":{usual}" if self.port == usual else "")

    @property
    def is_loopback(self) -> bool:
        return _LOOPBACK_HOST_RE.fullmatch(self.host) is not None

    @property
    def proxy_authorization(self) -> str | None:
        if self.credentials is None:
            return None
        return "Basic " + b64encode(self.credentials.encode()).decode("ascii")


def parse_url(url: str, setting_name: str = "base URL") -> HttpAddress:
    """Parse an `http` or `https` URL. Raises ConfigError, which names the setting."""
    match = _URL_RE.fullmatch(url.strip())
    port = int(match["port"]) if match and match["port"] else None
    if match is None or not url.isascii() or (port is not None and not 0 < port < 65536):
        if "@" in url:  # the part before it is a login, even if malformed
            raise ConfigError(
                f"The {setting_name} is not an http:// or https:// address; in its password, write "
                "/ as %2F and @ as %40."
            )
        raise ConfigError(f"The {setting_name} {url!r} is not an http:// or https:// address.")
    secure = match["scheme"].lower() == "https"
    path = match["path"] or "/"
    return HttpAddress(
        host=match["host"].strip("[]"),
        port=port or (443 if secure else 80),
        is_secure=secure,
        path=path if path.startswith("/") else f"/{path}",
        credentials=_unquote(match["user"]) if match["user"] else None,
    )


def find_proxy(target: HttpAddress, environ: Mapping[str, str]) -> HttpAddress | None:
    """Find the proxy to use; None for a direct connection."""
    if target.is_loopback:
        return None
    scheme = "https" if target.is_secure else "http"
    url = _read_variable(environ, f"{scheme}_proxy") or _read_variable(environ, "all_proxy")
    if not url or _is_proxy_exempt(target, _read_variable(environ, "no_proxy")):
        return None
    proxy = parse_url(url if "://" in url else f"http://{url}", f"proxy ({scheme.upper()}_PROXY)")
    if proxy.is_secure:
        raise ConfigError(
            f"The proxy ({scheme.upper()}_PROXY) is reached over https, which is not supported:"
            " give its http:// address."
        )
    return proxy


def _read_variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_proxy_exempt(target: HttpAddress, no_proxy: str) -> bool:
    host = target.host.lower()
    for entry in no_proxy.lower().replace(",", " ").split():
        if entry == "*":
            return True
        name = entry
        if name.count(":") == 1:
            name, _, port = name.partition(":")
            if port != str(target.port):
                continue
        name = name.strip("[]").removeprefix("*").removeprefix(".")
        if host == name or host.endswith(f".{name}") or _is_in_network(host, name):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    if "/" not in network:
        return False
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False  # a name is in no network, and a malformed entry matches nothing


def _unquote(text: str) -> str:
    data = _PERCENT_ESCAPE_RE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())
    return data.decode("utf-8", "replace")
