"""Opening of fleets: `joey.open_fleet`, the entry of programs to batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from joey.errors import ConfigError

if TYPE_CHECKING:
    from joey.batch.fleet_batches import Fleet


@asynccontextmanager
async def open_fleet(out: str | Path) -> AsyncIterator[Fleet]:
    """Batches in an output directory, which is made if it is not there. At the end, workers that
    were started here are stopped; what they had begun continues with the next start. Raises
    ConfigError, StoreError."""
    try:
        from joey.batch.fleet_batches import Fleet
        from joey.batch.store import open_batch_store
    except ModuleNotFoundError as error:
        raise ConfigError("Batches need the extra `fleet`: pip install 'joey[fleet]'.") from error

    store = await asyncio.to_thread(open_batch_store, Path(out), create=True)
    fleet = Fleet(store)
    try:
        yield fleet
    finally:
        await fleet.close()
