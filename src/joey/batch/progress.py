"""Progress of items in the tables: started, ended, tried again, queued.

An attempt's result line is written before the row of its item changes. If a worker dies in between,
the item is driven again, its journal shows that it has ended, and the line is not written twice.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from msgspec import structs

from joey.batch.items import Item
from joey.batch.results import ItemStatus, ResultLine
from joey.batch.store import BatchStore, build_task_id
from joey.batch.tables import BatchOptions, ItemRow

RETRY_MARK, ANEW_MARK, CANCEL_MARK = "retry", "anew", "cancel"
WORKSPACE_LOST_CODE = "workspace_lost"
"""The attempt began on another host, whose files are not available here."""
_RANKED_PLACES = 20_000
"""Times the highest priority of an item: within the range of the queue's priorities."""
_WHERE = "where batch_id = :batch and id = :id"


def start_item(store: BatchStore, row: ItemRow, worker_id: str) -> ItemRow | None:
    """Note that an item is driven; None if this run of it has ended."""
    changed = store.tables.change(
        f"""update joey.item set status = :running, worker = :worker,
            started = coalesce(started, {store.tables.clock}) {_WHERE}
            and runs = :runs and status in (:running, :waiting)
            and exists (select 1 from joey.worker w where w.id = :worker)""",
        batch=row.batch_id,
        id=row.id,
        runs=row.runs,
        worker=worker_id,
        running=ItemStatus.RUNNING,
        waiting=ItemStatus.WAITING,
    )
    return store.tables.load_item(row.batch_id, row.id) if changed else None


def finish_attempt(
    store: BatchStore, row: ItemRow, line: ResultLine, options: BatchOptions, *, is_last: bool
) -> ItemStatus:
    """Record the end of an attempt, and queue the next one if the error may be retried."""
    line = store.results.append(line)
    values = {"batch": row.batch_id, "id": row.id, "runs": row.runs}
    store.tables.record_cost(row.batch_id, row.id, row.attempt, line.cost)
    is_lost = line.code == WORKSPACE_LOST_CODE
    failures = row.failures + (line.status is ItemStatus.ERROR and not is_lost)
    is_retried = line.status is ItemStatus.ERROR and failures < options.attempts and not is_last
    with store.tables.begin() as connection:
        mark = connection.execute(
            store.tables.sql(f"select mark from joey.item {_WHERE}"), values
        ).scalar()
        changed = connection.execute(
            store.tables.sql(
                f"""update joey.item set status = :status, result = :result, worker = null,
                    failures = :failures, mark = '' {_WHERE} and runs = :runs"""
            ),
            {
                **values,
                "status": line.status,
                "result": msgspec.json.encode(line).decode(),
                "failures": failures,
            },
        ).rowcount
        if changed:
            store.results.record(connection, row, line)
        if changed and is_retried and mark != CANCEL_MARK:
            queue_next_attempt(
                store, connection, row, row.item, failures=failures, keeps_deaths=is_lost
            )
    return line.status


def queue_next_attempt(
    store: BatchStore,
    connection: sa.Connection,
    row: ItemRow,
    item: Item,
    *,
    failures: int = 0,
    keeps_deaths: bool = False,
) -> None:
    """Queue a new attempt from the beginning; the files of earlier ones are kept."""
    attempt = row.attempt + 1
    connection.execute(
        store.tables.sql(
            f"""update joey.item set attempt = :attempt, task_id = :task, failures = :failures,
                spec = :spec, hash = :hash, changed = 0, started = null, alone = :alone,
                deaths = :deaths,
                earlier_cost = earlier_cost + cost, cost = 0 {_WHERE}"""
        ),
        {
            "batch": row.batch_id,
            "id": row.id,
            "attempt": attempt,
            "task": build_task_id(row.batch_id, row.id, attempt),
            "failures": failures,
            "alone": row.alone if keeps_deaths else 0,
            "deaths": row.deaths if keeps_deaths else 0,
            "spec": msgspec.json.encode(item).decode(),
            "hash": item.digest,
        },
    )
    queue_run(store, connection, structs.replace(row, spec=msgspec.json.encode(item).decode()))


def queue_run(store: BatchStore, connection: sa.Connection, row: ItemRow) -> None:
    """Queue an item once more: its first run, or a later run of the same or the next attempt."""
    run = row.runs + 1
    connection.execute(
        store.tables.sql(
            f"""update joey.item set status = :waiting, runs = :run, worker = null, mark = ''
                {_WHERE}"""
        ),
        {"batch": row.batch_id, "id": row.id, "run": run, "waiting": ItemStatus.WAITING},
    )
    item = row.item
    store.queue.enqueue(
        connection,
        row.batch_id,
        row.id,
        run,
        workflow_id=build_run_id(row.batch_id, row.id, run),
        priority=_build_rank(row, item),
        group=item.group or item.repo or item.id,
    )


def _build_rank(row: ItemRow, item: Item) -> int:
    """Build the queue order: by priority, then by position in the list. The queue itself orders by
    milliseconds. Later runs of an item come after the first runs of others."""
    place = row.place if row.runs == 0 else _RANKED_PLACES
    return item.priority * _RANKED_PLACES + min(place, _RANKED_PLACES - 1)


def build_run_id(batch_id: str, item_id: str, run: int) -> str:
    """Build the name of a run in the queue, so that queued twice it is driven once."""
    return f"{build_task_id(batch_id, item_id, 0)}.{run}"
