"""What a block is made of: pieces that know their height at once, and are drawn when seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rich.cells import cell_len

from joey.tui.blocks.code import coloured
from joey.tui.blocks.spans import (
    Span,
    Spans,
    chopped,
    chopped_height,
    plain,
    wrapped,
)

CHUNK = 100
"""Lines that are drawn and coloured together."""
NARROWEST = 8
"""Columns that text is given, however narrow the screen is."""


class Piece(Protocol):
    def height(self, width: int) -> int: ...

    def lines(self, width: int) -> list[Spans]: ...


class Line:
    """Words, broken between them; what follows the first line is indented by `hang`."""

    __slots__ = ("_hang", "_spans")

    def __init__(self, spans: Spans, hang: int = 0) -> None:
        self._spans = spans
        self._hang = hang

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[Spans]:
        return wrapped(self._spans, max(NARROWEST, width), self._hang)


class LazyLine:
    """The same from a text whose marks are looked at when it is drawn.

    Drawn, it is no longer than the text: what fits on one line needs no look to be measured.
    """

    __slots__ = ("_drawn", "_hang", "_lead", "_text")

    def __init__(
        self, text: str, hang: int, drawn: Callable[[str], Spans], lead: Span | None = None
    ) -> None:
        """`lead` stands where the lines after the first are indented."""
        self._text = text
        self._hang = hang
        self._drawn = drawn
        self._lead = lead

    def height(self, width: int) -> int:
        if len(self._text) <= width and self._text.isascii():
            return 1
        return len(self.lines(width))

    def lines(self, width: int) -> list[Spans]:
        lines = wrapped(self._drawn(self._text), max(NARROWEST, width), self._hang)
        if self._lead is None:
            return lines
        blank = (" " * self._hang, "")
        return [[self._lead, *line[1:]] if line[:1] == [blank] else line for line in lines]


class Verbatim:
    """Lines that are broken at the edge only, behind a margin; coloured when seen."""

    __slots__ = ("_language", "_lines", "_margin")

    def __init__(self, lines: Sequence[str], margin: Spans, language: str = "") -> None:
        self._lines = lines
        self._margin = margin
        self._language = language

    def height(self, width: int) -> int:
        room = self._room(width)
        return sum(chopped_height(line, room) for line in self._lines)

    def lines(self, width: int) -> list[Spans]:
        room = self._room(width)
        return [
            [*self._margin, *part]
            for line in coloured(self._lines, self._language)
            for part in chopped(line, room)
        ]

    def _room(self, width: int) -> int:
        return max(NARROWEST, width - cell_len(plain(self._margin)))


class Marked:
    """Lines with a margin of their own each, as in a diff; what follows is set below the text."""

    __slots__ = ("_hang", "_lines")

    def __init__(self, lines: Sequence[Spans], hang: int) -> None:
        self._lines = lines
        self._hang = hang

    def height(self, width: int) -> int:
        room = max(NARROWEST, width)
        return sum(chopped_height(plain(line), room, self._hang) for line in self._lines)

    def lines(self, width: int) -> list[Spans]:
        room = max(NARROWEST, width)
        return [part for line in self._lines for part in chopped(line, room, self._hang)]


class OneLine:
    """A line that is cut where the screen ends."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        first, *rest = chopped(self._spans, max(NARROWEST, width) - 1)
        return [[*first, ("…", first[-1][1])] if rest and first else first]


class Blank:
    __slots__ = ()

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        return [[]]


class Rule:
    __slots__ = ()

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        return [[("─" * min(20, width), "muted")]]


BLANK = Blank()


def in_chunks(lines: Sequence[str], margin: Spans, language: str = "") -> list[Piece]:
    """Many lines as pieces that are small enough to be drawn in a moment."""
    return [
        Verbatim(lines[start : start + CHUNK], margin, language)
        for start in range(0, len(lines), CHUNK)
    ]
