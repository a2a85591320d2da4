"""The MCP servers of a workspace, to look at and to change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from joey.app.servers import surroundings
from joey.config.home import joey_home
from joey.mcp.servers import Listed, ServerNotFoundError, Shelf

__all__ = ["Listed", "ServerNotFoundError", "Shelf", "open_shelf"]


def open_shelf(
    workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
) -> Shelf:
    """The servers of a workspace, to look at and to change."""
    env = os.environ if env is None else env
    return Shelf(workspace.resolve(), surroundings(home or joey_home(env), env))
