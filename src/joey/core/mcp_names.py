"""Names under which models see and call the tools of MCP servers.

Offered is `mcp--<server>--<tool>` (D2), in the letters that every provider takes. Models bring
names back mangled: with other separators, without the prefix, with `-` and `_` confused. `fold`
makes all of these equal.
"""

from __future__ import annotations

from joey.core.regex import regex

LONGEST = 64
PREFIX = "mcp"
SEPARATOR = "--"

_FOREIGN = regex(r"[^A-Za-z0-9_-]")
_DASHES = regex(r"--+")
_RUNS = regex(r"[-_]+")
_SEPARATORS = regex(r"--|__")


def tool_name(server: str, tool: str) -> str:
    """`mcp--weather--get_forecast`."""
    parts = (PREFIX, sanitised(server, "_"), sanitised(tool, "_unnamed"))
    return SEPARATOR.join(parts)[:LONGEST]


def sanitised(name: str, empty: str) -> str:
    kept = _DASHES.sub("-", _FOREIGN.sub("", name.replace(" ", "_")))
    if not kept:
        return empty
    return kept if kept[0].isalpha() or kept[0] == "_" else f"_{kept}"


def fold(name: str) -> str | None:
    """What all manglings of one tool's name have in common; None when it names no MCP tool."""
    if not _SEPARATORS.search(name):
        return None
    plain = _RUNS.sub("_", name).strip("_")
    return plain.removeprefix(f"{PREFIX}_")


def alike(one: str, other: str) -> bool:
    """The same but for `-` and `_`."""
    return one.replace("-", "_") == other.replace("-", "_")
