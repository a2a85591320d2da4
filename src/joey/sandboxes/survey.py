"""Where in a workspace protected names are, known anew before each command.

The first look walks through all folders; later ones ask each folder only when it was changed last,
and read those that have been changed since. That time is the kernel's own: no command can set it
back. What other tools fill by the thousand, and nobody opens as a project, is not entered.
"""

from __future__ import annotations

# ruff: noqa: PTH116 (`pathlib` takes longer, to load and to use)
import os
import stat
import time

from joey.core.protected import is_protected

HEAVY = frozenset(
    """
    node_modules bower_components .venv venv site-packages __pycache__ .tox .nox .gradle
    .mypy_cache .ruff_cache .pytest_cache .hypothesis .next .nuxt .svelte-kit .turbo .parcel-cache
    .terraform .bloop .metals .dart_tool .eggs
    """.split()  # noqa: SIM905 (a table is easier to read)
)
"""Not entered; those of them that are protected by name are what a build needs to work at all."""
_LEFT_TO_COMMANDS = HEAVY | {"pyvenv.cfg"}
MOST_FOLDERS = 4096
MOST_NAMES = 2048
_UNSETTLED = 50_000_000
"""Nanoseconds in which a folder may be changed again without being told from before."""

Name = tuple[str, int, int]
"""A protected name, its inode, and when that was changed last."""
Folder = tuple[int, int, tuple[str, ...], tuple[Name, ...]]
"""When it was changed last (0: look again in any case), its inode, the paths of the folders in it,
and its protected names."""


def is_held(name: str) -> bool:
    return name not in _LEFT_TO_COMMANDS and is_protected(name)


class Survey:
    """Of one workspace; remembers what it has seen."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, Folder] = {}

    def look(self) -> dict[str, Folder]:
        """Folders by their paths below the root, those above before those below."""
        root, known, found = f"{self._root}/", self._known.get, dict[str, Folder]()
        look, pending = os.lstat, [""]
        for path in pending:  # grows while it is walked, so that what is deep comes last
            try:
                seen = look(root + path)
                folder = known(path)
                if not folder or folder[0] != seen.st_ctime_ns or folder[1] != seen.st_ino:
                    if not stat.S_ISDIR(seen.st_mode):
                        continue
                    folder = _read(root + path, path, seen)
                elif folder[3]:
                    folder = (*folder[:3], _again(root + path, folder[3]))
            except OSError:
                continue  # It went away, or is closed to us.
            found[path] = folder
            if folder[2]:
                pending += folder[2][: max(0, MOST_FOLDERS - len(pending))]
        self._known = found
        return found

    @property
    def is_complete(self) -> bool:
        return len(self._known) < MOST_FOLDERS


def _read(place: str, path: str, seen: os.stat_result) -> Folder:
    folders: list[str] = []
    names: list[Name] = []
    prefix = f"{path}/" if path else ""
    with os.scandir(place) as entries:
        for entry in entries:
            if is_held(entry.name):
                if len(names) < MOST_NAMES:
                    names += _named(place, entry.name)
            elif entry.name not in HEAVY and entry.is_dir(follow_symlinks=False):
                folders.append(prefix + entry.name)
    is_settled = time.time_ns() - seen.st_ctime_ns > _UNSETTLED
    changed = seen.st_ctime_ns if is_settled else 0
    return changed, seen.st_ino, tuple(sorted(folders)), tuple(sorted(names))


def _again(place: str, names: tuple[Name, ...]) -> tuple[Name, ...]:
    """What is in a file may change without a change of its folder."""
    return tuple(found for name, _, _ in names for found in _named(place, name))


def _named(place: str, name: str) -> list[Name]:
    try:
        found = os.stat(f"{place}/{name}", follow_symlinks=False)
    except FileNotFoundError:
        return []  # It went away.
    return [(name, found.st_ino, found.st_ctime_ns)]
