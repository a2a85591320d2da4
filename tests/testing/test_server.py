from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from joey.core.messages import CallChunk, Message, TextBlock, TextChunk
from joey.core.models import ModelRequest
from joey.core.settings import Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.ports.model import Provider
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Turn, call, fail, pause, raw, read_script, say
from joey.testing.server import ModelServer, Request, by_conversation

WIRES = ["anthropic", "openai"]


@asynccontextmanager
async def asking(url: str, wire: str = "anthropic") -> AsyncIterator[Provider]:
    http = HttpClient(environ={})
    base = url + ("/v1" if wire == "openai" else "")
    yield make_provider(Profile(provider=wire, model="any", base_url=base, api_key="k"), http)
    await http.close()


def conversation(*texts: str) -> ModelRequest:
    """Words of the user and of the model in turn, the user first."""
    roles = ("user", "assistant")
    messages = [
        Message("user" if roles[number % 2] == "user" else "assistant", (TextBlock(text),))
        for number, text in enumerate(texts)
    ]
    return ModelRequest("Be brief.", messages)


async def text_of(provider: Provider, request: ModelRequest) -> str:
    chunks = [chunk async for chunk in provider.stream(request)]
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


@pytest.mark.contract("python:scripted-model")
@pytest.mark.parametrize("wire", WIRES)
async def test_turns_are_played_in_order_and_requests_are_remembered(wire: str) -> None:
    async with ModelServer([Turn(say("One.")), Turn(say("Two.", chunk=1))]) as server:
        async with asking(server.url, wire) as provider:
            assert await text_of(provider, conversation("a")) == "One."
            assert await text_of(provider, conversation("b")) == "Two."
        assert [request.wire for request in server.requests] == [wire, wire]
        assert [request.connection for request in server.requests] == [1, 1]
        assert server.requests[0].arrived < server.requests[1].arrived
        assert server.requests[1].body["model"] == "any"
        assert msgspec.json.decode(server.requests[1].raw) == server.requests[1].body
        assert server.requests[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("coalesce", [True, False])
async def test_a_large_answer_arrives_whole_in_any_manner_of_writing(
    wire: str, coalesce: bool
) -> None:
    content = "äb\n" * 20_000
    turn = Turn(call("write_to_file", {"content": content}, chunk=20), coalesce=coalesce)
    async with ModelServer([turn]) as server, asking(server.url, wire) as provider:
        pieces = [
            chunk.arguments or ""
            async for chunk in provider.stream(conversation("write"))
            if isinstance(chunk, CallChunk)
        ]
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == {"content": content}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_script_that_has_ended_is_an_error_that_is_not_worth_a_retry(wire: str) -> None:
    async with ModelServer([]) as server, asking(server.url, wire) as provider:
        with pytest.raises(ProviderError, match="0 turns, and this is request 1") as caught:
            await text_of(provider, conversation("a"))
    assert caught.value.failure is ProviderFailureKind.INVALID_REQUEST


async def test_a_turn_may_depend_on_the_request() -> None:
    def echo(request: Request) -> Turn:
        return Turn(say(request.body["messages"][-1]["content"][0]["text"].upper()))

    async with ModelServer([echo]) as server, asking(server.url) as provider:
        assert await text_of(provider, conversation("hello")) == "HELLO"


async def test_a_function_that_fails_is_seen_by_the_client() -> None:
    def broken(request: Request) -> Turn:
        raise KeyError("no such turn")

    async with ModelServer(broken) as server, asking(server.url) as provider:
        with pytest.raises(ProviderError, match="no such turn"):
            await text_of(provider, conversation("a"))


async def test_many_conversations_are_served_at_a_time() -> None:
    turns: list[Turn] = [Turn(say(f"answer {number}", chunk=3)) for number in range(3)]

    async def converse(provider: Provider, name: str) -> list[str]:
        texts = [name]
        for _ in turns:
            texts.append(await text_of(provider, conversation(*texts)))
            texts.append("go on")
        return texts[1::2]

    async with (
        asyncio.timeout(30),
        ModelServer(by_conversation(turns)) as server,
        asking(server.url) as provider,
    ):
        results = await asyncio.gather(*(converse(provider, f"task {n}") for n in range(50)))
        assert results == [["answer 0", "answer 1", "answer 2"]] * 50
        with pytest.raises(ProviderError, match="3 turns, and this is request 4"):
            await text_of(provider, conversation("a", "b", "c", "d", "e", "f", "g"))


async def test_a_paced_turn_loses_nothing() -> None:
    turn = Turn(say("abcdefghij", chunk=1), pause(0.0), pace=2000)
    async with ModelServer([turn]) as server, asking(server.url) as provider:
        assert await text_of(provider, conversation("a")) == "abcdefghij"


async def test_raw_bytes_go_out_as_they_are() -> None:
    turn = Turn(raw(b"data: \xff\n\n"))
    async with ModelServer([turn]) as server, asking(server.url) as provider:
        with pytest.raises(ProviderError) as caught:
            await text_of(provider, conversation("a"))
    assert caught.value.failure is ProviderFailureKind.MALFORMED_STREAM


@pytest.mark.parametrize(
    ("line", "body", "status"),
    [
        ("GET /v1/models HTTP/1.1", b"", b"404"),
        ("POST /v1/messages HTTP/1.1", b"not json", b"404"),
        ("POST /v1/messages HTTP/1.1", b'{"stream":false}', b"400"),
        ("POST /chat/completions?x=1 HTTP/1.1", b'{"stream":true}', b"200"),
    ],
)
async def test_only_streams_on_the_two_wires_are_served(
    line: str, body: bytes, status: bytes
) -> None:
    async with ModelServer([Turn(say("Hi."))]) as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{line}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        for byte in body:
            writer.write(bytes([byte]))
        assert (await reader.readline()).split()[1] == status
        writer.close()
        await writer.wait_closed()


async def test_waiting_for_requests_and_connections_needs_no_polling() -> None:
    gate = asyncio.Event()
    async with asyncio.timeout(60), ModelServer([Turn(pause(gate), say("Hi."))]) as server:
        async with asking(server.url) as provider:
            answer = asyncio.create_task(text_of(provider, conversation("a")))
            await server.wait_for_requests(1)
            assert server.open_connections == 1
            gate.set()
            assert await answer == "Hi."
        await server.wait_for_connections(0)


SCRIPT = {
    "each": True,
    "turns": [
        [
            {"type": "say", "text": "I'll look.", "chunk": 3},
            {"type": "call", "name": "read_file", "input": {"path": "a"}, "id": "t1"},
            {"type": "usage", "input": 5, "output": 7},
        ],
        {"steps": [{"type": "fail", "status": 529, "retry_after": 2}], "coalesce": True},
    ],
}


@pytest.mark.contract("python:scripted-model")
async def test_the_server_runs_by_itself_from_a_script_file(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "requests.jsonl"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    command = [sys.executable, "-m", "joey.testing.server", str(script), "--requests", str(log)]
    async with asyncio.timeout(30):
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with asking(url, "openai") as provider:
            assert await text_of(provider, conversation("a")) == "I'll look."
            with pytest.raises(ProviderError) as caught:
                await text_of(provider, conversation("a", "b", "c"))
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert (caught.value.status, caught.value.retry_after) == (529, 2)
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    assert [len(request["body"]["messages"]) for request in requests] == [2, 4]


def test_a_mistake_in_a_script_file_is_named_with_its_place(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"turns": [[{"type": "say"}]]}')
    with pytest.raises(msgspec.ValidationError, match="text"):
        read_script(script)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"turns": [[{"type": "sag"}]]}', "is not a script: Invalid value 'sag'"),
        (b'{"turns": [[{"type": "say", "text": "\xff"}]]}', "is not a script: 'utf-8'"),
        (b'{"turns": ', "is not a script: Input data was truncated. --help shows the format."),
        (None, "cannot be read: No such file or directory."),
    ],
)
def test_the_server_says_in_a_sentence_why_a_script_file_is_no_use(
    tmp_path: Path, text: bytes | None, said: str
) -> None:
    script = tmp_path / "script.json"
    if text is not None:
        script.write_bytes(text)
    command = [sys.executable, "-m", "joey.testing.server", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{script} {said}")
    assert done.stderr.count("\n") == 1


async def test_a_failure_of_the_script_has_the_form_of_its_wire() -> None:
    turns = [Turn(fail(429, "Slow.", retry_after=1)), Turn(fail(429, "Slow.", body="plain"))]
    async with ModelServer(turns) as server, asking(server.url) as provider:
        for _ in turns:
            with pytest.raises(ProviderError) as caught:
                await text_of(provider, conversation("a"))
            assert caught.value.failure is ProviderFailureKind.RATE_LIMIT
