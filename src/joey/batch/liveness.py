"""Liveness of workers: dead ones are found, hanging ones killed, and their items queued again.

A worker holds a file lock while it lives (`OUT/workers/<id>`), and increments a counter in the
tables while its event loop runs. If the lock is free, the worker is dead. If the counter stands
still, the worker hangs: it is killed first, since a journal has one writer at a time. The observer
measures how long a counter stands still, so clocks need not agree.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time

from joey.batch.results import ItemStatus
from joey.batch.store import BatchStore
from joey.system.locks import try_lock_file
from joey.system.subprocess import send_signal

log = logging.getLogger(__name__)

HANG_TIMEOUT_S = 20.0


class WorkerWatch:
    """Watches the other workers of a store on this machine."""

    def __init__(self, store: BatchStore, own_id: str = "") -> None:
        self._store, self._own_id = store, own_id
        self._host = socket.gethostname()
        self._beats: dict[str, tuple[int, float]] = {}

    def take_over(self) -> None:
        """Requeue the items of dead workers."""
        for worker in self._store.tables.load_workers():
            if worker.id == self._own_id or worker.host != self._host:
                continue
            path = self._store.out.workers / worker.id
            if (lock := try_lock_file(path)) is None:
                if self._is_hanging(worker.id, worker.seen):
                    log.warning("worker %s does not respond and was killed", worker.id)
                    send_signal([worker.pid], signal.SIGKILL)
                continue
            try:
                count = self._requeue_items(worker.id)
                self._store.tables.change("delete from joey.worker where id = :id", id=worker.id)
                path.unlink(missing_ok=True)
                log.warning("worker %s has exited: %d items are queued again", worker.id, count)
            finally:
                os.close(lock)

    def _is_hanging(self, worker_id: str, beats: int) -> bool:
        known = self._beats.get(worker_id)
        if known is None or known[0] != beats:
            self._beats[worker_id] = (beats, time.monotonic())
            return False
        return time.monotonic() - known[1] > HANG_TIMEOUT_S

    def _requeue_items(self, worker_id: str) -> int:
        for batch_id, item_id, run in self._store.queue.list_held(worker_id):
            self._store.tables.change(
                """update joey.item set alone = 1, worker = null, status = :waiting
                   where batch_id = :batch and id = :id and runs = :run and status = :running""",
                batch=batch_id,
                id=item_id,
                run=run,
                waiting=ItemStatus.WAITING,
                running=ItemStatus.RUNNING,
            )
        return self._store.queue.requeue(worker_id)
