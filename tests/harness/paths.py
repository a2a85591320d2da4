"""Directories of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "joey"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
MCP_SERVER_SCRIPT = Path(__file__).parent / "mcp" / "tiny_server.py"
ROO_TASKS = ROOT / "tests" / "storage" / "roo_tasks"
