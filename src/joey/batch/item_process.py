"""A process that drives a single item (`python -m joey.batch.item_process`), for a worker."""

from __future__ import annotations

import asyncio
import logging
import sys

from joey.batch.attempts import AttemptRunner
from joey.batch.gate import StopReason
from joey.batch.orders import load_ceiling
from joey.batch.store import BatchStore, open_located_store
from joey.batch.tables import ItemRow
from joey.batch.worker import drive_item, retry_until_stored, stop_when_parent_is_gone

_POLL_S = 0.5


async def _drive(locator: str, work: str, batch_id: str, item_id: str, may: str) -> None:
    watching = [asyncio.create_task(stop_when_parent_is_gone())]
    store = await asyncio.to_thread(open_located_store, locator, work)
    row, batch = store.tables.load_item(batch_id, item_id), store.tables.load_batch(batch_id)
    if row is not None and batch is not None:
        runner = AttemptRunner(store, load_ceiling(may or None))
        watching.append(asyncio.create_task(_stop_when_cancelled(store, runner, row)))
        options = batch.decode_options()
        await retry_until_stored(row.id, lambda: drive_item(store, runner, row, options))
    for task in watching:
        task.cancel()
    await asyncio.to_thread(store.close)


async def _stop_when_cancelled(store: BatchStore, runner: AttemptRunner, row: ItemRow) -> None:
    while True:
        found = await asyncio.to_thread(store.tables.load_item, row.batch_id, row.id)
        if found is not None and found.mark == "cancel":
            runner.stop(row.batch_id, row.id, StopReason.CANCELLED)
        await asyncio.sleep(_POLL_S)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("dbos").setLevel(logging.ERROR)
    asyncio.run(_drive(*sys.argv[1:]))
