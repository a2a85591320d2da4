"""Asynchronous reader of standard input, without a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

READ_SIZE_BYTES = 65_536


async def iter_chunks(fd: int) -> AsyncIterator[bytes]:
    """Iterate over chunks of bytes until the other end is closed."""
    while True:
        await _wait_until_readable(fd)
        try:
            data = os.read(fd, READ_SIZE_BYTES)
        except OSError:
            return  # the writer is gone
        if not data:
            return
        yield data


async def _wait_until_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        # A file: reading does not block, and the event loop cannot watch it.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
