"""The files that a project brings along as tools: what trust in them is bound to."""

from __future__ import annotations

import hashlib
import os
from importlib.machinery import all_suffixes
from pathlib import Path

from joey.ports.extensions import Wanted

FOLDER = ".roo/tools"
_MOST_BYTES = 1024 * 1024
_MOST_FILES = 500
_MOST_FOLDERS = 500
_COMPILED = "__pycache__"
"""Tools are run without it."""


def wanted_tools(workspace: Path) -> tuple[Wanted, ...]:
    """One for each file that could run: the tools, and whatever they may import beside them."""
    folder = workspace / FOLDER
    found = _importable(folder)
    if found is None:  # nobody looks through so much: what is agreed to is never seen again
        return (_wanted("(too many files and folders)", os.urandom(16)),)
    return tuple(_wanted(str(file.relative_to(folder)), _content(file)) for file in sorted(found))


def _wanted(name: str, content: bytes) -> Wanted:
    return Wanted(
        name=f"tool:{name}",
        title=f"custom tool {FOLDER}/{name}",
        content=content,
        details=(f"runs      {FOLDER}/{name}",),
    )


def _importable(folder: Path) -> list[Path] | None:
    """Everything that Python takes for a module, also behind links; None when there is no end."""
    endings = tuple(all_suffixes())
    entered: set[str] = set()
    found: list[Path] = []
    for path, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(path)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = (name for name in folders if name != _COMPILED)
        found += (Path(path, name) for name in names if name.endswith(endings))
        if len(entered) > _MOST_FOLDERS or len(found) > _MOST_FILES:
            return None
    return found


def _content(file: Path) -> bytes:
    """A file beyond the limit is known by its digest."""
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size <= _MOST_BYTES:
                return opened.read(_MOST_BYTES)
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError as error:
        return f"unreadable: {error.strerror}".encode()
