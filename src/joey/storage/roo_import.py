"""Import of tasks from Roo Code and its relatives: storage locations, copies of tasks.

Each program is an extension of an editor, and editors give extensions a directory under
`globalStorage`; a setting of the editor may move it. Their command lines have directories of
their own. The originals are only ever read. A copy is made beside joey's tasks, read once to see
that it opens, and only then given its name, so half of it is never visible.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.events import TaskImported
from joey.errors import StoreError
from joey.storage.roo_directory import RooHistories, adoption_record, item_usage, read_histories
from joey.storage.roo_files import (
    HistoryItem,
    is_finished,
    item_of,
    leftovers,
    listed_items,
    read_array,
    text_of,
    whole_number,
)
from joey.storage.task_directory import (
    API_HISTORY_FILE,
    COMMAND_OUTPUT_DIRECTORY,
    HISTORY_ITEM_FILE,
    IMPORT_MARKER_FILE,
    JOURNAL_FILE,
    LEGACY_HISTORY_FILE,
    METADATA_FILE,
    UI_HISTORY_FILE,
    build_task_directory_path,
    clean_id,
    find_task_directory,
    has_snapshots,
)
from joey.storage.task_store import TaskSecretFiles
from joey.system.files import PRIVATE_FILE_MODE, is_full, make_private_directory, storage_error

_STAGING_PREFIX = ".import-"
_COPIED_FILES = (
    UI_HISTORY_FILE,
    API_HISTORY_FILE,
    LEGACY_HISTORY_FILE,
    METADATA_FILE,
    HISTORY_ITEM_FILE,
    JOURNAL_FILE,
)


class ForeignTask(Struct, frozen=True):
    """A folder that some program keeps a task in, and what its lists know of the task."""

    program: str
    directory: Path
    id: str
    item: HistoryItem

    @property
    def changed(self) -> int:
        """Milliseconds; what the program says, else what the files say."""
        if ts := whole_number(self.item.get("ts")):
            return ts
        return max(
            (
                _modified(self.directory / name)
                for name in (UI_HISTORY_FILE, API_HISTORY_FILE, LEGACY_HISTORY_FILE)
            ),
            default=0,
        )


class ImportCandidate(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a person is told about a foreign task."""

    program: str
    place: str
    id: str
    changed: int
    title: str
    rows: int
    state: str
    """`ready`; `incomplete`: it opens, but something of it is lost; `damaged`: it does not open;
    `imported`: joey has a task of that id. After an import it says `imported` or `skipped`."""
    problem: str = ""


def tasks_of(places: Iterable[TaskLocation], own: Path) -> list[ForeignTask]:
    """Every task in these places, the latest first; `own` are joey's tasks, and none of them."""
    found: list[ForeignTask] = []
    for place in places:
        if place.tasks.resolve() == own.resolve():
            continue
        items = listed_items(place.tasks)
        for directory in place.list_task_directories():
            task_id = clean_id(directory.name) or directory.name
            found.append(ForeignTask(place.program, directory, task_id, item_of(directory, items)))
    return sorted(found, key=lambda task: (task.changed, task.id), reverse=True)


def look_at(task: ForeignTask, own: Path) -> ImportCandidate:
    """Whether a task would open; changes nothing."""
    rows, title, state, problem = 0, text_of(task.item, "task"), "ready", ""
    try:
        histories = read_histories(task.directory, task.id)
    except (StoreError, OSError) as error:
        state, problem = "damaged", str(error)
    else:
        rows, title = len(histories.rows), title or text_of(histories.rows[0], "text")
        if problem := histories.problem:
            state = "incomplete"
    if clean_id(task.directory.name) is None:
        state, problem = "damaged", f"{task.directory.name!r} cannot be the id of a task"
    elif find_task_directory(own, task.id) is not None:
        state, problem = "imported", ""
    place = str(task.directory.parent)
    return ImportCandidate(
        task.program, place, task.id, task.changed, title.strip(), rows, state, problem
    )


