"""Seed 000, turn by turn, over real HTTP on both wires; and the same task as seed 003 sends it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from joey.app import make_options, open_engine
from joey.core.events import AskOpened
from joey.core.models import ToolProtocol
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.engine import Engine
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.e2e.express import (
    IDS,
    INSTALL,
    PACKAGE,
    REQUEST,
    RESULT,
    SAID,
    SERVER,
    native_turns,
    xml_turns,
)


class Approving:
    """Says yes to everything, like the user in the seed."""

    name = "approving"

    def answer(self, ask: AskOpened) -> Answer | None:
        return Answer(Response.YES)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "package.json").write_text(PACKAGE)
    return root


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with open_engine(home=tmp_path / "home", env={}) as engine:
        yield engine


async def start(
    engine: Engine,
    server: ModelServer,
    workspace: Path,
    wire: str,
    *,
    protocol: ToolProtocol = ToolProtocol.NATIVE,
    approving: bool = True,
) -> Task:
    options = make_options(
        workspace=workspace,
        env={},
        home=workspace.parent / "home",
        provider=wire,
        model="claude-sonnet-4-5-20250929" if wire == "anthropic" else "qwen3-max",
        base_url=server.url if wire == "anthropic" else f"{server.url}/v1",
        protocol=protocol,
        policy=Approving() if approving else None,
    )
    return await engine.start(REQUEST, options=options)


def marks(body: dict[str, Any]) -> list[bool]:
    """For each user message, whether its last block carries a cache mark."""
    users = [message for message in body["messages"] if message["role"] == "user"]
    return ["cache_control" in message["content"][-1] for message in users]


@pytest.mark.contract(
    "loop:conversation", "services:anthropic", "history:api", "tool:write_to_file:native:alias"
)
async def test_four_requests_carry_the_whole_history_to_anthropic(
    engine: Engine, workspace: Path
) -> None:
    async with ModelServer(native_turns()) as server:
        task = await start(engine, server, workspace, "anthropic")
        assert await task.wait() == Completed(RESULT)
        bodies = [request.body for request in server.requests]
    assert [request.path for request in server.requests] == ["/v1/messages"] * 4
    assert "fine-grained-tool-streaming-2025-05-14" in server.requests[0].headers["anthropic-beta"]

    first = bodies[0]
    assert first["model"] == "claude-sonnet-4-5-20250929"
    assert first["temperature"] == 0
    assert first["stream"] is True
    assert first["tool_choice"] == {"type": "auto"}
    assert first["max_tokens"] > 0
    (system,) = first["system"]
    assert system["text"].startswith("You are Roo, a highly skilled software engineer")
    assert system["cache_control"] == {"type": "ephemeral"}
    names = [tool["name"] for tool in first["tools"]]
    assert {"read_file", "write_to_file", "execute_command", "attempt_completion"} <= set(names)
    assert all(tool["input_schema"]["additionalProperties"] is False for tool in first["tools"])

    (message,) = first["messages"]
    assert message["role"] == "user"
    assert message["content"][0] == {"type": "text", "text": REQUEST}
    assert message["content"][-1]["text"].startswith("<environment_details>")
    assert "package.json" in message["content"][-1]["text"]

    for turn, body in enumerate(bodies):
        assert body["system"] == first["system"]
        assert body["tools"] == first["tools"]
        assert [m["role"] for m in body["messages"]] == ["user", "assistant"] * turn + ["user"]
        assert len(marks(body)) == turn + 1
        assert marks(body)[-2:] == [True] * min(2, turn + 1)
        assert not any(marks(body)[:-2])
    for turn in range(1, 4):
        assistant, user = bodies[turn]["messages"][-2:]
        assert [block["type"] for block in assistant["content"]] == ["text", "tool_use"]
        assert assistant["content"][0]["text"] == SAID[turn - 1]
        assert assistant["content"][1]["id"] == IDS[turn - 1]
        assert user["content"][0]["type"] == "tool_result"
        assert user["content"][0]["tool_use_id"] == IDS[turn - 1]
        assert [block["type"] for block in user["content"]] == ["tool_result"]
    results = [body["messages"][-1]["content"][0]["content"] for body in bodies[1:]]
    assert "my-project" in results[0]
    assert "Output:\nadded 64 packages" in results[1]
    assert results[2].startswith("Created src/server.js")
    assert (workspace / "src/server.js").read_text() == SERVER


@pytest.mark.contract("loop:conversation", "services:openai")
@pytest.mark.smoke
async def test_the_same_four_requests_on_the_openai_wire(engine: Engine, workspace: Path) -> None:
    async with ModelServer(native_turns()) as server:
        task = await start(engine, server, workspace, "openai")
        assert await task.wait() == Completed(RESULT)
        bodies = [request.body for request in server.requests]
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 4
    last = bodies[3]
    assert set(last) == {
        "model", "temperature", "messages", "stream", "stream_options",
        "tools", "tool_choice", "parallel_tool_calls",
    }  # fmt: skip
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 3]
    calls = [m for m in last["messages"] if m["role"] == "assistant"]
    assert [m["tool_calls"][0]["id"] for m in calls] == list(IDS[:3])
    assert [m["content"] for m in calls] == list(SAID[:3])
    tools = [m for m in last["messages"] if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in tools] == list(IDS[:3])


@pytest.mark.contract("history:api", "history:ui", "store:layout")
async def test_the_final_history_has_eight_messages_and_both_files_say_so(
    engine: Engine, workspace: Path
) -> None:
    async with ModelServer(native_turns()) as server:
        task = await start(engine, server, workspace, "anthropic")
        await task.wait()
    directory = workspace.parent / "home" / "tasks" / f"task_{task.id}"
    api = json.loads((directory / "api_conversation_history.json").read_bytes())
    assert [message["role"] for message in api] == ["user", "assistant"] * 4
    used = [message["content"][-1] for message in api if message["role"] == "assistant"]
    assert [block["id"] for block in used] == list(IDS)
    assert [block["name"] for block in used] == [
        "read_file", "execute_command", "write_to_file", "attempt_completion",
    ]  # fmt: skip
    assert used[2]["input"] == {"path": "src/server.js", "file_text": SERVER}
    ui = json.loads((directory / "ui_messages.json").read_bytes())
    assert ui[0] == {"ts": ui[0]["ts"], "type": "say", "say": "text", "text": REQUEST}
    tools = {row["tool"]: row for row in ui if "tool" in row}
    assert tools["read_file"]["say"] == "tool"
    assert tools["read_file"]["path"] == "package.json"
    assert tools["read_file"]["approvalState"] == "approved"
    assert "my-project" in tools["read_file"]["result"]
    assert tools["execute_command"]["ask"] == "command"
    assert tools["execute_command"]["text"] == INSTALL
    assert tools["write_to_file"]["ask"] == "tool"
    assert tools["write_to_file"]["approvalState"] == "approved"
    assert "+const express" in tools["write_to_file"]["diff"]
    assert [row["text"] for row in ui if row.get("say") == "completion_result"] == [RESULT]


@pytest.mark.contract("loop:conversation")
async def test_tokens_are_counted_with_their_cache_shares(engine: Engine, workspace: Path) -> None:
    async with ModelServer(native_turns()) as server:
        task = await start(engine, server, workspace, "anthropic")
        await task.wait()
    usage = task.usage
    assert usage.total_tokens_out == 590
    assert usage.total_cache_writes == 9200
    assert usage.total_cache_reads == 25100
    assert usage.total_tokens_in == 72 + 9200 + 25100
    assert usage.total_cost > 0


@pytest.mark.contract("completion:events")
async def test_feedback_instead_of_a_yes_goes_on_as_the_seed_says(
    engine: Engine, workspace: Path
) -> None:
    turns = [*native_turns(), Turn(call("attempt_completion", {"result": "Added /goodbye."}))]
    async with ModelServer(turns) as server:
        task = await start(engine, server, workspace, "anthropic", approving=False)
        with task.subscribe(0) as subscription:
            async for numbered in subscription:
                if not isinstance(numbered.event, AskOpened):
                    continue
                if numbered.event.ask is not AskKind.COMPLETION_RESULT:
                    await task.approve()
                elif len(server.requests) == 4:
                    await task.send("Can you also add a /goodbye endpoint?")
                else:
                    await task.approve()
                    break
        assert await task.wait() == Completed("Added /goodbye.")
        feedback = server.requests[4].body["messages"][-1]["content"][0]
    assert feedback.pop("cache_control") == {"type": "ephemeral"}
    assert feedback == {
        "type": "tool_result",
        "tool_use_id": IDS[3],
        "content": "The user has provided feedback on the results. Consider their input to"
        " continue the task:\n<feedback>\nCan you also add a /goodbye endpoint?\n</feedback>",
    }


@pytest.mark.contract(
    "services:openai", "history:api", "prompt:sections", "tool:write_to_file:native:alias"
)
async def test_the_xml_protocol_sends_exactly_the_shape_of_the_capture(
    engine: Engine, workspace: Path
) -> None:
    async with ModelServer(xml_turns()) as server:
        task = await start(engine, server, workspace, "openai", protocol=ToolProtocol.XML)
        assert await task.wait() == Completed(RESULT)
        bodies = [request.body for request in server.requests]
    assert len(bodies) == 4
    for body in bodies:
        assert set(body) == {"model", "temperature", "messages", "stream", "stream_options"}
        assert body["model"] == "qwen3-max"
        assert body["temperature"] == 0
        assert body["stream_options"] == {"include_usage": True}
        system, *conversation = body["messages"]
        assert system["role"] == "system"
        assert isinstance(system["content"], str)
        for tag in ("<read_file>", "<write_to_file>", "<attempt_completion>"):
            assert tag in system["content"]
        for message in conversation:
            if message["role"] == "user":
                assert [part["type"] for part in message["content"]] == ["text"] * len(
                    message["content"]
                )
                assert message["content"][-1]["text"].startswith("<environment_details>")
            else:
                assert isinstance(message["content"], str)
                assert "tool_calls" not in message
    first, assistant, second = bodies[1]["messages"][1:4]
    assert first["content"][0]["text"] == f"<task>\n{REQUEST}\n</task>"
    assert assistant["content"].endswith("</read_file>")
    assert second["content"][0]["text"].startswith("[read_file for 'package.json'")
    assert second["content"][0]["text"].endswith("Result:")
    assert "my-project" in second["content"][1]["text"]
    assert (workspace / "src/server.js").read_text() == f"{SERVER}\n"
