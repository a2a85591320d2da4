"""Import of tasks from Roo Code and its relatives: storage locations, copies of tasks.

Each program is an extension of an editor, and editors give extensions a directory under
`globalStorage`; a setting of the editor may move it. Their command lines have directories of their
own. The originals are only read. A copy is created next to joey's tasks, opened once as a check,
and only then renamed, so an incomplete copy is never visible.
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from joey.core.events import TaskImported
from joey.errors import StoreError
from joey.storage import task_directory as td
from joey.storage.roo_files import (
    HistoryItem,
    find_interrupted_saves,
    get_text,
    is_task_finished,
    load_history_item,
    load_history_items,
    read_json_array,
    to_integer,
)
from joey.storage.roo_task_directory import (
    RooHistories,
    build_adoption_record,
    build_usage_fields,
    read_histories,
)
from joey.storage.task_store import TaskSecretFiles
from joey.system.files import (
    PRIVATE_FILE_MODE,
    is_disk_full,
    make_private_directory,
    translate_storage_errors,
)

_STAGING_PREFIX = ".import-"
_COPIED_FILES = (
    td.UI_HISTORY_FILE,
    td.API_HISTORY_FILE,
    td.LEGACY_HISTORY_FILE,
    td.METADATA_FILE,
    td.HISTORY_ITEM_FILE,
    td.JOURNAL_FILE,
)


class ForeignTask(Struct, frozen=True):
    """A task directory of another program, and that program's data about the task."""

    program: str
    directory: Path
    id: str
    history_item: HistoryItem

    @property
    def modified_ms(self) -> int:
        """The time of the last change in milliseconds, by the program or else by the files."""
        if ts := to_integer(self.history_item.get("ts")):
            return ts
        latest_ns = 0
        for name in (td.UI_HISTORY_FILE, td.API_HISTORY_FILE, td.LEGACY_HISTORY_FILE):
            with suppress(OSError):
                latest_ns = max(latest_ns, (self.directory / name).stat().st_mtime_ns)
        return latest_ns // 1_000_000


class ImportCandidate(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The description of a foreign task for the user."""

    program: str
    location: str = field(name="place")
    id: str
    modified_ms: int = field(name="changed")
    title: str
    row_count: int = field(name="rows")
    state: str
    """`ready`; `incomplete`: it opens, but something of it is lost; `damaged`: it does not open;
    `imported`: joey has a task of that id. After an import it says `imported` or `skipped`."""
    problem: str = ""


def find_foreign_tasks(locations: Iterable[TaskLocation], own_tasks: Path) -> list[ForeignTask]:
    """Find every task in these places, the latest first; `own_tasks` are joey's and left out."""
    found: list[ForeignTask] = []
    for place in locations:
        if place.tasks_directory.resolve() == own_tasks.resolve():
            continue
        items = load_history_items(place.tasks_directory)
        for directory in place.list_task_directories():
            task_id = td.normalize_task_id(directory.name) or directory.name
            found.append(
                ForeignTask(place.program, directory, task_id, load_history_item(directory, items))
            )
    return sorted(found, key=lambda task: (task.modified_ms, task.id), reverse=True)


def inspect_task(task: ForeignTask, own_tasks: Path) -> ImportCandidate:
    """Check whether a task could be opened; changes nothing."""
    rows, title, state, problem = 0, get_text(task.history_item, "task"), "ready", ""
    try:
        histories = read_histories(task.directory, task.id)
    except (StoreError, OSError) as error:
        state, problem = "damaged", str(error)
    else:
        rows, title = len(histories.rows), title or get_text(histories.rows[0], "text")
        if problem := histories.problem:
            state = "incomplete"
    if td.normalize_task_id(task.directory.name) is None:
        state, problem = "damaged", f"{task.directory.name!r} cannot be the id of a task"
    elif td.find_task_directory(own_tasks, task.id) is not None:
        state, problem = "imported", ""
    place = str(task.directory.parent)
    return ImportCandidate(
        task.program, place, task.id, task.modified_ms, title.strip(), rows, state, problem
    )


def import_task(task: ForeignTask, own_tasks: Path) -> Path:
    """Copy a task to joey's store and return its directory. Raises StoreError if it cannot be
    opened, exists already, or the disk is full."""
    if td.normalize_task_id(task.directory.name) is None:
        raise StoreError(f"{task.directory.name!r} cannot be the id of a task")
    if td.find_task_directory(own_tasks, task.id) is not None:
        raise StoreError(f"task {task.id} exists already")
    with translate_storage_errors(f"could not import task {task.id}", own_tasks):
        make_private_directory(own_tasks)
        stage = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=own_tasks))
        try:
            _fill_staging_directory(stage, task)
            TaskSecretFiles(own_tasks.parent).delete(task.id)  # of another task that had this id
            return stage.rename(td.build_task_directory_path(own_tasks, task.id))
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def is_caused_by_full_disk(error: StoreError) -> bool:
    """Whether importing further tasks is pointless."""
    return isinstance(error.__cause__, OSError) and is_disk_full(error.__cause__)


