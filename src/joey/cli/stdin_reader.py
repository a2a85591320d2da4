"""Asynchronous reader of standard input, without a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

READ_SIZE_BYTES = 65_536


async def iter_chunks(fd: int) -> AsyncIterator[bytes]:
    """Bytes as they come, until the other end is closed."""
    while True:
        await _wait_until_readable(fd)
        try:
            data = os.read(fd, READ_SIZE_BYTES)
        except OSError:
            return  # whoever wrote is gone
        if not data:
            return
        yield data


async def _wait_until_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        # A file: it keeps nobody waiting, and the system does not watch it.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
