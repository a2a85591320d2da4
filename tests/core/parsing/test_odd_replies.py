"""Replies as real models write them: which calls they make, or that they are only text.

The corpus is `odd_replies.toml`. A reply is tried whole, character by character, and cut in two at
every place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from joey.core.messages import Chunk, StopChunk, TextChunk
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.tools.registry import Registry, build_default_tools

REPLIES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("odd_replies.toml").read_text(encoding="utf-8")
)["reply"]
TOOLS = Registry(build_default_tools()).build_tool_names()
CASES = [
    pytest.param(reply, ToolProtocol(protocol), id=f"{reply['name']}-{protocol}")
    for reply in REPLIES
    for protocol in reply.get("protocols", ["native", "xml"])
]


def find_calls(
    pieces: Sequence[str], protocol: ToolProtocol, stop: str
) -> list[tuple[str, dict[str, Any]]]:
    assembler = ReplyAssembler(
        protocol=protocol,
        tools=TOOLS,
        taken_ids=lambda id: False,
        make_id=lambda: "made",
    )
    chunks: list[Chunk] = [*map(TextChunk, pieces), StopChunk(stop)]
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.close(complete=True)
    return [
        (call.name, call.input)
        for call in assembler.reply.calls
        if call.problem is None and (call.input or not TOOLS.by_name[call.name].find_problem({}))
    ]


def test_the_corpus_is_large_and_names_are_unique() -> None:
    names = [reply["name"] for reply in REPLIES]
    assert len(set(names)) == len(names) >= 150
    assert sum(not reply.get("calls") for reply in REPLIES) >= 50


@pytest.mark.parametrize(("reply", "protocol"), CASES)
def test_a_reply_makes_the_expected_calls_at_every_split(
    reply: dict[str, Any], protocol: ToolProtocol
) -> None:
    text, stop = reply["text"], reply.get("stop", "stop")
    expected = [(call["name"], call["arguments"]) for call in reply.get("calls", ())]
    assert find_calls([text], protocol, stop) == expected
    assert find_calls(text, protocol, stop) == expected
    for place in range(1, len(text)):
        assert find_calls([text[:place], text[place:]], protocol, stop) == expected, place
