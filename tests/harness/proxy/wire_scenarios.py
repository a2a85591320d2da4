"""Generated exchanges over one connection, played to a server directly or through the proxy."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import pairwise

from hypothesis import strategies as st
from msgspec import Struct, structs

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
TIMEOUT_S = 20.0


class Cut(StrEnum):
    NONE = ""
    SERVER_CLOSES = "server closes"
    SERVER_RESETS = "server resets"
    CLIENT_STOPS_SENDING = "client stops sending"
    CLIENT_STOPS_READING = "client stops reading"


class Segment(Struct, frozen=True):
    data: bytes
    is_content: bool = False

    def __repr__(self) -> str:
        """Short, for the report of a failure."""
        shown = self.data if len(self.data) < 60 else self.data[:40] + b"..."
        return f"<{len(self.data)} {'content' if self.is_content else 'framing'} {shown!r}>"


class Message(Struct, frozen=True):
    head: bytes
    segments: tuple[Segment, ...]

    @property
    def body(self) -> bytes:
        return b"".join(each.data for each in self.segments)

    @property
    def wire(self) -> bytes:
        return self.head + self.body

    def content(self, limit: int | None = None) -> bytes:
        """What the first `limit` bytes of the body hold, without framing."""
        left = len(self.body) if limit is None else max(limit, 0)
        found = b""
        for each in self.segments:
            if each.is_content:
                found += each.data[:left]
            left = max(left - len(each.data), 0)
        return found


class WireExchange(Struct, frozen=True):
    method: str
    target: str
    request: Message
    interim: tuple[bytes, ...]
    response: Message
    ends_with_connection: bool
    is_early: bool
    """The server responds when it has the head of the request."""
    request_cuts: tuple[int, ...]
    response_cuts: tuple[int, ...]

    @property
    def response_wire(self) -> bytes:
        return b"".join(self.interim) + self.response.wire


class Scenario(Struct, frozen=True):
    exchanges: tuple[WireExchange, ...]
    cut: Cut
    cut_at: int
    is_pipelined: bool

    @property
    def is_early(self) -> bool:
        return any(each.is_early for each in self.exchanges)

    @property
    def is_cut_by_server(self) -> bool:
        return self.cut in (Cut.SERVER_CLOSES, Cut.SERVER_RESETS)

    @property
    def response_bytes(self) -> int:
        return sum(len(each.response_wire) for each in self.exchanges)

    @property
    def bytes_read(self) -> int:
        """After which the client leaves."""
        is_cut = self.cut is Cut.CLIENT_STOPS_READING
        return self.cut_at % self.response_bytes if is_cut else self.response_bytes

    @property
    def requests_sent(self) -> int:
        """Requests that the client sends before it leaves."""
        read, count = 0, 0
        for each in self.exchanges:
            read, count = read + len(each.response_wire), count + 1
            if read >= self.bytes_read:
                break
        return count


class Outcome:
    def __init__(self) -> None:
        self.server_got = b""
        self.client_got = b""
        self.client_saw = ""
        self.has_head = asyncio.Event()
        """The server has the head of a request."""
        self.is_sent = asyncio.Event()
        """The client has sent what it sends before it leaves."""
        self.progress = asyncio.Event()
        """The client got something."""


METHODS = st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "PATCH"])
TARGETS = st.sampled_from(
    [
        "/v1/messages",
        "/v1/chat/completions",
        "/v1/responses?x=%20y",
        "/any/where?a=b&c",
        "/v1/models",
    ]
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b'{"messages":[{"role":"user","content":"hi"}]}', b"0\r\n\r\n", b"\r\n" * 9]),
    st.integers(1000, 200_000).map(lambda size: b"data: x\n\n" * (size // 9)),
)
PLACES = st.lists(st.integers(0, 1_000_000), max_size=5).map(tuple)
HEADERS = st.lists(
    st.sampled_from(
        [
            *("User-Agent: test/1", "x-Custom:  spaced ", "Accept: */*", "X-Empty:"),
            *("accept-encoding: gzip, br", "Connection: keep-alive", "Cookie: a=b"),
        ]
    ),
    max_size=4,
    unique=True,
)
TRAILERS = st.lists(st.sampled_from([b"X-Trailer: 1\r\n", b"0: 0\r\n"]), max_size=2)
STATUSES = st.sampled_from([200, 200, 200, 200, 201, 204, 304, 400, 404, 429, 500, 529])


def chunked(body: bytes, places: Sequence[int], trailers: Sequence[bytes]) -> tuple[Segment, ...]:
    borders = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    found = []
    for start, end in pairwise(borders):
        found += [
            Segment(b"%X\r\n" % (end - start)),
            Segment(body[start:end], True),
            Segment(b"\r\n"),
        ]
    return (*found, Segment(b"0\r\n" + b"".join(trailers) + b"\r\n"))


@st.composite
def wire_exchanges(draw: st.DrawFn, is_last: bool) -> WireExchange:
    method, target = draw(METHODS), draw(TARGETS)
    has_body = method in ("POST", "PUT", "PATCH")
    body = draw(BODIES) if has_body else b""
    headers = ["Host: HOST", *draw(HEADERS)]
    segments: tuple[Segment, ...] = (Segment(body, True),) if body else ()
    if has_body and draw(st.booleans()):
        headers.append("Transfer-Encoding: chunked")
        segments = chunked(body, draw(PLACES), draw(TRAILERS))
    elif has_body:
        headers.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "", ""]).encode()
    response, ends_with_connection = draw(responses(method, is_last))
    interim = draw(st.lists(st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", EARLY]), max_size=2))
    return WireExchange(
        method,
        target,
        Message(head, segments),
        tuple(interim),
        response,
        ends_with_connection,
        draw(st.sampled_from([False, False, False, True])),
        draw(PLACES),
        draw(PLACES),
    )


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


@st.composite
def responses(draw: st.DrawFn, method: str, is_last: bool) -> tuple[Message, bool]:
    status = draw(STATUSES)
    body = draw(BODIES)
    headers = [f"HTTP/1.1 {status} Some Reason", "Content-Type: text/event-stream", "X-A: b\t"]
    framing = draw(st.sampled_from(["length", "chunked", "chunked", "close"]))
    segments: tuple[Segment, ...] = (Segment(body, True),) if body else ()
    ends = False
    if framing == "chunked":
        headers.append("transfer-encoding: chunked")
        segments = chunked(body, draw(PLACES), draw(TRAILERS))
    elif framing == "length" or not is_last:
        headers.append(f"Content-Length: {len(body)}")
    else:
        ends = True
    if method == "HEAD" or status in (204, 304):
        segments, ends = (), False
    return Message("\r\n".join([*headers, "", ""]).encode(), segments), ends


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    count = draw(st.integers(1, 3))
    exchanges = tuple(draw(wire_exchanges(number == count - 1)) for number in range(count))
    cut = draw(st.sampled_from([Cut.NONE, Cut.NONE, *Cut]))
    at = draw(st.integers(0, 1_000_000))
    if cut is Cut.CLIENT_STOPS_SENDING:
        exchanges = tuple(structs.replace(each, is_early=False) for each in exchanges)
    return Scenario(exchanges, cut, at, draw(st.booleans()) and cut is Cut.NONE)


class ScriptedServer:
    """Plays the server's part of one scenario at a time."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    async def play(self, scenario: Scenario, outcome: Outcome) -> None:
        connection, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            player = _ServerPlayer(connection, scenario, outcome)
            with suppress(ConnectionError, EOFError):
                await player.play()
            outcome.server_got = player.got


