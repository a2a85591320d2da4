"""The HTTP proxy through which sandboxed commands reach the allowed hosts.

The command has no network. On a socket inside its empty network namespace, joey serves as a proxy:
CONNECT, and requests in absolute form. Requests are parsed strictly: an ambiguous one is rejected.
A host must be on the list and is then resolved, and the connection is made to exactly the checked
address, so a listed name cannot lead to a private network. The traffic itself is not inspected.

If the user's own programs must use a proxy, connections go through that one. Hosts are then checked
by name only, because the other proxy resolves them; its password stays in joey.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from joey.core.permissions import hosts as allowed_hosts
from joey.core.permissions.hosts import AllowedHost
from joey.errors import ToolError
from joey.execution.sandbox.supervisor_client import SupervisorHandle, SupervisorTransport

log = logging.getLogger(__name__)

PROXY_PORT = 31280
"""Inside; nobody else is there when the command begins."""
_UNSUPPORTED_LEVEL_MESSAGE = (
    "sandboxNetwork names hosts, and the sandbox of this machine (level {level}) can only close or"
    " open the whole network, so the command was not run. Tell the user: bubblewrap makes it"
    " possible (see `joey doctor`); otherwise sandboxNetwork has to be off or all."
)
_MAX_CONNECTIONS = 64
_REQUEST_HEAD_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 30.0
_IDLE_TIMEOUT_S = 600.0
_CHUNK_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MAX_DENIAL_MESSAGES = 20
_PROXY_VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    *("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"),
)
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""
StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HostRefusedError(Exception):
    """A command must not reach this host."""


class ProxiedSupervisorHandle(SupervisorHandle):
    """A command with access to some hosts through its own proxy."""

    def __init__(
        self,
        plan: dict[str, Any],
        start_command: Callable[[dict[str, Any]], Awaitable[SupervisorTransport]],
        hosts: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        """`env` names the proxy of the user's own programs. Raises ToolError."""
        if (level := plan["sandbox"]["level"]) != "full":
            raise ToolError(_UNSUPPORTED_LEVEL_MESSAGE.format(level=level))
        super().__init__(plan, start_command)
        allowed = [allowed_hosts.parse_host(each) for each in hosts]
        self._proxy = HostProxy(allowed, resolve_host, find_upstream_proxy(env))
        self._endpoint: ProxyEndpoint | None = None
        plan["sandbox"]["env"] |= self._proxy.environment
        plan["command"]["port"] = PROXY_PORT
        # In a shared network, what an earlier command left could listen at this port.
        plan["sandbox"]["shares_network"] = False

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        await super().start(protocol)
        assert self._attached_socket is not None
        self._endpoint = await self._proxy.start_endpoint(self._attached_socket)

    def take_denial_messages(self) -> list[str]:
        return [] if self._endpoint is None else self._endpoint.take_denial_messages()

    def close(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()
        super().close()


class HostProxy:
    def __init__(
        self,
        hosts: Sequence[AllowedHost],
        resolve: HostResolver,
        upstream: UpstreamProxy | None = None,
    ) -> None:
        """`upstream` is the proxy of the user's own programs."""
        self._allowed_hosts = hosts
        self._resolve = resolve
        self._upstream = upstream

    @property
    def environment(self) -> dict[str, str]:
        """The variables that announce the proxy; servers inside the sandbox are reached
        directly."""
        address = f"http://127.0.0.1:{PROXY_PORT}"
        listed = {host.name for host in self._allowed_hosts}
        around = ",".join(each for each in _LOOPBACK_NAMES if each not in listed)
        found = dict.fromkeys(_PROXY_VARIABLES, address)
        return found | {"NO_PROXY": around, "no_proxy": around, "NODE_USE_ENV_PROXY": "1"}

    async def start_endpoint(self, listening: socket.socket) -> ProxyEndpoint:
        """Serve on a command's own socket."""
        endpoint = ProxyEndpoint(self)
        listening.setblocking(False)
        endpoint.server = await asyncio.start_server(
            endpoint.accept_connection, sock=listening, limit=_MAX_HEAD_BYTES, start_serving=False
        )
        try:
            await endpoint.server.start_serving()
        except asyncio.CancelledError:
            endpoint.close()
            raise
        return endpoint

    async def connect(self, request: ProxyRequest) -> StreamPair:
        """Raises HostRefusedError or OSError."""
        found = next(
            (each for each in self._allowed_hosts if each.allows(request.host, request.port)), None
        )
        if found is None:
            if not any(each.matches_name(request.host) for each in self._allowed_hosts):
                raise HostRefusedError("it is not in sandboxNetwork")
            raise HostRefusedError(
                "sandboxNetwork has this host, but not with this port"
                f" (list {request.display_address} to allow it)"
            )
        if self._upstream is not None and not found.is_local_or_address:
            return await self._upstream.connect(request)
        addresses = await self._resolve_allowed_addresses(request, found)
        for number, address in enumerate(addresses, 1):
            try:
                return await asyncio.open_connection(address, request.port)
            except OSError:
                if number == len(addresses):
                    raise
        raise socket.gaierror(socket.EAI_NONAME, "it has no address")

    async def _resolve_allowed_addresses(
        self, request: ProxyRequest, found: AllowedHost
    ) -> Sequence[str]:
        """Resolve the addresses that may be connected to; listed IP addresses are not looked up."""
        if found.is_local_or_address:
            is_local = allowed_hosts.is_local_name(found.name)
            return ["127.0.0.1", "::1"] if is_local else [request.host]
        addresses = await self._resolve(request.host, request.port)
        fine = [each for each in addresses if self._is_address_allowed(each, request.port)]
        if addresses and not fine:
            raise HostRefusedError(
                f"it leads to {addresses[0]}, which is not a public address (list "
                f"{format_host_port(addresses[0], request.port)} in sandboxNetwork to allow it)"
            )
        return fine

    def _is_address_allowed(self, text: str, port: int) -> bool:
        """Whether a listed name may resolve to this address: a private one must be listed too."""
        address = ip_address(text.partition("%")[0])
        return allowed_hosts.is_public_address(address) or any(
            each.allows(str(address), port) for each in self._allowed_hosts
        )


class ProxyEndpoint:
    """The proxy endpoint of one command."""

    server: asyncio.Server

    def __init__(self, proxy: HostProxy) -> None:
        self._proxy = proxy
        self._connection_tasks: set[asyncio.Task[None]] = set()
        self._denial_messages: dict[str, bool] = {}
        """Who was not reached, and why; whether it was told."""

    def accept_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connection_tasks) >= _MAX_CONNECTIONS:
            writer.write(build_response(503, "joey: too many connections at once"))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._handle_connection(reader, writer))
        self._connection_tasks.add(task)
        task.add_done_callback(self._connection_tasks.discard)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(_REQUEST_HEAD_TIMEOUT_S):
                request = await read_request(reader)
            await self._serve_request(request, reader, writer)
        except BadProxyRequestError as error:
            writer.write(build_response(400, f"joey: {error}"))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.debug("a connection through the proxy ended: %s", error)
        finally:
            writer.close()

    async def _serve_request(
        self, request: ProxyRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                there = await self._proxy.connect(request)
        except (HostRefusedError, OSError, TimeoutError) as error:
            status, message, advice = 502, _describe_connect_error(request, error), ""
            if isinstance(error, HostRefusedError):
                status, message = 403, f"refused {request.display_address}: {error}"
                advice = ". Only the user can change the setting sandboxNetwork."
            if len(self._denial_messages) < _MAX_DENIAL_MESSAGES:
                self._denial_messages.setdefault(f"network: {message}", False)
            writer.write(build_response(status, f"joey: {message}{advice}"))
            return
        if request.is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there[1].write(request.forwarded_head)
        await _relay_streams((reader, writer), there)

    def take_denial_messages(self) -> list[str]:
        """Take messages about denied hosts that were not taken yet."""
        found = [message for message, is_taken in self._denial_messages.items() if not is_taken]
        self._denial_messages |= dict.fromkeys(found, True)
        return found

    def close(self) -> None:
        self.server.close()
        for task in self._connection_tasks:
            task.cancel()


def _describe_connect_error(request: ProxyRequest, error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"{request.host} was not found: {error.strerror}"
    silence = f"no answer within {_CONNECT_TIMEOUT_S:.0f} seconds"
    reason = getattr(error, "strerror", None) or str(error) or silence
    return f"{request.display_address} was not reached: {reason}"


class _ActivityClock(Struct):
    last_activity: float


async def _relay_streams(here: StreamPair, there: StreamPair) -> None:
    """Relay both streams until both have ended, or nothing has been sent for long."""
    clock = _ActivityClock(asyncio.get_running_loop().time())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy_stream(here[0], there[1], clock))
            group.create_task(_copy_stream(there[0], here[1], clock))
    except* (OSError, TimeoutError):
        pass  # One side is closed, and by now the other too.
    finally:
        there[1].close()


async def _copy_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: _ActivityClock
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with asyncio.timeout_at(clock.last_activity + _IDLE_TIMEOUT_S):
                data = await reader.read(_CHUNK_BYTES)
        except TimeoutError:
            if loop.time() < clock.last_activity + _IDLE_TIMEOUT_S:
                continue  # The other way is in use.
            raise
        clock.last_activity = loop.time()
        if not data:
            break
        writer.write(data)
        async with asyncio.timeout(_IDLE_TIMEOUT_S):
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host by the system. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


_REQUEST_LINE_RE = re.compile(rb"([A-Z]{1,20}) (\S{1,16384}) HTTP/1\.[01]")
_HEADER_RE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_ABSOLUTE_URL_RE = re.compile(r"http://([^/?#]+)([/?]?[^#]*)", re.IGNORECASE)
_DROPPED_HEADER_PREFIXES = (b"host:", b"connection:", b"keep-alive:", b"proxy-")


class BadProxyRequestError(Exception):
    """A proxy request is invalid; the text says why."""


class ProxyRequest(Struct, frozen=True):
    host: str
    port: int
    is_tunnel: bool
    forwarded_head: bytes = b""
    """What is sent to the host in place of what was sent to us."""

    @property
    def display_address(self) -> str:
        return format_host_port(self.host, self.port)


def format_host_port(host: str, port: int) -> str:
    """Format host and port as in a list of hosts."""
    return _join_port(host, port, allowed_hosts.WEB_PORTS)


def _join_port(host: str, port: int, default_ports: tuple[int, ...] = ()) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port in default_ports else f"{name}:{port}"


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest:
    """Raises BadProxyRequestError, OSError or IncompleteReadError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadProxyRequestError("the head of the request is too long") from error
    return parse_request(head)


def parse_request(head: bytes) -> ProxyRequest:
    """Raises BadProxyRequestError."""
    first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST_LINE_RE.fullmatch(first)
    if found is None or not all(_HEADER_RE.fullmatch(each) for each in headers):
        raise BadProxyRequestError("this is not a request for a proxy")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        return ProxyRequest(*_parse_authority(target, None), is_tunnel=True)
    absolute = _ABSOLUTE_URL_RE.fullmatch(target)
    if absolute is None:
        raise BadProxyRequestError("only CONNECT and requests for http:// addresses are understood")
    host, port = _parse_authority(absolute[1], 80)
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    kept = [each for each in headers if not each.lower().startswith(_DROPPED_HEADER_PREFIXES)]
    named = b"Host: " + _join_port(host, port, (80,)).encode()
    rest = b"\r\n".join((named, b"Connection: close", *kept, b"\r\n"))
    line = b"%s %s HTTP/1.1\r\n" % (method, path.encode("latin-1"))
    return ProxyRequest(host, port, is_tunnel=False, forwarded_head=line + rest)


def _parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    name, port = allowed_hosts.split_port(text)
    is_plain = text.isascii() and (":" not in name or name[0] == "[")
    host = allowed_hosts.normalize_host(name) if is_plain else None
    number = default_port if port is None else port
    if host is None or number is None or not 0 < number < 65536:
        raise BadProxyRequestError(f"{text[:200]!r} is not a host and a port")
    return host, number


def build_response(status: int, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body


_UPSTREAM_PROXY_VARIABLES = ("https_proxy", "all_proxy", "http_proxy")


class UpstreamProxy(Struct, frozen=True):
    host: str
    port: int
    credentials: str = ""

    async def connect(self, request: ProxyRequest) -> StreamPair:
        """Connect to the host. Raises OSError if the other proxy rejects it."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=_MAX_HEAD_BYTES)
        place = _join_port(request.host, request.port)
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if self.credentials:
            login = b64encode(self.credentials.encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {login}")
        writer.write("\r\n".join((*lines, "", "")).encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise OSError("your own proxy gave no answer") from error
        if head.split(b" ", 2)[1:2] != [b"200"]:
            writer.close()
            said = head.split(b"\r\n", 1)[0].decode("latin-1")[:100]
            raise OSError(f"your own proxy says {said!r}")
        return reader, writer


def find_upstream_proxy(env: Mapping[str, str]) -> UpstreamProxy | None:
    """Find the proxy that an environment names, if its protocol is supported."""
    names = (each for name in _UPSTREAM_PROXY_VARIABLES for each in (name, name.upper()))
    found = next(filter(None, map(env.get, names)), "")
    try:
        parts = urlsplit(found if "//" in found else f"http://{found}")
        if parts.scheme != "http" or not parts.hostname:
            return None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        login = f"{user}:{password}" if user else ""
        return UpstreamProxy(parts.hostname, parts.port or 80, login)
    except ValueError:
        return None
