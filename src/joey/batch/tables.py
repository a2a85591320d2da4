"""Tables of batches (`joey.*`): batches, items, workers and rate limits, next to the queue.

The SQL is the same for every database. SQLite has no schemas, so a table is called `"joey.item"`
there. All changes are made in transactions, so a process may die at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from joey.batch.database import translate_database_errors
from joey.batch.items import Item
from joey.batch.orders import ORDER_FORMAT, Order
from joey.batch.results import ItemStatus, ResultLine
from joey.core.text import compile_regex
from joey.errors import StoreError

SCHEMA_VERSION = 1
_TABLE_RE = compile_regex(r"\bjoey\.(task|record|worker|batch|item|throttle|schema)\b")
_CREATE = (
    "create table if not exists joey.schema (version int not null)",
    """create table if not exists joey.batch (
        id text primary key, options text not null, items int not null, budget double precision,
        spent double precision not null default 0, deadline double precision,
        state text not null)""",
    """create table if not exists joey.item (
        batch_id text not null, id text not null, place int not null, hash text not null,
        spec text not null, attempt int not null default 1, task_id text, status text not null,
        result text, runs int not null default 0, deaths int not null default 0,
        alone int not null default 0, failures int not null default 0,
        mark text not null default '', listed int not null default 1,
        changed int not null default 0, worker text,
        cost double precision not null default 0,
        earlier_cost double precision not null default 0, started double precision,
        primary key (batch_id, id))""",
    "create index if not exists joey_item_status on joey.item (batch_id, status)",
    """create table if not exists joey.worker (
        id text primary key, host text not null, pid int not null, width int not null,
        version text not null, seen bigint not null default 0)""",
    """create table if not exists joey.throttle (
        service text primary key, until double precision not null)""",
)


class BatchOptions(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Options of a batch: the order, and limits for all items together."""

    order: Order = Order()
    order_format: int = ORDER_FORMAT
    attempts: int = 2
    width: int = 4
    at_once: int | None = None
    group_at_once: int | None = None
    total_cost: float | None = None
    total_seconds: float | None = None
    """Time after queueing at which the batch stops, as if its budget were exhausted."""


class ItemRow(Struct, frozen=True, kw_only=True):
    """A row of `joey.item`."""

    batch_id: str
    id: str
    place: int
    hash: str
    spec: str
    attempt: int
    task_id: str | None
    status: ItemStatus
    result: str | None
    runs: int
    """How often the item was queued."""
    deaths: int
    """How often a process died while running only this item."""
    alone: int
    """A worker died while running this item, so it now runs in a process of its own."""
    failures: int
    """Attempts of the latest run of the command that ended with an error."""
    mark: str
    """The request made by `retry` or `cancel`."""
    listed: int
    changed: int
    """The list now has a different item under this id."""
    worker: str | None
    cost: float
    earlier_cost: float
    started: float | None

    @property
    def item(self) -> Item:
        return msgspec.json.decode(self.spec, type=Item)

    @property
    def line(self) -> ResultLine | None:
        return None if self.result is None else msgspec.json.decode(self.result, type=ResultLine)


class WorkerRow(Struct, frozen=True):
    id: str
    host: str
    pid: int
    width: int
    version: str
    seen: int


class BatchRow(Struct, frozen=True):
    id: str
    options: str
    items: int
    budget: float | None
    spent: float
    state: str

    def decode_options(self) -> BatchOptions:
        return msgspec.json.decode(self.options, type=BatchOptions)