def _fill_staging_directory(stage: Path, task: ForeignTask) -> None:
    for name in _COPIED_FILES:
        _copy_file(task.directory / name, stage / name)
    for name in (td.UI_HISTORY_FILE, td.API_HISTORY_FILE):
        for path in find_interrupted_saves(task.directory, name):
            _copy_file(path, stage / path.name)
    output = stage / td.COMMAND_OUTPUT_DIRECTORY
    make_private_directory(output)
    for path in sorted((task.directory / td.COMMAND_OUTPUT_DIRECTORY).glob("*.txt")):
        if not path.is_symlink():
            _copy_file(path, output / path.name)
    if not td.has_history_snapshots(stage):
        for name in (td.UI_HISTORY_FILE, td.API_HISTORY_FILE):
            if find_interrupted_saves(stage, name) and (
                rows := read_json_array(stage, name).values
            ):
                _write_json(stage / name, rows)
    _write_json(stage / td.HISTORY_ITEM_FILE, task.history_item)
    item = _complete_history_item(stage, task, read_histories(stage, task.id))
    _write_json(stage / td.HISTORY_ITEM_FILE, item)
    source = {"program": task.program, "from": str(task.directory), "at": int(time.time() * 1000)}
    _write_json(stage / td.IMPORT_MARKER_FILE, source)
    changed = to_integer(item.get("ts")) or task.modified_ms
    os.utime(stage, (changed / 1000, changed / 1000))


def _copy_file(source: Path, target: Path) -> None:
    """Copy a regular file with its time, readable by its owner only."""
    if not source.is_file():
        return
    with source.open("rb") as original, target.open("xb") as copy:
        target.chmod(PRIVATE_FILE_MODE)
        shutil.copyfileobj(original, copy, 1024 * 1024)
        times = os.fstat(original.fileno())
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _complete_history_item(
    stage: Path, task: ForeignTask, histories: RooHistories
) -> dict[str, Any]:
    """Complete the task's history item from the histories. Lists of tasks, their directories and
    the protocol of older tasks depend on it."""
    event = build_adoption_record(stage, task.id, histories).event
    assert isinstance(event, TaskImported)
    found = {
        "number": 1,
        "ts": event.rows[-1]["ts"],
        "task": get_text(event.rows[0], "text").strip(),
        **build_usage_fields(event.rows),
        "workspace": event.workspace,
        "mode": event.mode,
        "toolProtocol": event.tool_protocol.value,
    }
    stated = {name: value for name, value in task.history_item.items() if value not in (None, "")}
    if is_task_finished(event.rows) and stated.get("status") != "delegated":
        stated["status"] = "completed"  # Roo itself says so of subtasks alone
    return {**found, **stated, "id": task.id}


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.encode(value))
    path.chmod(PRIVATE_FILE_MODE)


_log = logging.getLogger(__name__)
TASKS_DIRECTORY = "tasks"
_EDITOR_NAMES = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Code - OSS")
_REMOTE_SERVER_NAMES = ("vscode", "vscode-insiders", "vscodium", "cursor", "windsurf")
_FLATPAK_EDITORS = {"com.visualstudio.code": "Code", "com.vscodium.codium": "VSCodium"}
_HISTORY_FILES = (
    td.JOURNAL_FILE,
    td.UI_HISTORY_FILE,
    td.API_HISTORY_FILE,
    td.LEGACY_HISTORY_FILE,
    td.HISTORY_ITEM_FILE,
)
_INTERRUPTED_SAVE_PREFIXES = (f".{td.UI_HISTORY_FILE}.", f".{td.API_HISTORY_FILE}.")
_MAX_SEARCHED_DIRECTORIES = 20_000
_MAX_SEARCH_DEPTH = 8


class SourceProgram(Struct, frozen=True):
    name: str
    extension_ids: tuple[str, ...]
    storage_path_setting: str = ""
    """The editor's setting that moves its storage."""


