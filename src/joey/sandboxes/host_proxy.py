"""The only way out for commands that may reach some hosts: a proxy in joey's own process.

The command has no network. At a socket inside its own empty one joey answers as an HTTP proxy:
CONNECT, and requests in absolute form. A host has to be on the list, is then looked up, and what is
connected to is the very address that was judged: a name that is listed leads nowhere private. What
goes through is not looked at.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

from msgspec import Struct

from joey.core.network_hosts import Host, is_local_name, is_public, read_host
from joey.sandboxes.proxy_requests import BadRequest, Request, answer_of, read_request, shown
from joey.sandboxes.upstream import Upstream, upstream_of

log = logging.getLogger(__name__)

PORT = 31280
"""Inside; nobody else is there when the command begins."""
_MOST_AT_ONCE = 64
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_IDLE_SECONDS = 600.0
_CHUNK = 64 * 1024
_LARGEST_HEAD = 64 * 1024
_MOST_NOTES = 20
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_TOOLS = ("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY")
_HERE = ("localhost", "127.0.0.1", "::1")

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """Whom a command must not reach."""


class HostProxy:
    def __init__(
        self, hosts: Sequence[Host], resolve: Resolver, upstream: Upstream | None = None
    ) -> None:
        """`upstream` is a proxy that the person's own programs use."""
        self._hosts = hosts
        self._resolve = resolve
        self._upstream = upstream

    @property
    def environment(self) -> dict[str, str]:
        """What tells programs that there is a proxy; what listens inside is reached without."""
        address = f"http://127.0.0.1:{PORT}"
        listed = {host.name for host in self._hosts}
        around = ",".join(each for each in _HERE if each not in listed)
        names = (*_NAMES, *(each.lower() for each in _NAMES), *_TOOLS)
        found = dict.fromkeys(names, address)
        return found | {"NO_PROXY": around, "no_proxy": around, "NODE_USE_ENV_PROXY": "1"}

    async def answer(self, listening: socket.socket) -> Door:
        """Answer at a socket of a command's own."""
        door = Door(self)
        listening.setblocking(False)
        door.server = await asyncio.start_server(
            door.meet, sock=listening, limit=_LARGEST_HEAD, start_serving=False
        )
        try:
            await door.server.start_serving()
        except asyncio.CancelledError:
            door.close()
            raise
        return door

    async def reach(self, request: Request) -> Streams:
        """Raises Refused or OSError."""
        found = next(
            (each for each in self._hosts if each.allows(request.host, request.port)), None
        )
        if found is None:
            raise Refused(self._why_unlisted(request))
        if self._upstream is not None and not found.is_local:
            return await self._upstream.connect(request)
        addresses = await self._addresses(request, found)
        for number, address in enumerate(addresses, 1):
            try:
                return await asyncio.open_connection(address, request.port)
            except OSError:
                if number == len(addresses):
                    raise
        raise socket.gaierror(socket.EAI_NONAME, "it has no address")

    def _why_unlisted(self, request: Request) -> str:
        if not any(each.names(request.host) for each in self._hosts):
            return "it is not in sandboxNetwork"
        return (
            "sandboxNetwork has this host, but not with this port"
            f" (list {request.shown} to allow it)"
        )

    async def _addresses(self, request: Request, found: Host) -> Sequence[str]:
        """What may be connected to; listed addresses are not looked up anywhere."""
        if found.is_local and not is_local_name(found.name):
            return [request.host]
        if found.is_local:
            return ["127.0.0.1", "::1"]
        addresses = await self._resolve(request.host, request.port)
        fine = [each for each in addresses if self._may_be_met(each, request.port)]
        if addresses and not fine:
            raise Refused(
                f"it leads to {addresses[0]}, which is not a public address"
                f" (list {shown(addresses[0], request.port)} in sandboxNetwork to allow it)"
            )
        return fine

    def _may_be_met(self, text: str, port: int) -> bool:
        """Where a listed name may lead: a private address has to be listed too."""
        address = ip_address(text.partition("%")[0])
        return is_public(address) or any(each.allows(str(address), port) for each in self._hosts)


class Door:
    """Where one command asks to be let through."""

    server: asyncio.Server

    def __init__(self, proxy: HostProxy) -> None:
        self._proxy = proxy
        self._visits: set[asyncio.Task[None]] = set()
        self._notes: dict[str, bool] = {}
        """Who was not reached, and why; whether it was told."""

    def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visits) >= _MOST_AT_ONCE:
            writer.write(answer_of(503, "joey: too many connections at once"))
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._visit(reader, writer))
        self._visits.add(task)
        task.add_done_callback(self._visits.discard)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.debug("a connection through the proxy ended: %s", error)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                request = await read_request(reader)
        except BadRequest as error:
            writer.write(answer_of(400, f"joey: {error}"))
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                there = await self._proxy.reach(request)
        except Refused as error:
            told = f"refused {request.shown}: {error}"
            self._note(f"network: {told}")
            only = "Only the user can change the setting sandboxNetwork."
            writer.write(answer_of(403, f"joey: {told}. {only}"))
            return
        except (OSError, TimeoutError) as error:
            told = _why_unreached(request, error)
            self._note(f"network: {told}")
            writer.write(answer_of(502, f"joey: {told}"))
            return
        if request.is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there[1].write(request.head)
        await _relay((reader, writer), there)

    def _note(self, words: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.setdefault(words, False)

    def take_notes(self) -> list[str]:
        """Those that nobody has taken yet."""
        found = [words for words, is_told in self._notes.items() if not is_told]
        self._notes |= dict.fromkeys(found, True)
        return found

    def close(self) -> None:
        self.server.close()
        for task in self._visits:
            task.cancel()


def _why_unreached(request: Request, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"{request.host} was not found: {error.strerror}"
    silence = f"no answer within {_CONNECT_SECONDS:.0f} seconds"
    return f"{request.shown} was not reached: {error.strerror or str(error) or silence}"


class _Clock(Struct):
    moved: float


async def _relay(here: Streams, there: Streams) -> None:
    """Both ways, until both have ended or nothing has moved for long."""
    clock = _Clock(asyncio.get_running_loop().time())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_carry(here[0], there[1], clock))
            group.create_task(_carry(there[0], here[1], clock))
    except* (OSError, TimeoutError):
        pass  # One side has gone, and so has the other by now.
    finally:
        there[1].close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: _Clock) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with asyncio.timeout_at(clock.moved + _IDLE_SECONDS):
                data = await reader.read(_CHUNK)
        except TimeoutError:
            if loop.time() < clock.moved + _IDLE_SECONDS:
                continue  # The other way is in use.
            raise
        clock.moved = loop.time()
        if not data:
            break
        writer.write(data)
        async with asyncio.timeout(_IDLE_SECONDS):
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()


def make_proxy(hosts: Sequence[str], env: Mapping[str, str]) -> HostProxy:
    return HostProxy([read_host(each) for each in hosts], resolve, upstream_of(env))


async def resolve(host: str, port: int) -> Sequence[str]:
    """By the system.

    Raises:
        OSError
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
