"""The Python files that a project brings along as tools: what trust in them is bound to."""

from __future__ import annotations

from pathlib import Path

from joey.ports.trust import Wanted

FOLDER = ".roo/tools"
_MOST_BYTES = 1024 * 1024


def wanted_tools(workspace: Path) -> tuple[Wanted, ...]:
    """One for each file that could run: the tools, and whatever they may import beside them."""
    folder = workspace / FOLDER
    return tuple(
        Wanted(
            name=f"tool:{file.relative_to(folder)}",
            title=f"custom tool {FOLDER}/{file.relative_to(folder)}",
            content=_content(file),
            details=(f"runs      {FOLDER}/{file.relative_to(folder)}",),
        )
        for file in sorted(folder.rglob("*.py"))
    )


def _content(file: Path) -> bytes:
    """A file beyond the limit is known by its beginning, its size and its date."""
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES)
            size = file.stat().st_size
    except OSError as error:
        return f"unreadable: {error.strerror}".encode()
    return data if size <= _MOST_BYTES else data + f"{size} {file.stat().st_mtime_ns}".encode()
