"""Artifacts of attempts in the tables of a cluster: patches, and the output of checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from joey.batch.results import ResultLine
from joey.batch.store import BatchStore
from joey.batch.tables import ItemRow, Tables

PATCH_ARTIFACT, CHECK_ARTIFACT = "patch", "check"
_PART_BYTES = 1024 * 1024


def save_files(store: BatchStore, row: ItemRow, line: ResultLine) -> None:
    """Store the patch and the check's output where the output directory can copy them from."""
    files = store.locate_files(row.batch_id)
    if line.patch is not None:
        save_artifact(store.tables, row.task_id or "", PATCH_ARTIFACT, files.get_patch(row.id))
    if line.check is not None:
        save_artifact(store.tables, row.task_id or "", CHECK_ARTIFACT, files.get_check(row.id))


def save_artifact(tables: Tables, task_id: str, name: str, file: Path) -> None:
    """Store a file with a task, if it exists, for the attempt that is about to end."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return
    with tables.begin() as connection:
        connection.execute(
            sa.text("delete from joey.artifact where task_id = :task and name = :name"),
            {"task": task_id, "name": name},
        )
        for number, part in enumerate(_split(data)):
            connection.execute(
                sa.text("insert into joey.artifact values (:task, :name, :part, :data)"),
                {"task": task_id, "name": name, "part": number, "data": part},
            )


def read_artifact(tables: Tables, task_id: str, name: str) -> bytes:
    rows = tables.query(
        "select data from joey.artifact where task_id = :task and name = :name order by part",
        task=task_id,
        name=name,
    )
    return b"".join(bytes(row[0]) for row in rows)


def _split(data: bytes) -> Iterator[bytes]:
    for start in range(0, max(len(data), 1), _PART_BYTES):
        yield data[start : start + _PART_BYTES]
