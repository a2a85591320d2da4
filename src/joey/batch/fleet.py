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
    """Open an output directory for batches, creating it if needed. On exit, workers started here
    are stopped; their items continue at the next start. Raises ConfigError, StoreError."""
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
