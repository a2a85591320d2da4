"""The `use_mcp_tool` tool: calls a tool of an MCP server by the names of both, in XML tasks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.models import ToolProtocol
from joey.core.modes import ToolGroup
from joey.core.task_types import Answer
from joey.ports.tool_context import ToolContext
from joey.tools.base import AvailabilityContext, Outcome, Tool
from joey.tools.mcp_tool import PreparedMcpCall, prepare_call, run_call
from joey.tools.parameters import convert_arguments, require_texts


class UseMcpToolParams(Struct, frozen=True):
    server_name: Annotated[str, Meta(description="The server that has the tool.")]
    tool_name: Annotated[str, Meta(description="The tool, by the name that its server gives it.")]
    arguments: Annotated[
        str | None,
        Meta(description="A JSON object that fits the input schema of the tool."),
    ] = None


class UseMcpToolCall(Struct, frozen=True):
    server_name: str
    tool_name: str
    arguments: Any


class UseMcpTool(Tool[UseMcpToolCall, PreparedMcpCall]):
    name: ClassVar[str] = "use_mcp_tool"
    group: ClassVar[ToolGroup] = ToolGroup.MCP
    params: ClassVar[type[Struct]] = UseMcpToolParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        """Whether it is offered; native tasks have a separate tool for each MCP tool instead."""
        mcp = context.capabilities.mcp
        return (
            context.protocol is ToolProtocol.XML
            and mcp is not None
            and any(server.enabled_tools for server in mcp.servers)
        )

    def parse(self, arguments: dict[str, Any]) -> UseMcpToolCall:
        names = {key: value for key, value in arguments.items() if key != "arguments"}
        named = convert_arguments(names, UseMcpToolParams, self.name)
        require_texts(named, ("server_name", "tool_name"), self.name)
        return UseMcpToolCall(
            named.server_name.strip(), named.tool_name.strip(), arguments.get("arguments")
        )

    async def prepare(self, params: UseMcpToolCall, ctx: ToolContext) -> PreparedMcpCall:
        return await prepare_call(params.server_name, params.tool_name, params.arguments, ctx)

    async def run_prepared(
        self, prepared: PreparedMcpCall, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        return await run_call(prepared, ctx)

    def describe_call(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name} for '{arguments.get('server_name', '')}']"
