"""Styled text, broken into the lines of a screen.

A span is a piece of text with the name of its style (see `Palette`). Breaking is linear in the
text, whatever the text is: a line of a megabyte without a blank is only a long line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.cells import cell_len, split_graphemes
from rich.console import Console
from rich.style import Style
from rich.text import Text

Span = tuple[str, str | Style]
Spans = Sequence[Span]

TAB = 4
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
_WORDS = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]+")
"""What is not broken unless it is longer than a line."""
_CONSOLE = Console(file=io.StringIO())


def plain(spans: Spans) -> str:
    return "".join(text for text, _ in spans)


def from_text(text: Text) -> Iterator[Spans]:
    """The lines of a rich text."""
    for line in text.split("\n", allow_blank=True):
        rendered = line.render(_CONSOLE)
        yield [(piece, style or "") for piece, style, _ in rendered if piece]


def wrapped(spans: Spans, width: int, hang: int = 0) -> list[Spans]:
    """A line broken between words; the lines that follow are indented by `hang`."""
    text = plain(spans)
    if _fits(text, width):
        return [spans]
    hang = hang if hang <= width // 2 else 0
    return _cut(spans, _between_words(text, width, width - hang), hang)


def chopped(spans: Spans, width: int, hang: int = 0) -> list[Spans]:
    """A line broken at the edge, as code and outputs are."""
    text = plain(spans)
    if _fits(text, width):
        return [spans]
    hang = hang if hang <= width // 2 else 0
    return _cut(spans, list(_at_edge(text, 0, len(text), width, width - hang)), hang)


def chopped_height(text: str, width: int, hang: int = 0) -> int:
    """How many lines `chopped` makes of a text."""
    if _fits(text, width):
        return 1
    hang = hang if hang <= width // 2 else 0
    if text.isascii():
        return 1 + -(-(len(text) - width) // (width - hang))
    return sum(1 for _ in _at_edge(text, 0, len(text), width, width - hang))


def _fits(text: str, width: int) -> bool:
    # No character is wider than two cells, none that ASCII has wider than one.
    if len(text) <= width and text.isascii():
        return True
    return len(text) <= 4 * width and cell_len(text) <= width


def _between_words(text: str, first: int, room: int) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    start = end = used = 0
    left = first
    for word in _WORDS.finditer(text):
        size = cell_len(word.group())
        gap = cell_len(text[end : word.start()])
        if end > start and used + gap + size > left:
            pieces.append((start, end))
            start, used, gap, left = word.start(), 0, 0, room
        if used + gap + size > left:
            *whole, (start, end) = _at_edge(text, start, word.end(), left, room)
            pieces += whole
            left = room if whole else left
            used = cell_len(text[start:end])
        else:
            used += gap + size
        end = word.end()
    return [*pieces, (start, end)]


def _at_edge(text: str, start: int, end: int, first: int, room: int) -> Iterator[tuple[int, int]]:
    """Pieces of at most as many cells; a character that is wider than a line has its own."""
    part = text[start:end]
    if part.isascii():
        yield (start, min(end, start + first))
        yield from ((at, min(end, at + room)) for at in range(start + first, end, room))
        return
    graphemes, _ = split_graphemes(part)
    begun, used, left = 0, 0, first
    for at, _, size in graphemes:
        if used + size > left and at > begun:
            yield (start + begun, start + at)
            begun, used, left = at, 0, room
        used += size
    yield (start + begun, end)


def _cut(spans: Spans, pieces: Sequence[tuple[int, int]], hang: int) -> list[Spans]:
    """The pieces of a line with their styles; both rise, so each span is looked at once."""
    ends = list(accumulate(len(text) for text, _ in spans))
    lines: list[Spans] = []
    at = 0
    for number, (start, end) in enumerate(pieces):
        line: list[Span] = [(" " * hang, "")] if hang and number else []
        while at < len(spans) and ends[at] <= start:
            at += 1
        index = at
        while index < len(spans) and ends[index] - len(spans[index][0]) < end:
            text, style = spans[index]
            begins = ends[index] - len(text)
            line.append((text[max(0, start - begins) : end - begins], style))
            index += 1
        lines.append(line)
    return lines
