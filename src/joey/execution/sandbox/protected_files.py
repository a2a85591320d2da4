"""The protected files of a workspace: how each is kept from being changed by a command.

They are protected wherever they lie. Of a repository that covers what decides which programs git
starts; objects, refs and the index stay writable. A symlink is protected together with its target.
Three names in the root are protected also while they are absent: an empty directory of that name
disturbs nobody. Anything that appears under another protected name is put aside when the command
ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from joey.execution.sandbox.protected_scan import ScannedDirectory, is_placeholder

_PLACEHOLDER_NAMES = (".git", ".roo", ".vscode")
"""A prompt, another joey or an open editor acts on what is in them within a moment."""
_GIT_DIRECTORY = ".git"
_RARE_GIT_CONFIG_FILES = ("commondir", "config.worktree")
"""What of a repository redirects it, and is seldom there."""
_MAX_SUBMODULES = 64
_MAX_SUBMODULE_DEPTH = 6
_MAX_READ_ONLY_PATHS = 64
"""Places that are held from the start. Each costs time; the others are put back afterwards."""
_MAX_SYMLINK_HOPS = 16


class ProtectedPaths(Struct, frozen=True):
    """Paths below the workspace, with `/`."""

    present: tuple[str, ...]
    """Cannot be changed, replaced or moved."""
    pinned: tuple[str, ...]
    """Folders that hold such paths: they can be written, but not moved away."""
    absent: tuple[str, ...]
    """Cannot be made: they can be occupied."""
    undone: tuple[str, ...]
    """What cannot be held: links, what is too much, names that cannot be occupied without harm. It
    is put back as it is now."""
    scanned_directories: dict[str, ScannedDirectory]
    """All folders, and what is protected in them: whatever else appears is put aside."""
    left_out: tuple[str, ...]


class _ProtectedPathCollector:
    def __init__(self, workspace: Path, left_out: frozenset[str]) -> None:
        self._workspace = workspace
        self._left_out = left_out
        self.present: list[str] = []
        self.pinned: list[str] = []
        self.absent: list[str] = []
        self.undone: list[str] = []

    def add(self, path: str) -> None:
        if path in self._left_out:
            return
        place = self._workspace / path
        name = path.rpartition("/")[2]
        try:
            mode = place.lstat().st_mode
        except OSError:
            return  # It went away.
        if stat.S_ISLNK(mode):
            self._add_link(path)
        elif name == _GIT_DIRECTORY and stat.S_ISDIR(mode):
            self._add_repository(path)
        else:
            self._hold(path)

    def _hold(self, path: str) -> None:
        (self.present if len(self.present) < _MAX_READ_ONLY_PATHS else self.undone).append(path)

    def _add_link(self, path: str) -> None:
        """The link cannot be held, but put back; what it leads to can be held."""
        links, end = _follow(self._workspace, path)
        self.undone += links
        if end is not None and end not in self._left_out:
            self._hold(end)

    def _add_repository(self, path: str) -> None:
        if len(self.present) < _MAX_READ_ONLY_PATHS:
            self.pinned.append(path)
        for each in _deciding(self._workspace / path):
            inner = f"{path}/{each}"
            place = self._workspace / inner
            if place.is_symlink():
                self._add_link(inner)
            elif not _is_free(place):
                self._hold(inner)
            elif each == "hooks":
                self.absent.append(inner)
            else:
                self.undone.append(inner)


def find_protected_paths(
    workspace: Path, directories: dict[str, ScannedDirectory], left_out: frozenset[str]
) -> ProtectedPaths:
    """What is held in a workspace, but for the paths that are `left_out`."""
    finder = _ProtectedPathCollector(workspace, left_out)
    for directory, (_, _, _, names) in directories.items():
        for name, _, _ in names:
            path = f"{directory}/{name}" if directory else name
            if directory or not _is_occupied(workspace / name):
                finder.add(path)
    finder.absent += (each for each in _PLACEHOLDER_NAMES if _is_free(workspace / each))
    return ProtectedPaths(
        present=tuple(_outermost(finder.present)),
        pinned=tuple(finder.pinned),
        absent=tuple(each for each in finder.absent if each not in left_out),
        undone=tuple(each for each in dict.fromkeys(finder.undone) if each not in left_out),
        scanned_directories=directories,
        left_out=tuple(left_out),
    )


def _outermost(paths: list[str]) -> Iterator[str]:
    """Without those that lie in others, which would only be held twice."""
    known = set(paths)
    for path in dict.fromkeys(paths):
        above = path
        while above := above.rpartition("/")[0]:
            if above in known:
                break
        else:
            yield path


def _follow(workspace: Path, path: str) -> tuple[list[str], str | None]:
    """All links of the workspace that a path leads through, and the file or folder that it ends at;
    None when that is outside, or not there."""
    links: list[str] = []
    done: list[str] = []
    left = path.split("/")[::-1]
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not done:
                return links, None
            done.pop()
            continue
        here = "/".join((*done, name))
        try:
            target = str((workspace / here).readlink())
        except FileNotFoundError:
            return links, None
        except OSError:
            done.append(name)  # It is no link.
            continue
        if here not in links:
            links.append(here)
        if len(links) > _MAX_SYMLINK_HOPS:
            return links, None
        if target.startswith("/"):
            inside = os.path.relpath(os.path.normpath(target), workspace)
            if inside.startswith(".."):
                return links, None
            done, target = [], inside
        left += target.split("/")[::-1]
    return links, "/".join(done) or None


def _deciding(directory: Path) -> Iterator[str]:
    """What of a repository decides which programs run, be it there or not."""
    yield from ("config", "hooks", *_RARE_GIT_CONFIG_FILES)
    for module in _modules(directory / "modules", "modules"):
        yield from (f"{module}/{each}" for each in ("config", "hooks", *_RARE_GIT_CONFIG_FILES))


def _modules(directory: Path, path: str) -> list[str]:
    """Repositories of submodules; their names may have `/` in them, and they may have their own."""
    found: list[str] = []
    pending = [(directory, path)]
    for place, name in pending:  # grows while it is walked
        try:
            with os.scandir(place) as entries:
                inner = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
        except OSError:
            continue  # There are none.
        if (place / "HEAD").is_file():
            found.append(name)
            inner = [each for each in inner if each == "modules"]
        if len(found) < _MAX_SUBMODULES and name.count("/") < _MAX_SUBMODULE_DEPTH:
            pending += ((place / each, f"{name}/{each}") for each in inner[:_MAX_SUBMODULES])
    return found[:_MAX_SUBMODULES]


def _is_occupied(path: Path) -> bool:
    return path.name in _PLACEHOLDER_NAMES and is_placeholder(str(path))


def _is_free(path: Path) -> bool:
    return not os.path.lexists(path) or is_placeholder(str(path))
