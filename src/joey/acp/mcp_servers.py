"""MCP servers that the editor names for a session, in the shape of `mcp.json`.

The editor speaks for the person who configured them there: they need no trust, as the person's own
need none. Their calls are asked about as all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp.exceptions import RequestError
from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

Server = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


def as_entries(servers: Sequence[Server] | None) -> dict[str, Any]:
    """Raises RequestError for a server that cannot be reached from here."""
    return {server.name: _entry(server) for server in servers or ()}


def _entry(server: Server) -> dict[str, Any]:
    match server:
        case McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": list(server.args), "env": env}
        case HttpMcpServer() | SseMcpServer():
            kind = "sse" if isinstance(server, SseMcpServer) else "streamable-http"
            headers = {header.name: header.value for header in server.headers}
            return {"type": kind, "url": server.url, "headers": headers}
        case _:
            raise RequestError(
                -32602, f"mcpServers: {server.name!r} can be reached by stdio, http or sse only."
            )
