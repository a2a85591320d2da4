"""Membership of workers: how a worker shows that it is alive, and replaces dead ones.

On one machine, a file lock and a counter do that (`liveness`). In a cluster, the store's lease is
both (`SharedStore`): when a process's lease expires, its row is deleted, its items are queued as
new runs, and the old runs can no longer write.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from typing import Protocol

from joey import __version__
from joey.batch.liveness import WorkerWatch
from joey.batch.progress import queue_run
from joey.batch.results import ItemStatus
from joey.batch.store import BatchStore
from joey.batch.tables import ItemRow
from joey.errors import TaskLostError
from joey.ports.storage import SharedStore
from joey.system.files import make_private_directory
from joey.system.locks import try_lock_file

log = logging.getLogger(__name__)

_BEAT_S = 2.0
_ORPHANS_POLL_S = 5.0


class Membership(Protocol):
    """A worker among the others of its store."""

    id: str

    def register(self, width: int) -> None:
        """Raises StoreError."""

    def beat(self) -> None:
        """Show that the worker's event loop runs. Raises StoreError."""

    def check(self) -> None:
        """Raises TaskLostError if other workers have taken over."""

    def take_over(self) -> None:
        """Requeue the items of dead workers. Raises StoreError."""

    def unregister(self) -> None:
        """Leave, with nothing left to do or to take over. Raises StoreError."""

    def release(self) -> None:
        """Release the lock or lease, so that others find this worker dead."""


class LocalMembership:
    """Workers on one machine, with one output directory."""

    def __init__(self, store: BatchStore) -> None:
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._store = store
        self._watch = WorkerWatch(store, self.id)
        self._lock: int | None = None
        self._next_beat = 0.0

    def register(self, width: int) -> None:
        make_private_directory(self._store.out.workers)
        self._lock = try_lock_file(self._store.out.workers / self.id)
        assert self._lock is not None, "a worker's id must be unique"
        self._store.tables.change(
            """insert into joey.worker (id, host, pid, width, version)
               values (:id, :host, :pid, :width, :version)""",
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            width=width,
            version=__version__,
        )

    def beat(self) -> None:
        if time.monotonic() >= self._next_beat:
            self._store.tables.change(
                "update joey.worker set seen = seen + 1 where id = :id", id=self.id
            )
            self._next_beat = time.monotonic() + _BEAT_S

    def check(self) -> None:
        """Do nothing: on one machine, a hanging worker is killed."""

    def take_over(self) -> None:
        self._watch.take_over()

    def unregister(self) -> None:
        self._store.tables.change("delete from joey.worker where id = :id", id=self.id)
        (self._store.out.workers / self.id).unlink(missing_ok=True)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)


class ClusterMembership:
    """Processes on any host, with one database."""

    def __init__(self, store: BatchStore, tasks: SharedStore) -> None:
        self.id = tasks.process_id
        self._store, self._tasks = store, tasks
        self._next_look_at_orphans = 0.0

    def register(self, width: int) -> None:
        self._tasks.join(width)

    def beat(self) -> None:
        self._tasks.report_alive()

    def check(self) -> None:
        self._tasks.check_lease()
        if self._tasks.lost_reason is not None:
            raise TaskLostError(self._tasks.lost_reason)

    def take_over(self) -> None:
        dead = self._tasks.remove_dead_processes()
        if not dead and time.monotonic() < self._next_look_at_orphans:
            return
        self._next_look_at_orphans = time.monotonic() + _ORPHANS_POLL_S
        living = {row[0] for row in self._store.tables.query("select id from joey.worker")}
        count = self._requeue_driven()
        for run in self._store.queue.list_pending():
            if run.worker in living:
                continue
            row = self._store.tables.load_item(run.batch_id, run.item_id)
            if row is not None and row.runs == run.run and row.status is ItemStatus.WAITING:
                count += self._requeue(row, alone=row.alone)  # taken but not started
            self._store.queue.cancel(run.workflow_id)
        for worker_id in dead:
            log.warning("%s is gone", worker_id)
        if count:
            log.warning("%d items of workers that have exited are queued again", count)

    def _requeue_driven(self) -> int:
        rows = self._store.tables.query(
            """select i.batch_id, i.id from joey.item i
               where i.worker is not null and i.status = :running
               and not exists (select 1 from joey.worker w where w.id = i.worker)""",
            running=ItemStatus.RUNNING,
        )
        found = [self._store.tables.load_item(*row) for row in rows]
        return sum(
            self._requeue(row, alone=1)
            for row in found
            if row is not None and row.status is ItemStatus.RUNNING
        )

    def _requeue(self, row: ItemRow, *, alone: int) -> int:
        """Queue another run of an item unless it was taken over meanwhile."""
        tables = self._store.tables
        values = {"batch": row.batch_id, "id": row.id, "runs": row.runs, "alone": alone}
        with tables.begin() as connection:
            changed = connection.execute(
                tables.sql(
                    """update joey.item set alone = :alone
                       where batch_id = :batch and id = :id and runs = :runs
                       and status = :status and worker is not distinct from :worker"""
                ),
                {**values, "status": row.status, "worker": row.worker},
            ).rowcount
            if changed:
                queue_run(self._store, connection, row)
                keep_mark = "update joey.item set mark = :mark where batch_id = :batch and id = :id"
                connection.execute(tables.sql(keep_mark), {**values, "mark": row.mark})
        return changed

    def unregister(self) -> None:
        self._tasks.close()

    def release(self) -> None:
        self._tasks.close()
