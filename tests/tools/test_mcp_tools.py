"""Calling tools and reading resources of MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.core.mcp import McpResult, McpServer, McpStatus, McpTool
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import find_mode
from joey.core.permissions.policy import Allow, Ask, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.errors import ArgumentError, ToolError, ToolErrorWithReply
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.access_mcp_resource import AccessMcpResource
from joey.tools.base import AvailabilityContext
from joey.tools.mcp_tool import McpServerTool
from joey.tools.registry import Registry, ToolSet, build_default_tools
from joey.tools.use_mcp_tool import UseMcpTool
from tests.harness.tools.mcp_servers import WEATHER, StaticMcpServers
from tests.harness.tools.tool_context import make_context

FORECAST = {"server_name": "weather", "tool_name": "get_forecast", "arguments": {"days": 3}}


def context(root: Path, mcp: StaticMcpServers | None = None, **changes: Any) -> ToolContext:
    return make_context(root, capabilities=Capabilities(mcp=mcp or StaticMcpServers()), **changes)


async def prepare(root: Path, call: dict[str, Any], **changes: Any) -> Any:
    tool = UseMcpTool()
    return await tool.prepare(tool.parse(call), context(root, **changes))


@pytest.mark.contract("tool:use_mcp_tool:approval")
async def test_a_call_is_asked_about_in_roos_terms(tmp_path: Path) -> None:
    prepared = await prepare(tmp_path, FORECAST)
    assert prepared.ask_kind is AskKind.USE_MCP_SERVER
    assert prepared.row == {
        "type": "use_mcp_tool",
        "serverName": "weather",
        "toolName": "get_forecast",
        "arguments": '{"days":3}',
    }


@pytest.mark.contract("tool:use_mcp_tool:approval:permission")
@pytest.mark.parametrize(
    ("tool", "settings", "allowed"),
    [
        ("get_forecast", Settings(), False),
        ("get_forecast", Settings(always_allow_mcp=True), False),
        ("listed", Settings(), False),
        ("listed", Settings(always_allow_mcp=True), True),
        ("get_forecast", Settings(always_allow_mcp=True, allowed_mcp_tools=("*",)), True),
        ("get_forecast", Settings(allowed_mcp_tools=("*",)), False),
        ("get_forecast", Settings(always_allow_mcp=True, allowed_mcp_tools=("weather/*",)), True),
        ("get_forecast", Settings(always_allow_mcp=True, allowed_mcp_tools=("w/*",)), False),
        (
            "get_forecast",
            Settings(always_allow_mcp=True, allowed_mcp_tools=("weather/get_forecast",)),
            True,
        ),
    ],
)
async def test_a_tool_runs_unasked_only_if_both_the_settings_and_a_list_allow_it(
    tmp_path: Path, tool: str, settings: Settings, allowed: bool
) -> None:
    prepared = await prepare(tmp_path, FORECAST | {"tool_name": tool})
    assert isinstance(decide(prepared.claims, settings), Allow if allowed else Ask)


@pytest.mark.contract("mcp:pins")
async def test_a_tool_that_changed_says_so_in_the_question(tmp_path: Path) -> None:
    changed = McpServer("w", status=McpStatus.CONNECTED, tools=(McpTool("t", has_changed=True),))
    call = {"server_name": "w", "tool_name": "t"}
    prepared = await prepare(tmp_path, call, mcp=StaticMcpServers(changed))
    settings = Settings(always_allow_mcp=True, allowed_mcp_tools=("w/t",))
    decision = decide(prepared.claims, settings)
    assert isinstance(decision, Ask)
    assert "otherwise than before" in format_reasons(decision.reasons)


@pytest.mark.contract("tool:use_mcp_tool:native:arguments")
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"days": 3}, {"days": 3}),
        ('{"days": 3}', {"days": 3}),
        ("\n{}\n", {}),
        ("", {}),
        (None, {}),
    ],
)
async def test_arguments_may_come_as_an_object_or_as_its_json(
    tmp_path: Path, given: Any, taken: dict[str, Any]
) -> None:
    prepared = await prepare(tmp_path, FORECAST | {"arguments": given})
    assert prepared.arguments == taken


@pytest.mark.contract("tool:use_mcp_tool:native:arguments")
@pytest.mark.parametrize("given", ["{days: 3}", "[1]", '"text"', [1], 3, "null"])
async def test_arguments_that_are_no_object_are_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ToolErrorWithReply) as error:
        await prepare(tmp_path, FORECAST | {"arguments": given})
    assert error.value.reply == (
        "[ERROR] The arguments for the tool 'get_forecast' of the MCP server 'weather' are not a"
        " JSON object. Make the call again with arguments that are one JSON object."
    )


@pytest.mark.contract("tool:use_mcp_tool:failure:missing")
@pytest.mark.parametrize("name", ["server_name", "tool_name"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_call_without_a_name_is_answered_with_which_is_missing(
    name: str, value: str | None
) -> None:
    with pytest.raises(ArgumentError) as error:
        UseMcpTool().parse(FORECAST | {name: value})
    assert error.value.parameter == name


@pytest.mark.contract(
    "tool:use_mcp_tool:failure:unknown-tool", "tool:use_mcp_tool:failure:unknown-server"
)
async def test_a_server_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ToolErrorWithReply) as error:
        await prepare(tmp_path, FORECAST | {"server_name": "wether"})
    assert error.value.reply == (
        "[ERROR] There is no MCP server 'wether'. Available servers: weather."
    )


@pytest.mark.contract(
    "tool:use_mcp_tool:failure:unknown-tool", "tool:use_mcp_tool:failure:unknown-server"
)
@pytest.mark.parametrize("name", ["forecast", "secret"])
async def test_a_tool_that_is_not_there_or_switched_off_is_answered_with_the_others(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ToolErrorWithReply) as error:
        await prepare(tmp_path, FORECAST | {"tool_name": name})
    assert error.value.reply.startswith("[ERROR] The MCP server 'weather' has no tool ")
    assert error.value.reply.endswith("Available tools: get_forecast, listed.")


async def test_a_server_without_tools_says_so(tmp_path: Path) -> None:
    bare = StaticMcpServers(McpServer("bare", status=McpStatus.CONNECTED))
    with pytest.raises(ToolErrorWithReply) as error:
        await prepare(tmp_path, FORECAST | {"server_name": "bare"}, mcp=bare)
    assert error.value.reply.endswith("This server offers no tools.")


async def test_a_server_that_is_down_is_not_called_unknown(tmp_path: Path) -> None:
    down = StaticMcpServers(McpServer("down", status=McpStatus.UNTRUSTED, error="see joey trust"))
    with pytest.raises(ToolError, match="'down' is untrusted: see joey trust"):
        await prepare(tmp_path, FORECAST | {"server_name": "down"}, mcp=down)


@pytest.mark.contract("tool:mcp:native:mangled-names")
async def test_dashes_and_underscores_may_be_confused(tmp_path: Path) -> None:
    call = FORECAST | {"tool_name": "get-forecast"}
    assert (await prepare(tmp_path, call)).tool_name == "get_forecast"


@pytest.mark.contract("tool:use_mcp_tool:success:says")
async def test_a_call_is_shown_to_the_user_from_its_start_to_its_answer(tmp_path: Path) -> None:
    said: list[tuple[str, str, tuple[str, ...]]] = []
    shown: list[str] = []
    mcp = StaticMcpServers(answer=McpResult("sunny", ("data:image/png;base64,AA",)))
    ctx = context(
        tmp_path,
        mcp,
        add_row=lambda kind, text, images=(): said.append((kind, text, images)),
        on_output=shown.append,
    )
    tool = UseMcpTool()
    outcome = await tool.run_prepared(await tool.prepare(tool.parse(FORECAST), ctx), ctx, None)
    assert mcp.calls == [("weather", "get_forecast", {"days": 3})]
    assert shown == ["1 of 2: half\n"]
    assert [kind for kind, _, _ in said] == [
        "mcp_server_request_started",
        "command_output",
        "mcp_server_response",
    ]
    assert said[-1][1:] == ("sunny", ("data:image/png;base64,AA",))
    assert (outcome.text, outcome.images) == ("sunny", ("data:image/png;base64,AA",))


async def test_an_answer_that_is_an_error_is_an_error(tmp_path: Path) -> None:
    mcp = StaticMcpServers(answer=McpResult("Error:\nno", is_error=True))
    ctx = context(tmp_path, mcp)
    tool = UseMcpTool()
    outcome = await tool.run_prepared(await tool.prepare(tool.parse(FORECAST), ctx), ctx, None)
    assert outcome.is_error


async def test_without_servers_every_call_says_that_they_are_switched_off(tmp_path: Path) -> None:
    tool = UseMcpTool()
    with pytest.raises(ToolError, match="mcpEnabled"):
        await tool.prepare(tool.parse(FORECAST), make_context(tmp_path))


# Which tools are offered ----------------------------------------------------------------------


def offered(protocol: ToolProtocol, mode: str = "code", *servers: McpServer) -> list[str]:
    mcp = StaticMcpServers(*servers)
    box = ToolSet(Registry(build_default_tools()), mcp.servers)
    chosen = find_mode(mode)
    assert chosen is not None
    offer = AvailabilityContext(Settings(), ModelInfo(id="m"), Capabilities(mcp=mcp), protocol)
    return [spec.name for spec in box.list_specs(chosen, offer) if "mcp" in spec.name]


@pytest.mark.contract("tool:use_mcp_tool:schema:offered")
def test_native_tasks_get_each_tool_and_xml_tasks_one_for_all() -> None:
    assert offered(ToolProtocol.NATIVE) == [
        "access_mcp_resource",
        "mcp--weather--get_forecast",
        "mcp--weather--listed",
    ]
    assert offered(ToolProtocol.XML) == ["use_mcp_tool", "access_mcp_resource"]
    assert offered(ToolProtocol.NATIVE, "orchestrator") == []
    bare = McpServer("bare", status=McpStatus.CONNECTED)
    assert offered(ToolProtocol.XML, "code", bare) == []


@pytest.mark.contract("tool:use_mcp_tool:schema")
def test_a_servers_tool_is_offered_with_the_servers_own_schema() -> None:
    spec = McpServerTool("weather", WEATHER.tools[0]).spec
    assert not spec.strict
    assert spec.description == "The weather to come."
    assert spec.parameters == WEATHER.tools[0].schema


async def test_texts_of_an_xml_call_become_what_the_schema_asks_for(tmp_path: Path) -> None:
    tool = McpServerTool("weather", WEATHER.tools[0])
    assert tool.xml_tags == {"days"}
    prepared = await tool.prepare(tool.parse({"days": "3", "city": "7"}), context(tmp_path))
    assert prepared.arguments == {"days": 3, "city": "7"}


# Resources ------------------------------------------------------------------------------------


@pytest.mark.contract("tool:access_mcp_resource:success")
async def test_a_resource_is_asked_for_and_read(tmp_path: Path) -> None:
    tool, ctx = AccessMcpResource(), context(tmp_path)
    call = {"server_name": "weather", "uri": "weather://today"}
    prepared = await tool.prepare(tool.parse(call), ctx)
    assert prepared.ask_kind is AskKind.USE_MCP_SERVER
    assert prepared.row == {
        "type": "access_mcp_resource",
        "serverName": "weather",
        "uri": "weather://today",
    }
    assert isinstance(decide(prepared.claims, Settings()), Ask)
    assert isinstance(decide(prepared.claims, Settings(always_allow_mcp=True)), Allow)
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert outcome.text == "the text of weather://today"


@pytest.mark.contract("tool:access_mcp_resource:failure:missing")
@pytest.mark.parametrize("name", ["server_name", "uri"])
def test_a_resource_needs_a_server_and_a_uri(name: str) -> None:
    call = {"server_name": "weather", "uri": "weather://today"} | {name: " "}
    with pytest.raises(ArgumentError) as error:
        AccessMcpResource().parse(call)
    assert error.value.parameter == name


@pytest.mark.contract("tool:access_mcp_resource:schema:offered")
def test_reading_resources_is_offered_where_there_are_some() -> None:
    bare = msgspec.structs.replace(WEATHER, resources=())
    assert "access_mcp_resource" not in offered(ToolProtocol.NATIVE, "code", bare)
    assert "access_mcp_resource" in offered(ToolProtocol.NATIVE)
