"""A model server on loopback that plays a script over the real wire formats.

It implements Anthropic's `/v1/messages` and OpenAI's `/v1/chat/completions` and `/v1/responses`
(with or without the `/v1`), streaming only, and records every request.

    async with ModelServer([Turn(say("Hello."))]) as server:
        profile = Profile(provider="anthropic", base_url=server.url, model="any")

From other processes: `python -m joey.testing.server script.json --port 0` writes its URL as the
first line of its output and serves until it is stopped; `joey.testing.script` describes the file.
`--requests FILE` appends each request to a file as a line of JSON: `path`, `headers`, `body`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, cast

import msgspec
from msgspec import Struct

from joey.testing import provider_streams
from joey.testing.responses_stream import count_replies
from joey.testing.script import Disconnect, Fail, Pause, Turn, read_script

_RESPONSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_WRITES_PER_YIELD = 32


class Request(Struct, frozen=True):
    """One received request."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Parsed JSON; None when it is not."""
    raw: bytes
    arrived: float
    """`time.perf_counter()` when its last byte came."""
    connection: int
    """Which connection brought it, counted from 1."""
    wire: str = ""
    """`anthropic`, `openai`, `responses` or `raw`."""


TurnSelector = Callable[[Request], Turn]


def by_conversation(turns: Sequence[Turn | TurnSelector]) -> TurnSelector:
    """Play the whole script to each of any number of conversations."""

    def select(request: Request) -> Turn:
        body = request.body if isinstance(request.body, dict) else {"messages": []}
        if request.wire == provider_streams.RESPONSES:
            number = count_replies(body["input"])
        else:
            number = sum(1 for message in body["messages"] if message.get("role") == "assistant")
        return _select_turn(turns, number, request)

    return select


def _select_turn(turns: Sequence[Turn | TurnSelector], number: int, request: Request) -> Turn:
    if number >= len(turns):
        message = f"The script has {len(turns)} turns, and this is request {number + 1}."
        return Turn(Fail(400, message, code="script_ended"))
    turn = turns[number]
    return turn if isinstance(turn, Turn) else turn(request)


class ModelServer:
    """Answers requests with the turns of a script, in order or as a function chooses."""

    def __init__(
        self,
        turns: Sequence[Turn | TurnSelector] | TurnSelector,
        *,
        port: int = 0,
        raw_paths: Sequence[str] = (),
    ) -> None:
        """`raw_paths` are ends of further paths, whose requests are answered with `Raw` steps."""
        self._turns = turns if callable(turns) else list(turns)
        self._port = port
        self._wires = {
            "/messages": provider_streams.ANTHROPIC,
            "/chat/completions": provider_streams.OPENAI,
            "/responses": provider_streams.RESPONSES,
            **dict.fromkeys(raw_paths, provider_streams.RAW),
        }
        self._server: asyncio.Server | None = None
        self._connections: set[_ClientConnection] = set()
        self._state_changed = asyncio.Event()
        self.requests: list[Request] = []
        self.connections_made = 0
        self.on_request: Callable[[Request], None] | None = None
        self.on_answered: Callable[[Request], None] | None = None
        """Called when the last byte of an answer has been handed to the system."""

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the server has no address before it is started")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ClientConnection(self), "127.0.0.1", self._port, backlog=1024
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await self.wait_for_connections(0)
        await self._server.wait_closed()

    def drop_connections(self) -> None:
        """Drop every connection, idle or not, as a restarting server does."""
        for connection in list(self._connections):
            connection.drop()

    async def wait_for_connections(self, count: int) -> None:
        """Wait until exactly this number of connections is open."""
        await self._wait_until(lambda: self.open_connections == count)

    async def wait_for_requests(self, count: int) -> None:
        """Wait until at least this number of requests has arrived."""
        await self._wait_until(lambda: len(self.requests) >= count)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._state_changed.clear()
            await self._state_changed.wait()

    # Called by connections --------------------------------------------------------------------

    def _find_wire(self, path: str) -> str:
        endpoint_path = path.partition("?")[0]
        return next((w for end, w in self._wires.items() if endpoint_path.endswith(end)), "")

    def _add_connection(self, connection: _ClientConnection) -> int:
        self._connections.add(connection)
        self.connections_made += 1
        self._state_changed.set()
        return self.connections_made

    def _remove_connection(self, connection: _ClientConnection) -> None:
        self._connections.discard(connection)
        self._state_changed.set()

    def _record_request(self, request: Request) -> Turn:
        self.requests.append(request)
        self._state_changed.set()
        if self.on_request is not None:
            self.on_request(request)
        if callable(self._turns):
            return self._turns(request)
        return _select_turn(self._turns, len(self.requests) - 1, request)


