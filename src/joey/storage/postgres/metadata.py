"""Metadata of tasks in Postgres: from their latest snapshot, or from their first records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from joey.ports.storage import TaskMetadata
from joey.storage.journal import decode_journal
from joey.storage.postgres.connection import SharedConnection
from joey.storage.task_list import build_metadata_from_records

_HEAD_RECORDS = 16
UPDATED_MS = (
    "coalesce((t.metadata ->> 'updated')::bigint, (extract(epoch from t.updated) * 1000)::bigint)"
)
_decoder = msgspec.json.Decoder(TaskMetadata)


def fetch_metadata(
    connection: SharedConnection, conditions: str = "true", values: Sequence[Any] = ()
) -> list[TaskMetadata]:
    """Fetch the metadata of tasks `t` that match the SQL, in its order. Raises StoreError."""
    rows = connection.fetch(
        f"select t.id, t.metadata::text from joey.task t where {conditions}", values
    )
    heads = _fetch_heads(connection, [row[0] for row in rows if row[1] is None])
    found: list[TaskMetadata] = []
    for task_id, encoded in rows:
        if encoded is not None:
            found.append(structs.replace(_decoder.decode(encoded), id=task_id))
        elif task_id in heads:
            records = decode_journal(heads[task_id])[0]
            found.append(build_metadata_from_records(task_id, records))
    return found


def _fetch_heads(connection: SharedConnection, ids: list[str]) -> dict[str, bytes]:
    if not ids:
        return {}
    rows = connection.fetch(
        """select r.task_id, r.line from joey.record r
           where r.task_id = any(%s) and r.seq <= %s order by r.task_id, r.seq""",
        (ids, _HEAD_RECORDS),
    )
    heads: dict[str, bytes] = {}
    for task_id, line in rows:
        heads[task_id] = heads.get(task_id, b"") + bytes(line) + b"\n"
    return heads


def encode_metadata(metadata: TaskMetadata) -> str:
    """Encode metadata as `jsonb`, which does not allow NUL."""
    encoded = msgspec.json.encode(metadata)
    if b"\\u0000" in encoded:
        values = msgspec.to_builtins(metadata)
        clean = {
            name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
            for name, value in values.items()
        }
        encoded = msgspec.json.encode(clean)
    return encoded.decode()
