"""Where an expression of a model matches in a text, found in a process that can be killed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.core.edits.text_replace import MOST_PLACES, Stretch, countable
from joey.errors import ToolError
from joey.tools.file_edit import computed, printable
from joey.tools.script_process import ask_script

SECONDS = 10.0
_SCRIPT = Path(__file__).with_name("pattern_spans.py")


class _Answer(Struct, frozen=True):
    spans: tuple[tuple[int, int], ...] = ()
    problem: str | None = None


async def find_pattern(
    text: str, pattern: str, *, is_regex: bool, ignore_case: bool, seconds: float = SECONDS
) -> list[Stretch]:
    """Every match from left to right; `^` and `$` stand for the ends of a line.

    Raises:
        ToolError: the expression is none, takes too long, or matches too often.
    """
    request = json.dumps(
        {
            "text": text,
            "pattern": pattern,
            "is_regex": is_regex,
            "ignore_case": ignore_case,
            "most": MOST_PLACES + 1,
        }
    ).encode()
    shown = printable(pattern)
    try:
        printed = await ask_script(_SCRIPT, request, seconds)
    except TimeoutError as error:
        raise ToolError(
            f"Looking for `{shown}` took longer than {seconds:g} s and was stopped. Use a simpler"
            " expression."
        ) from error
    if printed is None:
        raise ToolError(f"Looking for `{shown}` failed. Use a simpler expression.")
    return await computed(len(printed), lambda: _stretches(printed, shown))


def _stretches(printed: bytes, shown: str) -> list[Stretch]:
    answer = msgspec.json.decode(printed, type=_Answer)
    if answer.problem is not None:
        raise ToolError(f"`{shown}` is not a regular expression: {answer.problem}.")
    return countable(Stretch(*span) for span in answer.spans)
