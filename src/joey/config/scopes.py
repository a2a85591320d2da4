"""Whose files they are: the person's own, or the project's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from joey.config.sightings import Fence, Sightings
from joey.core.customs import Source

ROO = ".roo"
AGENTS = ".agents"
_SHARED = ("rules", "commands", "skills")
"""Folders of the person's that links of a project may lead to; keys and tasks lie beside them."""
_LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv"})
DEEPEST_FOLDER = 12
MOST_FOLDERS = 5000


class Scope(Struct, frozen=True):
    """A `.roo` or `.agents` folder."""

    folder: Path
    label: str
    """How people and the prompt name it: `.roo`, `~/.roo`, `packages/web/.roo`."""
    source: Source
    fence: Fence | None
    """None: the person's own, who may link to anywhere."""


class Scopes(Struct, frozen=True):
    """Where things are looked for."""

    workspace: Path
    fence: Fence
    user: Scope
    project: Scope | None
    """None when the workspace's folder is the person's own."""
    user_agents: Scope
    project_agents: Scope | None

    @property
    def roo(self) -> tuple[Scope, ...]:
        return (self.user,) if self.project is None else (self.user, self.project)


def find_scopes(
    *, workspace: Path, home: Path, user_home: Path, hides: Callable[[Path], bool]
) -> Scopes:
    """`workspace` is a real path; `home` is the person's `.roo`, `user_home` the folder it is
    usually in."""
    workspace = Path(os.path.realpath(workspace))
    shared = _shared(home) + _shared(user_home / AGENTS)
    fence = Fence((workspace, *shared), hides)

    def user(folder: Path) -> Scope:
        return Scope(folder, _label(folder, user_home), "global", None)

    def project(name: str, own: Path) -> Scope | None:
        folder = workspace / name
        if os.path.realpath(folder) == os.path.realpath(own):
            return None
        return Scope(folder, name, "project", fence)

    return Scopes(
        workspace=workspace,
        fence=fence,
        user=user(home),
        project=project(ROO, home),
        user_agents=user(user_home / AGENTS),
        project_agents=project(AGENTS, user_home / AGENTS),
    )


def nested_scopes(scopes: Scopes, sightings: Sightings) -> tuple[Scope, ...]:
    """The `.roo` folders below the workspace, by the alphabet."""
    found: list[Scope] = []
    pending = [(scopes.workspace, "", 0)]
    looked_at = 0
    while pending:
        folder, label, depth = pending.pop()
        looked_at += 1
        if looked_at > MOST_FOLDERS:
            sightings.warn(
                f"Not all folders were searched for {ROO}/: there are more than {MOST_FOLDERS}."
            )
            break
        for name in sightings.subfolders(folder):
            path = folder / name
            shown = f"{label}/{name}" if label else name
            if name == ROO and label:
                found.append(Scope(path, shown, "project", scopes.fence))
            elif not name.startswith(".") and name not in _LEFT_OUT and depth < DEEPEST_FOLDER:
                pending.append((path, shown, depth + 1))
    return tuple(sorted(found, key=lambda scope: scope.label))


def _shared(folder: Path) -> tuple[Path, ...]:
    """What of the person's folder a project may lead to, as it is now."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return ()
    return tuple(
        Path(os.path.realpath(folder / name))
        for name in names
        if name in _SHARED or name.startswith(tuple(f"{shared}-" for shared in _SHARED))
    )


def _label(folder: Path, user_home: Path) -> str:
    if folder.is_relative_to(user_home):
        return f"~/{folder.relative_to(user_home).as_posix()}"
    return str(folder)