class TaskLocation(Struct, frozen=True):
    """A directory of task directories, or a single one."""

    program: str
    tasks_directory: Path
    only_task_name: str | None = None

    def list_task_directories(self) -> list[Path]:
        """List the task directories in it, without unreadable ones."""
        only = self.only_task_name
        names = _list_subdirectories(self.tasks_directory) if only is None else [only]
        return [path for name in names if has_task_files(path := self.tasks_directory / name)]


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


def find_task_locations(
    home: Path, env: Mapping[str, str], windows_drives: Path = Path("/mnt")
) -> list[TaskLocation]:
    """Find the places on this machine that hold tasks, each once, the editors' first."""
    found: dict[Path, TaskLocation] = {}
    for place in _iter_candidate_locations(home, env, windows_drives):
        if place.tasks_directory.is_dir():
            found.setdefault(place.tasks_directory.resolve(), place)
    return list(found.values())


def find_task_locations_under(path: Path) -> list[TaskLocation]:
    """Find the tasks that a path means: a task, a directory of tasks, or any parent of one."""
    if has_task_files(path):
        return [TaskLocation(_guess_program(path), path.parent, path.name)]
    places: list[TaskLocation] = []
    level, seen = [path], 0
    for _ in range(_MAX_SEARCH_DEPTH):
        deeper: list[Path] = []
        for directory in level:
            children = [directory / name for name in _list_subdirectories(directory)]
            seen += len(children)
            if any(map(has_task_files, children)):
                places.append(TaskLocation(_guess_program(directory), directory))
            else:
                deeper += children
            if seen > _MAX_SEARCHED_DIRECTORIES:
                _log.warning("%s has too many folders to look into all of them", path)
                return places
        level = deeper
    return places


def has_task_files(directory: Path) -> bool:
    """Whether a directory has a history, or a part left by an interrupted save."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names are all that is needed
    except OSError:
        return False
    return any(
        name in _HISTORY_FILES or name.startswith(_INTERRUPTED_SAVE_PREFIXES) for name in names
    )


def _iter_candidate_locations(
    home: Path, env: Mapping[str, str], drives: Path
) -> Iterator[TaskLocation]:
    for user in _iter_editor_user_directories(home, env, drives):
        for storage in (user / "globalStorage", *user.glob("profiles/*/globalStorage")):
            names = {name.lower(): name for name in _list_subdirectories(storage)}
            for program in SOURCE_PROGRAMS:
                for extension in program.extension_ids:
                    name = names.get(extension, extension)
                    yield TaskLocation(program.name, storage / name / TASKS_DIRECTORY)
        for settings in (user / "settings.json", *user.glob("profiles/*/settings.json")):
            yield from _iter_custom_storage_locations(settings, home)
    yield TaskLocation(ROO_CLI_NAME, home / ".vscode-mock" / "global-storage" / TASKS_DIRECTORY)
    cline = env.get("CLINE_DIR") or str(home / ".cline")
    yield TaskLocation(CLINE_CLI_NAME, Path(cline) / "data" / TASKS_DIRECTORY)


def _iter_editor_user_directories(
    home: Path, env: Mapping[str, str], drives: Path
) -> Iterator[Path]:
    """Iterate over the `User` directory of every editor that might be installed."""
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


def _iter_custom_storage_locations(settings: Path, home: Path) -> Iterator[TaskLocation]:
    """Iterate over custom storage locations. Editors' settings are JSON with comments; only one
    string is needed."""
    try:
        text = settings.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for program in SOURCE_PROGRAMS:
        pattern = (
            rf'^[^/\n]*"{re.escape(program.storage_path_setting)}"\s*:\s*("(?:[^"\\\n]|\\.)*")'
        )
        match = re.search(pattern, text, re.MULTILINE) if program.storage_path_setting else None
        try:
            moved = json.loads(match[1]) if match else ""
        except ValueError:
            continue
        if moved:
            path = home / moved[2:] if moved.startswith("~/") else Path(moved)
            yield TaskLocation(program.name, path / TASKS_DIRECTORY)


def _guess_program(path: Path) -> str:
    parts = {part.lower() for part in path.parts}
    for program in SOURCE_PROGRAMS:
        if parts.intersection(program.extension_ids):
            return program.name
    if ".vscode-mock" in parts:
        return ROO_CLI_NAME
    return CLINE_CLI_NAME if ".cline" in parts else ""


def _list_subdirectories(directory: Path) -> list[str]:
    """List subdirectories that are not links; empty if the directory is not readable."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
