"""Protected names of a workspace, which commands must not change even where they may write.

Only names in the root of the workspace are held, and of a repository what decides which programs
git starts; objects, refs and the index stay writable. Some names are held also while they are
absent: those that editors, agents and version control load without asking anybody. A few of them
can be occupied meanwhile, because an empty folder of that name disturbs nobody; an `AGENTS.md` that
is a folder would.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from joey.sandboxes.placeholders import is_placeholder

_OCCUPIED = (".git", ".roo", ".vscode")
"""A prompt, another joey or an open editor acts on what is in them within a moment."""
_UNDONE = (
    *(".idea", ".husky", ".github", ".claude", ".cursor", ".agents", ".devcontainer", ".cargo"),
    *("AGENTS.md", "CLAUDE.md", ".roomodes", ".mcp.json", ".npmrc", ".envrc", ".gitlab-ci.yml"),
)
_GIT = ".git"
_MODULES = 64


class Held(Struct, frozen=True):
    """Paths below the workspace, with `/`."""

    present: tuple[str, ...]
    """Cannot be changed, replaced or moved."""
    pinned: tuple[str, ...]
    """Folders that hold such paths: they can be written, but not moved away."""
    absent: tuple[str, ...]
    """Cannot be made: they can be occupied."""
    undone: tuple[str, ...]
    """Absent names that cannot be occupied without harm; what appears there is put aside."""


def find_held(
    workspace: Path, protects: Callable[[str], bool], left_out: frozenset[Path] = frozenset()
) -> Held:
    """What is held in a workspace, but for the places that are `left_out`."""
    present: list[str] = []
    pinned: list[str] = []
    absent: list[str] = []
    undone: list[str] = []
    with os.scandir(workspace) as entries:
        # A link cannot be held, only what it leads to.
        names = [
            each.name
            for each in entries
            if protects(each.name) and not each.is_symlink() and not _is_occupied(Path(each.path))
        ]
    for name in sorted(names):
        if workspace / name in left_out:
            continue
        if name == _GIT and (workspace / name).is_dir():
            pinned.append(name)
            inner, missing = _repository(workspace / name)
            present += (f"{name}/{each}" for each in inner)
            absent += (f"{name}/{each}" for each in missing)
            undone += (f"{name}/{each}" for each in ("commondir", "config.worktree"))
        else:
            present.append(name)
    absent += (each for each in _OCCUPIED if _is_free(workspace / each))
    undone += _UNDONE
    return Held(
        present=tuple(present),
        pinned=tuple(pinned),
        absent=tuple(each for each in absent if workspace / each not in left_out),
        undone=tuple(
            each
            for each in undone
            if workspace / each not in left_out and not os.path.lexists(workspace / each)
        ),
    )


def _repository(folder: Path) -> tuple[list[str], list[str]]:
    """What of a repository decides which programs run; and what of that is not there."""
    wanted = ["config", "hooks", "config.worktree"]
    modules = folder / "modules"
    if modules.is_dir() and not modules.is_symlink():
        with os.scandir(modules) as entries:
            found = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
        wanted += (f"modules/{name}/{each}" for name in found[:_MODULES] for each in wanted[:2])
    there = [each for each in wanted if _is_plain(folder / each)]
    return there, ["hooks"] if _is_free(folder / "hooks") else []


def _is_occupied(path: Path) -> bool:
    return path.name in _OCCUPIED and is_placeholder(str(path))


def _is_free(path: Path) -> bool:
    return not os.path.lexists(path) or is_placeholder(str(path))


def _is_plain(path: Path) -> bool:
    return path.exists() and not path.is_symlink() and not is_placeholder(str(path))
