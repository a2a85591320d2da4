"""The listening proxy: its options, its socket, and its end."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from joey.errors import ConfigError
from joey.proxy.access import ProxyAccess
from joey.proxy.client_connection import ProxiedConnection, ProxyServices
from joey.proxy.recorder import ExchangeRecorder
from joey.proxy.routes import Routes
from joey.proxy.upstream_connection import UpstreamConnector
from joey.server.auth import Token

DEFAULT_PORT = 7801
LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "0.0.0.0"
_BACKLOG = 512


class ListenOptions(Struct, frozen=True):
    port: int = DEFAULT_PORT
    allow_remote: bool = False
    keeps_encoding: bool = False
    token: Token | None = None


@asynccontextmanager
async def run_proxy_server(
    options: ListenOptions, routes: Routes, recorder: ExchangeRecorder
) -> AsyncIterator[str]:
    """Serve until the end of the block; yields the URL that clients use as their base. Raises
    ConfigError if the port is taken."""
    host = ALL_ADDRESSES if options.allow_remote else LOOPBACK
    loop = asyncio.get_running_loop()
    services = ProxyServices(
        routes,
        ProxyAccess(options.token, options.allow_remote),
        recorder,
        UpstreamConnector(os.environ),
        options.keeps_encoding,
        connections=set(),
    )
    _allow_many_files()
    try:
        server = await loop.create_server(
            lambda: ProxiedConnection(services), host, options.port, backlog=_BACKLOG
        )
    except OSError as error:
        raise ConfigError(
            f"Port {options.port} cannot be used: {os.strerror(error.errno or 0)}. Choose another"
            " with --port."
        ) from error
    port = server.sockets[0].getsockname()[1]
    prefix = f"/~{options.token.value}" if options.token else ""
    try:
        yield f"http://{LOOPBACK}:{port}{prefix}"
    finally:
        server.close()
        for connection in list(services.connections):
            connection.close()
        await asyncio.sleep(0)  # transports close in the loop's next round


def _allow_many_files() -> None:
    """Raise the limit of open files: each exchange needs two sockets and a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
