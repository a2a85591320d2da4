"""Blocks of a conversation: their pieces, layout and heights.

A block consists of pieces, which know their height at once and are drawn when they are visible.
Pieces that can no longer change are measured once per `DrawContext`; the open ones at the end are
drawn again whenever the block has grown. `BlockHeights` is a Fenwick tree over the heights of all
blocks: appending, correcting and finding the block at a line take logarithmic time.
"""

from __future__ import annotations

import sys
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
    chop_spans,
    count_chopped_lines,
    highlight_lines,
    to_plain_text,
    wrap_spans,
)

DEFAULT_MARGIN: Spans = ((" ", ""),)


GAP_STRIP_KEY = -1
"""Where the line above a block is kept."""


class DrawContext(Struct, frozen=True):
    """Everything that affects how blocks are drawn."""

    width: int
    palette: Palette
    is_expanded: bool


class Block:
    gap_lines = 1
    index = -1
    """Which of all blocks it is."""
    margin: Spans = DEFAULT_MARGIN
    """What stands left of each line."""

    # Most blocks of a long task are never seen: until then they cost nothing but their text.
    _draw_context: DrawContext | None = None
    _parts: list[BlockPart]
    _part_top_lines: list[int]
    """Where each piece begins, and where the last one ends; the settled ones first."""
    _strips: dict[int, list[Strip]]
    _stable_part_count = 0
    _first_changed_line = 0
    """The first line that looks different since `pop_first_changed_line`."""
    _is_stale = True

    @property
    def is_compact(self) -> bool:
        """Whether it may be placed close to others of its kind."""
        return False

    # Content, for each kind of block

    def build_stable_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        """Build the stable pieces: until `invalidate`, their number only grows."""
        return ()

    def build_open_parts(self, *, expanded: bool) -> Sequence[BlockPart]:
        """Build the pieces below, which may change at the next call."""
        return ()

    def estimate_chars_and_line_breaks(self) -> tuple[int, int]:
        """Estimate the numbers of characters and line breaks cheaply."""
        return 0, 0

    # Changes

    def mark_grown(self) -> None:
        """Mark that content was appended."""
        self._is_stale = True

    def invalidate(self) -> None:
        """Mark that all content has changed."""
        self._draw_context = None

    # Drawing

    def is_measured(self, context: DrawContext) -> bool:
        return self._draw_context is context

    def estimate_height(self, width: int) -> int:
        characters, breaks = self.estimate_chars_and_line_breaks()
        wrapped = max(0, characters - 40 * breaks) // max(MIN_TEXT_COLUMNS, width)
        return self.gap_lines + 1 + breaks + wrapped

    def measure_height(self, context: DrawContext) -> int:
        self._layout_parts(context)
        return self.gap_lines + self._part_top_lines[-1] if self._part_top_lines[-1] else 0

    def render_strip(self, line: int, context: DrawContext) -> Strip:
        self._layout_parts(context)
        line -= self.gap_lines
        if not 0 <= line < self._part_top_lines[-1]:
            return self._strips.setdefault(GAP_STRIP_KEY, [self._build_strip([], context)])[0]
        number = bisect_right(self._part_top_lines, line) - 1
        strips = self._strips.get(number)
        if strips is None:
            width = compute_content_width(context.width, self.margin)
            drawn = self._parts[number].render_lines(width)
            strips = self._strips[number] = [self._build_strip(spans, context) for spans in drawn]
        return strips[line - self._part_top_lines[number]]

    def pop_first_changed_line(self) -> int:
        """Return the first line to draw again, and reset it. It may have been laid out several
        times since: other parts of the screen are drawn too before its own frame."""
        line, self._first_changed_line = self._first_changed_line, sys.maxsize
        return line

    def discard_strips(self) -> None:
        """Discard the strips because it is out of sight; its height stays known."""
        self._strips = {}

    def _layout_parts(self, context: DrawContext) -> None:
        if self._draw_context is not context:
            self._draw_context, self._is_stale = context, True
            self._parts, self._part_top_lines, self._stable_part_count = [], [0], 0
            self._first_changed_line = 0
            self._strips = {}
        if not self._is_stale:
            return
        self._is_stale = False
        stable = self._stable_part_count
        changed = self.gap_lines + self._part_top_lines[stable] if stable else 0
        self._first_changed_line = min(self._first_changed_line, changed)
        for number in range(stable, len(self._parts)):
            self._strips.pop(number, None)
        del self._parts[stable:]
        del self._part_top_lines[stable + 1 :]
        settled = self.build_stable_parts(expanded=context.is_expanded)
        self._append_parts(settled[stable:], context)
        self._stable_part_count = len(settled)
        self._append_parts(self.build_open_parts(expanded=context.is_expanded), context)

    def _append_parts(self, pieces: Sequence[BlockPart], context: DrawContext) -> None:
        width = compute_content_width(context.width, self.margin)
        for piece in pieces:
            self._parts.append(piece)
            self._part_top_lines.append(self._part_top_lines[-1] + piece.measure_height(width))

    def _build_strip(self, spans: Spans, context: DrawContext) -> Strip:
        style = context.palette.resolve_style
        line = [*self.margin, *spans]
        segments = [Segment(text, style(name)) for text, name in line if text]
        return Strip(segments, sum(cell_len(segment.text) for segment in segments))