class _ServerPlayer:
    def __init__(
        self,
        connection: socket.socket,
        scenario: Scenario,
        outcome: Outcome,
    ) -> None:
        self._connection = connection
        self._scenario = scenario
        self._outcome = outcome
        self._buffer = b""
        self.got = b""
        self._budget = scenario.response_bytes + 1
        if scenario.is_cut_by_server:
            self._budget = scenario.cut_at % scenario.response_bytes

    async def play(self) -> None:
        for exchange in self._scenario.exchanges:
            while b"\r\n\r\n" not in self._buffer:
                await self._receive()
            self._outcome.has_head.set()
            end = self._buffer.index(b"\r\n\r\n") + 4
            self._buffer = self._buffer[end:]
            size = len(exchange.request.body)
            if not exchange.is_early:
                await self._receive_body(size)
            for piece in split(exchange.response_wire, exchange.response_cuts):
                await self._send(piece)
            if exchange.is_early:
                await self._receive_body(size)
            self._buffer = self._buffer[size:]
        if self._scenario.exchanges[-1].ends_with_connection:
            return
        while True:
            await self._receive()

    async def _receive_body(self, size: int) -> None:
        while len(self._buffer) < size:
            await self._receive()

    async def _receive(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._connection, 65536)
        if not data:
            raise EOFError
        self.got += data
        self._buffer += data

    async def _send(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._connection, data[: self._budget])
        except ConnectionError:  # the client has left
            while True:
                await self._receive()
        if len(data) < self._budget:
            self._budget -= len(data)
            await asyncio.sleep(0)
            return
        if self._scenario.cut is Cut.SERVER_RESETS:
            linger = (socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._connection.setsockopt(*linger)
        raise EOFError


async def play_client(port: int, scenario: Scenario, outcome: Outcome) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = asyncio.create_task(_send_requests(connection, port, scenario, outcome))
        try:
            await _read_responses(connection, scenario, outcome)
            if not outcome.client_saw:
                await outcome.is_sent.wait()
                await outcome.has_head.wait()
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)


