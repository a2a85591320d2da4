"""A session, exported and played to the same program again: the same answers, or what differs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from joey.core.redaction import redact_secrets
from joey.errors import UserError
from joey.proxy.conversation_export import build_script, list_messages
from joey.proxy.exchange import ExchangeState
from joey.proxy.fixtures import Fixture, build_fixture, encode_fixture, load_fixture, redact_fixture
from joey.proxy.playback import Playback, ReceivedRequest, Refusal
from joey.proxy.playback_server import run_playback_server
from joey.testing.script import (
    Turn,
    call,
    disconnect,
    fail,
    read_script,
    redacted,
    say,
    think,
    usage,
)
from joey.testing.server import ModelServer
from tests.harness.fork_server import start_process
from tests.harness.proxy.conversing import SYSTEM, TOOLS, build_request, build_response
from tests.harness.proxy.filing import ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH, open_recordings
from tests.harness.proxy.proxies import WAIT_S, list_recorded, open_proxy, run_joey

ASKED = [("user", "What is in the repository?")]
SAID = "There are three files in it."
GOING_ON = [*ASKED, ("assistant", SAID), ("user", "Read the first one.")]
TURNS = [
    Turn(say(SAID), call("alpha", {"path": "a"}, id="toolu_1"), usage(input=5, cache_writes=900)),
    Turn(fail(529, "overloaded")),
    Turn(think("Hm.", signature="sig"), redacted("xyz"), say("It is empty."), usage(output=7)),
    Turn(say("Half an ans"), disconnect()),
]
Answer = tuple[int, bytes, bool]
"""Status, body as far as it came, and whether it ended well."""


def keep(text: str) -> str:
    return text


def converse(url: str, path: str, system: str = SYSTEM) -> list[Answer]:
    """A program that asks, is refused once, asks again, and loses the last answer."""
    answers = [post(url, path, build_request(path, ASKED, tools=TOOLS, system=system))]
    body = build_request(path, GOING_ON, tools=TOOLS, system=system)
    answers += [post(url, path, body) for _ in range(2)]
    more = [*GOING_ON, ("assistant", "It is empty."), ("user", "And the second?")]
    return [*answers, post(url, path, build_request(path, more, tools=TOOLS, system=system))]


def post(url: str, path: str, body: dict[str, Any]) -> Answer:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=WAIT_S)
    headers = {"content-type": "application/json", "user-agent": "pi/1.5", "x-api-key": "sk-key"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    try:
        return response.status, response.read(), True
    except HTTPException as error:
        return response.status, getattr(error, "partial", b""), False
    finally:
        connection.close()


async def record(directory: Path, path: str, **options: Any) -> tuple[Path, list[Answer]]:
    async with ModelServer(TURNS) as server, open_proxy(directory, server.url) as proxy:
        answers = await asyncio.to_thread(converse, proxy.url, path, **options)
        await proxy.wait_for_recorded(len(answers))
    return proxy.book, answers


async def play(fixture: Fixture, path: str, **options: Any) -> list[Answer]:
    is_loose = options.pop("is_loose", False)
    playback = Playback(fixture, keep, is_loose=is_loose)
    async with run_playback_server(playback, 0) as url:
        return await asyncio.to_thread(converse, url, path, **options)


@pytest.mark.parametrize("path", [ANTHROPIC_PATH, CHAT_PATH])
async def test_the_same_program_gets_the_same_answers_again(tmp_path: Path, path: str) -> None:
    book, answers = await record(tmp_path, path)
    assert [(status, is_whole) for status, _, is_whole in answers] == [
        (200, True),
        (529, True),
        (200, True),
        (200, False),
    ]
    file = tmp_path / "fixture.json"
    exported = await run_joey("proxy", "export", "1", "-o", str(file), "--db", str(book))
    assert (exported.code, exported.stderr) == (0, "")
    fixture = load_fixture(file)
    assert [each.name for each in fixture.exchanges] == ["1.1", "1.2", "1.3", "1.4"]
    assert fixture.exchanges[3].state is ExchangeState.CUT_UPSTREAM
    assert b"sk-key" not in file.read_bytes()
    assert await play(fixture, path) == answers
    playback = Playback(fixture, keep)
    async with run_playback_server(playback, 0) as url:
        for _ in range(2):  # once more on the same server
            assert await asyncio.to_thread(converse, url, path) == answers


async def test_serve_prints_its_address_and_names_what_differs(tmp_path: Path) -> None:
    book, answers = await record(tmp_path, ANTHROPIC_PATH)
    process = await start_process(
        *("proxy", "serve", "1", "--db", str(book)), env=os.environ, cwd=Path.cwd()
    )
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        url = (await process.stdout.readline()).decode().strip()
        assert await asyncio.to_thread(converse, url, ANTHROPIC_PATH) == answers
        changed = SYSTEM.replace("15:09:20", "15:09:21")
        status, body, _ = (await asyncio.to_thread(converse, url, ANTHROPIC_PATH, changed))[0]
        process.send_signal(signal.SIGTERM)
        _, stderr = await process.communicate()
    assert (status, process.returncode) == (400, 143)
    text = json.loads(body)["error"]["message"]
    character = SYSTEM.index("0. ")
    assert f"recorded 1.1 in block {len(TOOLS)} (system), character {character}:" in text
    assert "15:09:20" in text and "15:09:21" in text and "--loose" in text
    assert "refused: This request differs" in stderr.decode()


def name_items(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """With ids that a client makes, which are others in each run."""
    return [{"id": f"at_{uuid4()}", **each} for each in items]


@pytest.mark.parametrize("path", [ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda body: body | {"model": "other-1"}, "in its model"),
        (lambda body: body | {"stream": False}, "in `stream`"),
        (lambda body: body | {"tools": body["tools"][1:]}, "in block 0 (tools), character"),
        (lambda body: body | {"temperature": 0.5, "metadata": {"user_id": "other"}}, None),
        (lambda body: body | {"input": name_items(body.get("input", ()))}, None),
    ],
)
def test_a_request_is_refused_for_what_the_model_reads(
    tmp_path: Path,
    path: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    expected: str | None,
) -> None:
    body = build_request(path, ASKED, tools=TOOLS)
    exchange = {"request": body, "response": build_response(path, SAID), "path": path}
    recordings = open_recordings(tmp_path / "book.sqlite", [exchange])
    playback = Playback(build_fixture(recordings, 1), keep)
    received = msgspec.json.encode(change(body))
    answer = playback.find_answer(ReceivedRequest("POST", path, "application/json", received))
    if expected is None:
        assert not isinstance(answer, Refusal)
    else:
        assert isinstance(answer, Refusal)
        assert (answer.status, expected in answer.text) == (400, True)


async def test_loose_playback_answers_in_order_whatever_is_asked(tmp_path: Path) -> None:
    book, answers = await record(tmp_path, ANTHROPIC_PATH)
    ended = await run_joey("proxy", "export", "1", "--db", str(book))
    fixture = msgspec.json.decode(ended.stdout, type=Fixture)
    assert await play(fixture, ANTHROPIC_PATH, system="Another", is_loose=True) == answers


async def test_exported_script_says_the_same_again(tmp_path: Path) -> None:
    book, answers = await record(tmp_path, ANTHROPIC_PATH)
    script = tmp_path / "script.json"
    arguments = ("proxy", "export", "1", "--as", "script", "-o", str(script), "--db", str(book))
    assert (await run_joey(*arguments)).code == 0
    turns, is_each = read_script(script)
    assert not is_each
    assert turns[0].steps == (say(SAID), TURNS[0].steps[1], usage(5, 0, 900))
    async with ModelServer(turns) as server:
        again = await asyncio.to_thread(converse, server.url, ANTHROPIC_PATH)
    assert [(status, is_whole) for status, _, is_whole in again] == [
        (status, is_whole) for status, _, is_whole in answers
    ]
    again_ended = await run_joey(*arguments)
    assert again_ended.code == 2
    assert f"{script} exists; --force replaces it" in again_ended.stderr


@pytest.mark.parametrize("path", [ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH])
async def test_exported_roo_task_can_be_imported(tmp_path: Path, path: str) -> None:
    exchanges = [
        {"request": build_request(path, asked), "response": build_response(path, said), "at": at}
        for at, (asked, said) in ((5_000, (ASKED, SAID)), (6_000, (GOING_ON, "It is empty.")))
    ]
    book = tmp_path / "book.sqlite"
    recordings = open_recordings(book, [{**each, "path": path} for each in exchanges])
    said = [
        (message.role, [part["text"] for part in message.content])
        for message in list_messages(recordings, 1)
    ]
    assert said == [(role, [text]) for role, text in [*GOING_ON, ("assistant", "It is empty.")]]
    recordings.book.close()
    directory = tmp_path / "task"
    arguments = ("--as", "roo", "-o", str(directory), "--db", str(book))
    assert (await run_joey("proxy", "export", "1", *arguments)).code == 0
    messages = json.loads((directory / "api_conversation_history.json").read_bytes())
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    rows = json.loads((directory / "ui_messages.json").read_bytes())
    texts = [GOING_ON[0][1], SAID, GOING_ON[2][1], "It is empty."]
    assert [(row["say"], row["text"]) for row in rows if row["say"] != "api_req_started"] == [
        *zip(("text", "text", "user_feedback", "text"), texts, strict=True)
    ]
    assert [number for number, row in enumerate(rows) if row["say"] == "api_req_started"] == [1, 4]
    assert len({row["ts"] for row in rows}) == len(rows)
    item = json.loads((directory / "history_item.json").read_bytes())
    assert item["task"] == GOING_ON[0][1]
    imported = await run_joey("tasks", "import", str(directory))
    assert (imported.code, imported.stderr) == (0, "1 imported\n")


def test_redacted_fixture_holds_no_key_and_still_plays(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    body = build_request(CHAT_PATH, [("user", f"My key is {key}.")])
    exchange = {"request": body, "response": build_response(CHAT_PATH, f"I keep {key} secret.")}
    fixture = build_fixture(open_recordings(tmp_path / "book.sqlite", [exchange]), 1)
    clean = redact_fixture(fixture, redact_secrets)
    assert key.encode() in encode_fixture(fixture)
    assert key.encode() not in encode_fixture(clean)
    received = ReceivedRequest("POST", CHAT_PATH, "", msgspec.json.encode(body))
    assert not isinstance(Playback(clean, redact_secrets).find_answer(received), Refusal)


def test_script_of_a_session_without_bodies_is_refused(tmp_path: Path) -> None:
    recordings = open_recordings(tmp_path / "book.sqlite", [{"request": b"no json"}])
    with pytest.raises(UserError, match="no request to a model"):
        build_script(recordings, 0)
    with pytest.raises(UserError, match="session 9 does not exist"):
        build_fixture(recordings, 9)


async def test_a_web_page_cannot_use_a_served_session(tmp_path: Path) -> None:
    book, _ = await record(tmp_path, ANTHROPIC_PATH)
    assert len(list_recorded(book)) == len(TURNS)
    playback = Playback(Fixture(), keep)
    async with run_playback_server(playback, 0) as url:

        def ask(**headers: str) -> int:
            with closing(HTTPConnection(url.removeprefix("http://"), timeout=WAIT_S)) as connection:
                connection.request("GET", "/v1/models", headers=headers)
                return connection.getresponse().status

        assert await asyncio.to_thread(ask) == 404
        assert await asyncio.to_thread(ask, Origin="https://evil.example") == 403
        assert await asyncio.to_thread(ask, Host="evil.example") == 403
