"""The coordinator of a batch: starts its own workers, replaces those that die, follows the items.

It keeps no state of its own: if it is killed, its workers continue, and a second one attaches to
the same batch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from joey.batch.liveness import WorkerWatch
from joey.batch.membership import ClusterMembership
from joey.batch.results import ItemStatus, ResultLine
from joey.batch.store import BatchStore
from joey.errors import StoreError, UserError
from joey.system.locks import try_lock_file
from joey.system.subprocess import STDOUT, Process, send_signal

log = logging.getLogger(__name__)

_POLL_S = 0.25
_STORE_RETRY_S = 2.0
_MAX_FRUITLESS_STARTS = 5
_STOP_GRACE_S = 10.0
_LOCK_NAME = "coordinator.lock"
T = TypeVar("T")


class WorkersFailError(UserError):
    """Workers exit as soon as they are started."""


class Snapshot(Struct, frozen=True):
    """The state of a batch at one moment."""

    items: int
    counts: dict[str, int]
    cost: float
    running: tuple[str, ...]
    ended: tuple[ResultLine, ...]
    """Lines written since the previous snapshot."""

    @property
    def is_over(self) -> bool:
        return not self.counts[ItemStatus.WAITING] and not self.counts[ItemStatus.RUNNING]


class Coordinator:
    """Follows a batch until nothing is waiting or running; `workers` of its own drive it."""

    def __init__(
        self, store: BatchStore, batch_id: str, *, workers: int, since: int | None = None
    ) -> None:
        """Lines after the first `since` are reported; by default only new ones."""
        self._store, self._batch_id, self._wanted = store, batch_id, workers
        self._since = since
        self._watch: WorkerWatch | ClusterMembership = WorkerWatch(store)
        if store.shared_tasks is not None:
            self._watch = ClusterMembership(store, store.shared_tasks)
        self._lock: int | None = None
        self._processes: list[Process] = []
        self._adopted: set[int] = set()
        """Processes started by an earlier coordinator."""
        self._ready: set[int] = set()
        self._fruitless_starts = 0
        self._line_count = 0

    async def follow(self) -> AsyncIterator[Snapshot]:
        """Iterate over snapshots until the batch is over. Raises WorkersFailError."""
        await self._ask(self._skip_earlier_lines)
        try:
            while True:
                snapshot = await self._ask(self._look)
                if snapshot.ended:
                    self._fruitless_starts = 0
                yield snapshot
                if snapshot.is_over:
                    for process in self._processes:
                        await process.wait(_STOP_GRACE_S)  # it ends by itself
                    return
                if self._wanted:
                    await self._keep_workers()
                await asyncio.sleep(_POLL_S)
        finally:
            await self._stop_workers()

    async def _ask(self, question: Callable[[], T]) -> T:
        """Query the database. Queries to one that other hosts share are retried while it cannot be
        reached, as workers do. Raises StoreError."""
        while True:
            try:
                return await asyncio.to_thread(question)
            except StoreError as error:
                if self._store.shared_tasks is None:
                    raise
                log.warning("%s It will be retried.", error)
            await asyncio.sleep(_STORE_RETRY_S)

    def _skip_earlier_lines(self) -> None:
        self._store.results.refresh()
        self._line_count = len(self._store.results.lines) if self._since is None else self._since

    def _look(self) -> Snapshot:
        self._watch.take_over()
        counts = self._store.tables.query(
            "select status, count(*) from joey.item where batch_id = :batch group by status",
            batch=self._batch_id,
        )
        running = self._store.tables.query(
            "select id from joey.item where batch_id = :batch and status = :running",
            batch=self._batch_id,
            running=ItemStatus.RUNNING,
        )
        batch = self._store.tables.load_batch(self._batch_id)
        self._store.results.refresh()
        ended = tuple(self._store.results.lines[self._line_count :])
        self._line_count += len(ended)
        return Snapshot(
            sum(count for _, count in counts),
            {status.value: 0 for status in ItemStatus} | dict(counts),
            0.0 if batch is None else batch.spent,
            tuple(row[0] for row in running),
            ended,
        )

    async def _keep_workers(self) -> None:
        """Start workers to replace those that ended; only one coordinator does. Raises
        WorkersFailError."""
        if self._lock is None:
            self._lock = await asyncio.to_thread(try_lock_file, self._lock_file)
            if self._lock is None:
                return
            self._adopted = _read_pids(self._lock_file)
        workers = await self._ask(self._store.tables.load_workers)
        here = [worker for worker in workers if worker.host == socket.gethostname()]
        self._ready |= {worker.pid for worker in here if worker.seen}
        for process in [each for each in self._processes if each.returncode is not None]:
            self._processes.remove(process)
            await process.end()
            self._count_end(process)
        if self._fruitless_starts >= _MAX_FRUITLESS_STARTS:
            raise WorkersFailError(
                f"Workers exit immediately: {_read_last_line(self._log_file)} "
                f"(see {self._log_file})"
            )
        adopted = {worker.pid for worker in here if worker.pid in self._adopted}
        for _ in range(self._wanted - len(adopted) - len(self._processes)):
            self._processes.append(self._start_worker())
            self._write_pids((*self._adopted, *(each.pid for each in self._processes)))

    def _count_end(self, process: Process) -> None:
        """Count an early end. A worker that had done work and was killed is always replaced."""
        code = process.returncode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        log.warning("worker process %d ended with %s", process.pid, how)
        if code >= 0 or process.pid not in self._ready:
            self._fruitless_starts += 1

    def _write_pids(self, pids: Iterable[int]) -> None:
        """Write the process ids for the next coordinator, in case this one is killed."""
        try:
            self._lock_file.write_text("\n".join(map(str, pids)), encoding="utf-8")
        except OSError as error:
            log.warning("%s cannot be written: %s", self._lock_file, error.strerror)

    def _stop_adopted(self) -> None:
        """Stop adopted workers that are still alive, which without work left takes a moment."""
        workers = self._store.tables.load_workers()
        send_signal((each.pid for each in workers if each.pid in self._adopted), signal.SIGTERM)

    @property
    def _lock_file(self) -> Path:
        return self._store.out.workers / _LOCK_NAME

    @property
    def _log_file(self) -> Path:
        return self._store.out.root / "workers.log"

    def _start_worker(self) -> Process:
        worker = (sys.executable, "-m", "joey", "worker", "--store", str(self._store.out.root))
        # The shell only opens the log, so that a worker outlives its coordinator's pipes.
        redirect = ("bash", "-c", 'exec "$@" >>"$0" 2>&1 </dev/null', str(self._log_file))
        command = (*redirect, *worker, "--until-empty", "--may", "all")
        process = Process(command, env=os.environ | self._store.environment)
        process.relay(STDOUT, lambda data: None)
        return process

    async def _stop_workers(self) -> None:
        for process in self._processes:
            await process.end(grace_s=_STOP_GRACE_S)
        self._processes.clear()
        try:
            await asyncio.to_thread(self._watch.take_over)
            if self._lock is not None:
                await asyncio.to_thread(self._stop_adopted)
        except StoreError as error:
            log.warning("%s", error)
        if self._lock is not None:
            self._write_pids(())
            os.close(self._lock)
            self._lock = None


def _read_pids(file: Path) -> set[int]:
    return {int(each) for each in file.read_text(encoding="utf-8").split() if each.isdecimal()}


def _read_last_line(file: Path) -> str:
    try:
        lines = file.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return "they wrote nothing"
    return lines[-1] if lines else "they wrote nothing"
