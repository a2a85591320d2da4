"""Servers of the Model Context Protocol, whichever way they are reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from joey.core.mcp import McpAnswer, McpServer


class Mcp(Protocol):
    """The servers that one task may use."""

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """How things stand: the very same tuple until something changes."""
        ...

    async def settle(self, patience: float) -> None:
        """Notice what changed in the settings, start what is to be started, and wait while a
        server connects for the first time, at most `patience` seconds since it was started."""
        ...

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpAnswer:
        """Cancelling tells the server.

        Raises:
            ToolError: not connected, timed out or died; the text says which, and what comes next.
        """
        ...

    async def read(self, server: str, uri: str) -> McpAnswer:
        """A resource. Raises ToolError like `call`."""
        ...

    async def close(self) -> None:
        """The task is done with them; a server that nobody uses any more is stopped."""
        ...
