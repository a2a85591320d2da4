"""What a call says it is going to do: all that the policy judges."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from joey.core.places import Place

Confinement = Literal["full", "landlock", "none", "off"]
"""How far the operating system holds a command: a level of the sandbox, `none` where no sandbox
works, `off` where the person has switched it off."""


class Access(StrEnum):
    NONE = "none"
    """Touches nothing but the task itself; never asks."""
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    SWITCH_MODE = "switch_mode"
    DELEGATE = "delegate"
    """Starts a subtask, or ends one."""
    MCP = "mcp"
    """Calls a tool or reads a resource of an MCP server."""
    BROWSER = "browser"
    """Opens a page."""
    CUSTOM_TOOL = "custom_tool"
    """Runs code that the user or the project brought along as a tool."""
    GUIDANCE = "guidance"
    """Fetches instructions that the user has put there for it."""
    QUESTION = "question"
    """The tool *is* a question: a person always answers."""


class Claim(Struct, frozen=True):
    """One thing that a call is going to do, stated before it does it."""

    access: Access
    place: Place | None = None
    command: str | None = None
    subject: str = ""
    """What it is about, in words for a person: `weather/forecast`, an address."""
    listed: bool = False
    """The user has listed exactly this as always allowed (an MCP server's `alwaysAllow`)."""
    changed: bool = False
    """It is described otherwise than when it was last used, so that earlier leave says little."""
    sandbox: Confinement | None = None
    """Of a command: what would hold it."""
