"""Results in the tables of a cluster, and their copy in the output directory.

A worker adds the line of an attempt, its patch and the output of its check in the transaction that
ends the attempt; it fails if another worker drives the item by now. Lines of a batch are numbered
without gaps; commands with an output directory append missing lines to its files.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import sqlalchemy as sa

from joey.batch.artifacts import CHECK_ARTIFACT, PATCH_ARTIFACT, read_artifact
from joey.batch.results import ResultLine, ResultsFile, locate_check, locate_patch
from joey.batch.tables import ItemRow, Tables
from joey.system.files import make_private_directory, replace_file, translate_storage_errors
from joey.system.locks import lock_directory

_FETCHED_LINES = 500


class SharedResults(ResultsFile):
    """Results of one batch in its output directory, or of all batches for a worker."""

    def __init__(self, tables: Tables, out: Path | None, batch_id: str | None) -> None:
        """`out` is the directory of the copy; None for a worker, which needs none."""
        super().__init__((out or Path()) / "results.jsonl")
        self._tables, self._out, self._batch_id = tables, out, batch_id

    def refresh(self) -> None:
        """Copy new lines. Raises StoreError."""
        out = self._out
        if out is None or self._batch_id is None:
            return
        with (
            translate_storage_errors("could not write results.jsonl", out),
            self._lock,
            lock_directory(out),
        ):
            super().refresh()
            while missing := self._fetch_missing():
                for line in missing:
                    self._copy_artifacts(out, line)
                    self._write(line)
                    super().refresh()

    def append(self, line: ResultLine) -> ResultLine:
        """Do nothing: `record` adds the line."""
        return line

    def record(self, connection: sa.Connection, row: ItemRow, line: ResultLine) -> None:
        values = {"batch": row.batch_id, "item": row.id}
        lock = "select 1 from joey.batch where id = :batch for update"
        connection.execute(sa.text(lock), values)
        earlier = connection.execute(
            sa.text(
                """select line from joey.result where batch_id = :batch and item = :item
                   order by n desc limit 1"""
            ),
            values,
        ).scalar()
        if earlier is not None and line.repeats(msgspec.json.decode(earlier, type=ResultLine)):
            return
        connection.execute(
            sa.text(
                """insert into joey.result (batch_id, n, item, line)
                   select :batch, coalesce(max(n), 0) + 1, :item, :line
                   from joey.result where batch_id = :batch"""
            ),
            {**values, "line": msgspec.json.encode(line).decode()},
        )

    def _fetch_missing(self) -> list[ResultLine]:
        rows = self._tables.query(
            """select line from joey.result where batch_id = :batch and n > :count
               order by n limit :most""",
            batch=self._batch_id,
            count=len(self.lines),
            most=_FETCHED_LINES,
        )
        return [msgspec.json.decode(row[0], type=ResultLine) for row in rows]

    def _copy_artifacts(self, out: Path, line: ResultLine) -> None:
        wanted = []
        if line.patch is not None:
            wanted.append((PATCH_ARTIFACT, locate_patch(out, line.item)))
        if line.check is not None:
            wanted.append((CHECK_ARTIFACT, locate_check(out, line.item)))
        for name, file in wanted:
            make_private_directory(file.parent)
            replace_file(file, read_artifact(self._tables, line.task_id or "", name))
