"""The `access_mcp_resource` tool: reads a resource of an MCP server."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.task_types import Answer, AskKind, RowKind
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.mcp_tool import find_server, require_mcp


class AccessMcpResourceParams(Struct, frozen=True):
    server_name: Annotated[str, Meta(description="The server that has the resource.")]
    uri: Annotated[str, Meta(description="The URI of the resource.")]


class PreparedResourceRead(PreparedToolCall, frozen=True, kw_only=True):
    server_name: str
    uri: str


class AccessMcpResource(Tool[AccessMcpResourceParams, PreparedResourceRead]):
    name: ClassVar[str] = "access_mcp_resource"
    group: ClassVar[ToolGroup] = ToolGroup.MCP
    params: ClassVar[type[Struct]] = AccessMcpResourceParams
    required_texts: ClassVar[tuple[str, ...]] = ("server_name", "uri")

    def is_offered(self, context: AvailabilityContext) -> bool:
        mcp = context.capabilities.mcp
        return mcp is not None and any(server.resources for server in mcp.servers)

    async def prepare(
        self, params: AccessMcpResourceParams, ctx: ToolContext
    ) -> PreparedResourceRead:
        server = find_server(params.server_name.strip(), require_mcp(ctx).servers)
        uri = params.uri.strip()
        return PreparedResourceRead(
            # `alwaysAllowMcp` alone covers resources: no list of a server names them.
            claims=(Claim(Access.MCP, subject=f"{server.name}/{uri}", is_always_allowed=True),),
            row={"type": "access_mcp_resource", "serverName": server.name, "uri": uri},
            ask_kind=AskKind.USE_MCP_SERVER,
            server_name=server.name,
            uri=uri,
        )

    async def run_prepared(
        self, prepared: PreparedResourceRead, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        ctx.add_row(RowKind.MCP_SERVER_REQUEST_STARTED, "")
        found = await require_mcp(ctx).read_resource(prepared.server_name, prepared.uri)
        ctx.add_row(RowKind.MCP_SERVER_RESPONSE, found.text, found.images)
        return Outcome(found.text, images=found.images)

    def describe_call(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name} for '{arguments.get('server_name', '')}']"
