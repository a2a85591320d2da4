"""Single replies of models through the real program: `exchanges.toml` says what becomes of them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Stop, Turn, call, disconnect, raw, say, think
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import Joey, reach

EXCHANGES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("exchanges.toml").read_text(encoding="utf-8")
)["exchange"]
CASES = [pytest.param(exchange, id=exchange["name"]) for exchange in EXCHANGES]
PROGRAM = """\
def add(a, b):
    return a - b


def sub(a, b):
    return a - b


class User:
    name = 'x'
"""
DONE = "<attempt_completion><result>Done.</result></attempt_completion>"
FIELDS = {
    *("name", "protocol", "text", "diff", "calls", "reasoning", "stop", "files", "replaced"),
    *("hears", "deaf", "sent", "shows", "hides", "out", "requests"),
}


def test_rows_have_names_and_only_known_fields() -> None:
    assert len({exchange["name"] for exchange in EXCHANGES}) == len(EXCHANGES)
    assert [exchange["name"] for exchange in EXCHANGES if exchange.keys() - FIELDS] == []


@pytest.mark.parametrize("exchange", CASES)
async def test_a_reply_is_answered_as_expected(joey: Joey, exchange: dict[str, Any]) -> None:
    protocol = exchange.get("protocol", "xml")
    program = joey.workspace / "src" / "app.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    joey.settings(requestDelaySeconds=0.01)
    is_xml = protocol == "xml"
    end = Turn(say(DONE)) if is_xml else Turn(call("attempt_completion", {"result": "Done."}))
    flags = ("-p", "-y", "--no-sandbox", "--protocol", protocol)
    async with ModelServer([build_turn(exchange), end]) as server:
        done = await joey.run(*flags, *reach(server.url), "go")
        requests = server.requests
    assert (done.code, done.out) == (0, f"{exchange.get('out', 'Done.')}\n"), done.err
    assert len(requests) == exchange.get("requests", 2)
    old, new = exchange.get("replaced", ("", ""))
    expected = {"src/app.py": PROGRAM.replace(old, new), **exchange.get("files", {})}
    assert read_files(joey.workspace) == expected
    assert [text for text in exchange.get("shows", ()) if text not in done.err] == []
    assert [text for text in exchange.get("hides", ()) if text in done.err] == []
    answer = read_last_message(requests[-1])
    assert [text for text in exchange.get("hears", ()) if text not in answer] == [], answer
    assert [text for text in exchange.get("deaf", ()) if text in answer] == [], answer
    if "sent" in exchange:
        assert read_texts(requests[-1].body["messages"][1]) == exchange["sent"]


@pytest.mark.contract("services:openai")
async def test_requests_have_the_shape_that_xml_servers_know(joey: Joey) -> None:
    used = {"tool": "list_files", "action": "list_files", "parameters": {"path": "."}}
    fence = f"```tool_code\n{json.dumps(used)}\n```"
    replies = ["I will look.", fence, "<list_files>\n<path>.</path>\n</list_files>", DONE]
    async with ModelServer([Turn(say(reply, chunk=7)) for reply in replies]) as server:
        route = ("--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "qwen3-max")
        done = await joey.run("-p", "--protocol", "xml", *route, "go")
        bodies = [request.body for request in server.requests]
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    for body in bodies:
        assert body.keys() == {"model", "temperature", "messages", "stream", "stream_options"}
        assert (body["temperature"], body["stream_options"]) == (0, {"include_usage": True})
    system, *messages = bodies[-1]["messages"]
    assert system["content"].startswith("You are Roo, a highly skilled software engineer")
    assert [message["role"] for message in messages] == [*["user", "assistant"] * 3, "user"]
    assert [message["content"] for message in messages[1::2]] == replies[:3]
    users = [[part["text"] for part in message["content"]] for message in messages[::2]]
    assert users[0][0] == "<task>\ngo\n</task>"
    assert users[0][-1].startswith("<environment_details>")
    assert users[1][0].startswith(
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use."
        "\n\n# Reminder: Instructions for Tool Use\n\nTool uses are formatted using XML-style tags."
    )
    assert [user[0] for user in users[2:]] == ["[list_files for '.'] Result:"] * 2


def encode_piece(delta: Any, key: str = "delta", finish: str | None = None) -> str:
    choice = {"index": 0, key: delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'x', 'choices': [choice]})}\n\n"


WHOLE = encode_piece({"content": DONE})
STREAMS = {
    "no-done": WHOLE + encode_piece({}, finish="stop"),
    "no-finish": f"{WHOLE}data: [DONE]\n\n",
    "line-ends": (WHOLE + encode_piece({}, finish="stop")).replace("\n", "\r\n"),
    "no-space": WHOLE.replace("data: ", "data:") + encode_piece({}, finish="stop"),
    "message": encode_piece({"role": "assistant", "content": DONE}, "message", "stop"),
    "list-of-parts": encode_piece({"content": [{"type": "text", "text": DONE}]}, finish="stop"),
    "comments": f": waiting\n\n{WHOLE}: waiting\n\n{encode_piece({}, finish='stop')}",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
async def test_streams_of_careless_servers_are_read(joey: Joey, stream: str) -> None:
    joey.settings(requestDelaySeconds=0.01)
    async with ModelServer([Turn(raw(stream), disconnect(clean=True))]) as server:
        route = ("--provider", "openai", "--base-url", f"{server.url}/v1", "-m", "own")
        done = await joey.run("-p", "--protocol", "xml", *route, "go")
        assert len(server.requests) == 1
    assert (done.code, done.out) == (0, "Done.\n"), done.err


def build_turn(exchange: dict[str, Any]) -> Turn:
    text = exchange.get("text", "")
    if diff := exchange.get("diff"):
        text = f"<apply_diff>\n<path>src/app.py</path>\n<diff>\n{diff}\n</diff>\n</apply_diff>"
    return Turn(
        *([think(exchange["reasoning"])] if "reasoning" in exchange else []),
        *([say(text, chunk=5)] if text else []),
        *(call(each["name"], each["input"]) for each in exchange.get("calls", ())),
        *([Stop(exchange["stop"])] if "stop" in exchange else []),
    )


def read_files(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_bytes().decode()
        for path in workspace.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def read_last_message(request: Request) -> str:
    return read_texts(request.body["messages"][-1]).partition("<environment_details>")[0]


def read_texts(message: dict[str, Any]) -> str:
    """The texts of a message, in the form that either protocol has on this wire."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or read_texts(block) for block in content)
