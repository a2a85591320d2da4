"""The block of code around a line, found by indentation alone, in whatever language.

From the line one goes up and down in turn, as long as lines are indented at least as far as is
wanted. A blank line belongs to what is above it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

MOST_LINES = 2_000
_TAB = 4
_HEADERS = ("#", "//", "/*", "*", "--", "@")
_CLOSERS = (")", "]", "}", "end")


class Block(Struct, frozen=True, kw_only=True):
    """What is wanted around a line."""

    anchor_line: int
    max_levels: int = 0
    """How many levels of indentation to go out; 0 goes out to the margin."""
    max_lines: int = MOST_LINES
    include_siblings: bool = False
    """Also what else stands at the outermost level."""
    include_header: bool = True
    """Also comments and decorators above the line that opens the block."""


class _Side(Struct):
    """One of the two directions, and how far it has come."""

    at: int
    step: int
    at_edge: bool = False
    """A line of the outermost level was taken: the one that opens the block, or closes it."""
    done: bool = False


def block_around(lines: Sequence[str], anchor: int, wanted: Block) -> tuple[int, int]:
    """The first and the last index of the block that has `lines[anchor]` in it."""
    levels = _levels(lines)
    least = max(0, levels[anchor] - wanted.max_levels) if wanted.max_levels else 0
    opens = levels[anchor] == least and not lines[anchor].lstrip().startswith(_CLOSERS)
    up, down = _Side(anchor - 1, -1, at_edge=opens), _Side(anchor + 1, 1)
    taken = 1
    while taken < wanted.max_lines and not (up.done and down.done):
        for side in (up, down):
            if side.done or taken >= wanted.max_lines:
                continue
            side.done = not _takes(side, lines, levels, least, wanted)
            if not side.done:
                side.at += side.step
                taken += 1
    first, last = up.at + 1, down.at - 1
    while first < anchor and not lines[first].strip():
        first += 1
    while last > anchor and not lines[last].strip():
        last -= 1
    return first, last


def _takes(
    side: _Side, lines: Sequence[str], levels: Sequence[int], least: int, wanted: Block
) -> bool:
    """Whether the next line in this direction belongs to the block."""
    if not 0 <= side.at < len(lines) or levels[side.at] < least:
        return False
    if wanted.include_siblings:
        return True
    line, is_outermost = lines[side.at].lstrip(), levels[side.at] == least
    if side.at_edge:
        is_above = side.step < 0 and wanted.include_header
        return is_above and is_outermost and line.startswith(_HEADERS)
    side.at_edge = is_outermost and bool(line)
    return True


def _levels(lines: Sequence[str]) -> list[int]:
    levels: list[int] = []
    for line in lines:
        text = line.lstrip(" \t")
        if text.strip():
            indent = line[: len(line) - len(text)]
            levels.append((indent.count(" ") + indent.count("\t") * _TAB) // _TAB)
        else:
            levels.append(levels[-1] if levels else 0)
    return levels
