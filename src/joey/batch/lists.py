"""Lists in the tables: which items are new, changed or missing, and which are queued.

Running the command again does what is missing: items that were never driven, errors (as the next
attempt), and what was stopped by the budget or by the user (in the same attempt). An item that
reached its own limit continues only when it is marked, then with the limits of that run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from joey import __version__
from joey.batch.items import Item
from joey.batch.progress import (
    ANEW_MARK,
    CANCEL_MARK,
    RETRY_MARK,
    build_run_id,
    queue_next_attempt,
    queue_run,
)
from joey.batch.result_lines import build_stopped_line
from joey.batch.results import CONTINUED_STATUSES, ENDED_STATUSES, ItemStatus
from joey.batch.store import BatchStore, build_task_id, generate_batch_id
from joey.batch.tables import BatchOptions, ItemRow
from joey.errors import UserError
from joey.system.files import replace_file

_CHUNK_ITEMS = 500


class QueuedList(Struct, frozen=True):
    """The effect of queueing a list."""

    batch_id: str
    selected: tuple[str, ...]
    queued: int
    missing: tuple[str, ...]
    changed: tuple[str, ...]


class UnknownItemError(UserError):
    """There is no such item in the batch."""


def queue_list(
    store: BatchStore, items: Sequence[Item], selected: Sequence[Item], options: BatchOptions
) -> QueuedList:
    """Record a list and queue its selected items that need work; if killed in between, the same
    command completes it. The database is not locked for the whole of a long list."""
    tables = store.tables
    with tables.begin() as connection:
        found = store.find_batch_id()
        batch_id = found or generate_batch_id()
        tables.lock_batch(connection, batch_id)
        is_new = tables.load_batch(batch_id) is None
        _save_batch(store, connection, batch_id, options, is_new=is_new)
        known = {row.id: row for row in tables.load_items(batch_id)}
        by_id = {item.id: item for item in items}
        missing = tuple(id for id in known if id not in by_id)
        changed = tuple(id for id, row in known.items() if _is_changed(row, by_id.get(id)))
        _mark_differences(store, connection, batch_id, missing, changed)
        _forget_failures(store, connection, batch_id)
    widths = (worker.width for worker in tables.load_workers())
    store.queue.register(batch_id, options, max((options.width, *widths)))
    queued = 0
    for start in range(0, len(selected), _CHUNK_ITEMS):
        queued += _queue_chunk(store, batch_id, selected[start : start + _CHUNK_ITEMS])
    if known:
        _queue_lost_runs(store, batch_id)
    _write_description(store, batch_id, options)
    ids = tuple(item.id for item in selected)
    changed = tuple(id for id in changed if known[id].mark != ANEW_MARK)
    return QueuedList(batch_id, ids, queued, missing, changed)


def find_needed(store: BatchStore, selected: Sequence[Item]) -> list[Item]:
    """Return the items that would be queued now."""
    rows = {row.id: row for row in store.tables.load_items(store.load_batch().id)}
    return [item for item in selected if _find_need(rows.get(item.id)) is not _Need.NOTHING]


def _queue_chunk(store: BatchStore, batch_id: str, items: Sequence[Item]) -> int:
    tables, queued = store.tables, 0
    with tables.begin() as connection:
        tables.lock_batch(connection, batch_id)
        known = {row.id: row for row in tables.load_items(batch_id)}
        place = max((row.place for row in known.values()), default=0)
        for item in items:
            row = known.get(item.id)
            if row is None:
                place += 1
                row = _insert_item(store, connection, batch_id, item, place)
            queued += _queue_if_needed(store, connection, row, item)
        connection.execute(
            tables.sql(
                """update joey.batch set items =
                   (select count(*) from joey.item where batch_id = :id) where id = :id"""
            ),
            {"id": batch_id},
        )
    return queued


def _forget_failures(store: BatchStore, connection: sa.Connection, batch_id: str) -> None:
    """Reset the count of attempts, which is per run of the command."""
    connection.execute(
        store.tables.sql(
            """update joey.item set failures = 0 where batch_id = :batch and status = :waiting"""
        ),
        {"batch": batch_id, "waiting": ItemStatus.WAITING},
    )


def _queue_lost_runs(store: BatchStore, batch_id: str) -> None:
    """Requeue items whose run ended without a result."""
    unfinished = (ItemStatus.WAITING, ItemStatus.RUNNING)
    with store.tables.begin() as connection:
        store.tables.lock_batch(connection, batch_id)
        runs = store.queue.list_unfinished(batch_id)
        for row in store.tables.load_items(batch_id):
            if row.status in unfinished and build_run_id(batch_id, row.id, row.runs) not in runs:
                queue_run(store, connection, row)


def _is_changed(row: ItemRow, item: Item | None) -> bool:
    return item is not None and row.hash != item.digest


def _save_batch(
    store: BatchStore,
    connection: sa.Connection,
    batch_id: str,
    options: BatchOptions,
    *,
    is_new: bool,
) -> None:
    # By the database's clock: this host's may be wrong.
    deadline = f"{store.tables.clock} + cast(:seconds as double precision)"
    statement = f"""update joey.batch
        set options = :options, budget = :budget, deadline = {deadline} where id = :id"""
    if is_new:
        statement = f"""insert into joey.batch (id, options, items, budget, deadline, state)
            values (:id, :options, 0, :budget, {deadline}, 'open')"""
    connection.execute(
        store.tables.sql(statement),
        {
            "id": batch_id,
            "options": msgspec.json.encode(options).decode(),
            "budget": options.total_cost,
            "seconds": options.total_seconds,
        },
    )


def _mark_differences(
    store: BatchStore,
    connection: sa.Connection,
    batch_id: str,
    missing: Collection[str],
    changed: Collection[str],
) -> None:
    sql = store.tables.sql
    reset = "update joey.item set listed = 1, changed = 0 where batch_id = :batch"
    connection.execute(sql(reset), {"batch": batch_id})
    for column, value, ids in (("listed", 0, missing), ("changed", 1, changed)):
        if ids:
            connection.execute(
                sql(
                    f"update joey.item set {column} = {value} where batch_id = :batch and id = :id"
                ),
                [{"batch": batch_id, "id": id} for id in ids],
            )


def _insert_item(
    store: BatchStore, connection: sa.Connection, batch_id: str, item: Item, place: int
) -> ItemRow:
    row = ItemRow(
        batch_id=batch_id,
        id=item.id,
        place=place,
        hash=item.digest,
        spec=msgspec.json.encode(item).decode(),
        attempt=1,
        task_id=build_task_id(batch_id, item.id, 1),
        status=ItemStatus.WAITING,
        result=None,
        runs=0,
        deaths=0,
        alone=0,
        failures=0,
        mark="",
        listed=1,
        changed=0,
        worker=None,
        cost=0.0,
        earlier_cost=0.0,
        started=None,
    )
    names = ", ".join(ItemRow.__struct_fields__)
    values = ", ".join(f":{name}" for name in ItemRow.__struct_fields__)
    connection.execute(
        store.tables.sql(f"insert into joey.item ({names}) values ({values})"),
        msgspec.structs.asdict(row),
    )
    return row


class _Need(Enum):
    """The work that an item of a list needs."""

    NOTHING = auto()
    RUN = auto()
    """In its current attempt."""
    NEXT_ATTEMPT = auto()


def _find_need(row: ItemRow | None) -> _Need:
    if row is None:
        return _Need.RUN
    is_marked = row.mark in (RETRY_MARK, ANEW_MARK)
    is_over = row.status in (ItemStatus.DONE, ItemStatus.FAILED)
    if row.mark == ANEW_MARK or row.status is ItemStatus.ERROR or (is_marked and is_over):
        return _Need.NEXT_ATTEMPT
    if row.runs == 0 or is_marked or row.status in CONTINUED_STATUSES:
        return _Need.RUN
    return _Need.NOTHING


def _queue_if_needed(
    store: BatchStore, connection: sa.Connection, row: ItemRow, item: Item
) -> bool:
    need = _find_need(row)
    if need is _Need.NEXT_ATTEMPT:
        used = item if row.mark == ANEW_MARK else row.item
        queue_next_attempt(store, connection, row, used)
    elif need is _Need.RUN:
        connection.execute(
            store.tables.sql(
                """update joey.item set failures = 0, deaths = 0
                   where batch_id = :batch and id = :id"""
            ),
            {"batch": row.batch_id, "id": row.id},
        )
        queue_run(store, connection, row)
    return need is not _Need.NOTHING


def _write_description(store: BatchStore, batch_id: str, options: BatchOptions) -> None:
    document = {
        "batch": batch_id,
        "joey": __version__,
        "options": options,
        "items": {row.id: row.hash for row in store.tables.load_items(batch_id)},
    }
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    replace_file(store.out.description, encoded + b"\n")


def mark_for_retry(
    store: BatchStore, ids: Sequence[str], statuses: Collection[ItemStatus], *, anew: bool
) -> list[str]:
    """Mark finished items for a retry, by id or by status; return their ids. Raises
    UnknownItemError."""
    batch_id = store.load_batch().id
    rows = select_rows(store, batch_id, ids)
    ended = [row for row in rows if row.status in ENDED_STATUSES]
    chosen = ended if ids else [row for row in ended if row.status in statuses]
    with store.tables.begin() as connection:
        for row in chosen:
            connection.execute(
                store.tables.sql(
                    "update joey.item set mark = :mark where batch_id = :batch and id = :id"
                ),
                {"mark": ANEW_MARK if anew else RETRY_MARK, "batch": batch_id, "id": row.id},
            )
    return [row.id for row in chosen]


def cancel_items(store: BatchStore, ids: Sequence[str], *, stop_running: bool) -> list[str]:
    """Cancel waiting items, and with `stop_running` running ones too; return their ids. Raises
    UnknownItemError."""
    batch_id = store.load_batch().id
    cancelled: list[str] = []
    for row in select_rows(store, batch_id, ids):
        is_cancelled = False
        if row.status is ItemStatus.WAITING:
            is_cancelled = _cancel_waiting(store, row)
        if row.status in (ItemStatus.WAITING, ItemStatus.RUNNING) and stop_running:
            is_cancelled = is_cancelled or _mark_running(store, row)
        cancelled += [row.id] * is_cancelled
    return cancelled


def _mark_running(store: BatchStore, row: ItemRow) -> bool:
    return (
        store.tables.change(
            """update joey.item set mark = :mark where batch_id = :batch and id = :id
           and status in (:running, :waiting)""",
            mark=CANCEL_MARK,
            batch=row.batch_id,
            id=row.id,
            running=ItemStatus.RUNNING,
            waiting=ItemStatus.WAITING,
        )
        > 0
    )


def _cancel_waiting(store: BatchStore, row: ItemRow) -> bool:
    """Write the item's result line while no worker can start it; if killed in between, the item
    still waits."""
    line = build_stopped_line(store, row, ItemStatus.CANCELLED)
    with store.tables.begin() as connection:
        changed = connection.execute(
            store.tables.sql(
                """update joey.item set status = :status, result = :result, mark = ''
                   where batch_id = :batch and id = :id and runs = :runs and status = :waiting"""
            ),
            {
                "status": ItemStatus.CANCELLED,
                "result": msgspec.json.encode(line).decode(),
                "batch": row.batch_id,
                "id": row.id,
                "runs": row.runs,
                "waiting": ItemStatus.WAITING,
            },
        ).rowcount
        if changed:
            store.results.append(line)
            store.results.record(connection, row, line)
    return bool(changed)


def select_rows(store: BatchStore, batch_id: str, ids: Sequence[str]) -> list[ItemRow]:
    """Return the rows of these items, or all. Raises UnknownItemError."""
    rows = store.tables.load_items(batch_id)
    if not ids:
        return rows
    known = {row.id: row for row in rows}
    if unknown := [id for id in ids if id not in known]:
        raise UnknownItemError(f"The batch has no item {unknown[0]!r}.")
    return [known[id] for id in ids]
