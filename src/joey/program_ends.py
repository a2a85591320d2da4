"""What adapters do with a program that they have given up on and killed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_SECONDS = 5


async def hear_out(process: asyncio.subprocess.Process) -> None:
    """See it end, which asyncio does not before all that it said is read: where nobody takes what
    came, it stops reading and never reaches the end of the pipe."""
    with suppress(TimeoutError):  # somebody whom it left behind may hold its output open
        async with asyncio.timeout(_SECONDS):
            await process.communicate()
