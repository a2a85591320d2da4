"""Anything may come through a pipe: each line gets its answer, and the next one is heard."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from acp.meta import AGENT_METHODS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.acp.jsonrpc_transport import MAX_LINE_BYTES
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer, by_conversation
from tests.harness.acp.editor import Editor, connected, done, model_at
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import LIMIT, Joey

HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


class Pipe:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, *lines: bytes) -> None:
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def answer(self) -> dict[str, Any]:
        """The next message that is no update."""
        assert self._process.stdout is not None
        async with asyncio.timeout(LIMIT):
            while True:
                message: dict[str, Any] = json.loads(await self._process.stdout.readline())
                if message.get("method") != "session/update":
                    return message

    async def still_listens(self) -> bool:
        await self.send(json.dumps({**HELLO, "id": "alive"}).encode())
        return bool((await self.answer())["id"] == "alive")


@asynccontextmanager
async def raw(joey: Joey, *, greeted: bool = True) -> AsyncIterator[Pipe]:
    env = {**joey.env, **model_at("http://127.0.0.1:9")}
    process = await joey.start("acp", stdin=PIPE, env=env)
    assert process.stdin is not None and process.stderr is not None
    complaints = asyncio.ensure_future(process.stderr.read())
    try:
        pipe = Pipe(process)
        if greeted:
            assert await pipe.still_listens()
        yield pipe
        process.stdin.close()
        async with asyncio.timeout(LIMIT):
            assert await process.wait() == 0
        assert b"Traceback" not in await complaints
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def request(method: Any, params: Any, id: Any = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


BAD_LINES: list[tuple[bytes, int, Any]] = [
    (b"hello", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":', -32700, None),
    (b"\xff\xfe\x00", -32700, None),
    (b"[" * 100_000, -32700, None),
    (b"[]", -32600, None),
    (b'"text"', -32600, None),
    (b"{}", -32600, None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"initialize"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"initialize"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":4,"method":5}', -32600, 4),
    (b'{"jsonrpc":"2.0","id":4,"method":"initialize","params":[1]}', -32600, 4),
    (request("no/such/method", {}), -32601, 7),
    (request("_vendor/thing", {}), -32601, 7),
    (request("session/prompt", {}), -32602, 7),
    (request("session/prompt", {"sessionId": 1, "prompt": "x"}), -32602, 7),
    (request("session/new", {"cwd": 5}), -32602, 7),
    (request("session/new", None), -32602, 7),
    (request("session/new", {"cwd": "/with\0nothing", "mcpServers": []}), -32602, 7),
    (request("session/new", {"cwd": "/half\ud800", "mcpServers": []}), -32602, 7),
    (request("session/list", {"cwd": "/half\ud800"}), -32602, 7),
    (request("session/prompt", {"sessionId": "x", "prompt": []}), -32002, 7),
    (request("session/set_mode", {"sessionId": "x", "modeId": "code"}), -32002, 7),
    (request("session/load", {"sessionId": "../..", "cwd": "/", "mcpServers": []}), -32002, 7),
    (request("session/list", {"cursor": "next, please"}), -32602, 7),
    (request("initialize", {}), -32602, 7),
]


@pytest.mark.contract("acp:task")
async def test_a_bad_line_gets_an_error_and_the_next_is_handled(joey: Joey) -> None:
    async with raw(joey) as pipe:
        for line, code, id in BAD_LINES:
            await pipe.send(line)
            answer = await pipe.answer()
            assert (answer["error"]["code"], answer["id"]) == (code, id), answer
            assert answer["error"]["message"]
            assert await pipe.still_listens(), line


async def test_nothing_is_done_before_the_greeting(joey: Joey) -> None:
    async with raw(joey, greeted=False) as pipe:
        await pipe.send(request("session/new", {"cwd": "/", "mcpServers": []}))
        assert "initialize" in (await pipe.answer())["error"]["message"]


async def test_a_line_that_is_too_long_is_passed_over(joey: Joey) -> None:
    async with raw(joey) as pipe:
        piece = b"x" * (1024 * 1024)
        await pipe.send(b'{"x":"' + piece * (MAX_LINE_BYTES // len(piece) + 1) + b'"}')
        assert "longer than 64 MiB" in (await pipe.answer())["error"]["message"]
        assert await pipe.still_listens()


async def test_lines_that_need_no_answer_get_none(joey: Joey) -> None:
    async with raw(joey) as pipe:
        await pipe.send(
            b"",
            b"   ",
            b'{"jsonrpc":"2.0","method":"$/whatever"}',
            b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}',
            b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}',
            b'{"jsonrpc":"2.0","id":99,"result":{}}',
            b'{"jsonrpc":"2.0","id":null,"error":"odd"}',
        )
        assert await pipe.still_listens()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from([*AGENT_METHODS.values(), "nonsense"])
FIELDS = st.sampled_from(["sessionId", "cwd", "mcpServers", "prompt", "modeId", "value", "cursor"])
LINES = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" ")),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.builds(request, METHODS, st.dictionaries(FIELDS, JSON, max_size=4), st.integers(100, 200)),
    st.builds(request, METHODS | JSON, JSON, JSON),
)


@pytest.mark.contract("acp:task")
@given(lines=st.lists(LINES, min_size=20, max_size=60))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_lines_end_the_conversation(joey: Joey, lines: list[bytes]) -> None:
    async def run() -> None:
        async with raw(joey) as pipe:
            await pipe.send(*lines, request("no/such/method", {}, "last"))
            while (await pipe.answer())["id"] != "last":
                pass
            await pipe.send(json.dumps({**HELLO, "id": "alive"}).encode())
            while (await pipe.answer())["id"] != "alive":
                pass

    asyncio.run(run())


TALK = [
    Turn(say("I look around, slowly.", chunk=2), call("list_files", {"path": "."}), pace=40),
    Turn(say("Then I run."), call("execute_command", {"command": "sleep 0.2; echo x"}), pace=40),
    done("Over."),
]


@pytest.mark.contract("acp:permission")
@pytest.mark.parametrize("after", [1, 2, 5, 9, 14, 20, 25])
async def test_a_cancel_at_any_moment_ends_the_turn(
    joey: Joey, schema: ProtocolSchema | None, after: int
) -> None:
    """After so many updates of the agent, of which the last may be on their way."""
    editor = Editor()
    async with (
        ModelServer(by_conversation(TALK)) as server,
        connected(joey, server.url, schema, editor) as here,
    ):
        session = await here.new(joey.workspace)
        turn = asyncio.ensure_future(here.prompt(session, "go"))
        sent_count = len(editor.updates(session))
        await editor.until(
            lambda: turn.done() or len(editor.updates(session)) >= sent_count + after
        )
        await here.agent.cancel(session_id=session)
        stop = await turn
        assert stop == "cancelled" or editor.text(session).endswith("Over.")
        for each in editor.calls(session).values():
            assert each["status"] in ("completed", "failed")
    metadata = json.loads((joey.tasks[0] / "task_metadata.json").read_text(encoding="utf-8"))
    assert metadata["status"] in ("aborted", "completed")
