"""Servers that speak the protocol badly cost a call, never the rest."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from joey.core.mcp import normalize_schema
from joey.errors import ToolError
from tests.harness.mcp.hub_harness import (
    TIMEOUT_S,
    HubHarness,
    is_alive,
    names,
    server,
    settled,
    until,
)
from tests.harness.mcp.misbehaving_server import misbehaving


@pytest.mark.contract("mcp:transports")
async def test_letters_that_are_none_are_replaced(harness: HubHarness, tmp_path: Path) -> None:
    """Programs cut texts in the middle of a letter, or write in another encoding."""
    lease = await harness.open(r=misbehaving("plain", tmp_path, timeout=5))
    assert (await lease.call_tool("r", "half_a_letter", {})).text == "a\N{REPLACEMENT CHARACTER}!"
    assert (await lease.call_tool("r", "latin", {})).text == "caf\N{REPLACEMENT CHARACTER}"
    await lease.close()


async def test_an_answer_counts_once_and_only_under_its_id(
    harness: HubHarness, tmp_path: Path
) -> None:
    lease = await harness.open(r=misbehaving("wrong-ids", tmp_path))
    assert (await lease.call_tool("r", "twice", {})).text == "one"
    assert (await lease.call_tool("r", "echo", {"text": "x"})).text == "x"
    await lease.close()


async def test_a_server_that_wants_a_model_directories_or_a_user_is_refused(
    harness: HubHarness, tmp_path: Path
) -> None:
    lease = await harness.open(r=misbehaving("asking", tmp_path))
    log = tmp_path / "log"
    await until(lambda: log.read_text().count("answered") == 3)
    assert log.read_text().count('"error"') == 3
    assert (await lease.call_tool("r", "echo", {"text": "x"})).text == "x"
    await lease.close()


@pytest.mark.contract("mcp:bounded")
@pytest.mark.parametrize("tool", ["many_parts", "many_icons"])
async def test_an_answer_of_a_million_parts_is_refused_before_it_is_looked_at(
    harness: HubHarness, tmp_path: Path, tool: str
) -> None:
    lease = await harness.open(r=misbehaving("plain", tmp_path))
    with pytest.raises(ToolError, match="parts"):
        await lease.call_tool("r", tool, {})
    assert (await lease.call_tool("r", "echo", {"text": "x"})).text == "x"
    await lease.close()


async def test_what_a_server_says_of_itself_has_an_end(harness: HubHarness, tmp_path: Path) -> None:
    lease = await harness.open(r=misbehaving("verbose", tmp_path))
    found = server(lease, "r")
    assert 1 <= len(found.instructions) <= 10_000
    assert sum(len(tool.description) for tool in found.tools) <= 2_000_000
    assert "echo" in names(lease, "r")
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_news_of_a_call_are_short(harness: HubHarness, tmp_path: Path) -> None:
    lease = await harness.open(r=misbehaving("plain", tmp_path))
    progress: list[str] = []
    await lease.call_tool("r", "progress", {}, progress.append)
    assert progress and max(map(len, progress)) <= 1100
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_two_tasks_in_one_tool_do_not_disturb_each_other(
    harness: HubHarness, tmp_path: Path
) -> None:
    one = await harness.open(r=misbehaving("plain", tmp_path))
    other = harness.hubs.lease(harness.workspace)
    await settled(other)
    async with asyncio.timeout(TIMEOUT_S):
        first = asyncio.create_task(one.call_tool("r", "slow", {"text": "first"}))
        second = asyncio.create_task(other.call_tool("r", "slow", {"text": "second"}))
        third = asyncio.create_task(other.call_tool("r", "silent", {}))
        await until(lambda: (tmp_path / "log").read_text().count("slow") == 2)
        first.cancel()
        await one.close()
        assert (await second).text == "second"
        third.cancel()
        await asyncio.wait({first, third})
    await other.close()


@pytest.mark.contract("mcp:calls")
async def test_a_server_that_listens_no_more_ends_no_later_than_promised(
    harness: HubHarness, tmp_path: Path
) -> None:
    lease = await harness.open(r=misbehaving("plain", tmp_path, timeout=2))
    pid = int((await lease.call_tool("r", "pid", {})).text)
    await lease.call_tool("r", "deaf", {})
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(2):
            with pytest.raises(ToolError, match="within 2 s"):
                await lease.call_tool("r", "echo", {"text": "x" * 3_000_000})
        await lease.close()
    assert not is_alive(pid)


_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
_JPEG = base64.b64encode(b"\xff\xd8\xff" + bytes(20)).decode()


@pytest.mark.parametrize(
    ("kind", "data", "seen"),
    [
        ("image/png", _PNG, f"data:image/png;base64,{_PNG}"),
        ("image/PNG; x=y", _PNG, f"data:image/png;base64,{_PNG}"),
        ("image/png", _JPEG, f"data:image/jpeg;base64,{_JPEG}"),
        ("image/png", "not base64!", None),
        ("image/png", "", None),
        ("image/png", base64.b64encode(b"<html>").decode(), None),
        ("image/svg+xml", base64.b64encode(b"<svg>").decode(), None),
        ("text/html", _PNG, f"data:image/png;base64,{_PNG}"),
    ],
)
async def test_only_what_is_an_image_is_passed_on_as_one(
    harness: HubHarness, tmp_path: Path, kind: str, data: str, seen: str | None
) -> None:
    """An image that is none would make every later request of the task fail."""
    lease = await harness.open(r=misbehaving("plain", tmp_path))
    image = {"type": "image", "data": data, "mimeType": kind}
    answer = await lease.call_tool("r", "pictures", {"pictures": [image]})
    assert answer.images == (() if seen is None else (seen,))
    assert ("cannot be passed on" in answer.text) == (seen is None)
    await lease.close()


def test_schemas_that_refer_to_themselves_end_before_the_stack_does() -> None:
    parts = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]
    schema = {"allOf": parts, "$defs": {"A": {"allOf": parts, "properties": {"a": {}}}}}

    def deep_down(depth: int) -> dict[str, object]:
        return deep_down(depth - 1) if depth else normalize_schema(schema)

    assert deep_down(500)["properties"] == {"a": {}}
