"""Text for the terminal, wrapped to its width.

`wrap` breaks lines between words. The part before the text of a line (spaces, a bullet, a number)
is its lead; continuation lines are indented by its width. A word longer than a line is cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO
from unicodedata import combining, east_asian_width

from joey.core.text import sanitize as sanitize  # noqa: PLC0414
from joey.core.text import to_one_line as to_one_line  # noqa: PLC0414

Piece = tuple[str, str]
"""A text with its style: names of attributes and colours, as in `bold cyan`."""

MIN_TERMINAL_WIDTH = 20
_LINE_LEAD_RE = re.compile(r"\s*(?:(?:[-*+•●│$!›✓✗·~?]|\d{1,3}[.)]|joey:) +|[+-]\s*)?")
_WORD_RE = re.compile(r"\S+")


def measure_width(text: str) -> int:
    """Measure the columns of a text on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text
    )


def get_terminal_width(stream: TextIO | None) -> int | None:
    """Return the width of a stream's terminal; None if it is not a terminal."""
    try:
        if stream is None or not stream.isatty():
            return None
        return max(MIN_TERMINAL_WIDTH, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return None


def wrap(text: str, width: int | None) -> str:
    """Wrap every line of the text to `width` columns; None leaves them unchanged."""
    return "".join(piece for piece, _ in wrap_pieces([(text, "")], width))


def wrap_pieces(
    pieces: Sequence[Piece], width: int | None, extra_indent: int = 0
) -> Sequence[Piece]:
    """Wrap styled text; with `extra_indent`, continuation lines are indented by that much more."""
    if width is None:
        return pieces
    plain = "".join(text for text, _ in pieces)
    styles = [style for text, style in pieces for _ in text]
    wrapped: list[Piece] = []
    line_start = 0
    for line in plain.split("\n"):
        hang, places = find_line_breaks(line, width, extra_indent)
        for number, (start, end) in enumerate(places):
            if number or line_start:
                wrapped.append((f"\n{' ' * hang if number else ''}", ""))
            place = range(line_start + start, line_start + end)
            for style, run in groupby(place, styles.__getitem__):
                wrapped.append(("".join(plain[index] for index in run), style))
        line_start += len(line) + 1
    return wrapped


def find_line_breaks(line: str, width: int, extra_indent: int) -> tuple[int, list[tuple[int, int]]]:
    """Find the line breaks: the indentation of continuation lines, and each piece's range."""
    if measure_width(line) <= width:
        return 0, [(0, len(line))]
    lead = _LINE_LEAD_RE.match(line)
    text = lead.end() if lead else 0
    hang = measure_width(line[:text]) + extra_indent
    if hang > width // 2:
        hang = 2
    pieces: list[tuple[int, int]] = []
    start, end, room = 0, 0, width
    for word in _WORD_RE.finditer(line):
        if end > max(start, text) and measure_width(line[start : word.end()]) > room:
            pieces.append((start, end))
            start, room = word.start(), width - hang
        while measure_width(line[start : word.end()]) > room:
            fitting = _find_fitting_end(line, start, room)
            pieces.append((start, fitting))
            start, room = fitting, width - hang
        end = word.end()
    return hang, [*pieces, (start, end)]


def _find_fitting_end(line: str, start: int, room: int) -> int:
    """Find the end of the longest piece from `start` that fits; at least one character."""
    end = start + 1
    while end < len(line) and measure_width(line[start : end + 1]) <= room:
        end += 1
    return end
