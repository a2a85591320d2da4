"""Subprocesses that their caller gives up on: start, kill and drain without leaks.

`await_start_despite_cancel` lets a start finish although its caller was cancelled, so that there is
a process to end. asyncio alone would kill the process and wait until all of its children have
ended. `kill_and_drain` kills a process that has no children, and `drain` drains the pipes of a
killed one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_DRAIN_TIMEOUT_S = 5

T = TypeVar("T")


async def await_start_despite_cancel(starting: Coroutine[Any, Any, T]) -> T:
    """What was started, also for who is cancelled meanwhile: they hear of it where they wait next,
    and have something to end by then. asyncio would kill the program alone, and wait until all
    that it has started by itself has ended."""
    beginning = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        found = await beginning
        if (waiting := asyncio.current_task()) is not None:
            waiting.uncancel()
            waiting.cancel()
        return found


async def kill_and_drain(process: asyncio.subprocess.Process) -> None:
    """Kill one that works alone, unless it has ended, and see it end."""
    if process.returncode is None:
        # Not process.kill(): it reaps a child that has just ended, and asyncio then misses it.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    await drain(process)


async def drain(process: asyncio.subprocess.Process) -> None:
    """See one end that was killed, which asyncio does not before all that it said is read: where
    nobody takes what came, it stops reading and never reaches the end of the pipe."""
    try:
        async with asyncio.timeout(_DRAIN_TIMEOUT_S):
            await process.communicate()
    except TimeoutError:
        # Somebody whom it left behind holds its output open. There is no other way to let go of it.
        process._transport.close()  # type: ignore[attr-defined]
