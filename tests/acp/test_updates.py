"""Events in, updates out: whatever is cut off, every call comes to an end; and lines of a pipe,
however they are cut into pieces."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.acp.editor import to_json_dict
from joey.acp.jsonrpc_transport import JsonRpcTransport
from joey.acp.tool_calls import parse_hunks
from joey.acp.updates import UpdateEncoder
from joey.core.edits.diff import build_unified_diff
from joey.core.events import (
    AskAnswered,
    AskOpened,
    Durable,
    ReplyReceived,
    RowAdded,
    RowPart,
    TaskFinished,
    TodosChanged,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.messages import CallPart, TextPart, ToolCall
from joey.core.task_types import Answer, AskKind, Response, Todo
from tests.harness.acp.editor import calls_of

HERE = Path("/work")


def reply(ts: int, *calls: str) -> ReplyReceived:
    text = RowPart(ts=ts + 1, part=TextPart("Words.\x1b[2J"))
    parts = [RowPart(ts=ts + 2, part=CallPart(ToolCall(id=id, name="edit"))) for id in calls]
    return ReplyReceived(ts=ts, parts=(text, *parts))


DIFF = "@@ -1,1 +1,1 @@\n-x\n+y\n"
EVENTS: list[Durable] = [
    UserMessage(ts=1, text="go", is_first=True),
    reply(10, "a", "b"),
    ToolStarted(
        ts=20, call_id="a", tool="edit", text="{}", path="a.py", diff="@@ -1 +1 @@\n-x\n+y\n"
    ),
    ToolFinished(ts=21, call_id="a", tool="edit", content="done"),
    AskOpened(ts=22, ask=AskKind.TOOL, call_id="b", tool="edit", text="not json", path="b.py"),
    AskAnswered(ts=23, ask_ts=22, answer=Answer(Response.NO)),
    ToolFinished(ts=24, call_id="b", tool="edit", content="denied"),
    TodosChanged(ts=25, todos=(Todo("1", "look", "pending"),)),
    reply(30, "c"),
    RowAdded(ts=40, say="error", text="edit: it failed"),
    ToolFailed(ts=41, tool="edit", error="it failed", call_id="c"),
    ToolFinished(ts=42, call_id="c", tool="edit", content="it failed", is_error=True),
    RowAdded(ts=50, say="error", text="something else"),
    RowAdded(ts=51, say="completion_result", text="Over."),
    TaskFinished(ts=60),
]


@pytest.mark.parametrize("end", range(len(EVENTS) + 1))
def test_wherever_a_journal_ends_every_call_has_ended(end: int) -> None:
    encoder = UpdateEncoder(HERE)
    sent = [update for event in EVENTS[:end] for update in encoder.encode(event, live=False)]
    sent += encoder.fail_open_calls()
    updates = [to_json_dict(update) for update in sent]
    for call in calls_of(updates).values():
        assert call["status"] in ("completed", "failed")
    assert "\x1b" not in json.dumps(updates)


def test_an_error_is_sent_once() -> None:
    encoder = UpdateEncoder(HERE)
    updates = [to_json_dict(update) for event in EVENTS for update in encoder.encode(event)]
    message = json.dumps(
        [each for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
    )
    assert "it failed" not in message, "the call tells that"
    assert message.count("something else") == 1
    statuses = {id: call["status"] for id, call in calls_of(updates).items()}
    assert statuses == {"a": "completed", "b": "failed", "c": "failed"}


LINES = st.lists(st.sampled_from(["", "a", "b", "  c", "-d", "+e", "@@ -1 +1 @@"]), max_size=30)


HUNK = re.compile(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$", re.MULTILINE)


@given(LINES, LINES)
def test_a_pair_holds_the_lines_that_its_hunk_names(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = build_unified_diff(before, after).text
    pairs = parse_hunks("a.txt", diff)
    places = [tuple(map(int, found)) for found in HUNK.findall(diff)]
    assert [(pair.old_text, pair.new_text) for pair in pairs] == [
        (lines_of(old, at, count), lines_of(new, new_at, new_count))
        for at, count, new_at, new_count in places
    ]


def lines_of(lines: list[str], start: int, count: int) -> str:
    return "".join(f"{line}\n" for line in lines[max(0, start - 1) :][:count])


MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"text": "äöü\n\t"}},
    {"jsonrpc": "2.0", "id": "two", "result": None},
    {"jsonrpc": "2.0", "method": "b"},
]


@given(st.lists(st.integers(1, 40), max_size=20), st.booleans())
def test_lines_are_the_same_however_they_are_cut(sizes: list[int], ended: bool) -> None:
    text = "\r\n\n".join(json.dumps(message, ensure_ascii=False) for message in MESSAGES)
    data = text.encode() + (b"\n" if ended else b"")

    async def pieces() -> AsyncIterator[bytes]:
        rest = data
        for size in sizes:
            yield rest[:size]
            rest = rest[size:]
        yield rest

    async def run() -> None:
        reading, writing = os.pipe()
        try:
            frames = JsonRpcTransport(pieces(), writing)
            received = []
            while (message := await frames.receive()) is not None:
                received.append(message)
            assert received == MESSAGES
        finally:
            os.close(reading)
            os.close(writing)

    asyncio.run(run())
