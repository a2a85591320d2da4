"""The status of a batch for programs: counts, cost, workers, differences of the list."""

from __future__ import annotations

from typing import Any

from joey.batch.results import ItemStatus, count_statuses
from joey.batch.store import BatchStore


def build_status(store: BatchStore) -> dict[str, Any]:
    """Build the object of `joey batch status --json`; the counts add up to `items`."""
    batch = store.load_batch()
    rows = store.tables.query(
        "select id, status, worker, listed, changed from joey.item where batch_id = :id",
        id=batch.id,
    )
    running: dict[str, list[str]] = {}
    for item_id, status, worker, _, _ in rows:
        if status == ItemStatus.RUNNING and worker:
            running.setdefault(worker, []).append(item_id)
    return {
        "items": len(rows),
        **count_statuses(ItemStatus(row[1]) for row in rows),
        "cost": batch.spent,
        "workers": [
            {
                "id": worker.id,
                "host": worker.host,
                "pid": worker.pid,
                "width": worker.width,
                "items": running.get(worker.id, []),
            }
            for worker in store.tables.load_workers()
        ],
        "missing": [row[0] for row in rows if not row[3]],
        "changed": [row[0] for row in rows if row[4]],
    }


def find_rate_limits(store: BatchStore) -> dict[str, float]:
    """Return the services that workers avoid for now, with the seconds left."""
    clock, end = store.tables.clock, store.tables.throttle_end
    rows = store.tables.query(
        f"select service, {end} - {clock} from joey.throttle where {end} > {clock}"
    )
    return {service: float(seconds) for service, seconds in rows}
