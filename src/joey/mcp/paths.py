"""Where servers are named."""

from __future__ import annotations

from pathlib import Path

USER_FILES = ("mcp.json", "mcp_settings.json")
"""In the person's folder; the first is ours, the second is Roo's, and the first wins."""
PROJECT_FILE = Path(".roo", "mcp.json")
OWN_FOLDER = "mcp"
"""In the person's folder: where servers of their own start, with nothing in it."""


def config_paths(home: Path, workspace: Path) -> tuple[Path, ...]:
    """The project's file, then the person's: whichever comes first decides about a name."""
    return (workspace / PROJECT_FILE, *(home / name for name in USER_FILES))
