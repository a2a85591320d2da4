"""Tools of MCP servers offered under their own names; lookup, claim and run of any MCP call.

A call needs a known server, a known tool and an object of arguments; otherwise the model gets a
list of the known ones (`prepare_call`, also used by `use_mcp_tool`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from joey.core.mcp import (
    McpServer,
    McpStatus,
    McpTool,
    build_tool_name,
    equals_ignoring_dashes,
    normalize_schema,
    plainly_fits,
    rename_properties,
    sanitize_name,
)
from joey.core.models import ToolProtocol
from joey.core.modes import ToolGroup
from joey.core.prompts import messages_to_model
from joey.core.task_types import Answer, AskKind, RowKind
from joey.errors import ToolError, ToolErrorWithReply
from joey.ports.extensions import Mcp
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    ExternalCall,
    ExternalTool,
    LiveOutput,
    Outcome,
    PreparedToolCall,
)
from joey.tools.parameters import try_decode_json


class PreparedMcpCall(PreparedToolCall, frozen=True, kw_only=True):
    server_name: str
    tool_name: str
    arguments: dict[str, Any]
    approved_signature: ToolSignature


class McpServerTool(ExternalTool[PreparedMcpCall]):
    group: ClassVar[ToolGroup] = ToolGroup.MCP

    def __init__(self, server: str, tool: McpTool) -> None:
        schema, self._property_names = rename_properties(normalize_schema(tool.schema))
        super().__init__(build_tool_name(server, tool.name), tool.description, schema)
        self._server_name = server
        self._tool_name = tool.name

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.protocol is ToolProtocol.NATIVE

    async def prepare(self, params: ExternalCall, ctx: ToolContext) -> PreparedMcpCall:
        names = self._property_names
        given = {names.get(name, name): value for name, value in params.arguments.items()}
        return await prepare_call(self._server_name, self._tool_name, given, ctx)

    async def run_prepared(
        self, prepared: PreparedMcpCall, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        return await run_call(prepared, ctx)


def iter_server_tools(servers: Sequence[McpServer]) -> Iterator[McpServerTool]:
    """Iterate over one tool for each that is offered; of two with the same name, the first."""
    taken: set[str] = set()
    for server in servers:
        for tool in server.enabled_tools:
            made = McpServerTool(server.name, tool)
            if made.name not in taken:
                taken.add(made.name)
                yield made


_MCP_DISABLED_MESSAGE = "MCP servers are switched off in the settings (mcpEnabled)."
_MAX_PROGRESS_LINES = 200
"""Still there when the call is over."""


NamedT = TypeVar("NamedT", McpServer, McpTool)
ToolSignature = tuple[str, dict[str, Any]]
"""How a server describes a tool."""


def require_mcp(ctx: ToolContext) -> Mcp:
    """Return the MCP port. Raises ToolError if there is none."""
    if ctx.capabilities.mcp is None:
        raise ToolError(_MCP_DISABLED_MESSAGE)
    return ctx.capabilities.mcp


async def prepare_call(server: str, tool: str, arguments: Any, ctx: ToolContext) -> PreparedMcpCall:
    """Prepare a call. Raises ToolError."""
    mcp = require_mcp(ctx)
    # Models send the object itself, its JSON, or nothing when there is nothing to say.
    given = arguments
    if given is None or isinstance(given, str):
        given = try_decode_json(given) if given and given.strip() else {}
    if not isinstance(given, dict):
        text = messages_to_model.render_bad_mcp_arguments(server, tool)
        raise ToolErrorWithReply(
            f"The arguments for {tool} of {server} are not a JSON object.", text
        )
    found = find_server(server, mcp.servers)
    known = _find_tool(tool, found)
    await _check_arguments(known, found, given, ctx)
    claim = Claim(
        Access.MCP,
        subject=f"{found.name}/{known.name}",
        is_always_allowed=known.always_allowed,
        has_changed_description=known.has_changed,
    )
    row = {
        "type": "use_mcp_tool",
        "serverName": found.name,
        "toolName": known.name,
        "arguments": msgspec.json.encode(given).decode(),
    }
    return PreparedMcpCall(
        claims=(claim,),
        row=row,
        ask_kind=AskKind.USE_MCP_SERVER,
        server_name=found.name,
        tool_name=known.name,
        arguments=given,
        approved_signature=(known.description, known.schema),
    )


async def _check_arguments(
    tool: McpTool, server: McpServer, arguments: dict[str, Any], ctx: ToolContext
) -> None:
    """Check arguments. Raises ToolError, which names the places that do not fit the server's
    schema."""
    validator = ctx.capabilities.schema_validator
    if validator is None or plainly_fits(tool.schema, arguments):
        return
    if problems := await validator.find_argument_problems(tool.schema, arguments):
        raise ToolError(
            f"The arguments for {tool.name} of {server.name} do not fit its schema, so it was not"
            f" called. {' '.join(problems)}"
        )


async def run_call(prepared: PreparedMcpCall, ctx: ToolContext) -> Outcome:
    _check_tool_unchanged(prepared, ctx)
    ctx.add_row(RowKind.MCP_SERVER_REQUEST_STARTED, "")
    progress_lines: list[str] = []
    live = LiveOutput(ctx.on_output)

    def on_progress(text: str) -> None:
        progress_lines[:] = [*progress_lines[-_MAX_PROGRESS_LINES:], f"{text}\n"]
        live.write(f"{text}\n")

    try:
        answer = await require_mcp(ctx).call_tool(
            prepared.server_name, prepared.tool_name, prepared.arguments, on_progress
        )
    finally:
        live.close()
        if progress_lines:
            ctx.add_row(RowKind.COMMAND_OUTPUT, "".join(progress_lines))
    ctx.add_row(RowKind.MCP_SERVER_RESPONSE, answer.text, answer.images)
    return Outcome(answer.text, images=answer.images, is_error=answer.is_error)


def _check_tool_unchanged(prepared: PreparedMcpCall, ctx: ToolContext) -> None:
    """Check that the tool has not changed while the user was deciding. Raises ToolError."""
    for server in require_mcp(ctx).servers:
        for tool in server.enabled_tools if server.name == prepared.server_name else ():
            signature = (tool.description, tool.schema)
            if tool.name == prepared.tool_name and signature != prepared.approved_signature:
                raise ToolError(
                    f"The MCP server {server.name!r} has changed its tool {tool.name!r} since it"
                    " was asked about. Look at its description again before you call it."
                )


def find_server(name: str, servers: Sequence[McpServer]) -> McpServer:
    """Find a server by its name, by its form in names of tools, then with `-` and `_` confused.
    Raises ToolErrorWithReply, which lists the known servers."""
    if found := _find_by_name(name, servers):
        return found
    known = [server.name for server in servers]
    text = messages_to_model.render_unknown_mcp_server(name, known)
    raise ToolErrorWithReply(f"There is no MCP server {name!r}.", text)


def _find_by_name(name: str, items: Sequence[NamedT]) -> NamedT | None:
    is_same = (
        lambda own: own == name,
        lambda own: sanitize_name(own, "_") == name,
        lambda own: equals_ignoring_dashes(own, name),
    )
    return next((item for same in is_same for item in items if same(item.name)), None)


def _find_tool(name: str, server: McpServer) -> McpTool:
    if not server.tools and server.status is not McpStatus.CONNECTED:
        why = f": {server.error}" if server.error else ""
        raise ToolError(f"The MCP server {server.name!r} is {server.status}{why}.")
    if found := _find_by_name(name, server.enabled_tools):
        return found
    known = [tool.name for tool in server.enabled_tools]
    text = messages_to_model.render_unknown_mcp_tool(server.name, name, known)
    raise ToolErrorWithReply(f"The MCP server {server.name!r} has no tool {name!r}.", text)
