"""Single replies of models through the real program: `exchanges.toml` says what becomes of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Stop, Turn, call, say, think
from joey.testing.server import ModelServer, Request
from tests.front.binary import Joey, reach

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
