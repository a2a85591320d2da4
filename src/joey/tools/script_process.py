"""A script of ours in a process of its own, which can be killed when it takes too long.

For expressions that a model wrote: one that backtracks for ever cannot be interrupted inside the
engine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from pathlib import Path

from joey.program_ends import hear_out


async def ask_script(script: Path, request: bytes, seconds: float) -> bytes | None:
    """What the script prints when `request` is on its stdin; None when it fails.

    Raises:
        TimeoutError: it was stopped.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(script), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate(request)
    finally:
        if process.returncode is None:
            # Not process.kill(): it reaps a child that has just ended, and asyncio then misses it.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            await hear_out(process)
    return printed if process.returncode == 0 else None
