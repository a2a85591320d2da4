"""Lines of a text as they are asked for: all of them, by ranges, or the block around one."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from joey.core.models import ModelInfo
from joey.errors import ToolError
from joey.tools.line_block import Block, block_around
from joey.tools.line_reader import NUMBER_WIDTH, LineReader, Lines
from joey.tools.read_request import Range, WantedFile
from joey.tools.read_result import Entry, Passage

UNLIMITED = -1
_LEAST_BUDGET = 16 * 1024
_MOST_BUDGET = 1024 * 1024
_BYTES_PER_TOKEN = 3
_WITHOUT_END = 2**62

Opener = Callable[[], LineReader]
"""Begins to read the text, at its beginning."""


class TextViewer:
    """Shows texts within one budget, that of a call."""

    def __init__(self, model: ModelInfo) -> None:
        self._left = text_budget(model)

    async def view(self, wanted: WantedFile, start: Opener, most: int = UNLIMITED) -> Entry:
        """What is asked for; `most` lines if nothing is said about lines.

        Raises:
            ToolError: there are no such lines, or there is no room left for them.
        """
        if wanted.block is not None:
            return await self._block(wanted.path, wanted.block, start)
        if wanted.ranges:
            return await self._ranges(wanted, start)
        return await self._whole(wanted, start(), most)

    async def _whole(self, wanted: WantedFile, reader: LineReader, most: int) -> Entry:
        lines = await self._take(reader, most if most >= 0 else _WITHOUT_END)
        if not lines.cut and not await reader.has_more():
            return Entry(wanted.path, (_passage(lines),))
        total = await reader.count_lines()
        whole = f"{total}" if total is not None else f"more than {reader.line}"
        if lines.inside_line:
            note = f"Line {lines.first} is cut: it is longer than one call can show."
        elif not lines.lines:
            note = f"Showing 0 of {whole} total lines; name the lines you need in line_ranges."
        else:
            note = (
                f"Showing lines 1-{lines.next - 1} of {whole} total lines. Read on with"
                f" line_ranges, from line {lines.next}."
            )
        return Entry(wanted.path, (_passage(lines),) if lines.lines else (), note=note)

    async def _ranges(self, wanted: WantedFile, start_over: Opener) -> Entry:
        found: dict[Range, Lines] = {}
        reader = start_over()
        for start, end in sorted(wanted.ranges):
            if again := found.get((start, end)):
                self._repeat(again)
                continue
            if start < 1 or end < start:
                raise ToolError(
                    f"Invalid line range {start}-{end}: lines count from 1, and a range must not"
                    " end before it starts."
                )
            if start < reader.line:
                reader = start_over()
            if not await reader.skip_to(start):
                total = await reader.count_lines()
                raise ToolError(
                    f"Line range {start}-{end} begins after the end of the file, which has"
                    f" {total} lines."
                )
            found[start, end] = await self._take(reader, end - start + 1)
        passages = tuple(
            _passage(found[span], None if wanted.pages else span[1]) for span in wanted.ranges
        )
        return Entry(wanted.path, passages, note=await _range_note(wanted, found, reader))

    async def _block(self, path: str, block: Block, start: Opener) -> Entry:
        """As many lines before and after the anchor are looked at as may be shown."""
        self._check_room()
        reader = start()
        anchor = block.anchor_line
        first = max(1, anchor - block.max_lines)
        found = await reader.skip_to(first)
        wide = await reader.take(anchor - first + 1 + block.max_lines, self._left * 2)
        total = await reader.count_lines()
        if not found or (wide.next <= anchor and not wide.cut):
            raise ToolError(f"anchor_line {anchor} is out of range (1-{total}).")
        lines = Lines(first, ())
        if wide.next > anchor:
            top, bottom = block_around(wide.lines, anchor - first, block)
            lines = _within(Lines(first + top, wide.lines[top : bottom + 1]), self._left)
        if not lines.lines:
            raise ToolError(
                f"The lines around line {anchor} are too long to look at: name the lines you need"
                " in line_ranges."
            )
        self._left -= _size(lines)
        of = f"{total} lines" if total is not None else f"more than {reader.line} lines"
        note = f"Included ranges: {lines.first}-{lines.next - 1} (total: {of})"
        if lines.cut or len(lines.lines) >= block.max_lines:
            note += f". The block may go on: read on with line_ranges, from line {lines.next}."
        return Entry(path, (_passage(lines),), note=note)

    async def _take(self, reader: LineReader, count: int) -> Lines:
        if count > 0:
            self._check_room()
        lines = await reader.take(count, self._left)
        self._left -= _size(lines)
        return lines

    def has_room_for(self, text: str) -> bool:
        """Whether more text can be shown beside the lines; then it takes its room."""
        size = len(text.encode(errors="replace"))
        if size > self._left:
            return False
        self._left -= size
        return True

    def _repeat(self, lines: Lines) -> None:
        self._check_room(_size(lines))
        self._left -= _size(lines)

    def _check_room(self, size: int = 1) -> None:
        if self._left < size:
            raise ToolError(
                "There is no room left for this file in one result: read it in another call, or"
                " name the lines you need in line_ranges."
            )


def text_budget(model: ModelInfo) -> int:
    """Bytes of text that one call may return: three fifths of the window beside the answer."""
    tokens = (model.context_window - model.max_output) * 3 // 5
    return max(_LEAST_BUDGET, min(_MOST_BUDGET, tokens * _BYTES_PER_TOKEN))


def within_budget(text: str, model: ModelInfo, note: str) -> str:
    """As many lines of a text as one call may return, with a note if that is not all."""
    data, budget = text.encode(errors="replace"), text_budget(model)
    if len(data) <= budget:
        return text
    return data[: data.rfind(b"\n", 0, budget)].decode(errors="replace") + f"\n\n{note}"


def _size(lines: Lines) -> int:
    """Bytes, with what the numbers in front of the lines take."""
    return len("".join(lines.lines).encode(errors="replace")) + NUMBER_WIDTH * len(lines.lines)


def _within(lines: Lines, budget: int) -> Lines:
    """The first of the lines, as many as fit."""
    while lines.lines and _size(lines) > budget:
        lines = structs.replace(lines, lines=lines.lines[: len(lines.lines) // 2], cut=True)
    return lines


async def _range_note(
    wanted: WantedFile, found: dict[Range, Lines], reader: LineReader
) -> str | None:
    cut = [lines for lines in found.values() if lines.cut]
    if cut:
        lines = cut[0]
        if lines.inside_line:
            return f"Line {lines.first} is cut: it is longer than one call can show."
        return f"Not all lines fit into one call: read on from line {lines.next}."
    if wanted.pages and await reader.has_more():
        start, end = wanted.ranges[0]
        return (
            f"Showing lines {start}-{end}; the file goes on. To read more, use"
            f" offset={end + 1} and limit={end - start + 1}."
        )
    return None


def _passage(lines: Lines, last: int | None = None) -> Passage:
    """`last` is the end that was asked for; it stays the label when the file is shorter."""
    shown = lines.next - 1 if last is None or lines.cut else last
    return Passage(lines.first, shown, lines.lines)
