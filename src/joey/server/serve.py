"""The running server: from options to listening sockets, and to an orderly shutdown.

Its log has one JSON object per line, about events and never about their content. Messages are fixed
texts, details are fields. Secrets are redacted wherever they appear.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec
import uvicorn
from msgspec import Struct

from joey.core.redaction import redact_log_line, redact_secrets
from joey.core.wire.frames import MAX_FRAME_BYTES
from joey.errors import ConfigError
from joey.server.auth import Token, build_origin_policy
from joey.server.http import make_application
from joey.server.hub import ServerHub
from joey.server.websocket import (
    ConnectionLimits,
    Connections,
    HandshakeProtocol,
    WebSocketProtocol,
)

LISTEN_BACKLOG = 1024
SHUTDOWN_TIMEOUT_S = 3


class ServeOptions(Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 7800
    allow_remote: bool = False
    limits: ConnectionLimits = ConnectionLimits()
    allow_origins: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None


class RunningServer(Struct, frozen=True):
    """A running server."""

    host: str
    port: int
    tls: bool
    token: Token
    connections: Connections

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def browser_url(self) -> str:
        """The link for a browser. The part after # stays in its history, so it works only once."""
        return f"{self.base_url}/#code={self.connections.login_code.value}"

    @property
    def program_url(self) -> str:
        """The link for the program that started the server, which may connect repeatedly."""
        return f"{self.base_url}/#token={self.connections.token.value}"


@asynccontextmanager
async def run_server(
    hub: ServerHub, token: Token, options: ServeOptions
) -> AsyncIterator[RunningServer]:
    """Run the server inside the block. On exit, all tasks are stopped and all clients were told.
    Raises ConfigError if the address is not allowed, does not exist, or is taken."""
    check_listen_options(options)
    tls = options.tls_cert is not None
    bound = _bind_socket(options)
    host, port = bound.getsockname()[:2]
    connections = Connections(hub, token, options.limits)
    origin_policy = build_origin_policy(
        options.host,
        port,
        tls=tls,
        origins=options.allow_origins,
        any_address=options.allow_remote,
    )
    config = uvicorn.Config(
        make_application(connections, origin_policy),
        http=HandshakeProtocol,
        ws=WebSocketProtocol,
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=options.limits.heartbeat_interval_s,
        ws_ping_timeout=options.limits.heartbeat_interval_s,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=LISTEN_BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    try:
        config.load()
    except OSError as error:
        bound.close()
        raise ConfigError(f"The certificate or its key cannot be used: {error}.") from error
    server = _UvicornServer(config)
    running = asyncio.create_task(server.serve([bound]), name="joey-server")
    try:
        await server.startup_done.wait()
        yield RunningServer(host, port, tls, token, connections)
    finally:
        await hub.close()
        connections.close()
        server.should_exit = True
        await running


class _UvicornServer(uvicorn.Server):
    """A server that leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.startup_done = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.startup_done.set()


def check_listen_options(options: ServeOptions) -> None:
    """Raises ConfigError."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key belong together.")
    if not options.allow_remote and not _is_loopback(options.host):
        raise ConfigError(
            f"{options.host} can be reached from other machines. Anyone with the token can run"
            " commands here: use --allow-remote if that is intended, preferably with --tls-cert."
        )


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"There is no address {host!r}: {error.strerror}.") from error
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def _bind_socket(options: ServeOptions) -> socket.socket:
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
        family, kind, _, _, address = found[0]
        bound = socket.socket(family, kind)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.setblocking(False)
            bound.listen(LISTEN_BACKLOG)  # if two start at once, both bind; one of them fails here
            return bound
        except BaseException:
            bound.close()
            raise
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Cannot listen on {options.host}:{options.port}: {error}. Choose another --port, or"
            " 0 for any that is free."
        ) from error


LOG_FIELDS = (
    *("client", "command", "task", "request", "ms", "outcome", "code", "reason", "path", "address"),
)
MAX_LOG_TEXT_CHARS = 10_000


class JsonLogFormatter(logging.Formatter):
    def __init__(self, redactor: Callable[[str], str] = redact_secrets) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": self._redact_text(record.getMessage()[:MAX_LOG_TEXT_CHARS]),
        }
        for name in LOG_FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = self._redact_text(value) if isinstance(value, str) else value
        if record.exc_info is not None:
            text = "".join(traceback.format_exception(*record.exc_info))
            line["error"] = self._redact_text(text)[-MAX_LOG_TEXT_CHARS:]
        return msgspec.json.encode(line).decode()

    def _redact_text(self, text: str) -> str:
        return redact_log_line(text, self._redactor)


def configure_logging(
    stream: TextIO, level: int, redactor: Callable[[str], str] = redact_secrets
) -> None:
    """Configure logging of all of joey; libraries only log errors."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogFormatter(redactor))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("joey").setLevel(level)
