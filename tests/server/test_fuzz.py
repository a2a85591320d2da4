"""Nothing that can be put into a frame brings the server down, or gets an answer out of shape.

`JOEY_FUZZ` says how many frames travel over sockets (`make soak` sends 100,000).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.wire.frames import AuthFrame, ParsedCommand, WireError, encode_frame, parse_frame
from joey.server.serve import ServeOptions
from joey.server.websocket import ConnectionLimits
from joey.testing.script import Turn, call
from tests.harness.counts import daily
from tests.harness.server.fuzzing import Fuzzer
from tests.harness.server.json_schema_check import find_violations
from tests.harness.server.server_fixture import TOKEN, Peer, ServerFixture, done, open_server

PARSED = daily(5_000, 20_000)
SENT = int(os.environ.get("JOEY_FUZZ", "500"))
PEERS = 4
AT_ONCE = 50
"""Frames that are on their way before the first answer is read."""
UNHURRIED = ServeOptions(port=0, limits=ConnectionLimits(frames_per_second=1e6, burst_frames=10**6))

pytestmark = pytest.mark.contract("websocket:hostile")


def check_parsed(frame: str | bytes) -> str:
    """Every frame is a command, a token, or an error that can be told."""
    match parse_frame(frame):
        case WireError() as wrong:
            assert find_violations(json.loads(encode_frame(wrong.response))) == []
            return wrong.code.value
        case ParsedCommand() as command:
            assert isinstance(command.arguments, command.spec.arguments_type)
            return "command"
        case other:
            assert isinstance(other, AuthFrame)
            return "auth"


@pytest.mark.shortened
def test_the_parser_has_an_answer_to_everything() -> None:
    fuzzer = Fuzzer(seed=1, task_ids=("known",))
    kinds = Counter(check_parsed(fuzzer.frame()) for _ in range(PARSED))
    assert kinds["command"] > PARSED / 10, "most frames never come near a command"
    assert min(kinds["INVALID_COMMAND"], kinds["INVALID_PARAMETER"]) > PARSED / 50


@settings(max_examples=200)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_the_parser_has_an_answer_to_noise(frame: str | bytes) -> None:
    check_parsed(frame)


@pytest.mark.timeout(60 + SENT // 50)
async def test_the_server_answers_whatever_comes_and_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    asking = Turn(call("ask_followup_question", {"question": "Which?", "follow_up": []}))
    answers: Counter[str] = Counter()
    async with (
        open_server(tmp_path, asking, done(), options=UNHURRIED) as here,
        here.peer() as starter,
    ):
        ids = tuple([(await starter.ask("startNewTask", text="go"))["taskId"] for _ in range(3)])
        await starter.asked("followup")
        await asyncio.gather(
            *(
                talk_nonsense(here, Fuzzer(number, ids), SENT // PEERS, answers)
                for number in range(PEERS)
            )
        )
        await starter.ask("ping")
    summary = f"{answers.total()} fuzzed frames, each answered as the schema says"
    sys.stdout.write(f"{summary}: {dict(answers.most_common())}\n")
    assert answers.total() == SENT // PEERS * PEERS
    assert answers["success"] > SENT / 20
    assert answers["SERVER_ERROR"] == 0
    assert caplog.records == []


async def talk_nonsense(
    here: ServerFixture, fuzzer: Fuzzer, count: int, answers: Counter[str]
) -> None:
    async with here.peer() as peer:
        while count:
            frames = [fuzzer.frame() for _ in range(min(count, AT_ONCE))]
            count -= len(frames)
            for frame in frames:
                await peer.socket.send(frame)
            for frame in frames:
                response = await next_response(peer)
                request_id = _request_id(frame)
                assert response["requestId"] in ({"", request_id, "auth"}), (frame, response)
                error = response.get("error", {})
                answers[error.get("code", "success")] += 1
            peer.events.clear()


async def next_response(peer: Peer) -> dict[str, Any]:
    """Every frame on the way to it is checked too."""
    while (frame := await peer.frame())["type"] != "response":
        pass
    return frame


def _request_id(frame: str | bytes) -> str:
    try:
        value = json.loads(frame)
    except ValueError:
        return ""
    found = value.get("requestId") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


async def test_bytes_that_are_no_frames_cost_only_their_sender(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with open_server(tmp_path, options=UNHURRIED) as here, here.peer() as other:
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.listening.port)
            writer.write(
                f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{here.listening.port}\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
            )
            await reader.readuntil(b"\r\n\r\n")
            writer.write(chance.randbytes(chance.randrange(1, 300)))
            writer.write_eof()
            async with asyncio.timeout(60):
                await asyncio.gather(reader.read(), return_exceptions=True)
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        await other.ask("ping")
