"""What a front end brings along for a task, beside what this machine has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from joey.ports.files import Files


class Brought(Struct, frozen=True, kw_only=True):
    files: Callable[[Files], Files] | None = None
    """Stands between the task and the files of its workspace: an editor knows what is not saved
    yet. What may be read and written is decided before it is asked."""
    servers: dict[str, Any] = {}
    """MCP servers, in the shape of `mcp.json`. They count as the person's own, for whom the front
    end speaks."""