class _ClientConnection(asyncio.Protocol):
    """One client, whose requests are answered one after another."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._request_size_bytes = 0
        self._answer_task: asyncio.Task[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._connection_number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection_number = self._server._add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer_task is not None:
            self._answer_task.cancel()
        self._server._remove_connection(self)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= self._request_size_bytes and (
            self._answer_task is None or self._answer_task.done()
        ):
            self._start_next_request()

    def _start_next_request(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        path, headers = _parse_request_head(bytes(self._buffer[:end]))
        self._request_size_bytes = end + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < self._request_size_bytes:
            return
        raw = bytes(self._buffer[end + 4 : self._request_size_bytes])
        del self._buffer[: self._request_size_bytes]
        self._request_size_bytes = 0
        wire = self._server._find_wire(path)
        request = _build_request(path, headers, raw, self._connection_number, wire)
        self._answer_task = asyncio.get_running_loop().create_task(self._answer_request(request))
        self._answer_task.add_done_callback(self._continue_after_answer)

    def _continue_after_answer(self, answered: asyncio.Task[None]) -> None:
        """Continue with a request that arrived before the previous one was answered."""
        if self._buffer and not answered.cancelled():
            self._start_next_request()

    async def _answer_request(self, request: Request) -> None:
        if not request.wire or not isinstance(request.body, dict):
            await self._send_error(Fail(404, f"There is nothing at {request.path}."), request.wire)
            return
        try:
            turn = self._server._record_request(request)
        except Exception as error:
            turn = Turn(Fail(400, f"The script cannot answer this: {error!r}"))
        is_raw = request.wire == provider_streams.RAW
        if request.body.get("stream") is not True and not is_raw:
            await self._send_error(Fail(400, "This server only streams."), request.wire)
            return
        await self._play_turn(turn, request)
        if self._server.on_answered is not None:
            self._server.on_answered(request)

    async def _play_turn(self, turn: Turn, request: Request) -> None:
        model = str(request.body.get("model", ""))
        number = len(self._server.requests)
        first = _RESPONSE_HEAD + provider_streams.encode_opening_event(
            turn, request.wire, number, model
        )
        started = time.perf_counter()
        written = 0
        for frame in provider_streams.build_playback(turn, request.wire):
            if not isinstance(frame, bytes):
                if isinstance(frame, Fail):
                    await self._send_error(frame, request.wire)
                    return
                if isinstance(frame, Disconnect):
                    assert self._transport is not None
                    if frame.clean:
                        self._transport.write(first + b"0\r\n\r\n")
                    else:
                        self._transport.close()
                    return
                if isinstance(frame, Pause):
                    await asyncio.sleep(frame.seconds)
                else:
                    await frame.event.wait()
                continue
            await self._write(first + frame)
            first = b""
            written += 1
            if turn.pace:
                due = started + written / turn.pace - time.perf_counter()
                if due > 0:
                    await asyncio.sleep(due)
            elif written % _WRITES_PER_YIELD == 0:
                await asyncio.sleep(0)

    async def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            await asyncio.get_running_loop().create_future()  # the loss cancels this task
            return
        self._transport.write(data)
        if not self._can_write.is_set():
            await self._can_write.wait()

    async def _send_error(self, step: Fail, wire: str) -> None:
        body = provider_streams.encode_error_body(step, wire)
        fields = {"content-type": "application/json", **step.headers}
        if step.retry_after is not None:
            fields["retry-after"] = f"{step.retry_after:g}"
        fields["content-length"] = str(len(body))
        lines = [f"HTTP/1.1 {step.status} Scripted", *(f"{k}: {v}" for k, v in fields.items())]
        await self._write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def _parse_request_head(head: bytes) -> tuple[str, dict[str, str]]:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    _, path, *_ = [*request_line.split(" "), "", ""]
    return path, headers


def _build_request(
    path: str, headers: dict[str, str], raw: bytes, connection: int, wire: str
) -> Request:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None  # answered with an error, and seen by the test as it came
    return Request(path, headers, body, raw, time.perf_counter(), connection, wire)


# Stand-alone ----------------------------------------------------------------------------------


async def _serve(turns: list[Turn] | TurnSelector, port: int, requests: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = ModelServer(turns, port=port)
    if requests is not None:
        server.on_request = lambda request: _append_request(request, requests)
    async with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def _append_request(request: Request, path: Path) -> None:
    entry = {"path": request.path, "headers": request.headers, "body": request.body}
    with path.open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m joey.testing.server",
        description="A scripted model on 127.0.0.1 that speaks Anthropic's and OpenAI's APIs. It"
        " prints its address, and answers each request with the next turn of the script until it"
        " is stopped (Ctrl-C).",
        epilog='The script: {"turns": [[{"type": "say", "text": "I look."}, {"type": "call",'
        ' "name": "read_file", "input": {"path": "a.txt"}}]], "each": true}. A turn is a list of'
        " steps (say, think, call, usage, fail, pause and others; joey.testing.script lists"
        " them); with `each`, every conversation gets all the turns.",
    )
    parser.add_argument("script", type=Path, help="what the model says: a file of JSON")
    parser.add_argument(
        "--port", metavar="N", type=int, default=0, help="the port; 0, the default, takes any free"
    )
    parser.add_argument(
        "--requests", metavar="FILE", type=Path, help="append each request to this file, as JSON"
    )
    arguments = parser.parse_args()
    path: Path = arguments.script
    try:
        turns, each = read_script(path)
    except OSError as error:
        parser.exit(2, f"{path} cannot be read: {error.strerror}.\n")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        parser.exit(2, f"{path} is not a script: {error}. --help shows the format.\n")
    selected = by_conversation(turns) if each else turns
    asyncio.run(_serve(selected, arguments.port, arguments.requests))


if __name__ == "__main__":
    main()
