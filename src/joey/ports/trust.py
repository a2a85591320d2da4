"""What a workspace brings along that would run, and whether the person has agreed to it."""

from __future__ import annotations

from msgspec import Struct


class Wanted(Struct, frozen=True):
    """One thing of a workspace that would run, or loosen rules, once it is trusted."""

    name: str
    """Unique within the workspace: `mcp:weather`."""
    title: str
    content: bytes
    """All that makes it what it is; other bytes need new trust."""
    details: tuple[str, ...] = ()
    """Lines that tell the person what exactly would happen."""
    only_unasked: bool = False
    """It needs trust only where nobody is asked about anything."""