async def _send_requests(
    connection: socket.socket,
    port: int,
    scenario: Scenario,
    outcome: Outcome,
) -> None:
    loop = asyncio.get_running_loop()
    received = 0
    for exchange in scenario.exchanges[: scenario.requests_sent]:
        wire = exchange.request.wire.replace(b"Host: HOST", b"Host: 127.0.0.1:%d" % port, 1)
        is_cut = scenario.cut is Cut.CLIENT_STOPS_SENDING and exchange.request.body
        if is_cut:
            body = exchange.request.body
            wire = wire[: len(wire) - len(body) + scenario.cut_at % len(body)]
        for piece in split(wire, exchange.request_cuts):
            await loop.sock_sendall(connection, piece)
            await asyncio.sleep(0)
        if is_cut:
            await outcome.has_head.wait()
            connection.shutdown(socket.SHUT_WR)
            return
        received = min(received + len(exchange.response_wire), scenario.bytes_read)
        while not scenario.is_pipelined and len(outcome.client_got) < received:
            await outcome.progress.wait()
            outcome.progress.clear()
    outcome.is_sent.set()


async def _read_responses(connection: socket.socket, scenario: Scenario, outcome: Outcome) -> None:
    loop = asyncio.get_running_loop()
    wanted = scenario.bytes_read
    is_whole = wanted == scenario.response_bytes
    is_open_ended = scenario.exchanges[-1].ends_with_connection and is_whole
    while len(outcome.client_got) < wanted or is_open_ended:
        try:
            size = 65536 if is_whole else min(65536, wanted - len(outcome.client_got))
            data = await loop.sock_recv(connection, size)
        except ConnectionResetError:
            outcome.client_saw = "reset"
            return
        if not data:
            outcome.client_saw = "end"
            return
        outcome.client_got += data
        outcome.progress.set()


def split(data: bytes, places: Sequence[int]) -> list[bytes]:
    borders = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(borders)]


async def play(scenario: Scenario, server: ScriptedServer, port: int) -> Outcome:
    """Play a scenario to `port`, from which the server is reached."""
    outcome = Outcome()
    async with asyncio.timeout(TIMEOUT_S):
        serving = asyncio.create_task(server.play(scenario, outcome))
        await play_client(port, scenario, outcome)
        await serving
    return outcome


CHANGED_RE = re.compile(rb"(?im)^(host|accept-encoding): [^\r\n]*(?=\r\n)")


def normalise(got: bytes) -> bytes:
    """Requests without the headers that the proxy may change."""
    return CHANGED_RE.sub(rb"\1: CHANGED", got)
