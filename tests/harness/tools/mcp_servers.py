"""MCP servers that are nothing but their description, for tests of the tools that use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from joey.core.mcp import McpResource, McpResult, McpServer, McpStatus, McpTool
from joey.ports.extensions import Mcp

WEATHER = McpServer(
    name="weather",
    status=McpStatus.CONNECTED,
    command_or_url="python3 weather.py",
    instructions="Ask for one city at a time.",
    tools=(
        McpTool(
            "get_forecast",
            "The weather to come.",
            {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]},
        ),
        McpTool("listed", "Allowed.", always_allowed=True),
        McpTool("secret", "Switched off.", enabled=False),
    ),
    resources=(
        McpResource("weather://today", "today", "How it is now."),
        McpResource("weather://{city}", is_template=True),
    ),
)


class StaticMcpServers:
    """Answers every call with what it was called with."""

    def __init__(self, *servers: McpServer, answer: McpResult | None = None) -> None:
        self.servers = servers or (WEATHER,)
        self.answer = answer
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.ready_waits = 0
        self.is_closed = False

    async def wait_until_ready(self, timeout_s: float) -> None:
        self.ready_waits += 1
        await asyncio.sleep(0)

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        self.calls.append((server, tool, arguments))
        if on_progress is not None:
            on_progress("1 of 2: half")
        return self.answer or McpResult(f"{tool} of {server}: {arguments}")

    async def read_resource(self, server: str, uri: str) -> McpResult:
        return self.answer or McpResult(f"the text of {uri}")

    async def close(self) -> None:
        self.is_closed = True


_protocol_check: type[Mcp] = StaticMcpServers
