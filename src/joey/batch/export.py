"""Exports of results: predictions of SWE-bench, result lines, patches."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from joey.app.known_secrets import collect_all_secrets
from joey.app.task_exchange import write_roo_directory
from joey.batch.store import BatchStore
from joey.batch.tables import ItemRow
from joey.core.events import TaskStarted
from joey.errors import TaskNotFoundError


def export_results(store: BatchStore, export_format: str, to: Path) -> int:
    """Write the results of a batch in another program's format; return how many. Raises OSError."""
    rows = [row for row in store.tables.load_items(store.load_batch().id) if row.line is not None]
    if export_format == "patches":
        to.mkdir(parents=True, exist_ok=True)
        patches = [patch for row in rows if (patch := _find_patch(store, row)) is not None]
        for patch in patches:
            shutil.copyfile(patch, to / patch.name)
        return len(patches)
    if export_format == "roo":
        return _export_tasks(store, rows, to)
    if export_format == "jsonl":
        data = b"".join(msgspec.json.encode(row.line) + b"\n" for row in rows)
    else:
        data = msgspec.json.encode({row.id: _build_prediction(store, row) for row in rows})
    to.write_bytes(data)
    return len(rows)


def _export_tasks(store: BatchStore, rows: Sequence[ItemRow], to: Path) -> int:
    """Export a directory per task of the latest attempts that Roo Code can open; secrets are
    masked."""
    redact = collect_all_secrets().redact
    ids = {row.task_id for row in rows}
    tasks = [task for task in store.tasks.list_tasks() if task.id in ids]
    for task in tasks:
        records = store.tasks.read_records(task.id)
        write_roo_directory(task, records, to, force=True, redactor=redact)
    return len(tasks)


def _build_prediction(store: BatchStore, row: ItemRow) -> dict[str, str]:
    patch = _find_patch(store, row)
    return {
        "instance_id": row.id,
        "model_name_or_path": _find_model(store, row),
        "model_patch": "" if patch is None else patch.read_text("utf-8", errors="replace"),
    }


def _find_patch(store: BatchStore, row: ItemRow) -> Path | None:
    """That of the attempt whose line counts: the file may be left from an earlier one."""
    file = store.out.get_patch(row.id)
    has_patch = row.line is not None and row.line.patch is not None
    return file if has_patch and file.exists() else None


def _find_model(store: BatchStore, row: ItemRow) -> str:
    """Return the last model that the item's task worked with."""
    with suppress(TaskNotFoundError):
        for record in reversed(store.tasks.read_records(row.task_id or "")):
            if isinstance(record.event, TaskStarted) and record.event.route is not None:
                return record.event.route.model
    return "unknown"
