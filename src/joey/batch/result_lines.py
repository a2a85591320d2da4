"""Result lines of items, built from their rows and their journals."""

from __future__ import annotations

import socket

from msgspec import Struct, structs

from joey.batch.attempt_usage import AttemptUsage, read_usage
from joey.batch.results import ItemStatus, ResultLine
from joey.batch.store import BatchStore
from joey.batch.tables import ItemRow


class AttemptOutcome(Struct, frozen=True):
    status: ItemStatus
    code: str
    text: str | None = None


def build_line(store: BatchStore, row: ItemRow, outcome: AttemptOutcome) -> ResultLine:
    """Build the line of an attempt that ends now; all its work and cost counts."""
    return _fill_in(store, row, outcome, read_usage(store.tasks, row.task_id))


def build_stopped_line(store: BatchStore, row: ItemRow, status: ItemStatus) -> ResultLine:
    """Build the line of an item that is stopped while it is not running; its patch and check
    stay."""
    usage = read_usage(store.tasks, row.task_id)
    line = _fill_in(store, row, AttemptOutcome(status, status.value), usage)
    if (earlier := row.line) is None or earlier.attempt != row.attempt:
        return line
    return structs.replace(line, result=earlier.result, patch=earlier.patch, check=earlier.check)


def _fill_in(
    store: BatchStore, row: ItemRow, outcome: AttemptOutcome, usage: AttemptUsage
) -> ResultLine:
    return ResultLine(
        item=row.id,
        attempt=row.attempt,
        status=outcome.status,
        code=outcome.code,
        result=outcome.text,
        task_id=None if row.started is None else row.task_id,
        host=socket.gethostname(),
        started=row.started,
        ended=read_clock(store),
        turns=usage.turns,
        requests=usage.requests,
        tokens=usage.tokens,
        cost=usage.cost,
        resumed=usage.resumed,
        refused=usage.refused,
    )


def read_clock(store: BatchStore) -> float:
    """Return the database's time in seconds since 1970."""
    return float(store.tables.query(f"select {store.tables.clock}")[0][0])
