"""Protected files under names that do not show it.

`.roo` may be a link to `settings/roo`: who writes there changes `.roo`. And a repository's store,
with its hooks, need not be called `.git`.
"""

from __future__ import annotations

import os
import time
from itertools import islice
from pathlib import Path

from joey.core.protected import folded_name, is_protected
from joey.workspace.descent import open_regular, real_path

_MOST_ENTRIES = 20_000
_SETTLING = 20_000_000
"""Nanoseconds in which a folder may change again without looking different."""
_GIT_FILE = ".git"
_LARGEST_GIT_FILE = 4096
_OF_A_STORE = frozenset(
    (
        *("hooks", "config", "config.worktree", "head", "commondir", "gitdir", "info", "objects"),
        *("refs", "packed-refs", "index", "logs", "modules", "worktrees", "rebase-merge"),
    )
)


class Aliases:
    """Where protected names in the root of a workspace lead, as it is at the moment of asking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: tuple[tuple[int, int] | None, tuple[Path, ...]] = (None, ())
        """What the root looked like, and what is in it: replaced as a whole, since threads ask
        too."""

    def cover(self, path: Path) -> bool:
        """Whether a resolved path is, or is in, something that is protected by another name."""
        try:
            targets = [real_path(link) for link in self._current()]
        except OSError:
            return True  # it cannot be told at the moment
        return any(path.is_relative_to(target) for target in targets) or _is_in_store(path)

    def _current(self) -> tuple[Path, ...]:
        try:
            facts = self._root.stat()
            seen, (before, links) = (facts.st_mtime_ns, facts.st_ctime_ns), self._known
            if seen == before:
                return links
            links = tuple(self._find())
        except OSError:
            # Nothing can be written in a folder that cannot be looked at.
            self._known = (None, ())
            return ()
        self._known = (seen if time.time_ns() - facts.st_ctime_ns > _SETTLING else None, links)
        return links

    def _find(self) -> list[Path]:
        with os.scandir(self._root) as entries:
            found = [
                self._root / entry.name
                for entry in islice(entries, _MOST_ENTRIES)
                if entry.is_symlink() and is_protected(entry.name)
            ]
        named = _store_named_in(self._root / _GIT_FILE)
        return found if named is None else [*found, named]


def _store_named_in(path: Path) -> Path | None:
    """A `.git` that is no folder says where the store is."""
    try:
        with open_regular(path) as descriptor:
            text = os.fsdecode(os.read(descriptor, _LARGEST_GIT_FILE))
    except OSError:
        return None
    word, _, where = text.partition(":")
    return path.parent / where.strip() if word == "gitdir" and "\0" not in where else None


def _is_in_store(path: Path) -> bool:
    """Whether a folder above it is what git takes for a repository."""
    return any(
        folded_name(name) in _OF_A_STORE and _is_store(Path(*path.parts[:depth]))
        for depth, name in enumerate(path.parts)
        if depth > 0
    )


def _is_store(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))
