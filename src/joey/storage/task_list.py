"""List of tasks, from one small file per directory.

A directory without our metadata is described by the best that can be had quickly: Roo's history
item, the beginning of the journal, the beginning of the UI history. Only the beginnings are read,
so that thousands of tasks are listed in the blink of an eye.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core.events import Record, TaskCreated, TaskImported, TaskStarted, UserMessage
from joey.core.history.state import extract_title
from joey.core.settings import ModelRoute
from joey.core.task import TaskState
from joey.errors import StoreError
from joey.ports import TaskMetadata
from joey.storage.journal import decode_journal
from joey.storage.roo_files import (
    family_of,
    is_finished,
    read_object,
    text_in,
    text_of,
    whole_number,
)
from joey.storage.task_directory import (
    HISTORY_ITEM_FILE,
    JOURNAL_FILE,
    METADATA_FILE,
    TASK_DIRECTORY_PREFIX,
    UI_HISTORY_FILE,
    clean_id,
    has_history,
)
from joey.system.files import read_regular

_log = logging.getLogger(__name__)
_metadata = msgspec.json.Decoder(TaskMetadata)
_HEAD_BYTES = 64 * 1024


class TaskSummary(Struct, frozen=True):
    metadata: TaskMetadata
    own: bool
    """It is what a joey wrote for the list, and not put together from other files."""


def list_ids(tasks: Path) -> tuple[str, ...]:
    """Ids by the names of the folders alone."""
    named = (clean_id(name) for name in _list_directories(tasks))
    return tuple(dict.fromkeys(task_id for task_id in named if task_id is not None))


def list_tasks(tasks: Path) -> tuple[TaskMetadata, ...]:
    """Every task in the folder, the most recently changed first; whatever else is there is passed
    over."""
    directories = _list_directories(tasks)
    found: dict[str, TaskMetadata] = {}
    # Where both spellings of a folder exist, the prefixed one is the one that would be opened.
    for name in sorted(directories, key=lambda name: name.startswith(TASK_DIRECTORY_PREFIX)):
        if (described := describe(name, directories[name])) is not None:
            found[described.metadata.id] = described.metadata
    return newest_first(found.values())


def _list_directories(tasks: Path) -> dict[str, str]:
    try:
        with os.scandir(tasks) as entries:
            return {entry.name: entry.path for entry in entries}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"could not list the tasks in {tasks}: {error.strerror}") from error


def newest_first(tasks: Iterable[TaskMetadata]) -> tuple[TaskMetadata, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.updated, task.id), reverse=True))


def metadata_of_records(task_id: str, records: Iterable[Record]) -> TaskMetadata:
    """What the first records tell about a task that has no snapshot yet."""
    metadata = TaskMetadata(id=task_id)
    for record in records:
        match record.event:
            case TaskCreated() as event:
                metadata = structs.replace(
                    metadata,
                    workspace=event.workspace,
                    mode=event.mode,
                    protocol=event.protocol.value,
                    profile=event.profile,
                    model=event.model,
                    parent_id=event.parent_id,
                    created=event.ts,
                )
            case TaskImported() as event:
                title = str(event.rows[0].get("text") or "").strip() if event.rows else ""
                metadata = structs.replace(
                    metadata,
                    title=title,
                    workspace=event.workspace,
                    mode=event.mode,
                    protocol=event.protocol.value,
                    status=_status_of(event.rows).value,
                    parent_id=event.parent_id,
                    child_ids=event.child_ids,
                    created=event.ts,
                )
            case TaskStarted(route=ModelRoute() as route):
                metadata = structs.replace(
                    metadata,
                    profile=route.profile,
                    provider=route.provider,
                    base_url=route.base_url,
                    model=route.model,
                    has_own_key=route.has_own_key,
                )
            case UserMessage(is_first=True) as event:
                metadata = structs.replace(metadata, title=extract_title(event.text))
        metadata = structs.replace(metadata, updated=record.event.ts)
    return metadata


def _status_of(rows: Sequence[dict[str, Any]]) -> TaskState:
    return TaskState.COMPLETED if is_finished(rows) else TaskState.ABORTED


def parse_task_id(name: str) -> str | None:
    """The id of the task in a folder of this name; None when there can be no task in it."""
    return None if name.startswith("_") else clean_id(name)


def describe(name: str, path: str) -> TaskSummary | None:
    """What the folder tells about its task; None when it holds none."""
    task_id = parse_task_id(name)
    if task_id is None:
        return None
    directory = Path(path)
    try:
        data = read_regular(f"{path}/{METADATA_FILE}")
        if data is not None and (known := _decode_metadata(data)) is not None:
            own = known if known.id == task_id else structs.replace(known, id=task_id)
            return TaskSummary(own, own=True)
        metadata = _from_contents(directory, task_id) if has_history(directory) else None
    except OSError as error:
        _log.warning("the task folder %s cannot be read: %s", directory, error)
        return None
    return None if metadata is None else TaskSummary(metadata, own=False)


def _decode_metadata(data: bytes) -> TaskMetadata | None:
    """None for Roo's file of the same name, which only tracks files in context."""
    try:
        return _metadata.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _from_contents(directory: Path, task_id: str) -> TaskMetadata | None:
    if item := read_object(directory / HISTORY_ITEM_FILE):
        return _from_history_item(task_id, item)
    if (head := read_regular(directory / JOURNAL_FILE, _HEAD_BYTES)) is not None:
        return _from_journal(directory, task_id, head)
    first = _first_row(read_regular(directory / UI_HISTORY_FILE, _HEAD_BYTES) or b"")
    changed = int(directory.stat().st_mtime * 1000)
    return TaskMetadata(
        id=task_id,
        title=text_of(first, "text").strip().encode("utf-8", "replace").decode("utf-8"),
        status=TaskState.ABORTED.value,
        created=whole_number(first.get("ts")) or changed,
        updated=changed,
    )


def _from_journal(directory: Path, task_id: str, head: bytes) -> TaskMetadata | None:
    try:
        records, _ = decode_journal(head)
    except StoreError as error:
        _log.warning("%s: %s", directory, error)
        records = []
    metadata = metadata_of_records(task_id, records)
    changed = int((directory / JOURNAL_FILE).stat().st_mtime * 1000)
    return structs.replace(metadata, updated=max(metadata.updated, changed)) if head else None


def _from_history_item(task_id: str, item: dict[str, Any]) -> TaskMetadata:
    status = text_of(item, "status")
    at_rest = status if status in ("completed", "delegated") else TaskState.ABORTED.value
    (parent_id, child_ids), cost = family_of(item), item.get("totalCost")
    return TaskMetadata(
        id=task_id,
        title=text_of(item, "task").strip(),
        workspace=text_of(item, "workspace"),
        mode=text_of(item, "mode"),
        protocol=text_of(item, "toolProtocol"),
        profile=text_of(item, "apiConfigName") or "default",
        parent_id=parent_id,
        child_ids=child_ids,
        status=at_rest,
        created=whole_number(item.get("ts")) or 0,
        updated=whole_number(item.get("ts")) or 0,
        tokens_in=whole_number(item.get("tokensIn")) or 0,
        tokens_out=whole_number(item.get("tokensOut")) or 0,
        cache_writes=whole_number(item.get("cacheWrites")) or 0,
        cache_reads=whole_number(item.get("cacheReads")) or 0,
        total_cost=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _first_row(head: bytes) -> dict[str, Any]:
    """The first element of a JSON array of which only the beginning is at hand."""
    text = text_in(head, "ignore").lstrip().removeprefix("[").lstrip()
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
