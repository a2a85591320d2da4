"""Sockets in the file system at which other programs answer, as far as the kernel tells."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_TABLE = Path("/proc/net/unix")
_PATH_COLUMN = 7


def listening(folders: Iterable[str], workspace: Path) -> list[Path]:
    """Those of our own network; a socket of another command lives in that command's."""
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []  # Nothing is known about them here.
    rows = (line.split(None, _PATH_COLUMN) for line in lines)
    names = {row[_PATH_COLUMN] for row in rows if len(row) > _PATH_COLUMN}
    names = {os.path.normpath(name) for name in names if not name.startswith("@")}
    found = [Path(name) for name in sorted(names) if name.startswith("/")]
    near = [name for name in sorted(names) if not name.startswith(("/", ".."))]
    if near:
        # Named from a folder that we do not know; it may be any of the workspace.
        found += (workspace / folder / name for folder in folders for name in near)
    return [path for path in dict.fromkeys(_real(path) for path in found) if _is_socket(path)]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False  # It is gone, or nobody we know can reach it.
