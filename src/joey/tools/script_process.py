"""A script of ours in a process of its own, which can be killed when it takes too long.

For expressions that a model wrote: one that backtracks for ever cannot be interrupted inside the
engine.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from joey.system.subprocess import begun, end


async def ask_script(script: Path, request: bytes, seconds: float) -> bytes | None:
    """What the script prints when `request` is on its stdin; None when it fails.

    Raises:
        TimeoutError: it was stopped.
    """
    starting = asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(script), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    process = await begun(starting)
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate(request)
    finally:
        await end(process)
    return printed if process.returncode == 0 else None
