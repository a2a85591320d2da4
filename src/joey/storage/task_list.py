"""List of tasks, from one small file per directory.

A directory without joey's metadata is described by what can be read quickly: Roo's history item,
the beginning of the journal, the beginning of the UI history. Only the beginnings are read, so that
thousands of tasks can be listed fast.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core.events import (
    ProtocolChanged,
    Record,
    TaskCreated,
    TaskImported,
    TaskStarted,
    UserMessage,
)
from joey.core.history.state import extract_title
from joey.core.settings import ModelRoute
from joey.core.task_types import TaskState
from joey.errors import StoreError
from joey.ports.storage import TaskMetadata
from joey.storage import task_directory as td
from joey.storage.journal import decode_journal
from joey.storage.roo_files import (
    decode_text,
    get_text,
    is_task_finished,
    parse_parent_and_children,
    read_json_object,
    to_integer,
)
from joey.system.files import read_regular_file

_log = logging.getLogger(__name__)
_metadata_decoder = msgspec.json.Decoder(TaskMetadata)
_HEAD_BYTES = 64 * 1024


class TaskSummary(Struct, frozen=True):
    metadata: TaskMetadata
    has_joey_metadata: bool
    """It is what a joey wrote for the list, and not put together from other files."""


def list_task_ids(tasks: Path) -> tuple[str, ...]:
    """List ids from directory names only."""
    named = (td.normalize_task_id(name) for name in _list_directories(tasks))
    return tuple(dict.fromkeys(task_id for task_id in named if task_id is not None))


def list_tasks(tasks: Path) -> tuple[TaskMetadata, ...]:
    """List every task in the directory, the most recently changed first; other entries are
    ignored."""
    directories = _list_directories(tasks)
    found: dict[str, TaskMetadata] = {}
    # Where both spellings of a folder exist, the prefixed one is the one that would be opened.
    for name in sorted(directories, key=lambda name: name.startswith(td.TASK_DIRECTORY_PREFIX)):
        if (described := summarize_task(name, directories[name])) is not None:
            found[described.metadata.id] = described.metadata
    return sort_newest_first(found.values())


def _list_directories(tasks: Path) -> dict[str, str]:
    try:
        with os.scandir(tasks) as entries:
            return {entry.name: entry.path for entry in entries}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"could not list the tasks in {tasks}: {error.strerror}") from error


def sort_newest_first(tasks: Iterable[TaskMetadata]) -> tuple[TaskMetadata, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.updated, task.id), reverse=True))


def build_metadata_from_records(task_id: str, records: Iterable[Record]) -> TaskMetadata:
    """Build metadata of a task without a snapshot from its first records."""
    metadata = TaskMetadata(id=task_id)
    for record in records:
        match record.event:
            case TaskCreated() as event:
                metadata = structs.replace(
                    metadata,
                    workspace=event.workspace,
                    mode=event.mode,
                    tool_protocol=event.tool_protocol.value,
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
                    tool_protocol=event.tool_protocol.value,
                    status=(
                        TaskState.COMPLETED if is_task_finished(event.rows) else TaskState.ABORTED
                    ).value,
                    parent_id=event.parent_id,
                    child_ids=event.child_ids,
                    created=event.ts,
                )
            case ProtocolChanged() as event:
                metadata = structs.replace(metadata, tool_protocol=event.tool_protocol.value)
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


def parse_task_id(name: str) -> str | None:
    """Parse the task id in a directory name; None if it is not one."""
    return None if name.startswith("_") else td.normalize_task_id(name)


def summarize_task(name: str, path: str) -> TaskSummary | None:
    """Summarize the task in a directory; None if it has none."""
    if (task_id := parse_task_id(name)) is None:
        return None
    directory = Path(path)
    try:
        # Roo has a file of the same name, which only tracks files in context.
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            known = _metadata_decoder.decode(read_regular_file(f"{path}/{td.METADATA_FILE}") or b"")
            own = known if known.id == task_id else structs.replace(known, id=task_id)
            return TaskSummary(own, has_joey_metadata=True)
        if not td.has_history(directory):
            return None
        metadata = _read_metadata_from_files(directory, task_id)
    except OSError as error:
        _log.warning("the task folder %s cannot be read: %s", directory, error)
        return None
    return None if metadata is None else TaskSummary(metadata, has_joey_metadata=False)


def _read_metadata_from_files(directory: Path, task_id: str) -> TaskMetadata | None:
    if item := read_json_object(directory / td.HISTORY_ITEM_FILE):
        return _convert_history_item(task_id, item)
    if (head := read_regular_file(directory / td.JOURNAL_FILE, _HEAD_BYTES)) is not None:
        return _read_metadata_from_journal(directory, task_id, head)
    first = _decode_first_row(read_regular_file(directory / td.UI_HISTORY_FILE, _HEAD_BYTES) or b"")
    changed = int(directory.stat().st_mtime * 1000)
    return TaskMetadata(
        id=task_id,
        title=get_text(first, "text").strip().encode("utf-8", "replace").decode("utf-8"),
        status=TaskState.ABORTED.value,
        created=to_integer(first.get("ts")) or changed,
        updated=changed,
    )


def _read_metadata_from_journal(directory: Path, task_id: str, head: bytes) -> TaskMetadata | None:
    try:
        records, _ = decode_journal(head)
    except StoreError as error:
        _log.warning("%s: %s", directory, error)
        records = []
    metadata = build_metadata_from_records(task_id, records)
    changed = int((directory / td.JOURNAL_FILE).stat().st_mtime * 1000)
    return structs.replace(metadata, updated=max(metadata.updated, changed)) if head else None


def _convert_history_item(task_id: str, item: dict[str, Any]) -> TaskMetadata:
    status = get_text(item, "status")
    (parent_id, child_ids), cost = parse_parent_and_children(item), item.get("totalCost")
    return TaskMetadata(
        id=task_id,
        title=get_text(item, "task").strip(),
        workspace=get_text(item, "workspace"),
        mode=get_text(item, "mode"),
        tool_protocol=get_text(item, "toolProtocol"),
        profile=get_text(item, "apiConfigName") or "default",
        parent_id=parent_id,
        child_ids=child_ids,
        status=status if status in ("completed", "delegated") else TaskState.ABORTED.value,
        created=to_integer(item.get("ts")) or 0,
        updated=to_integer(item.get("ts")) or 0,
        tokens_in=to_integer(item.get("tokensIn")) or 0,
        tokens_out=to_integer(item.get("tokensOut")) or 0,
        cache_writes=to_integer(item.get("cacheWrites")) or 0,
        cache_reads=to_integer(item.get("cacheReads")) or 0,
        total_cost=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _decode_first_row(head: bytes) -> dict[str, Any]:
    """Decode the first element of a JSON array from its beginning."""
    text = decode_text(head, "ignore").lstrip().removeprefix("[").lstrip()
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
