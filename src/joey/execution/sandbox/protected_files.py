"""The protected files of a workspace: how each is kept from being changed by a command.

They are protected wherever they lie. Of a repository that covers what decides which programs git
starts; objects, refs and the index stay writable. A symlink is protected together with its target.
Three names in the root are protected also while they are absent: an empty directory of that name
disturbs nobody. Anything that appears under another protected name is put aside when the command
ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from joey.core.protected_paths import PLACEHOLDER_NAMES
from joey.execution.sandbox.protected_scan import ScannedDirectory, is_placeholder

_GIT_CONFIG_PATHS = ("config", "hooks", "commondir", "config.worktree")
"""What of a repository decides which programs run."""
_MAX_SUBMODULES = 64
_MAX_SUBMODULE_DEPTH = 6
_MAX_READ_ONLY_PATHS = 64
"""Places that are held from the start. Each costs time; the others are put back afterwards."""
_MAX_SYMLINK_HOPS = 16


class ProtectedPaths(Struct, frozen=True):
    """Paths below the workspace, with `/`."""

    read_only: tuple[str, ...]
    """Cannot be changed, replaced or moved."""
    pinned_directories: tuple[str, ...]
    """Folders that hold such paths: they can be written, but not moved away."""
    placeholder_paths: tuple[str, ...]
    """Cannot be made: they can be occupied."""
    restored_afterwards: tuple[str, ...]
    """What cannot be held: links, what is too much, names that cannot be occupied without harm. It
    is put back as it is now."""
    scanned_directories: dict[str, ScannedDirectory]
    """All folders, and what is protected in them: whatever else appears is put aside."""
    excluded: tuple[str, ...]


class _ProtectedPathCollector:
    def __init__(self, workspace: Path, excluded: frozenset[str]) -> None:
        self._workspace = workspace
        self._excluded = excluded
        self.read_only: list[str] = []
        self.pinned_directories: list[str] = []
        self.placeholder_paths: list[str] = []
        self.restored_afterwards: list[str] = []

    def add_path(self, path: str) -> None:
        place = self._workspace / path
        if path in self._excluded or not os.path.lexists(place):
            return
        if place.is_symlink():
            self._add_symlink(path)
        elif place.name == ".git" and place.is_dir():
            self._add_repository(path)
        else:
            self._add_read_only(path)

    def _add_read_only(self, path: str) -> None:
        has_room = len(self.read_only) < _MAX_READ_ONLY_PATHS
        (self.read_only if has_room else self.restored_afterwards).append(path)

    def _add_symlink(self, path: str) -> None:
        """Add a symlink: the link itself can only be restored, but its target can be protected."""
        links, end = _follow_symlinks(self._workspace, path)
        self.restored_afterwards += links
        if end is not None and end not in self._excluded:
            self._add_read_only(end)

    def _add_repository(self, path: str) -> None:
        if len(self.read_only) < _MAX_READ_ONLY_PATHS:
            self.pinned_directories.append(path)
        modules = _find_submodules(self._workspace / path / "modules", f"{path}/modules")
        for inner in (f"{each}/{name}" for each in (path, *modules) for name in _GIT_CONFIG_PATHS):
            place = self._workspace / inner
            if place.is_symlink():
                self._add_symlink(inner)
            elif not _is_absent_or_placeholder(place):
                self._add_read_only(inner)
            elif inner == f"{path}/hooks":
                self.placeholder_paths.append(inner)
            else:
                self.restored_afterwards.append(inner)


def find_protected_paths(
    workspace: Path, directories: dict[str, ScannedDirectory], excluded: frozenset[str]
) -> ProtectedPaths:
    """Find the protected paths of a workspace, except for the `excluded` ones."""
    finder = _ProtectedPathCollector(workspace, excluded)
    for directory, (_, _, _, names) in directories.items():
        for name, _, _ in names:
            path = f"{directory}/{name}" if directory else name
            if path not in PLACEHOLDER_NAMES or not is_placeholder(f"{workspace}/{path}"):
                finder.add_path(path)
    finder.placeholder_paths += (
        each for each in PLACEHOLDER_NAMES if _is_absent_or_placeholder(workspace / each)
    )
    return ProtectedPaths(
        read_only=tuple(_iter_outermost(finder.read_only)),
        pinned_directories=tuple(finder.pinned_directories),
        placeholder_paths=tuple(each for each in finder.placeholder_paths if each not in excluded),
        restored_afterwards=tuple(
            each for each in dict.fromkeys(finder.restored_afterwards) if each not in excluded
        ),
        scanned_directories=directories,
        excluded=tuple(excluded),
    )


def _iter_outermost(paths: list[str]) -> Iterator[str]:
    """Iterate over outermost paths, without those inside of others, which would be protected
    twice."""
    known = set(paths)
    for path in dict.fromkeys(paths):
        above = path
        while above := above.rpartition("/")[0]:
            if above in known:
                break
        else:
            yield path


def _follow_symlinks(workspace: Path, path: str) -> tuple[list[str], str | None]:
    """Follow all links of the workspace on a path to the final file or directory; None if that is
    outside or does not exist."""
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
            done.append(name)  # It is not a link.
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


def _find_submodules(directory: Path, path: str) -> list[str]:
    """Find the repositories of submodules; their names may contain `/`, and they may be nested."""
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


def _is_absent_or_placeholder(path: Path) -> bool:
    return not os.path.lexists(path) or is_placeholder(str(path))
