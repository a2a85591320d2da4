"""Adopted task directories, as the engine sees them."""

from __future__ import annotations

from pathlib import Path

Seen = dict[str, tuple[bytes, int, int]]


def look(directory: Path) -> Seen:
    """Every file of a folder: its bytes, its time and its mode."""
    seen: Seen = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            facts = path.stat()
            name = str(path.relative_to(directory))
            seen[name] = (path.read_bytes(), facts.st_mtime_ns, facts.st_mode)
    return seen
