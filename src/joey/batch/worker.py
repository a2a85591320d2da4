"""Workers: processes that take items from the queue and drive them.

Items of a dead worker are queued again (`liveness`), and then driven in a separate process, so that
an item that kills its process takes no other with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from joey.batch.artifacts import save_files
from joey.batch.attempts import DIED_CODE, AttemptRunner
from joey.batch.gate import StopReason
from joey.batch.membership import ClusterMembership, LocalMembership, Membership
from joey.batch.orders import Ceiling
from joey.batch.progress import finish_attempt, start_item
from joey.batch.queue import QueueWorker
from joey.batch.result_lines import AttemptOutcome, build_line
from joey.batch.results import ItemStatus, ResultLine
from joey.batch.store import BatchStore
from joey.batch.tables import BatchOptions, ItemRow
from joey.errors import StoreError, TaskLostError
from joey.system.subprocess import STDOUT, Process, format_signal, send_signal

log = logging.getLogger(__name__)

_TICK_S = 0.25
_STOP_TIMEOUT_S = 10.0
_STARTUP_GRACE_S = 1.0
_MIN_STORE_RETRY_S, _MAX_STORE_RETRY_S = 1.0, 30.0
_MAX_LOGGED_BYTES = 64 * 1024
T = TypeVar("T")


class Worker:
    """One worker process of a store."""

    def __init__(
        self,
        store: BatchStore,
        ceiling: Ceiling,
        *,
        width: int | None = None,
        until_empty: bool = False,
        ceiling_name: str | None = None,
    ) -> None:
        self._store = store
        self._membership = _join(store)
        self.id = self._membership.id
        self._ceiling_name = ceiling_name
        self._until_empty = until_empty
        self._width = width
        self._runner = AttemptRunner(store, ceiling)
        self._driving: dict[str, asyncio.Task[str]] = {}
        """Keyed by the names of journals."""
        self._widened: set[str] = set()
        """Batches whose queues have this worker's width."""
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(1)
        batch_id = store.find_batch_id() if store.shared_tasks and store.locator else None
        self._queue = QueueWorker(store.engine, self.id, self._drive_from_queue, batch_id)

    async def run(self) -> None:
        """Work until cancelled, or with `until_empty` until nothing is waiting or running. Raises
        StoreError, or TaskLostError if other workers have taken over."""
        await asyncio.to_thread(self._register)
        try:
            await asyncio.to_thread(self._membership.take_over)
            await asyncio.to_thread(self._queue.launch)
            log.info("worker %s: ready, up to %d items at once", self.id, self._width)
            await self._watch_until_lost()
        finally:
            for task in self._driving.values():
                task.cancel()
            await self._wait_for_items()
            if not self._is_lost:
                await asyncio.to_thread(self._release_items)
                await asyncio.to_thread(self._membership.release)
            log.info("worker %s: stopped", self.id)

    async def _wait_for_items(self) -> None:
        """Wait until the items have stopped. The rest is queued again when others find this worker
        gone."""
        if not self._driving:
            return
        _, running = await asyncio.wait(self._driving.values(), timeout=_STOP_TIMEOUT_S)
        if running:
            log.warning("worker %s: %d items did not stop in time", self.id, len(running))

    def _register(self) -> None:
        if self._width is None:
            self._width = self._find_width()
        self._slots = asyncio.Semaphore(self._width)
        self._membership.register(self._width)

    def _find_width(self) -> int:
        """Return how many items a worker drives at once in its batch."""
        if self._store.find_batch_id() is None:
            return BatchOptions().width
        return self._store.load_batch().decode_options().width

    async def _watch_until_lost(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            while not watching.done():
                self._membership.check()
                await asyncio.wait((watching,), timeout=_TICK_S)
            watching.result()
        finally:
            watching.cancel()

    @property
    def _is_lost(self) -> bool:
        try:
            self._membership.check()
        except TaskLostError:
            return True
        return False

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._membership.beat)
                await asyncio.to_thread(self._membership.take_over)
                is_empty = await asyncio.to_thread(self._look_for_work)
            except TaskLostError:
                raise
            except StoreError as error:
                if self._store.shared_tasks is None:
                    raise
                log.warning("worker %s: %s", self.id, error)
                await asyncio.sleep(_MIN_STORE_RETRY_S)
                continue
            if is_empty and self._until_empty and not self._driving:
                await asyncio.to_thread(self._membership.unregister)
                return
            await asyncio.sleep(_TICK_S)

    def _release_items(self) -> None:
        """Release the items on an intended stop, so that none is suspected of having killed the
        worker."""
        try:
            self._store.tables.change(
                """update joey.item set status = :waiting, worker = null
                   where worker = :id and status = :running""",
                id=self.id,
                waiting=ItemStatus.WAITING,
                running=ItemStatus.RUNNING,
            )
        except StoreError as error:
            log.warning("worker %s: %s", self.id, error)

    def _look_for_work(self) -> bool:
        """Look for work; True if there is none. Running items that were cancelled are stopped."""
        cancelled = self._store.tables.query(
            "select batch_id, id from joey.item where status = :running and mark = 'cancel'",
            running=ItemStatus.RUNNING,
        )
        for batch_id, item_id in cancelled:
            if f"{batch_id}/{item_id}" in self._driving:
                stop = partial(self._runner.stop, batch_id, item_id, StopReason.CANCELLED)
                self._loop.call_soon_threadsafe(stop)
        batch_ids = self._store.list_batch_ids()
        busy = [batch_id for batch_id in batch_ids if self._has_work(batch_id)]
        for batch_id in batch_ids:
            self._store.queue.set_pace(batch_id, is_busy=batch_id in busy)
            if batch_id not in self._widened:
                self._store.queue.widen(batch_id, self._width or 1)
                self._widened.add(batch_id)
        is_busy = bool(busy)
        # An item's row may change a moment before its place in the queue is free.
        return not is_busy and not (self._until_empty and self._store.queue.list_held(self.id))

    def _has_work(self, batch_id: str) -> bool:
        rows = self._store.tables.query(
            """select 1 from joey.item where batch_id = :batch
               and status in (:waiting, :running) limit 1""",
            batch=batch_id,
            waiting=ItemStatus.WAITING,
            running=ItemStatus.RUNNING,
        )
        return bool(rows)

    # Items

    async def _drive_from_queue(self, batch_id: str, item_id: str, run: int) -> str:
        """Drive an item; called in the queue's event loop, but driven in the worker's."""
        driving = asyncio.run_coroutine_threadsafe(
            self._drive_in_slot(batch_id, item_id, run), self._loop
        )
        try:
            return await asyncio.wrap_future(driving)
        except asyncio.CancelledError:
            # The worker stops. To the queue it must look dead, so that others take over.
            forever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await forever

    async def _drive_in_slot(self, batch_id: str, item_id: str, run: int) -> str:
        async with self._slots:
            task = asyncio.create_task(self._drive(batch_id, item_id, run))
            self._driving[f"{batch_id}/{item_id}"] = task
            try:
                return await task
            finally:
                del self._driving[f"{batch_id}/{item_id}"]

    async def _drive(self, batch_id: str, item_id: str, run: int) -> str:
        while True:
            try:
                return await retry_until_stored(
                    item_id, lambda: self._drive_once(batch_id, item_id, run)
                )
            except TaskLostError as error:
                log.warning("item %s: %s", item_id, error)
            if self._is_lost:
                # Others take over; this run must not look as if it had ended.
                await self._wait_until_stopped()
            await asyncio.sleep(_MIN_STORE_RETRY_S)

    async def _wait_until_stopped(self) -> None:
        """Wait until the current task is cancelled. If it has been, but the lost lease ended its
        work with another error, that counts."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        await asyncio.get_running_loop().create_future()

    async def _drive_once(self, batch_id: str, item_id: str, run: int) -> str:
        """Drive an item and return its status; leave it alone if it has ended or was queued
        again."""
        self._membership.check()
        row = await asyncio.to_thread(self._store.tables.load_item, batch_id, item_id)
        batch = await asyncio.to_thread(self._store.tables.load_batch, batch_id)
        if row is None or batch is None or row.runs != run:
            return ItemStatus.CANCELLED
        started = await asyncio.to_thread(start_item, self._store, row, self.id)
        if started is None:
            self._membership.check()
            return row.status
        options = batch.decode_options()
        if started.alone:
            return await self._drive_alone(started, options)
        return await drive_item(self._store, self._runner, started, options)

    async def _drive_alone(self, row: ItemRow, options: BatchOptions) -> str:
        """Drive an item in a separate process, so that a crash affects no other item."""
        deaths = row.deaths
        while True:
            ended = await self._run_item_process(row)
            found = await asyncio.to_thread(self._store.tables.load_item, row.batch_id, row.id)
            if found is None or found.runs != row.runs or found.status is not ItemStatus.RUNNING:
                return ItemStatus.CANCELLED if found is None else found.status
            deaths += 1
            log.warning("item %s: its process ended with %s", row.id, ended)
            await asyncio.to_thread(
                self._store.tables.change,
                "update joey.item set deaths = :deaths where batch_id = :batch and id = :id",
                deaths=deaths,
                batch=row.batch_id,
                id=row.id,
            )
            if deaths >= options.attempts:
                line = await asyncio.to_thread(self._build_death_line, found, ended, deaths)
                return await asyncio.to_thread(
                    finish_attempt, self._store, found, line, options, is_last=True
                )

    async def _run_item_process(self, row: ItemRow) -> str:
        """Run an item's process and return how it ended."""
        command = (sys.executable, "-m", "joey.batch.item_process")
        located = (self._store.locator, self._store.work)
        arguments = (*located, row.batch_id, row.id, self._ceiling_name or "")
        env = os.environ | self._store.environment
        process = Process((*command, *arguments), env=env, has_stdin=True, merge_stderr=True)
        output = _LineLogger(row.id)
        process.relay(STDOUT, output.feed)
        try:
            code = await process.wait()
            await process.wait_for_output(_STARTUP_GRACE_S)
        finally:
            await process.end(grace_s=_STARTUP_GRACE_S)
        if code is not None and code < 0:
            return format_signal(-code)
        return f"exit code {code}" + (f": {output.last}" if output.last else "")

    def _build_death_line(self, row: ItemRow, ended: str, deaths: int) -> ResultLine:
        times = "once" if deaths == 1 else f"{deaths} times"
        text = f"The process running this item died {times} ({ended})."
        return build_line(self._store, row, AttemptOutcome(ItemStatus.ERROR, DIED_CODE, text))


