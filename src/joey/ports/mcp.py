"""Servers of the Model Context Protocol, whichever way they are reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import Struct

McpStatus = Literal["connected", "connecting", "disconnected", "disabled", "untrusted"]


class McpTool(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    """JSON Schema of the arguments, as the server gave it."""
    always_allowed: bool = False
    """Listed in `alwaysAllow` of the server's settings."""
    enabled: bool = True
    """Not listed in `disabledTools`."""


class McpResource(Struct, frozen=True, omit_defaults=True):
    uri: str
    """Of a template: `file:///{path}`."""
    name: str = ""
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


class McpServer(Struct, frozen=True, omit_defaults=True):
    name: str
    source: Literal["project", "global"] = "project"
    status: McpStatus = "connecting"
    error: str = ""
    """Why it is not connected, for people."""
    command: str = ""
    """How it is reached: a command line or an address, without secrets."""
    instructions: str = ""
    tools: tuple[McpTool, ...] = ()
    resources: tuple[McpResource, ...] = ()


class McpAnswer(Struct, frozen=True, omit_defaults=True):
    text: str
    images: tuple[str, ...] = ()
    """Data URIs."""
    is_error: bool = False


class Mcp(Protocol):
    """The servers that one task may use."""

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """How things stand: the very same tuple until something changes."""
        ...

    async def settle(self, patience: float) -> None:
        """Wait until no server is still connecting, at most `patience` seconds."""
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
            ToolError: not connected, timed out, died, or answered with too much.
        """
        ...

    async def read(self, server: str, uri: str) -> McpAnswer:
        """A resource. Raises ToolError like `call`."""
        ...

    async def close(self) -> None:
        """The task is done with them; a server that nobody uses any more is stopped."""
        ...
