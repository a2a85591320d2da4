"""Connection to a service, for the client connection whose requests are sent on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import structs

from joey.providers.http_client import CONNECT_TIMEOUT_S
from joey.providers.http_connection import HttpAddress, connect, find_proxy
from joey.proxy.routes import Upstream

if TYPE_CHECKING:
    import ssl

_FLUSH_TIMEOUT_S = 0.05
_READ_BYTES = 65536


class UpstreamReader(Protocol):
    """Receives the bytes of a service."""

    def handle_upstream_data(self, data: bytes) -> None: ...

    def handle_upstream_end(self, error: Exception | None) -> None:
        """Handle the end of the stream; `error` means that the connection broke."""

    def set_client_reading(self, is_reading: bool) -> None:
        """Apply backpressure: pause or resume reading from the client."""


class UpstreamConnection(asyncio.Protocol):
    """A connection that ends once: after that, `close` and its end are not reported."""

    def __init__(self, upstream: Upstream, reader: UpstreamReader) -> None:
        self.upstream = upstream
        self._reader: UpstreamReader | None = reader
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._reader is not None and self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._reader.handle_upstream_data(data)

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._read_unread()
        self._end(exc)

    def _read_unread(self) -> None:
        """Read what arrived before an error. A service that rejects a large request answers and
        closes; asyncio then fails to send, and would drop the answer."""
        if self._transport is None or self._transport.get_extra_info("sslcontext") is not None:
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        with suppress(OSError):  # all has been read
            while data := os.read(descriptor, _READ_BYTES):
                self.data_received(data)

    def pause_writing(self) -> None:
        if self._reader is not None:
            self._reader.set_client_reading(False)

    def resume_writing(self) -> None:
        if self._reader is not None:
            self._reader.set_client_reading(True)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def send_end(self) -> bool:
        """Tell the service that the client has sent everything; False if that is not possible."""
        if self._transport is None or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    def set_reading(self, is_reading: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        """End the request now. Unsent bytes are dropped: no client waits for the response any
        more."""
        self._reader = None
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_FLUSH_TIMEOUT_S, transport.abort)
        transport.close()

    def _end(self, error: Exception | None) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.handle_upstream_end(error)


class UpstreamConnector:
    """Opens connections, through the environment's proxy if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def find_proxy(self, upstream: Upstream) -> HttpAddress | None:
        """Find the proxy. Raises ConfigError if the environment names one that is not supported."""
        return find_proxy(upstream.address, self._environ)

    async def connect(self, upstream: Upstream, reader: UpstreamReader) -> UpstreamConnection:
        """Connect. Raises UserError, whose text names the address and says what to do."""
        target = structs.replace(upstream.address, path="/", credentials=None)
        proxy = self.find_proxy(upstream)
        opened = await connect(target, proxy, lambda: self._tls_context, CONNECT_TIMEOUT_S)
        connection = UpstreamConnection(upstream, reader)
        opened.hand_over(connection)
        return connection

    @cached_property
    def _tls_context(self) -> ssl.SSLContext:
        import ssl

        return ssl.create_default_context()
