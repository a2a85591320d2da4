"""Whole tasks that use MCP servers; only the model follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from joey.core.mcp import McpResult, McpServer, McpStatus, McpTool
from joey.core.messages import ImageBlock
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, say
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)
from tests.harness.mcp.hub_harness import HubHarness, tiny
from tests.harness.tools.mcp_servers import WEATHER, StaticMcpServers

ECHO = Turn(call("mcp--tiny--echo", {"text": "hello there"}))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    engine_harness = EngineHarness(tmp_path)
    yield engine_harness
    await engine_harness.engine.close()


def with_servers(
    harness: EngineHarness, *servers: McpServer, answer: McpResult | None = None
) -> StaticMcpServers:
    mcp = StaticMcpServers(*servers, answer=answer)
    harness.capabilities = Capabilities(mcp=mcp)
    return mcp


@pytest.mark.contract("tool:mcp:success")
async def test_a_model_calls_a_real_servers_tool_and_a_user_allows_it(
    harness: EngineHarness, tmp_path: Path
) -> None:
    hub_harness = HubHarness(tmp_path)
    hub_harness.write(tiny=tiny())
    harness.capabilities = Capabilities(mcp=hub_harness.hubs.lease(hub_harness.workspace))
    task = await harness.start(ECHO, finish())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.USE_MCP_SERVER
    assert json.loads(ask.text) == {
        "type": "use_mcp_tool",
        "serverName": "tiny",
        "toolName": "echo",
        "arguments": '{"text":"hello there"}',
    }
    assert ask.reason is not None and "tiny/echo" in ask.reason
    await task.approve()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    await task.approve()
    await wait_for_ending(task)
    assert list_tool_results(task.messages[2]) == ["hello there"]
    check_history(task.messages)
    assert [row.text for row in find_rows(task, "mcp_server_response")] == ["hello there"]
    assert len(find_rows(task, "mcp_server_request_started")) == 1


@pytest.mark.contract("tool:mcp:success")
async def test_the_first_request_already_offers_the_tools_and_the_name_stays_as_called(
    harness: EngineHarness,
) -> None:
    mcp = with_servers(harness)
    model = harness.use_script(Turn(call("weather__get_forecast", {"days": 1})), finish())
    settings = Settings(always_allow_mcp=True, allowed_mcp_tools=("weather/*",))
    task = await harness.start(settings=settings, policy=Unattended())
    await wait_for_ending(task)
    first, second = model.requests
    assert "mcp--weather--get_forecast" in [spec.name for spec in first.tools]
    assert first.tools is second.tools
    assert first.system_prompt == second.system_prompt
    assert mcp.ready_waits == 2
    assert mcp.calls == [("weather", "get_forecast", {"days": 1})]
    used = task.messages[1].content[-1]
    assert getattr(used, "name", "") == "weather__get_forecast"


@pytest.mark.contract("tool:use_mcp_tool:xml")
async def test_an_xml_task_reads_of_servers_in_its_prompt_and_calls_by_tags(
    harness: EngineHarness,
) -> None:
    mcp = with_servers(harness)
    text = """I ask.
<use_mcp_tool>
<server_name>weather</server_name>
<tool_name>get_forecast</tool_name>
<arguments>
{"days": 2}
</arguments>
</use_mcp_tool>"""
    done = "<attempt_completion>\n<result>\nok\n</result>\n</attempt_completion>"
    model = harness.use_script(Turn(say(text)), Turn(say(done)))
    settings = Settings(always_allow_mcp=True, allowed_mcp_tools=("*",))
    task = await harness.start(settings=settings, policy=Unattended(), protocol=ToolProtocol.XML)
    await wait_for_ending(task)
    system = model.requests[0].system_prompt
    assert "MCP SERVERS" in system
    assert "## weather (`python3 weather.py`)" in system
    assert "Ask for one city at a time." in system
    assert '"days": {' in system
    assert "- weather://today (today): How it is now." in system
    assert "secret" not in system
    assert "## use_mcp_tool" in system
    assert "mcp--weather" not in system
    assert mcp.calls == [("weather", "get_forecast", {"days": 2})]


async def test_a_native_prompt_and_a_mode_without_mcp_say_nothing_of_servers(
    harness: EngineHarness,
) -> None:
    mcp = with_servers(harness)
    model = harness.use_script(finish())
    task = await harness.start(settings=Settings(mode="orchestrator"), policy=Unattended())
    await wait_for_ending(task)
    assert "MCP SERVERS" not in model.requests[0].system_prompt
    assert not any("mcp" in spec.name for spec in model.requests[0].tools)
    assert mcp.ready_waits == 0


@pytest.mark.contract("tool:use_mcp_tool:schema:mode")
async def test_a_mode_without_mcp_may_not_call_servers(harness: EngineHarness) -> None:
    mcp = with_servers(harness)
    harness.use_script(Turn(call("mcp--weather--get_forecast", {"days": 1})), finish())
    settings = Settings(mode="orchestrator", always_allow_mcp=True, allowed_mcp_tools=("*",))
    task = await harness.start(settings=settings, policy=Unattended())
    await wait_for_ending(task)
    assert "not allowed in orchestrator mode" in list_tool_results(task.messages[2])[0]
    assert mcp.calls == []


@pytest.mark.contract(
    "tool:use_mcp_tool:failure:unknown-tool", "tool:use_mcp_tool:failure:unknown-server"
)
async def test_an_unknown_tool_of_a_server_counts_as_a_mistake_and_is_named(
    harness: EngineHarness,
) -> None:
    with_servers(harness)
    wrong = call("use_mcp_tool", {"server_name": "weather", "tool_name": "x", "arguments": {}})
    harness.use_script(Turn(wrong), finish())
    task = await harness.start(policy=Unattended())
    await wait_for_ending(task)
    assert "has no tool 'x'" in list_tool_results(task.messages[2])[0]
    assert "has no tool 'x'" in (find_rows(task, "error")[0].text or "")


async def test_images_of_a_server_reach_the_model(harness: EngineHarness) -> None:
    pixel = "data:image/png;base64,iVBORw0KGgo="
    with_servers(harness, answer=McpResult("look", (pixel,)))
    harness.use_script(Turn(call("mcp--weather--listed", {})), finish())
    settings = Settings(always_allow_mcp=True)
    task = await harness.start(settings=settings, policy=Unattended())
    await wait_for_ending(task)
    assert any(isinstance(block, ImageBlock) for block in task.messages[2].content)
    assert find_rows(task, "mcp_server_response")[0].images == (pixel,)


async def test_tools_that_come_later_are_offered_from_the_next_request_on(
    harness: EngineHarness,
) -> None:
    mcp = with_servers(harness, McpServer("late", status=McpStatus.CONNECTING))
    late = McpServer("late", status=McpStatus.CONNECTED, tools=(McpTool("now"),))

    def come(*_: object) -> Turn:
        mcp.servers = (late, WEATHER)
        return Turn(call("list_files", {"path": "."}))

    model = harness.use_script(come, finish())
    task = await harness.start(policy=Unattended())
    await wait_for_ending(task)
    offered = [[s.name for s in r.tools if s.name.startswith("mcp--")] for r in model.requests]
    assert offered[0] == []
    assert offered[1][0] == "mcp--late--now"


async def test_closing_a_task_gives_its_servers_back(harness: EngineHarness) -> None:
    mcp = with_servers(harness)
    task = await harness.start(finish(), policy=Unattended())
    await wait_for_ending(task)
    await harness.engine.release(task)
    assert mcp.is_closed
