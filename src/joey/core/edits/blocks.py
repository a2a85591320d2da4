"""SEARCH/REPLACE blocks as the model writes them.

    <<<<<<< SEARCH
    :start_line:<n>
    -------
    text to find
    =======
    text to put there
    >>>>>>> REPLACE

One pass over the lines knows three states (outside, in SEARCH, in REPLACE) and either collects
the blocks or says at which line the format was left. Lines that look like a marker but belong to
the file are written with a backslash in front.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from joey.core.regex import regex

FORMAT = """\
<<<<<<< SEARCH
:start_line:<number of the first line to replace>
-------
<the lines as they are in the file>
=======
<the lines that take their place>
>>>>>>> REPLACE"""

_SEARCH = regex(r"<{7,8} SEARCH>?")
_REPLACE = regex(r">{7,8} REPLACE<?")
_SEPARATOR = "======="
_START_LINE = regex(r":start_line:\s*(\d{1,9})?")
_END_LINE = regex(r":end_line:\s*\d*")
_ESCAPED = regex(
    r"^([ \t]*)\\(?=<<<<<<<|=======|>>>>>>>|-------|:start_line:|:end_line:)", re.MULTILINE
)


class Block(Struct, frozen=True):
    search: str
    replace: str
    start_line: int | None = None
    """Where the model says that the text begins, counted from 1."""


class Malformed(Struct, frozen=True):
    """The diff is not a sequence of blocks; nothing of it may be applied."""

    message: str


class _State(StrEnum):
    OUTSIDE = "<<<<<<< SEARCH"
    """The marker that each state waits for is its value."""
    IN_SEARCH = "======="
    IN_REPLACE = ">>>>>>> REPLACE"


def parse_blocks(diff: str) -> tuple[Block, ...] | Malformed:
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    counts_add_up = _counts_add_up(lines)
    state = _State.OUTSIDE
    search: list[str] = []
    replace: list[str] = []
    blocks: list[Block] = []
    for number, line in enumerate(lines, 1):
        marker = line.strip()
        if problem := _problem(marker, number, state, counts_add_up):
            return Malformed(problem)
        match state:
            case _State.OUTSIDE:
                if _SEARCH.fullmatch(marker):
                    state, search, replace = _State.IN_SEARCH, [], []
            case _State.IN_SEARCH if marker == _SEPARATOR:
                state = _State.IN_REPLACE
            case _State.IN_SEARCH:
                search.append(line)
            case _State.IN_REPLACE if _REPLACE.fullmatch(marker):
                blocks.append(_block(search, replace))
                state = _State.OUTSIDE
            case _State.IN_REPLACE:
                replace.append(line)
    if state is not _State.OUTSIDE:
        return Malformed(
            f"The diff ends in the middle of a block: `{state}` was still expected."
            f" A block looks like this:\n\n{FORMAT}"
        )
    if not blocks:
        return Malformed(f"Invalid diff format: there is no block in it. Expected:\n\n{FORMAT}")
    return tuple(blocks)


def _block(search: list[str], replace: list[str]) -> Block:
    start_line = None
    rest = search
    # A rule without a line number before it, and in front of the new lines too, is the file's own.
    if search[:1] == ["-------"] == replace[:1]:
        return Block(_unescape(search), _unescape(replace))
    if rest and (match := _START_LINE.fullmatch(rest[0].strip())):
        start_line = int(match[1]) if match[1] else None
        rest = rest[1:]
    if rest and _END_LINE.fullmatch(rest[0].strip()):
        rest = rest[1:]
    if rest and rest[0].rstrip() == "-------":
        rest = rest[1:]
    return Block(_unescape(rest), _unescape(replace), start_line or None)


def _unescape(lines: list[str]) -> str:
    return _ESCAPED.sub(r"\1", "\n".join(lines))


def _counts_add_up(lines: list[str]) -> bool:
    """As many ends as beginnings and a separator for each: then a stray one belongs to a file."""
    stripped = [line.strip() for line in lines]
    searches = sum(1 for line in stripped if _SEARCH.fullmatch(line))
    replaces = sum(1 for line in stripped if _REPLACE.fullmatch(line))
    return searches == replaces and stripped.count(_SEPARATOR) >= searches


def _problem(marker: str, number: int, state: _State, counts_add_up: bool) -> str | None:
    """What is wrong with finding this line in this state, if anything is."""
    if not marker:
        return None
    match marker[0]:
        case "<" if _SEARCH.fullmatch(marker):
            return None if state is _State.OUTSIDE else _misplaced(marker, number, state)
        case ">" if _REPLACE.fullmatch(marker):
            return None if state is _State.IN_REPLACE else _misplaced(marker, number, state)
        case "=" if marker == _SEPARATOR:
            if state is _State.IN_SEARCH:
                return None
            stray = _conflict_marker if counts_add_up else _misplaced
            return stray(marker, number, state)
        case "<" | ">" if marker.startswith(("<<<<<<<", ">>>>>>>")):
            return _conflict_marker(marker, number, state)
        case ":" if state is _State.IN_REPLACE and marker.startswith(
            (":start_line:", ":end_line:")
        ):
            return _line_marker(marker, number)
    return None


def _misplaced(marker: str, number: int, state: _State) -> str:
    return (
        f"Malformed diff at line {number}: found `{marker}` where `{state}` was expected."
        f" Each block must look like this:\n\n{FORMAT}"
    )


def _conflict_marker(marker: str, number: int, state: _State) -> str:
    return (
        f"Line {number} of the diff is `{marker}`, which looks like a merge conflict marker in the"
        f" file, while `{state}` was expected. If the file really has this line, put a backslash"
        f" in front of it, in SEARCH and in REPLACE alike: `\\{marker}`. Otherwise use the markers"
        f" of a block exactly:\n\n{FORMAT}"
    )


def _line_marker(marker: str, number: int) -> str:
    return (
        f"Line {number} of the diff has `{marker}` in a REPLACE part. Line markers belong to the"
        " SEARCH part only.\n\n"
        "Right:\n<<<<<<< SEARCH\n:start_line:5\n-------\nold\n=======\nnew\n>>>>>>> REPLACE\n\n"
        "Wrong:\n<<<<<<< SEARCH\nold\n=======\n:start_line:5\nnew\n>>>>>>> REPLACE\n\n"
        f"If the file really has this line, write `\\{marker}`."
    )
