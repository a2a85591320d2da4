"""Names and schemas of MCP tools, as models see them and as they bring them back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.mcp import (
    McpServer,
    McpStatus,
    McpTool,
    build_tool_name,
    fold_tool_name,
    normalize_schema,
)
from joey.core.models import ModelInfo
from joey.core.modes import find_mode
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.tool_context import Capabilities
from joey.tools.base import AvailabilityContext
from joey.tools.mcp_tool import iter_server_tools
from joey.tools.registry import Registry, ToolSet, ToolSetCache, build_default_tools
from tests.harness.tools.mcp_servers import WEATHER

OFFERED = re.compile(r"mcp--[A-Za-z_][A-Za-z0-9_-]*")


@pytest.mark.contract("tool:mcp:schema:names")
@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("weather", "get_forecast", "mcp--weather--get_forecast"),
        ("my server", "do it", "mcp--my_server--do_it"),
        ("a--b", "c---d", "mcp--a-b--c-d"),
        ("9lives", "2nd", "mcp--_9lives--_2nd"),
        ("@scope/pkg", "ü", "mcp--scopepkg--_unnamed"),
        ("", "x", "mcp--_--x"),
        ("s" * 80, "t", f"mcp--{'s' * 59}"),
    ],
)
def test_names_are_made_of_letters_that_every_provider_takes(
    server: str, tool: str, name: str
) -> None:
    assert build_tool_name(server, tool) == name


@given(st.text(max_size=80), st.text(max_size=80))
@settings(max_examples=150)
def test_whatever_a_server_is_called_its_tools_can_be_offered(server: str, tool: str) -> None:
    name = build_tool_name(server, tool)
    assert OFFERED.fullmatch(name)
    assert len(name) <= 64
    assert fold_tool_name(name) == fold_tool_name(name.replace("--", "__"))


def toolbox(*servers: McpServer) -> ToolSet:
    return ToolSet(Registry(build_default_tools()), servers or (WEATHER,))


@pytest.mark.contract("tool:mcp:native:mangled-names", "mcp:calls")
@pytest.mark.parametrize(
    "name",
    [
        "mcp--weather--get_forecast",
        "mcp__weather__get_forecast",
        "weather__get_forecast",
        "weather--get-forecast",
        "mcp--weather--get-forecast",
        "mcp_weather__get_forecast",
    ],
)
def test_a_tool_is_found_under_names_that_models_make_of_it(name: str) -> None:
    assert toolbox().find(name).name == "mcp--weather--get_forecast"


@pytest.mark.contract("tool:mcp:failure:ambiguous")
def test_a_name_that_may_mean_two_tools_means_none() -> None:
    both = (
        McpServer("a", tools=(McpTool("b_c"),)),
        McpServer("a_b", tools=(McpTool("c"),)),
    )
    with pytest.raises(ToolError, match="mcp--a--b_c, mcp--a_b--c"):
        toolbox(*both).find("a__b__c")
    assert toolbox(*both).find("mcp--a--b_c").name == "mcp--a--b_c"


def test_a_slip_in_the_name_of_a_builtin_tool_is_no_mcp_tool() -> None:
    with pytest.raises(ToolError, match='Unknown tool "weather_get_forecast"'):
        toolbox().find("weather_get_forecast")
    assert toolbox().find("read_file").name == "read_file"


@pytest.mark.contract("tool:mcp:schema:duplicates")
def test_of_two_tools_that_get_the_same_name_the_first_is_offered() -> None:
    long = "t" * 70
    servers = (
        McpServer("one", tools=(McpTool(f"{long}a", "first"), McpTool(f"{long}b", "second"))),
    )
    (tool,) = iter_server_tools(servers)
    assert tool.description == "first"


@pytest.mark.contract("tool:mcp:schema:stable")
def test_the_same_tools_give_the_same_box_whatever_else_changes() -> None:
    boxes, registry = ToolSetCache(), Registry(build_default_tools())
    servers = (WEATHER,)
    box = boxes.get_or_create(registry, servers)
    assert boxes.get_or_create(registry, servers) is box
    away = McpServer(
        name="weather",
        status=McpStatus.DISCONNECTED,
        error="it died",
        command_or_url=WEATHER.command_or_url,
        instructions=WEATHER.instructions,
        tools=WEATHER.tools,
        resources=WEATHER.resources,
    )
    assert boxes.get_or_create(registry, (away,)) is box
    assert boxes.get_or_create(registry, (McpServer("other", tools=(McpTool("x"),)),)) is not box
    assert boxes.get_or_create(registry, ()) is registry
    for number in range(200):
        boxes.get_or_create(registry, (McpServer(f"s{number}", tools=(McpTool("x"),)),))
    again = boxes.get_or_create(registry, servers)
    code, offer = (
        find_mode("code"),
        AvailabilityContext(Settings(), ModelInfo(id="m"), Capabilities()),
    )
    assert code is not None
    assert again.list_specs(code, offer) == box.list_specs(code, offer)
    assert again.list_specs(code, offer) is again.list_specs(code, offer)


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
A: dict[str, Any] = {"properties": {"a": {}}, "required": ["a"]}
B: dict[str, Any] = {"properties": {"b": {}}, "required": ["b"]}
A_AND_K: dict[str, Any] = {"properties": {"a": {}, "k": {}}, "required": ["k", "a"]}
K: dict[str, Any] = {"properties": {"k": {}}, "required": ["k"]}
BOTH: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}

SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (None, NOTHING),
    ([], NOTHING),
    ({}, NOTHING),
    ({"type": "object", **A}, {"type": "object", **A}),
    ({"$schema": "x", "anyOf": [A, B]}, BOTH),
    ({"allOf": [A, B]}, {**BOTH, "required": ["a", "b"]}),
    (
        {"oneOf": [A_AND_K, K]},
        {"type": "object", "properties": {"a": {}, "k": {}}, "required": ["k"]},
    ),
    ({"$ref": "#/$defs/P", "$defs": {"P": A}}, {"type": "object", **A, "$defs": {"P": A}}),
    ({"type": "string", "properties": "no"}, NOTHING),
    ({"properties": {}, "required": ["ghost", 3]}, NOTHING),
]


@pytest.mark.contract("tool:use_mcp_tool:schema")
@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_schemas_become_one_object_with_properties(schema: Any, expected: dict[str, Any]) -> None:
    assert normalize_schema(schema) == expected


def test_a_schema_that_refers_to_itself_ends() -> None:
    endless: dict[str, Any] = {"anyOf": [{"$ref": "#/x"}] * 50, "properties": {"a": {}}}
    endless["x"] = {"anyOf": [{"$ref": "#/x"}] * 50, "properties": {"b": {}}}
    assert set(normalize_schema(endless)["properties"]) == {"a", "b"}
