"""Messages that are too long, cut to valid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.mcp.message_limits import (
    BoundedLineSplitter,
    TruncatedLine,
    build_truncated_message,
    to_bounded_message,
)


def fed(data: bytes, limit: int, size: int) -> list[bytes | TruncatedLine]:
    lines = BoundedLineSplitter(limit)
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    return [*found, lines.flush()]


@given(
    st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=6),
    st.integers(1, 50),
)
@settings(max_examples=100)
def test_however_the_bytes_arrive_the_lines_are_the_same(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    whole = fed(data, 20, len(data) or 1)
    assert fed(data, 20, size) == whole
    for line, found in zip(data.split(b"\n"), whole, strict=True):
        if len(line) <= 20:
            assert found == line
        else:
            assert isinstance(found, TruncatedLine)
            assert (found.head, found.full_size) == (line[:20], len(line))


def cut(message: dict[str, Any], limit: int) -> dict[str, Any] | None:
    data = json.dumps(message).encode()
    (line,) = [found for found in fed(data, limit, 64) if found]
    assert isinstance(line, TruncatedLine)
    short = build_truncated_message(line.head, line.tail, line.full_size)
    return None if short is None else json.loads(short)


LONG = "é" * 400


@pytest.mark.contract("mcp:bounded")
@pytest.mark.parametrize("last", [True, False])
def test_the_beginning_of_a_text_is_kept_under_the_same_id(last: bool) -> None:
    result = {"content": [{"type": "text", "text": "whole"}, {"type": "text", "text": LONG}]}
    message = {"result": result, "id": 7} if last else {"id": 7, "result": result}
    short = cut(message, 300)
    assert short is not None and short["id"] == 7
    whole, begun, note = (item["text"] for item in short["result"]["content"])
    assert whole == "whole"
    assert LONG.startswith(begun) and begun
    assert "The answer was cut" in note


def test_half_an_image_is_left_out() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image", "data": "A" * 900}]
    short = cut({"id": "a", "result": {"content": content}}, 300)
    assert short is not None
    assert [item["type"] for item in short["result"]["content"]] == ["text", "text"]


def test_a_resource_is_cut_too_and_a_list_is_an_error() -> None:
    short = cut({"id": 1, "result": {"contents": [{"uri": "a:b", "text": LONG}]}}, 300)
    assert short is not None
    assert [item["uri"] for item in short["result"]["contents"]] == ["a:b", "a:b"]
    listed = cut({"id": 1, "result": {"tools": [{"name": "x"}] * 100}}, 300)
    assert listed is not None and "The answer was cut" in listed["error"]["message"]


def test_what_nobody_waits_for_is_dropped() -> None:
    assert cut({"method": "notifications/message", "params": {"data": LONG}}, 300) is None
    assert cut({"result": {"content": []}, "padding": LONG}, 300) is None


@given(st.binary(max_size=200), st.binary(max_size=50))
@settings(max_examples=150)
def test_bytes_that_are_no_message_are_no_crash(head: bytes, tail: bytes) -> None:
    build_truncated_message(head, tail, 1_000_000)


async def test_an_event_keeps_its_field_name() -> None:
    line = TruncatedLine(
        b'data: {"id": 3, "result": {"content": [{"type": "text", "text": "ab', b"", 99
    )
    message = await to_bounded_message(line, b"data: ")
    assert message.startswith(b"data: {")
    assert json.loads(message[6:])["id"] == 3