def import_task(task: ForeignTask, own: Path) -> Path:
    """Copy a task to where joey keeps its tasks; where it is now.

    Raises:
        StoreError: it cannot be opened, or is there already, or the disk is full.
    """
    if clean_id(task.directory.name) is None:
        raise StoreError(f"{task.directory.name!r} cannot be the id of a task")
    if find_task_directory(own, task.id) is not None:
        raise StoreError(f"task {task.id} is there already")
    try:
        make_private_directory(own)
        stage = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=own))
    except OSError as error:
        raise storage_error(f"could not import task {task.id}", own, error) from error
    try:
        _fill(stage, task)
        TaskSecretFiles(own.parent).delete(task.id)  # of another task that had this id
        target = build_task_directory_path(own, task.id)
        stage.rename(target)
    except OSError as error:
        raise storage_error(f"could not import task {task.id}", own, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return target


def disk_is_full(error: StoreError) -> bool:
    """Whether going on with other tasks is of no use."""
    return isinstance(error.__cause__, OSError) and is_full(error.__cause__)


def _fill(stage: Path, task: ForeignTask) -> None:
    for name in _COPIED_FILES:
        _copy(task.directory / name, stage / name)
    for name in (UI_HISTORY_FILE, API_HISTORY_FILE):
        for path in leftovers(task.directory, name):
            _copy(path, stage / path.name)
    output = stage / COMMAND_OUTPUT_DIRECTORY
    make_private_directory(output)
    for path in sorted((task.directory / COMMAND_OUTPUT_DIRECTORY).glob("*.txt")):
        if not path.is_symlink():
            _copy(path, output / path.name)
    if not has_snapshots(stage):
        _promote_leftovers(stage)
    _write_json(stage / HISTORY_ITEM_FILE, task.item)
    histories = read_histories(stage, task.id)
    item = _whole_item(stage, task, histories)
    _write_json(stage / HISTORY_ITEM_FILE, item)
    source = {"program": task.program, "from": str(task.directory), "at": int(time.time() * 1000)}
    _write_json(stage / IMPORT_MARKER_FILE, source)
    changed = whole_number(item.get("ts")) or task.changed
    os.utime(stage, (changed / 1000, changed / 1000))


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file with its time, readable by its owner alone."""
    if not source.is_file():
        return
    with source.open("rb") as original, target.open("xb") as copy:
        target.chmod(PRIVATE_FILE_MODE)
        shutil.copyfileobj(original, copy, 1024 * 1024)
        times = os.fstat(original.fileno())
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _promote_leftovers(stage: Path) -> None:
    """Give what a save has left its proper name, when nothing else has one."""
    for name in (UI_HISTORY_FILE, API_HISTORY_FILE):
        if leftovers(stage, name) and (rows := read_array(stage, name).values):
            _write_json(stage / name, rows)


def _whole_item(stage: Path, task: ForeignTask, histories: RooHistories) -> dict[str, Any]:
    """The task's history item, with what it lacks found in the histories.

    Lists of tasks, their folders and the protocol of older tasks depend on it.
    """
    event = adoption_record(stage, task.id, histories).event
    assert isinstance(event, TaskImported)
    found = {
        "number": 1,
        "ts": event.rows[-1]["ts"],
        "task": text_of(event.rows[0], "text").strip(),
        **item_usage(event.rows),
        "workspace": event.workspace,
        "mode": event.mode,
        "toolProtocol": event.protocol.value,
    }
    stated = {name: value for name, value in task.item.items() if value not in (None, "")}
    if is_finished(event.rows) and stated.get("status") != "delegated":
        stated["status"] = "completed"  # Roo itself says so of subtasks alone
    return {**found, **stated, "id": task.id}


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.encode(value))
    path.chmod(PRIVATE_FILE_MODE)


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


_log = logging.getLogger(__name__)
TASKS_DIRECTORY = "tasks"
_EDITOR_NAMES = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Code - OSS")
_REMOTE_SERVER_NAMES = ("vscode", "vscode-insiders", "vscodium", "cursor", "windsurf")
_FLATPAK_EDITORS = {"com.visualstudio.code": "Code", "com.vscodium.codium": "VSCodium"}
_HISTORY_FILES = (
    JOURNAL_FILE,
    UI_HISTORY_FILE,
    API_HISTORY_FILE,
    LEGACY_HISTORY_FILE,
    HISTORY_ITEM_FILE,
)
_MAX_SEARCHED_DIRECTORIES = 20_000
_MAX_SEARCH_DEPTH = 8


class SourceProgram(Struct, frozen=True):
    name: str
    extensions: tuple[str, ...]
    setting: str = ""
    """The editor's setting that moves its storage."""


class TaskLocation(Struct, frozen=True):
    """A folder whose folders are tasks, or one of them alone."""

    program: str
    tasks: Path
    only: str | None = None

    def list_task_directories(self) -> list[Path]:
        """The folders of tasks in it; what cannot be looked at is left out."""
        names = [self.only] if self.only is not None else _subfolders(self.tasks)
        return [self.tasks / name for name in names if holds_task(self.tasks / name)]


ROO_CLI_NAME = "Roo Code CLI"
CLINE_CLI_NAME = "Cline CLI"
SOURCE_PROGRAMS = (
    SourceProgram(
        "Roo Code",
        ("rooveterinaryinc.roo-cline", "rooveterinaryinc.roo-code-nightly"),
        "roo-cline.customStoragePath",
    ),
    SourceProgram("Zoo Code", ("zoocodeorganization.zoo-code",), "zoo-code.customStoragePath"),
    SourceProgram("Cline", ("saoudrizwan.claude-dev", "saoudrizwan.cline-nightly")),
)


def known_places(
    home: Path, env: Mapping[str, str], windows_drives: Path = Path("/mnt")
) -> list[TaskLocation]:
    """The places on this machine that hold tasks, each once, the editors' first."""
    found: dict[Path, TaskLocation] = {}
    for place in _possible_places(home, env, windows_drives):
        if place.tasks.is_dir():
            found.setdefault(place.tasks.resolve(), place)
    return list(found.values())


def places_under(path: Path) -> list[TaskLocation]:
    """What a person means by a path: a task, a folder of tasks, or anything above such a folder."""
    if holds_task(path):
        return [TaskLocation(_program_of(path), path.parent, path.name)]
    places: list[TaskLocation] = []
    level, seen = [path], 0
    for _ in range(_MAX_SEARCH_DEPTH):
        deeper: list[Path] = []
        for directory in level:
            children = [directory / name for name in _subfolders(directory)]
            seen += len(children)
            if any(map(holds_task, children)):
                places.append(TaskLocation(_program_of(directory), directory))
            else:
                deeper += children
            if seen > _MAX_SEARCHED_DIRECTORIES:
                _log.warning("%s has too many folders to look into all of them", path)
                return places
        level = deeper
    return places


def holds_task(directory: Path) -> bool:
    """Whether there is a history in a folder, or what an interrupted save has left of one."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return False
    return any(
        name in _HISTORY_FILES or name.startswith((f".{UI_HISTORY_FILE}.", f".{API_HISTORY_FILE}."))
        for name in names
    )


def _possible_places(home: Path, env: Mapping[str, str], drives: Path) -> Iterator[TaskLocation]:
    for user in _iter_editor_user_directories(home, env, drives):
        for storage in (user / "globalStorage", *user.glob("profiles/*/globalStorage")):
            names = {name.lower(): name for name in _subfolders(storage)}
            for program in SOURCE_PROGRAMS:
                for extension in program.extensions:
                    name = names.get(extension, extension)
                    yield TaskLocation(program.name, storage / name / TASKS_DIRECTORY)
        for settings in (user / "settings.json", *user.glob("profiles/*/settings.json")):
            yield from _moved_places(settings, home)
    yield TaskLocation(ROO_CLI_NAME, home / ".vscode-mock" / "global-storage" / TASKS_DIRECTORY)
    cline = env.get("CLINE_DIR") or str(home / ".cline")
    yield TaskLocation(CLINE_CLI_NAME, Path(cline) / "data" / TASKS_DIRECTORY)


def _iter_editor_user_directories(
    home: Path, env: Mapping[str, str], drives: Path
) -> Iterator[Path]:
    """The `User` folder of every editor that might be there."""
    bases = [Path(env.get("XDG_CONFIG_HOME") or home / ".config")]
    bases += [home / "Library" / "Application Support", home / "AppData" / "Roaming"]
    bases += [Path(env["APPDATA"])] if env.get("APPDATA") else []
    bases += sorted(drives.glob("*/Users/*/AppData/Roaming"))
    for base in bases:
        yield from (base / editor / "User" for editor in _EDITOR_NAMES)
    for server in _REMOTE_SERVER_NAMES:
        yield home / f".{server}-server" / "data" / "User"
    for name, editor in _FLATPAK_EDITORS.items():
        yield home / ".var" / "app" / name / "config" / editor / "User"
    yield home / ".local" / "share" / "code-server" / "User"
    if portable := env.get("VSCODE_PORTABLE"):
        yield Path(portable) / "user-data" / "User"


def _moved_places(settings: Path, home: Path) -> Iterator[TaskLocation]:
    """Editors' settings are JSON with comments; one string of it is all that is wanted."""
    try:
        text = settings.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for program in SOURCE_PROGRAMS:
        pattern = rf'^[^/\n]*"{re.escape(program.setting)}"\s*:\s*("(?:[^"\\\n]|\\.)*")'
        match = re.search(pattern, text, re.MULTILINE) if program.setting else None
        try:
            moved = json.loads(match[1]) if match else ""
        except ValueError:
            continue
        if moved:
            path = home / moved[2:] if moved.startswith("~/") else Path(moved)
            yield TaskLocation(program.name, path / TASKS_DIRECTORY)


def _program_of(path: Path) -> str:
    parts = {part.lower() for part in path.parts}
    for program in SOURCE_PROGRAMS:
        if parts.intersection(program.extensions):
            return program.name
    if ".vscode-mock" in parts:
        return ROO_CLI_NAME
    return CLINE_CLI_NAME if ".cline" in parts else ""


def _subfolders(directory: Path) -> list[str]:
    """Names of folders that are no links; nothing where it may not be looked at."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
