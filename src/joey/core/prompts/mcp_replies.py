"""What the model reads when it asks for an MCP server or tool that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from joey.core.protocol import ToolProtocol

_RETRY = "Make the call again with arguments that are one JSON object."


def bad_arguments(protocol: ToolProtocol, server: str, tool: str) -> str:
    message = (
        f"The arguments for the tool '{tool}' of the MCP server '{server}' are no JSON object."
    )
    if protocol is ToolProtocol.XML:
        return f"{message} {_RETRY}"
    return _envelope(
        type="invalid_argument", message=message, server=server, tool=tool, suggestion=_RETRY
    )


def unknown_tool(protocol: ToolProtocol, server: str, tool: str, known: Sequence[str]) -> str:
    message = f"The MCP server '{server}' has no tool '{tool}'."
    listed = ", ".join(known)
    suggestion = "Use one of the available tools." if known else "This server offers no tools."
    if protocol is ToolProtocol.XML:
        return f"{message} {f'Available tools: {listed}.' if known else suggestion}"
    return _envelope(
        type="unknown_tool",
        message=message,
        server=server,
        tool=tool,
        available_tools=list(known),
        suggestion=suggestion,
    )


def unknown_server(protocol: ToolProtocol, server: str, known: Sequence[str]) -> str:
    message = f"There is no MCP server '{server}'."
    if protocol is ToolProtocol.XML:
        listed = f"Available servers: {', '.join(known)}." if known else "No server is configured."
        return f"{message} {listed}"
    return _envelope(
        type="unknown_server", message=message, server=server, available_servers=list(known)
    )


def _envelope(**fields: Any) -> str:
    return msgspec.json.encode({"status": "error", **fields}).decode()
