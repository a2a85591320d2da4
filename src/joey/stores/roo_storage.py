"""Where Roo Code and its relatives keep their tasks.

Each is an extension of an editor, and editors give extensions a folder under `globalStorage`; a
setting of the editor may move it. Their command lines have folders of their own. Everything is
only ever read.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from joey.stores.layout import API, HISTORY_ITEM, JOURNAL, LEGACY, UI

_log = logging.getLogger(__name__)
TASKS = "tasks"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Code - OSS")
_SERVERS = ("vscode", "vscode-insiders", "vscodium", "cursor", "windsurf")
_FLATPAKS = {"com.visualstudio.code": "Code", "com.vscodium.codium": "VSCodium"}
_HISTORIES = (JOURNAL, UI, API, LEGACY, HISTORY_ITEM)
_MOST_FOLDERS = 20_000
_DEEPEST = 8


class Program(Struct, frozen=True):
    name: str
    extensions: tuple[str, ...]
    setting: str = ""
    """The editor's setting that moves its storage."""


class Place(Struct, frozen=True):
    """A folder whose folders are tasks, or one of them alone."""

    program: str
    tasks: Path
    only: str | None = None

    def folders(self) -> list[Path]:
        """The folders of tasks in it; what cannot be looked at is left out."""
        names = [self.only] if self.only is not None else _subfolders(self.tasks)
        return [self.tasks / name for name in names if holds_task(self.tasks / name)]


ROO_CLI = "Roo Code CLI"
CLINE_CLI = "Cline CLI"
PROGRAMS = (
    Program(
        "Roo Code",
        ("rooveterinaryinc.roo-cline", "rooveterinaryinc.roo-code-nightly"),
        "roo-cline.customStoragePath",
    ),
    Program("Zoo Code", ("zoocodeorganization.zoo-code",), "zoo-code.customStoragePath"),
    Program("Cline", ("saoudrizwan.claude-dev", "saoudrizwan.cline-nightly")),
)


def known_places(
    home: Path, env: Mapping[str, str], windows_drives: Path = Path("/mnt")
) -> list[Place]:
    """The places on this machine that hold tasks, each once, the editors' first."""
    found: dict[Path, Place] = {}
    for place in _possible_places(home, env, windows_drives):
        if place.tasks.is_dir():
            found.setdefault(place.tasks.resolve(), place)
    return list(found.values())


def places_under(path: Path) -> list[Place]:
    """What a person means by a path: a task, a folder of tasks, or anything above such a folder."""
    if holds_task(path):
        return [Place(_program_of(path), path.parent, path.name)]
    places: list[Place] = []
    level, seen = [path], 0
    for _ in range(_DEEPEST):
        deeper: list[Path] = []
        for folder in level:
            children = [folder / name for name in _subfolders(folder)]
            seen += len(children)
            if any(map(holds_task, children)):
                places.append(Place(_program_of(folder), folder))
            else:
                deeper += children
            if seen > _MOST_FOLDERS:
                _log.warning("%s has too many folders to look into all of them", path)
                return places
        level = deeper
    return places


def holds_task(folder: Path) -> bool:
    """Whether there is a history in a folder, or what an interrupted save has left of one."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return False
    return any(name in _HISTORIES or name.startswith((f".{UI}.", f".{API}.")) for name in names)


def _possible_places(home: Path, env: Mapping[str, str], drives: Path) -> Iterator[Place]:
    for user in _editor_folders(home, env, drives):
        for storage in (user / "globalStorage", *user.glob("profiles/*/globalStorage")):
            names = {name.lower(): name for name in _subfolders(storage)}
            for program in PROGRAMS:
                for extension in program.extensions:
                    name = names.get(extension, extension)
                    yield Place(program.name, storage / name / TASKS)
        for settings in (user / "settings.json", *user.glob("profiles/*/settings.json")):
            yield from _moved_places(settings, home)
    yield Place(ROO_CLI, home / ".vscode-mock" / "global-storage" / TASKS)
    cline = env.get("CLINE_DIR") or str(home / ".cline")
    yield Place(CLINE_CLI, Path(cline) / "data" / TASKS)


def _editor_folders(home: Path, env: Mapping[str, str], drives: Path) -> Iterator[Path]:
    """The `User` folder of every editor that might be there."""
    bases = [Path(env.get("XDG_CONFIG_HOME") or home / ".config")]
    bases += [home / "Library" / "Application Support", home / "AppData" / "Roaming"]
    bases += [Path(env["APPDATA"])] if env.get("APPDATA") else []
    bases += sorted(drives.glob("*/Users/*/AppData/Roaming"))
    for base in bases:
        yield from (base / editor / "User" for editor in _EDITORS)
    for server in _SERVERS:
        yield home / f".{server}-server" / "data" / "User"
    for name, editor in _FLATPAKS.items():
        yield home / ".var" / "app" / name / "config" / editor / "User"
    yield home / ".local" / "share" / "code-server" / "User"
    if portable := env.get("VSCODE_PORTABLE"):
        yield Path(portable) / "user-data" / "User"


def _moved_places(settings: Path, home: Path) -> Iterator[Place]:
    """Editors' settings are JSON with comments; one string of it is all that is wanted."""
    try:
        text = settings.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for program in PROGRAMS:
        pattern = rf'^[^/\n]*"{re.escape(program.setting)}"\s*:\s*("(?:[^"\\\n]|\\.)*")'
        match = re.search(pattern, text, re.MULTILINE) if program.setting else None
        try:
            moved = json.loads(match[1]) if match else ""
        except ValueError:
            continue
        if moved:
            path = home / moved[2:] if moved.startswith("~/") else Path(moved)
            yield Place(program.name, path / TASKS)


def _program_of(path: Path) -> str:
    parts = {part.lower() for part in path.parts}
    for program in PROGRAMS:
        if parts.intersection(program.extensions):
            return program.name
    if ".vscode-mock" in parts:
        return ROO_CLI
    return CLINE_CLI if ".cline" in parts else ""


def _subfolders(folder: Path) -> list[str]:
    """Names of folders that are no links; nothing where it may not be looked at."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
