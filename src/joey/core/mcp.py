"""What is known of a server of the Model Context Protocol and of what it offers."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

McpStatus = Literal["connected", "connecting", "disconnected", "disabled", "untrusted"]


class McpTool(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    """JSON Schema of the arguments, as the server gave it."""
    always_allowed: bool = False
    """Listed in `alwaysAllow` of the server's settings, and the same as when it was first seen."""
    changed: bool = False
    """The server describes it otherwise than when it was last used."""
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
    """Sorted by name. Of a server that is away for the moment: those it had."""
    resources: tuple[McpResource, ...] = ()

    @property
    def offered(self) -> tuple[McpTool, ...]:
        """The tools that the model may be told of."""
        return tuple(tool for tool in self.tools if tool.enabled)


class McpAnswer(Struct, frozen=True, omit_defaults=True):
    text: str
    images: tuple[str, ...] = ()
    """Data URIs."""
    is_error: bool = False
