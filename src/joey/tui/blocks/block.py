"""One thing that is shown: words, a call, a result. It is drawn for a width when it is seen.

A block is made of pieces. Those that can no longer change are measured once for each look; the
open ones at its end are drawn again whenever it grew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from joey.tui.blocks.palette import Palette
from joey.tui.blocks.pieces import NARROWEST, Piece
from joey.tui.blocks.spans import Spans, plain

MARGIN: Spans = ((" ", ""),)


GAP = -1
"""Where the line above a block is kept."""


class Look(Struct, frozen=True):
    """All that decides how things are drawn."""

    width: int
    palette: Palette
    whole: bool
    """Nothing is folded."""


class Block:
    gap = 1
    """Empty lines above it."""
    place = -1
    """Which of all blocks it is."""
    margin: Spans = MARGIN
    """What stands left of each line."""

    # Most blocks of a long task are never seen: until then they cost nothing but their text.
    _look: Look | None = None
    _pieces: list[Piece]
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

    def settled(self, *, whole: bool) -> Sequence[Piece]:
        """Pieces that stay: until `change`, there are only ever more of them."""
        return ()

    def open(self, *, whole: bool) -> Sequence[Piece]:
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

    def is_measured(self, look: Look) -> bool:
        return self._look is look

    def estimate(self, width: int) -> int:
        characters, breaks = self.size()
        return self.gap + 1 + breaks + max(0, characters - 40 * breaks) // max(NARROWEST, width)

    def height(self, look: Look) -> int:
        self._lay_out(look)
        return self.gap + self._tops[-1] if self._tops[-1] else 0

    def strip(self, line: int, look: Look) -> Strip:
        self._lay_out(look)
        line -= self.gap
        if not 0 <= line < self._tops[-1]:
            return self._strips.setdefault(GAP, [self._strip([], look)])[0]
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

    def _room(self, look: Look) -> int:
        return max(NARROWEST, look.width - cell_len(plain(self.margin)))

    def _lay_out(self, look: Look) -> None:
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

    def _add(self, pieces: Sequence[Piece], look: Look) -> None:
        width = self._room(look)
        for piece in pieces:
            self._pieces.append(piece)
            self._tops.append(self._tops[-1] + piece.height(width))

    def _strip(self, spans: Spans, look: Look) -> Strip:
        style = look.palette.style
        line = [*self.margin, *spans]
        segments = [Segment(text, style(name)) for text, name in line if text]
        return Strip(segments, sum(cell_len(segment.text) for segment in segments))
