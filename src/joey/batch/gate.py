"""Admission of an item's requests: rate limits of services, the total budget, and cancellation.

Every request checks the tables, so what one worker learns counts for all of them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from joey.batch.tables import ItemRow, Tables
from joey.errors import TaskLostError

_MAX_POLL_S = 0.5
_DEFAULT_RATE_LIMIT_S = 15.0
"""The wait if the service does not give one."""
T = TypeVar("T")


class StopReason(StrEnum):
    BUDGET = "budget"
    CANCELLED = "cancelled"


class ItemStopped(Exception):
    """The item must stop now."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Admission(Struct, frozen=True):
    stop: StopReason | None
    wait_s: float


class ItemGate:
    """A `RequestGate` of one item."""

    def __init__(self, tables: Tables, row: ItemRow) -> None:
        self._tables, self._row = tables, row
        self.read_cost: Callable[[], float] | None = None
        """Cost of the attempt so far, including subtasks."""
        self.stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        """Why the item must stop; empty while it may run."""

    async def find_stop(self) -> StopReason | None:
        """Return why the item must not start, if so."""
        return (await asyncio.to_thread(self._look, "", None)).stop

    async def admit(self, address: str) -> None:
        while True:
            cost = None if self.read_cost is None else self.read_cost()
            found = await asyncio.to_thread(self._look, address, cost)
            if found.stop is not None:
                self.stop(found.stop)
                await asyncio.get_running_loop().create_future()  # until the task is cancelled
            if found.wait_s <= 0:
                return
            await asyncio.sleep(min(found.wait_s, _MAX_POLL_S))

    async def record_rate_limit(self, address: str, retry_after_s: float | None) -> None:
        seconds = _DEFAULT_RATE_LIMIT_S if retry_after_s is None else retry_after_s
        await asyncio.to_thread(self._record_rate_limit, address, seconds)

    def stop(self, reason: StopReason) -> None:
        if not self.stopped.done():
            self.stopped.set_result(reason)

    async def run_until_stopped(self, work: Awaitable[T]) -> T:
        """Return the result of `work`, which is cancelled when the item must stop. Raises
        ItemStopped."""
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((working, self.stopped), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))
        raise ItemStopped(self.stopped.result())

    def _look(self, address: str, cost: float | None) -> _Admission:
        if cost is not None:
            self._tables.record_cost(self._row.batch_id, self._row.id, self._row.attempt, cost)
        values = {"batch": self._row.batch_id, "id": self._row.id, "service": address}
        row = self._tables.query(
            f"""select b.budget, b.spent, b.deadline - {self._tables.clock}, i.mark,
                (select {self._tables.throttle_end} from joey.throttle where service = :service)
                - {self._tables.clock}, i.runs
                from joey.batch b join joey.item i on i.batch_id = b.id and i.id = :id
                where b.id = :batch""",
            **values,
        )[0]
        budget, spent, left, mark, wait, runs = row
        if runs != self._row.runs:
            raise TaskLostError(f"Item {self._row.id} is driven by another worker.")
        if mark == "cancel":
            return _Admission(StopReason.CANCELLED, 0)
        if (budget is not None and spent >= budget) or (left is not None and left <= 0):
            return _Admission(StopReason.BUDGET, 0)
        return _Admission(None, wait or 0.0)

    def _record_rate_limit(self, address: str, seconds: float) -> None:
        until = self._tables.build_instant(f"{self._tables.clock} + :seconds")
        self._tables.change(
            f"""insert into joey.throttle (service, until) values (:service, {until})
                on conflict (service) do update set until =
                case when joey.throttle.until > excluded.until then joey.throttle.until
                else excluded.until end""",
            service=address,
            seconds=seconds,
        )