class Tables:
    """The `joey.*` tables of one store."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self.clock = (
            "((julianday('now') - 2440587.5) * 86400.0)"
            if self._is_sqlite
            else "extract(epoch from clock_timestamp())::double precision"
        )
        """SQL for the database's own time, in seconds since 1970."""
        self.throttle_end = (
            "until" if self._is_sqlite else "extract(epoch from until)::double precision"
        )
        """SQL for the end of a rate limit, in seconds since 1970."""

    def build_instant(self, seconds: str) -> str:
        """Return SQL for a time in the format of the columns."""
        return seconds if self._is_sqlite else f"to_timestamp({seconds})"

    def lock_batch(self, connection: sa.Connection, batch_id: str) -> None:
        """Lock the items of a batch until the transaction ends; SQLite does that anyway."""
        if not self._is_sqlite:
            for statement in (
                "select pg_advisory_xact_lock(hashtextextended(:id, 1))",
                "select 1 from joey.item where batch_id = :id order by id for update",
            ):
                connection.execute(sa.text(statement), {"id": batch_id})

    def sql(self, text: str) -> sa.TextClause:
        return sa.text(_TABLE_RE.sub(r'"joey.\1"', text) if self._is_sqlite else text)

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Begin a transaction. Raises StoreError."""
        with translate_database_errors(), self.engine.begin() as connection:
            if self._is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def query(self, text: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a read-only statement. Raises StoreError."""
        with translate_database_errors(), self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(self.sql(text), values)]

    def change(self, text: str, **values: Any) -> int:
        """Run a statement and return the number of changed rows."""
        with self.begin() as connection:
            return connection.execute(self.sql(text), values).rowcount

    def create(self) -> None:
        """Create the tables. Raises StoreError if a newer joey has written them."""
        with self.begin() as connection:
            for statement in _CREATE:
                connection.execute(self.sql(statement))
            found = connection.execute(self.sql("select version from joey.schema")).scalar()
            if found is None:
                connection.execute(
                    self.sql("insert into joey.schema (version) values (:version)"),
                    {"version": SCHEMA_VERSION},
                )
        self.check_version()

    def check_version(self) -> None:
        """Raises StoreError."""
        found = self.query("select version from joey.schema")[0][0]
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"This batch was written by a newer joey (schema {found}, this one knows"
                f" {SCHEMA_VERSION}). Update joey on this machine."
            )

    def load_batch(self, batch_id: str) -> BatchRow | None:
        rows = self.query(
            "select id, options, items, budget, spent, state from joey.batch where id = :id",
            id=batch_id,
        )
        return BatchRow(*rows[0]) if rows else None

    def load_items(self, batch_id: str) -> list[ItemRow]:
        """Load the items in list order."""
        columns = ", ".join(ItemRow.__struct_fields__)
        rows = self.query(
            f"select {columns} from joey.item where batch_id = :batch order by place, id",
            batch=batch_id,
        )
        return [_decode_item(row) for row in rows]

    def load_item(self, batch_id: str, item_id: str) -> ItemRow | None:
        columns = ", ".join(ItemRow.__struct_fields__)
        rows = self.query(
            f"select {columns} from joey.item where batch_id = :batch and id = :id",
            batch=batch_id,
            id=item_id,
        )
        return _decode_item(rows[0]) if rows else None

    def record_cost(self, batch_id: str, item_id: str, attempt: int, cost: float) -> None:
        """Set the cost of the current attempt so far, and update the batch's sum."""
        with self.begin() as connection:
            values = {"batch": batch_id, "id": item_id, "attempt": attempt, "cost": cost}
            where = "where batch_id = :batch and id = :id and attempt = :attempt"
            before = connection.execute(
                self.sql(f"select cost from joey.item {where}"), values
            ).scalar()
            if before is None or before == cost:
                return
            connection.execute(self.sql(f"update joey.item set cost = :cost {where}"), values)
            connection.execute(
                self.sql("update joey.batch set spent = spent + :more where id = :batch"),
                {"batch": batch_id, "more": cost - before},
            )

    def load_workers(self) -> list[WorkerRow]:
        seen = "seen" if self._is_sqlite else "extract(epoch from seen)::bigint"
        rows = self.query(
            f"select id, host, pid, width, version, {seen} from joey.worker"
            " where width > 0 order by id"
        )
        return [WorkerRow(*row) for row in rows]


def _decode_item(row: Sequence[Any]) -> ItemRow:
    values = dict(zip(ItemRow.__struct_fields__, row, strict=True))
    return ItemRow(**{**values, "status": ItemStatus(values["status"])})
