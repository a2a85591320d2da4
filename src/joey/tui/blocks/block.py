"""Blocks of a conversation: their pieces, layout and heights.

A block consists of pieces, which know their height at once and are drawn when they are visible.
Pieces that can no longer change are measured once per `DrawContext`; the open ones at the end are
drawn again whenever the block has grown. `BlockHeights` is a Fenwick tree over the heights of all
blocks: appending, correcting and finding the block at a line take logarithmic time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from joey.tui.blocks.styled_text import (
    Palette,
    Span,
    Spans,
    chopped,
    chopped_height,
    coloured,
    plain,
    wrapped,
)

DEFAULT_MARGIN: Spans = ((" ", ""),)


GAP_STRIP_KEY = -1
"""Where the line above a block is kept."""


class DrawContext(Struct, frozen=True):
    """All that decides how things are drawn."""

    width: int
    palette: Palette
    whole: bool


class Block:
    gap = 1
    place = -1
    """Which of all blocks it is."""
    margin: Spans = DEFAULT_MARGIN
    """What stands left of each line."""

    # Most blocks of a long task are never seen: until then they cost nothing but their text.
    _look: DrawContext | None = None
    _pieces: list[BlockPart]
    _tops: list[int]
    """Where each piece begins, and where the last one ends; the settled ones first."""
    _strips: dict[int, list[Strip]]
    _settled = 0
    _fresh = 0
    _is_stale = True

    @property
    def is_brief(self) -> bool:
        """It may stand close to others of its kind."""
        return False

    @property
    def fresh(self) -> int:
        """The first line that looks different since it changed."""
        return self._fresh

    # What it shows: for each kind of block

    def settled(self, *, whole: bool) -> Sequence[BlockPart]:
        """Pieces that stay: until `change`, there are only ever more of them."""
        return ()

    def open(self, *, whole: bool) -> Sequence[BlockPart]:
        """Pieces below them that may be others the next time."""
        return ()

    def size(self) -> tuple[int, int]:
        """About how many characters and line breaks there are, known without a look."""
        return 0, 0

    # When it changes

    def grow(self) -> None:
        """There is more at its end."""
        self._is_stale = True

    def change(self) -> None:
        """It is another one."""
        self._look = None

    # How it is drawn

    def is_measured(self, look: DrawContext) -> bool:
        return self._look is look

    def estimate(self, width: int) -> int:
        characters, breaks = self.size()
        return (
            self.gap + 1 + breaks + max(0, characters - 40 * breaks) // max(MIN_TEXT_COLUMNS, width)
        )

    def height(self, look: DrawContext) -> int:
        self._lay_out(look)
        return self.gap + self._tops[-1] if self._tops[-1] else 0

    def strip(self, line: int, look: DrawContext) -> Strip:
        self._lay_out(look)
        line -= self.gap
        if not 0 <= line < self._tops[-1]:
            return self._strips.setdefault(GAP_STRIP_KEY, [self._strip([], look)])[0]
        number = bisect_right(self._tops, line) - 1
        strips = self._strips.get(number)
        if strips is None:
            width = self._room(look)
            drawn = self._pieces[number].lines(width)
            strips = self._strips[number] = [self._strip(spans, look) for spans in drawn]
        return strips[line - self._tops[number]]

    def forget_strips(self) -> None:
        """It is out of sight; how high it is stays known."""
        self._strips = {}

    def _room(self, look: DrawContext) -> int:
        return max(MIN_TEXT_COLUMNS, look.width - cell_len(plain(self.margin)))

    def _lay_out(self, look: DrawContext) -> None:
        if self._look is not look:
            self._look, self._is_stale = look, True
            self._pieces, self._tops, self._settled = [], [0], 0
            self._fresh = 0
            self._strips = {}
        if not self._is_stale:
            return
        self._is_stale = False
        self._fresh = self.gap + self._tops[self._settled] if self._settled else 0
        for number in range(self._settled, len(self._pieces)):
            self._strips.pop(number, None)
        del self._pieces[self._settled :]
        del self._tops[self._settled + 1 :]
        settled = self.settled(whole=look.whole)
        self._add(settled[self._settled :], look)
        self._settled = len(settled)
        self._add(self.open(whole=look.whole), look)

    def _add(self, pieces: Sequence[BlockPart], look: DrawContext) -> None:
        width = self._room(look)
        for piece in pieces:
            self._pieces.append(piece)
            self._tops.append(self._tops[-1] + piece.height(width))

    def _strip(self, spans: Spans, look: DrawContext) -> Strip:
        style = look.palette.style
        line = [*self.margin, *spans]
        segments = [Segment(text, style(name)) for text, name in line if text]
        return Strip(segments, sum(cell_len(segment.text) for segment in segments))


CHUNK_LINES = 100
"""Lines that are drawn and coloured together."""
MIN_TEXT_COLUMNS = 8
"""Columns that text is given, however narrow the screen is."""


class BlockPart(Protocol):
    def height(self, width: int) -> int: ...

    def lines(self, width: int) -> list[Spans]: ...


class WrappedLine:
    """Words, broken between them; what follows the first line is indented by `hang`."""

    __slots__ = ("_hang", "_spans")

    def __init__(self, spans: Spans, hang: int = 0) -> None:
        self._spans = spans
        self._hang = hang

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[Spans]:
        return wrapped(self._spans, max(MIN_TEXT_COLUMNS, width), self._hang)


class LazyWrappedLine:
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
        lines = wrapped(self._drawn(self._text), max(MIN_TEXT_COLUMNS, width), self._hang)
        if self._lead is None:
            return lines
        blank = (" " * self._hang, "")
        return [[self._lead, *line[1:]] if line[:1] == [blank] else line for line in lines]


class VerbatimLines:
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
        return max(MIN_TEXT_COLUMNS, width - cell_len(plain(self._margin)))


class HangingIndentLines:
    """Lines with a margin of their own each, as in a diff; what follows is set below the text."""

    __slots__ = ("_hang", "_lines")

    def __init__(self, lines: Sequence[Spans], hang: int) -> None:
        self._lines = lines
        self._hang = hang

    def height(self, width: int) -> int:
        room = max(MIN_TEXT_COLUMNS, width)
        return sum(chopped_height(plain(line), room, self._hang) for line in self._lines)

    def lines(self, width: int) -> list[Spans]:
        room = max(MIN_TEXT_COLUMNS, width)
        return [part for line in self._lines for part in chopped(line, room, self._hang)]


class SingleLine:
    """A line that is cut where the screen ends."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        first, *rest = chopped(self._spans, max(MIN_TEXT_COLUMNS, width) - 1)
        return [[*first, ("…", first[-1][1])] if rest and first else first]


