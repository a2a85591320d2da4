"""Search in a kept output, in a process that can be killed: the expression is a model's."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.errors import ToolError
from joey.tools.script_process import ask_script

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
    try:
        answer = await ask_script(_SCRIPT, request, seconds)
    except TimeoutError as error:
        raise ToolError(
            f'Error: the search for "{pattern}" took longer than {seconds:g} s and was stopped.'
            " Use a simpler expression."
        ) from error
    if answer is None:
        raise ToolError(f'Error: the search for "{pattern}" failed.')
    return msgspec.json.decode(answer, type=Found)
