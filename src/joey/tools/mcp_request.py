"""What a call of an MCP tool has to be before it is made: a known server, a known tool, an object
of arguments. The model is told what there is when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from joey.core.mcp import McpServer, McpTool, alike, sanitised
from joey.core.prompts import replies
from joey.core.task import AskKind
from joey.errors import ToolError, WordedError
from joey.ports import Mcp, ToolContext
from joey.tools.arguments import decode_json
from joey.tools.base import Access, Claim, Outcome, Prepared
from joey.tools.live_output import LiveOutput

_SWITCHED_OFF = "MCP servers are switched off in the settings (mcpEnabled)."
_KEPT = 200
"""Lines of progress that are still there when the call is over."""


Looks = tuple[str, dict[str, Any]]
"""How a server describes a tool."""


class PreparedCall(Prepared, frozen=True, kw_only=True):
    server: str
    tool: str
    arguments: dict[str, Any]
    seen: Looks
    """What was decided about."""


def servers_of(ctx: ToolContext) -> Mcp:
    """Raises ToolError."""
    if ctx.extras.mcp is None:
        raise ToolError(_SWITCHED_OFF)
    return ctx.extras.mcp


def prepare_call(server: str, tool: str, arguments: Any, ctx: ToolContext) -> PreparedCall:
    """Raises ToolError."""
    mcp = servers_of(ctx)
    given = _object(arguments)
    if given is None:
        text = replies.bad_arguments(ctx.protocol, server, tool)
        raise WordedError(f"The arguments for {tool} of {server} are no JSON object.", text)
    found = find_server(server, mcp.servers, ctx)
    known = _find_tool(tool, found, ctx)
    claim = Claim(
        Access.MCP,
        subject=f"{found.name}/{known.name}",
        listed=known.always_allowed,
        changed=known.changed,
    )
    row = {
        "type": "use_mcp_tool",
        "serverName": found.name,
        "toolName": known.name,
        "arguments": msgspec.json.encode(given).decode(),
    }
    return PreparedCall(
        claims=(claim,),
        row=row,
        ask=AskKind.USE_MCP_SERVER,
        server=found.name,
        tool=known.name,
        arguments=given,
        seen=_looks(known),
    )


async def run_call(prepared: PreparedCall, ctx: ToolContext) -> Outcome:
    _check_unchanged(prepared, ctx)
    ctx.say("mcp_server_request_started", "")
    told: list[str] = []
    live = LiveOutput(ctx.on_output)

    def on_progress(text: str) -> None:
        told[:] = [*told[-_KEPT:], f"{text}\n"]
        live.feed(f"{text}\n")

    try:
        answer = await servers_of(ctx).call(
            prepared.server, prepared.tool, prepared.arguments, on_progress
        )
    finally:
        live.close()
        if told:
            ctx.say("command_output", "".join(told))
    ctx.say("mcp_server_response", answer.text, answer.images)
    return Outcome(answer.text, images=answer.images, is_error=answer.is_error)


def _check_unchanged(prepared: PreparedCall, ctx: ToolContext) -> None:
    """A person may have thought about it for long. Raises ToolError."""
    for server in servers_of(ctx).servers:
        for tool in server.offered if server.name == prepared.server else ():
            if tool.name == prepared.tool and _looks(tool) != prepared.seen:
                raise ToolError(
                    f"The MCP server {server.name!r} has changed its tool {tool.name!r} since it"
                    " was asked about. Look at its description again before you call it."
                )


def _looks(tool: McpTool) -> Looks:
    return tool.description, tool.schema


def _object(arguments: Any) -> dict[str, Any] | None:
    """Models send the object itself, its JSON, or nothing when there is nothing to say."""
    if isinstance(arguments, str):
        arguments = decode_json(arguments) if arguments.strip() else {}
    elif arguments is None:
        arguments = {}
    return arguments if isinstance(arguments, dict) else None


def find_server(name: str, servers: Sequence[McpServer], ctx: ToolContext) -> McpServer:
    """By its name, by what is left of it in the names of tools, then with `-` and `_` confused.

    Raises:
        WordedError: there is none; the text lists those there are.
    """
    for same in (str.__eq__, _is_sanitised, alike):
        if found := [server for server in servers if same(server.name, name)]:
            return found[0]
    known = [server.name for server in servers]
    text = replies.unknown_server(ctx.protocol, name, known)
    raise WordedError(f"There is no MCP server {name!r}.", text)


def _is_sanitised(name: str, given: str) -> bool:
    return sanitised(name, "_") == given


def _find_tool(name: str, server: McpServer, ctx: ToolContext) -> McpTool:
    if not server.tools and server.status != "connected":
        raise ToolError(_not_there(server))
    for same in (str.__eq__, _is_sanitised, alike):
        for tool in server.offered:
            if same(tool.name, name):
                return tool
    known = [tool.name for tool in server.offered]
    text = replies.unknown_tool(ctx.protocol, server.name, name, known)
    raise WordedError(f"The MCP server {server.name!r} has no tool {name!r}.", text)


def _not_there(server: McpServer) -> str:
    why = f": {server.error}" if server.error else ""
    return f"The MCP server {server.name!r} is {server.status}{why}."