class BlankLine:
    __slots__ = ()

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        return [[]]


class HorizontalRule:
    __slots__ = ()

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Spans]:
        return [[("─" * min(20, width), "muted")]]


BLANK_LINE = BlankLine()


def in_chunks(lines: Sequence[str], margin: Spans, language: str = "") -> list[BlockPart]:
    """Many lines as pieces that are small enough to be drawn in a moment."""
    return [
        VerbatimLines(lines[start : start + CHUNK_LINES], margin, language)
        for start in range(0, len(lines), CHUNK_LINES)
    ]


class BlockHeights:
    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._each = list(heights)
        self._sums = [0, *self._each]
        """At each number, the sum of as many heights before it as its lowest bit says."""
        for number in range(1, len(self._sums)):
            above = number + (number & -number)
            if above < len(self._sums):
                self._sums[above] += self._sums[number]

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, place: int) -> int:
        return self._each[place]

    @property
    def total(self) -> int:
        return self.top(len(self._each))

    def append(self, height: int) -> None:
        number = len(self._sums)
        low = number & -number
        covered, part = height, 1
        while part < low:
            covered += self._sums[number - part]
            part <<= 1
        self._each.append(height)
        self._sums.append(covered)

    def put(self, place: int, height: int) -> None:
        more = height - self._each[place]
        if not more:
            return
        self._each[place] = height
        number = place + 1
        while number < len(self._sums):
            self._sums[number] += more
            number += number & -number

    def top(self, place: int) -> int:
        """The line in which it begins."""
        total = 0
        while place:
            total += self._sums[place]
            place &= place - 1
        return total

    def find(self, line: int) -> tuple[int, int]:
        """What stands at a line, and how far below its top the line is."""
        place, step = 0, 1 << len(self._sums).bit_length()
        while step:
            if place + step < len(self._sums) and self._sums[place + step] <= line:
                place += step
                line -= self._sums[place]
            step >>= 1
        return place, line
