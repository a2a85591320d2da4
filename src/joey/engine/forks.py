"""A task that begins with the history of another.

Its journal holds the records of the other's path up to the row it was taken from, numbered anew,
behind a first record of its own; `TaskForked` ends what was taken over. What is left out belongs to
the other alone: its rewinds, its subtasks, what waited to be said to it. The journal is
planted whole or not at all (see `Store.plant`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from joey.core.events import (
    ChildSpawned,
    Durable,
    FilesRestored,
    MessageQueued,
    MessageUnqueued,
    Record,
    TaskAdopted,
    TaskConfigured,
    TaskCreated,
    TaskForked,
    TaskPaused,
    TaskRewound,
    TaskUnpaused,
)
from joey.core.history.branch import find_cut, live_path
from joey.core.history.ledger import Ledger
from joey.core.history.state import TaskFacts
from joey.engine.identity import new_task_id
from joey.errors import StoreError, TaskStateError, UserError
from joey.ports import Clock, Store

LEFT_OUT = (
    TaskConfigured,
    TaskPaused,
    TaskUnpaused,
    ChildSpawned,
    MessageQueued,
    MessageUnqueued,
    TaskRewound,
    FilesRestored,
    TaskForked,
)


def plant_fork(
    store: Store, clock: Clock, source_id: str, row_ts: int | None = None, *, keep: bool = True
) -> str:
    """Make the fork on disk; its id.

    Raises:
        TaskNotFoundError, StoreError, UserError: there is no such task, or no such row.
    """
    records = store.read(source_id)
    fork_id = new_task_id(clock.now())
    store.plant(fork_id, fork_records(records, fork_id, clock.now(), row_ts, keep=keep), source_id)
    return fork_id


def fork_records(
    source: Sequence[Record],
    fork_id: str,
    now: int,
    row_ts: int | None = None,
    *,
    keep: bool = True,
) -> list[Record]:
    """The journal of a fork."""
    path = _path_to(source, row_ts, keep=keep)
    events = list(_events(path, fork_id, now))
    ledger = Ledger()
    for record in source:
        ledger.apply(record.event)
    if ledger.configuration:
        events.append(TaskConfigured(ts=events[-1].ts + 1, configuration=ledger.configuration))
    return [Record(n, event) for n, event in enumerate(events, 1)]


def _path_to(source: Sequence[Record], row_ts: int | None, *, keep: bool) -> Sequence[Record]:
    path = live_path(source)
    if row_ts is None:
        return path
    try:
        cut = find_cut(path, row_ts, keep=keep)
    except TaskStateError as error:
        raise UserError(f"The task cannot be forked there: {error}.") from error
    going = TaskRewound(ts=0, to=cut.to, row_ts=cut.row_ts)
    return live_path([*source, Record(source[-1].seq + 1, going)])


def _events(path: Sequence[Record], fork_id: str, now: int) -> Iterator[Durable]:
    facts = TaskFacts()
    for record in path:
        facts.follow(record.event)
    first, *rest = path
    # No two events of a task have one `ts`: those that are taken over keep theirs.
    now = max(now, *(record.event.ts + 1 for record in path))
    match first.event:
        case TaskCreated() as created:
            yield structs.replace(
                created,
                ts=now,
                task_id=fork_id,
                parent_id=None,
                root_id=None,
                depth=0,
                configuration=None,
            )
        case TaskAdopted() as adopted:
            yield structs.replace(adopted, ts=now, task_id=fork_id, parent_id=None, child_ids=())
        case _:
            raise StoreError(f"task {facts.task_id} has no beginning, so it cannot be forked.")
    yield from (record.event for record in rest if not isinstance(record.event, LEFT_OUT))
    kept = [record for record in path if not isinstance(record.event, TaskRewound)]
    yield TaskForked(
        ts=now + 1, source_id=facts.task_id, source_seq=kept[-1].seq, route=facts.route
    )
