"""A task as a folder that Roo Code reads, and that joey imports again.

What is written is what an import would make of it: loose ends are off, and what a configuration
would not tell either (keys, tokens, passwords in addresses) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from joey.core.events import Record, TaskCreated
from joey.core.history.api import ApiHistory
from joey.core.history.path import live_path
from joey.core.history.ui import UiHistory
from joey.core.protocol import ToolProtocol
from joey.core.secrets import blotted, without_secrets
from joey.errors import StoreError
from joey.ports import TaskMetadata
from joey.stores.layout import API, HISTORY_ITEM, METADATA, UI
from joey.stores.roo_rows import convert_rows
from joey.stores.roo_usage import item_usage
from joey.system.files import make_folder, replace_files, storage_error


def write_roo_folder(
    task: TaskMetadata,
    records: Sequence[Record],
    parent: Path,
    *,
    force: bool = False,
    blot: Callable[[str], str] = blotted,
) -> Path:
    """Write `<parent>/<id>/` with the four files of a task of Roo's; where it is. `blot` takes
    secrets out of what was said.

    Raises:
        StoreError: there is something of that name, or it cannot be written.
    """
    folder = parent / task.id
    files = roo_files(task, records, blot)
    try:
        if folder.exists() and not force and any(folder.iterdir()):
            raise StoreError(f"{folder} is there already. Use --force to replace its files.")
        make_folder(folder)
    except OSError as error:
        raise storage_error(f"could not export task {task.id}", folder, error) from error
    replace_files(folder, files)
    return folder


def roo_files(
    task: TaskMetadata, records: Sequence[Record], blot: Callable[[str], str] = blotted
) -> dict[str, bytes]:
    """The files of a task, by name.

    Raises:
        StoreError: the task has no rows yet.
    """
    rows, messages = _histories(records, blot)
    if not rows:
        raise StoreError(f"task {task.id} is empty: there is nothing to export")
    encode = msgspec.json.encode
    ui, api = encode(rows), encode(messages)
    item = _history_item(task, rows) | {"size": len(ui) + len(api)}
    metadata = {"files_in_context": without_secrets(list(task.files_in_context), blot)}
    return {UI: ui, API: api, METADATA: encode(metadata), HISTORY_ITEM: encode(item)}


def _histories(
    records: Sequence[Record], blot: Callable[[str], str]
) -> tuple[list[dict[str, Any]], list[Any]]:
    first = records[0].event if records else None
    ui = UiHistory()
    api = ApiHistory(first.protocol if isinstance(first, TaskCreated) else ToolProtocol.NATIVE)
    for record in live_path(records):
        ui.apply(record.event)
        api.apply(record.event)
    rows = convert_rows([without_secrets(msgspec.to_builtins(row), blot) for row in ui.rows])
    return rows, [_told(msgspec.to_builtins(message), blot) for message in api.rendered()]


def _told(message: dict[str, Any], blot: Callable[[str], str]) -> dict[str, Any]:
    """A message without secrets. Thinking that had one is no longer what was signed."""
    told: dict[str, Any] = without_secrets(message, blot)
    if isinstance(message["content"], str):
        return told
    for block, original in zip(told["content"], message["content"], strict=True):
        if block["type"] == "thinking" and block != original:
            del block["signature"]
    return told


def _history_item(task: TaskMetadata, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What Roo's list of tasks shows; fields without a value are left out."""
    item = {
        "id": task.id,
        "parentTaskId": task.parent_id,
        "childIds": list(task.child_ids),
        "number": 1,
        "ts": rows[-1]["ts"],
        "task": str(rows[0].get("text") or "").strip(),
        **item_usage(rows),
        "workspace": task.workspace,
        "mode": task.mode,
        "toolProtocol": task.protocol,
        "apiConfigName": task.profile,
    }
    return {name: value for name, value in item.items() if value not in (None, "", [])}
