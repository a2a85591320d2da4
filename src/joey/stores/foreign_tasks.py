"""Tasks of other programs: looked at where they are, and copied to where joey keeps its own.

A copy is made beside the tasks, read once to see that it opens, and only then given its name: no
moment shows half of it. The originals are read and nothing else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.events import TaskAdopted
from joey.errors import StoreError
from joey.stores.adoption import Histories, adoption_record, read_histories
from joey.stores.layout import (
    API,
    COMMAND_OUTPUT,
    HISTORY_ITEM,
    IMPORTED,
    JOURNAL,
    LEGACY,
    METADATA,
    UI,
    clean_id,
    find_folder,
    has_snapshots,
    new_folder,
)
from joey.stores.roo_files import leftovers, read_array, text_of, whole_number
from joey.stores.roo_items import Item, item_of, listed_items
from joey.stores.roo_rows import is_finished
from joey.stores.roo_storage import Place
from joey.stores.roo_usage import item_usage
from joey.stores.task_secrets import TaskSecretFiles
from joey.system.files import FILE_MODE, is_full, make_folder, storage_error

_STAGE = ".import-"
_COPIED = (UI, API, LEGACY, METADATA, HISTORY_ITEM, JOURNAL)


class ForeignTask(Struct, frozen=True):
    """A folder that some program keeps a task in, and what its lists know of the task."""

    program: str
    folder: Path
    id: str
    item: Item

    @property
    def changed(self) -> int:
        """Milliseconds; what the program says, else what the files say."""
        if ts := whole_number(self.item.get("ts")):
            return ts
        return max((_modified(self.folder / name) for name in (UI, API, LEGACY)), default=0)


class Sighting(Struct, frozen=True, rename="camel", omit_defaults=True):
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


def tasks_of(places: Iterable[Place], own: Path) -> list[ForeignTask]:
    """Every task in these places, the latest first; `own` are joey's tasks, and none of them."""
    found: list[ForeignTask] = []
    for place in places:
        if place.tasks.resolve() == own.resolve():
            continue
        items = listed_items(place.tasks)
        for folder in place.folders():
            task_id = clean_id(folder.name) or folder.name
            found.append(ForeignTask(place.program, folder, task_id, item_of(folder, items)))
    return sorted(found, key=lambda task: (task.changed, task.id), reverse=True)


def look_at(task: ForeignTask, own: Path) -> Sighting:
    """Whether a task would open; changes nothing."""
    rows, title, state, problem = 0, text_of(task.item, "task"), "ready", ""
    try:
        histories = read_histories(task.folder, task.id)
    except (StoreError, OSError) as error:
        state, problem = "damaged", str(error)
    else:
        rows, title = len(histories.rows), title or text_of(histories.rows[0], "text")
        if problem := histories.problem:
            state = "incomplete"
    if clean_id(task.folder.name) is None:
        state, problem = "damaged", f"{task.folder.name!r} cannot be the id of a task"
    elif find_folder(own, task.id) is not None:
        state, problem = "imported", ""
    place = str(task.folder.parent)
    return Sighting(task.program, place, task.id, task.changed, title.strip(), rows, state, problem)


def import_task(task: ForeignTask, own: Path) -> Path:
    """Copy a task to where joey keeps its tasks; where it is now.

    Raises:
        StoreError: it cannot be opened, or is there already, or the disk is full.
    """
    if clean_id(task.folder.name) is None:
        raise StoreError(f"{task.folder.name!r} cannot be the id of a task")
    if find_folder(own, task.id) is not None:
        raise StoreError(f"task {task.id} is there already")
    try:
        make_folder(own)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=own))
    except OSError as error:
        raise storage_error(f"could not import task {task.id}", own, error) from error
    try:
        _fill(stage, task)
        TaskSecretFiles(own.parent).delete(task.id)  # of another task that had this id
        target = new_folder(own, task.id)
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
    for name in _COPIED:
        _copy(task.folder / name, stage / name)
    for name in (UI, API):
        for path in leftovers(task.folder, name):
            _copy(path, stage / path.name)
    output = stage / COMMAND_OUTPUT
    make_folder(output)
    for path in sorted((task.folder / COMMAND_OUTPUT).glob("*.txt")):
        if not path.is_symlink():
            _copy(path, output / path.name)
    if not has_snapshots(stage):
        _promote_leftovers(stage)
    _write_json(stage / HISTORY_ITEM, task.item)
    histories = read_histories(stage, task.id)
    item = _whole_item(stage, task, histories)
    _write_json(stage / HISTORY_ITEM, item)
    source = {"program": task.program, "from": str(task.folder), "at": int(time.time() * 1000)}
    _write_json(stage / IMPORTED, source)
    changed = whole_number(item.get("ts")) or task.changed
    os.utime(stage, (changed / 1000, changed / 1000))


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file with its time, readable by its owner alone."""
    if not source.is_file():
        return
    with source.open("rb") as original, target.open("xb") as copy:
        target.chmod(FILE_MODE)
        shutil.copyfileobj(original, copy, 1024 * 1024)
        times = os.fstat(original.fileno())
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _promote_leftovers(stage: Path) -> None:
    """Give what a save has left its proper name, when nothing else has one."""
    for name in (UI, API):
        if leftovers(stage, name) and (rows := read_array(stage, name).values):
            _write_json(stage / name, rows)


def _whole_item(stage: Path, task: ForeignTask, histories: Histories) -> dict[str, Any]:
    """The task's history item, with what it lacks found in the histories.

    Lists of tasks, their folders and the protocol of older tasks depend on it.
    """
    event = adoption_record(stage, task.id, histories).event
    assert isinstance(event, TaskAdopted)
    found = {
        "number": 1,
        "ts": event.rows[-1]["ts"],
        "task": text_of(event.rows[0], "text").strip(),
        **item_usage(event.rows),
        "workspace": event.workspace,
        "mode": event.mode,
        "toolProtocol": event.protocol.value,
    }
    told = {name: value for name, value in task.item.items() if value not in (None, "")}
    if is_finished(event.rows) and told.get("status") != "delegated":
        told["status"] = "completed"  # Roo itself says so of subtasks alone
    return {**found, **told, "id": task.id}


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.encode(value))
    path.chmod(FILE_MODE)


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0
