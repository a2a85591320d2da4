"""Search in a kept output, in a process of its own.

The expression comes from a model. One that backtracks for ever would hold the whole engine, since
it cannot be interrupted inside a process; another process can be killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.errors import ToolError

SECONDS = 10.0
_SCRIPT = Path(__file__).with_name("line_search.py")


class Found(Struct, frozen=True):
    total: int
    lines: tuple[tuple[int, str], ...]
    """The first matches, by line number, within the limit that was asked for."""


async def search_lines(path: Path, pattern: str, limit: int, seconds: float = SECONDS) -> Found:
    """Lines of `path` that match, without regard to case; at most `limit` bytes of them.

    An invalid expression is looked for as it is written.
    """
    request = json.dumps({"path": str(path), "pattern": pattern, "limit": limit}).encode()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(_SCRIPT), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}
    )
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(request)
    except TimeoutError as error:
        raise ToolError(
            f'Error: the search for "{pattern}" took longer than {seconds:g} s and was stopped.'
            " Use a simpler expression."
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ToolError(f'Error: the search for "{pattern}" failed.')
    return msgspec.json.decode(answer, type=Found)
