"""Regular expressions written by a model, evaluated in a process that can be killed.

One that backtracks forever cannot be interrupted inside the engine. Each kind of question has a
worker script of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
from msgspec import Struct, field

from joey.core.edits.text_replace import MAX_MATCHES, CharSpan, collect_matches
from joey.errors import ToolError
from joey.system.subprocess import run
from joey.tools.file_edit import replace_surrogates, run_in_thread_if_large

LINE_SEARCH_TIMEOUT_S = 10.0
_LINE_SEARCH_SCRIPT = Path(__file__).with_name("line_search_worker.py")


class LineSearchResult(Struct, frozen=True):
    match_count: int = field(name="total")
    lines: tuple[tuple[int, str], ...]
    """The first matches, by line number, within the limit that was asked for."""


async def search_lines(
    path: Path, pattern: str, limit: int, seconds: float = LINE_SEARCH_TIMEOUT_S
) -> LineSearchResult:
    """Lines of `path` that match, without regard to case; at most `limit` bytes of them.

    An invalid expression is looked for as it is written.
    """
    request = json.dumps({"path": str(path), "pattern": pattern, "limit": limit}).encode()
    try:
        answer = await run_worker_script(_LINE_SEARCH_SCRIPT, request, seconds)
    except TimeoutError as error:
        raise ToolError(
            f'Error: the search for "{pattern}" took longer than {seconds:g} s and was stopped.'
            " Use a simpler expression."
        ) from error
    if answer is None:
        raise ToolError(f'Error: the search for "{pattern}" failed.')
    return msgspec.json.decode(answer, type=LineSearchResult)


FIND_TIMEOUT_S = 10.0
_SPANS_SCRIPT = Path(__file__).with_name("regex_spans_worker.py")


class _SpansResponse(Struct, frozen=True):
    spans: tuple[tuple[int, int], ...] = ()
    error: str | None = field(default=None, name="problem")


async def find_pattern(
    text: str, pattern: str, *, is_regex: bool, ignore_case: bool, seconds: float = FIND_TIMEOUT_S
) -> list[CharSpan]:
    """Every match from left to right; `^` and `$` stand for the ends of a line. Raises ToolError:
    the expression is none, takes too long, or matches too often."""
    request = json.dumps(
        {
            "text": text,
            "pattern": pattern,
            "is_regex": is_regex,
            "ignore_case": ignore_case,
            "most": MAX_MATCHES + 1,
        }
    ).encode()
    shown = replace_surrogates(pattern)
    try:
        printed = await run_worker_script(_SPANS_SCRIPT, request, seconds)
    except TimeoutError as error:
        raise ToolError(
            f"Looking for `{shown}` took longer than {seconds:g} s and was stopped. Use a simpler"
            " expression."
        ) from error
    if printed is None:
        raise ToolError(f"Looking for `{shown}` failed. Use a simpler expression.")
    return await run_in_thread_if_large(len(printed), lambda: _decode_spans(printed, shown))


def _decode_spans(printed: bytes, shown: str) -> list[CharSpan]:
    answer = msgspec.json.decode(printed, type=_SpansResponse)
    if answer.error is not None:
        raise ToolError(f"`{shown}` is not a regular expression: {answer.error}.")
    return collect_matches(CharSpan(*span) for span in answer.spans)


async def run_worker_script(script: Path, request: bytes, seconds: float) -> bytes | None:
    """What the script prints when `request` is on its stdin; None when it fails. Raises
    TimeoutError: it was stopped."""
    command = (sys.executable, "-I", "-S", str(script))
    done = await run(command, input=request, env={}, timeout_s=seconds)
    return done.stdout if done.returncode == 0 else None