CHUNK_LINES = 100
"""Drawn and coloured together."""
MIN_TEXT_COLUMNS = 8
"""However narrow the screen is."""


class BlockPart(Protocol):
    def measure_height(self, width: int) -> int: ...

    def render_lines(self, width: int) -> list[Spans]: ...


class WrappedLine(Struct, frozen=True):
    """Text broken between words; continuation lines are indented by `hang`."""

    spans: Spans
    hang: int = 0

    def measure_height(self, width: int) -> int:
        return len(self.render_lines(width))

    def render_lines(self, width: int) -> list[Spans]:
        return wrap_spans(self.spans, max(MIN_TEXT_COLUMNS, width), self.hang)


class LazyWrappedLine(Struct, frozen=True):
    """Wrapped text that is parsed when drawn; drawn, it is no longer than the text."""

    text: str
    hang: int
    render_text: Callable[[str], Spans]
    continuation_prefix: Span | None = None
    """Stands where the lines after the first are indented."""

    def measure_height(self, width: int) -> int:
        if len(self.text) <= width and self.text.isascii():
            return 1
        return len(self.render_lines(width))

    def render_lines(self, width: int) -> list[Spans]:
        lines = wrap_spans(self.render_text(self.text), max(MIN_TEXT_COLUMNS, width), self.hang)
        if self.continuation_prefix is None:
            return lines
        blank = (" " * self.hang, "")
        return [
            [self.continuation_prefix, *line[1:]] if line[:1] == [blank] else line for line in lines
        ]


class VerbatimLines(Struct, frozen=True):
    """Lines that are broken only at the edge, after a margin; coloured when visible."""

    lines: Sequence[str]
    margin: Spans
    language: str = ""

    def measure_height(self, width: int) -> int:
        columns = compute_content_width(width, self.margin)
        return sum(count_chopped_lines(line, columns) for line in self.lines)

    def render_lines(self, width: int) -> list[Spans]:
        columns = compute_content_width(width, self.margin)
        return [
            [*self.margin, *part]
            for line in highlight_lines(self.lines, self.language)
            for part in chop_spans(line, columns)
        ]


def compute_content_width(width: int, margin: Spans) -> int:
    return max(MIN_TEXT_COLUMNS, width - cell_len(to_plain_text(margin)))


class HangingIndentLines(Struct, frozen=True):
    """Lines with a margin each, as in a diff; continuation lines are indented below the text."""

    lines: Sequence[Spans]
    hang: int

    def measure_height(self, width: int) -> int:
        columns = max(MIN_TEXT_COLUMNS, width)
        texts = map(to_plain_text, self.lines)
        return sum(count_chopped_lines(text, columns, self.hang) for text in texts)

    def render_lines(self, width: int) -> list[Spans]:
        columns = max(MIN_TEXT_COLUMNS, width)
        return [part for line in self.lines for part in chop_spans(line, columns, self.hang)]


class SingleLine(Struct, frozen=True):
    """A line that is cut at the screen's width."""

    spans: Spans

    def measure_height(self, width: int) -> int:
        return 1

    def render_lines(self, width: int) -> list[Spans]:
        first, *rest = chop_spans(self.spans, max(MIN_TEXT_COLUMNS, width) - 1)
        return [[*first, ("…", first[-1][1])] if rest and first else first]


class HorizontalRule:
    def measure_height(self, width: int) -> int:
        return 1

    def render_lines(self, width: int) -> list[Spans]:
        return [[("─" * min(20, width), "muted")]]


BLANK_LINE = SingleLine(())


class BlockHeights:
    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        self._tree_sums = [0, *self._heights]
        """At each number, the sum of as many heights before it as its lowest bit says."""
        for number in range(1, len(self._tree_sums)):
            above = number + (number & -number)
            if above < len(self._tree_sums):
                self._tree_sums[above] += self._tree_sums[number]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    @property
    def total(self) -> int:
        return self.get_top_line(len(self._heights))

    def append(self, height: int) -> None:
        number = len(self._tree_sums)
        low = number & -number
        covered, part = height, 1
        while part < low:
            covered += self._tree_sums[number - part]
            part <<= 1
        self._heights.append(height)
        self._tree_sums.append(covered)

    def set_height(self, index: int, height: int) -> None:
        more = height - self._heights[index]
        if not more:
            return
        self._heights[index] = height
        number = index + 1
        while number < len(self._tree_sums):
            self._tree_sums[number] += more
            number += number & -number

    def get_top_line(self, index: int) -> int:
        """Return the line in which it begins."""
        total = 0
        while index:
            total += self._tree_sums[index]
            index &= index - 1
        return total

    def find_block(self, line: int) -> tuple[int, int]:
        """Find the block at a line, and how far below its top the line is."""
        index, step = 0, 1 << len(self._tree_sums).bit_length()
        while step:
            if index + step < len(self._tree_sums) and self._tree_sums[index + step] <= line:
                index += step
                line -= self._tree_sums[index]
            step >>= 1
        return index, line