def _join(store: BatchStore) -> Membership:
    if store.shared_tasks is None:
        return LocalMembership(store)
    return ClusterMembership(store, store.shared_tasks)


class _LineLogger:
    """Logs what an item's process prints."""

    def __init__(self, item_id: str) -> None:
        self._item_id = item_id
        self._rest = b""
        self.last = ""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data)[-_MAX_LOGGED_BYTES:].split(b"\n")
        for line in lines:
            self.last = line.decode(errors="replace").strip() or self.last
            log.info("item %s: %s", self._item_id, line.decode(errors="replace"))


async def retry_until_stored(item_id: str, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work`, repeated while nothing can be stored, for example because the
    disk is full: this uses up no attempt, and no result is lost. Raises TaskLostError."""
    seconds = _MIN_STORE_RETRY_S
    while True:
        try:
            return await work()
        except TaskLostError:
            raise
        except StoreError as error:
            log.warning("item %s waits %.0f seconds: %s", item_id, seconds, error)
        except Exception:
            log.exception("item %s waits %.0f seconds", item_id, seconds)
        await asyncio.sleep(seconds)
        seconds = min(2 * seconds, _MAX_STORE_RETRY_S)


async def drive_item(
    store: BatchStore, runner: AttemptRunner, row: ItemRow, options: BatchOptions
) -> str:
    """Run one attempt of an item and record its end."""
    line = await runner.run(row, options)
    if store.shared_tasks is not None:
        await asyncio.to_thread(save_files, store, row, line)
    return await asyncio.to_thread(finish_attempt, store, row, line, options, is_last=False)


async def stop_when_parent_is_gone() -> None:
    """Exit at once when the parent closes the other end of standard input."""
    loop = asyncio.get_running_loop()
    closed = loop.create_future()

    def read() -> None:
        with suppress(BlockingIOError):
            if not os.read(0, 1024) and not closed.done():
                closed.set_result(None)

    os.set_blocking(0, False)
    loop.add_reader(0, read)
    await closed
    send_signal([os.getpid()], signal.SIGKILL)
