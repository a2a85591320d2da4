"""HTTP/1.1 client for one job: send a JSON body, read the answer as it streams in.

Compared with the usual client library, it starts 90 ms sooner and uses a fraction of the CPU for
each streamed chunk; model services need none of the features that it leaves out (redirects,
cookies, compression, HTTP/2). Connections are reused. A connection that died while idle, before any
byte of an answer, is replaced once without the caller noticing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from joey.errors import JoeyError, ProviderError, ProviderFailureKind
from joey.ports.model import (
    OutgoingRequest,
    RequestRecorder,
    ResponseEnding,
    ResponseRecording,
)
from joey.providers.http_connection import (
    HttpAddress,
    HttpConnection,
    connect,
    find_proxy,
    parse_url,
)
from joey.providers.http_parser import (
    ProtocolError,
    ResponseEnd,
    ResponseHead,
    ResponseReader,
    TruncatedResponseError,
)

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 10.0
MAX_IDLE_CONNECTIONS_PER_ORIGIN = 64
IDLE_TIMEOUT_S = 55.0
"""Most servers drop a silent connection after a minute."""
DRAIN_TIMEOUT_S = 0.25
"""How long the end of a body may trail behind the end of what it says."""

_Origin = tuple[HttpAddress, HttpAddress | None]


class HttpClient:
    """Belongs to one event loop; supports any number of concurrent requests."""

    def __init__(
        self,
        *,
        connect_timeout: float = CONNECT_TIMEOUT_S,
        environ: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        recorder: RequestRecorder | None = None,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._recorder = recorder
        self.environ = os.environ if environ is None else environ
        self._tls_context = tls
        self._idle_connections: dict[_Origin, list[HttpConnection]] = {}

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes],
        *,
        read_timeout: float | None = None,
        method: str = "POST",
        task_id: str | None = None,
    ) -> HttpResponse:
        """Send a request with its body in pieces, and wait for the head of the answer.

        `read_timeout` is the number of seconds that the server may send nothing. Requests with a
        `task_id` are recorded. Close the response, or use it as a context manager, in every case.
        Raises ProviderError: no connection, no HTTP answer on it, or a header that cannot be sent;
        ConfigError: the URL, or a proxy's in the environment, is not one.
        """
        address = parse_url(url)
        target = HttpAddress(address.host, address.port, address.is_secure)
        origin = (target, find_proxy(target, self.environ))
        length = {"content-length": str(sum(map(len, body)))} if body else {}
        fields = _build_header_fields(address, origin[1], length | dict(headers))
        request = [_encode_request_head(method, address, origin[1], fields), *body]
        recording = None
        if self._recorder is not None and task_id is not None:
            recording = await self._recorder.record(
                OutgoingRequest(
                    method=method,
                    url=url.strip(),
                    headers=fields,
                    body=body,
                    task_id=task_id,
                )
            )
        return await self._send(origin, request, read_timeout, recording or _NotRecorded())

    async def _send(
        self,
        origin: _Origin,
        request: Sequence[bytes],
        read_timeout: float | None,
        recording: ResponseRecording,
    ) -> HttpResponse:
        target, proxy = origin
        if (kept := self._pop_idle_connection(origin)) is not None:
            try:
                response = HttpResponse(self, origin, kept, recording)
                return await response.send_request(request, read_timeout)
            except _NoResponseError:
                pass  # it died while it was idle: the server has not seen this request
        try:
            connection = await connect(target, proxy, self._get_tls_context, self._connect_timeout)
        except JoeyError as error:
            recording.end(ResponseEnding.UNREACHABLE, str(error))
            raise
        except BaseException:
            recording.end(ResponseEnding.ABANDONED)
            raise
        try:
            response = HttpResponse(self, origin, connection, recording)
            return await response.send_request(request, read_timeout)
        except _NoResponseError as error:
            text = f"{target.host_and_port} closed the connection without an answer."
            recording.end(ResponseEnding.BROKEN, text)
            raise ProviderError(text, failure=ProviderFailureKind.NETWORK) from error

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        """Like `post`, without a body."""
        return await self.post(url, headers, (), method="GET")

    async def close(self) -> None:
        """Close idle connections; active requests continue."""
        for connections in self._idle_connections.values():
            for connection in connections:
                connection.abort()
        self._idle_connections.clear()
        await asyncio.sleep(0)  # the transports close in the loop's next round

    def _pop_idle_connection(self, origin: _Origin) -> HttpConnection | None:
        connections = self._idle_connections.get(origin, [])
        oldest = asyncio.get_running_loop().time() - IDLE_TIMEOUT_S
        while connections:
            connection = connections.pop()
            if connection.is_usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    def _release_connection(self, origin: _Origin, connection: HttpConnection) -> None:
        connections = self._idle_connections.setdefault(origin, [])
        if not connection.is_usable or len(connections) >= MAX_IDLE_CONNECTIONS_PER_ORIGIN:
            connection.abort()
            return
        connection.clear_read_timeout()
        connection.idle_since = asyncio.get_running_loop().time()
        connections.append(connection)

    def _get_tls_context(self) -> ssl.SSLContext:
        """Return the TLS context, created for the first secure connection: loading the certificates
        is slow."""
        if self._tls_context is None:
            import ssl

            self._tls_context = ssl.create_default_context()
        return self._tls_context


class _NoResponseError(Exception):
    """The connection ended before any byte of an answer."""


class _NotRecorded:
    """Replaces the recording of a response that is not recorded."""

    def add_head(self, status: int, headers: Mapping[str, str]) -> None: ...

    def add_content(self, data: bytes) -> None: ...

    def end(self, ending: ResponseEnding, error: str = "") -> None: ...


class HttpResponse:
    """The answer to one request. On exit, the socket is closed, or kept for the next request if the
    whole answer was read."""

    def __init__(
        self,
        client: HttpClient,
        origin: _Origin,
        connection: HttpConnection,
        recording: ResponseRecording,
    ) -> None:
        self._client = client
        self._recording = recording
        self._origin = origin
        self._connection: HttpConnection | None = connection
        self._reader = ResponseReader()
        self._pending_chunks: list[bytes] = []
        self._head: ResponseHead | None = None
        self._is_complete = False
        self._read_timeout: float | None = None

    @property
    def status(self) -> int:
        return self._head.status if self._head else 0

    @property
    def headers(self) -> Mapping[str, str]:
        return self._head.headers if self._head else {}

    async def send_request(self, request: Sequence[bytes], read_timeout: float | None) -> Self:
        connection = self._connection
        assert connection is not None
        self._read_timeout = read_timeout
        if read_timeout is not None:
            connection.set_read_timeout(read_timeout)
        connection.send(request)
        try:
            while self._head is None:
                await self._receive_events(connection)
        except _NoResponseError:
            self._release()
            raise
        except BaseException:
            self.close()
            raise
        return self

    async def read(self) -> bytes:
        """Read the next available bytes of the body; empty at its end. Raises ProviderError if the
        connection was lost or silent for too long."""
        while not self._pending_chunks:
            if self._is_complete or self._connection is None:
                return b""
            await self._receive_events(self._connection)
        data = b"".join(self._pending_chunks)
        self._pending_chunks.clear()
        return data

    async def read_all(self, limit: int) -> bytes:
        """Read the body, or its first `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while size < limit and (data := await self.read()):
            pieces.append(data)
            size += len(data)
        return b"".join(pieces)[:limit]

    async def drain(self) -> None:
        """Keep the connection after everything needed was read, if the end of the body comes
        soon."""
        if self._connection is None or self._is_complete:
            return
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                while await self.read():
                    pass
        except (TimeoutError, ProviderError):
            self._recording.end(ResponseEnding.COMPLETE)
            self.close()  # everything needed has arrived: only the connection is lost

    def close(self) -> None:
        """Release the socket: close it, or keep it if nothing more will arrive on it."""
        self._recording.end(ResponseEnding.ABANDONED)
        self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._is_complete and self._head is not None and self._head.can_keep_alive:
            self._client._release_connection(self._origin, connection)
        else:
            connection.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def _receive_events(self, connection: HttpConnection) -> None:
        try:
            data = await connection.receive()
            events = self._reader.feed(data) if data else self._reader.close()
        except (OSError, ProtocolError) as error:
            problem = self._build_connection_error(error)
            if not isinstance(problem, _NoResponseError):
                self._recording.end(ResponseEnding.BROKEN, str(problem))
            raise problem from error
        for event in events:
            match event:
                case bytes():
                    self._recording.add_content(event)
                    self._pending_chunks.append(event)
                case ResponseHead():
                    self._recording.add_head(event.status, event.headers)
                    self._head = event
                case ResponseEnd():
                    self._recording.end(ResponseEnding.COMPLETE)
                    self._is_complete = True

    def _build_connection_error(self, error: OSError | ProtocolError) -> Exception:
        """Build an error, whose meaning depends on how far the answer had arrived."""
        where = self._origin[0].host_and_port
        if isinstance(error, TimeoutError):
            text = f"{where} sent nothing for {self._read_timeout:g} seconds."
            return ProviderError(text, failure=ProviderFailureKind.NETWORK)
        if isinstance(error, ProtocolError) and not isinstance(error, TruncatedResponseError):
            text = f"{where} does not answer in HTTP/1.1 ({error}). Check the base URL."
            return ProviderError(text, failure=ProviderFailureKind.MALFORMED_STREAM)
        if not self._reader.has_started:
            return _NoResponseError()
        text = f"The connection to {where} was lost in the middle of the answer."
        return ProviderError(text, failure=ProviderFailureKind.NETWORK)


def _build_header_fields(
    address: HttpAddress, proxy: HttpAddress | None, headers: Mapping[str, str]
) -> dict[str, str]:
    fields = {"host": address.authority}
    if proxy is not None and not address.is_secure and proxy.proxy_authorization:
        fields["proxy-authorization"] = proxy.proxy_authorization
    fields |= {"accept-encoding": "identity", "connection": "keep-alive"}
    return fields | {name.lower(): value for name, value in headers.items()}


def _encode_request_head(
    method: str, address: HttpAddress, proxy: HttpAddress | None, fields: Mapping[str, str]
) -> bytes:
    path = address.path
    if proxy is not None and not address.is_secure:
        path = f"http://{address.authority}{path}"
    for name, value in fields.items():
        if not (f"{name}{value}".isascii() and f"{name}{value}".isprintable()):
            raise ProviderError(
                f"The header {name!r} has characters that a header must not have. Check the API"
                " key and the profile's headers for line breaks and accents.",
                failure=ProviderFailureKind.AUTH,
            )
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
