"""Tables of Markdown, with columns that fit the screen."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

from joey.tui.blocks.inline import inline
from joey.tui.blocks.spans import Span, Spans, plain, wrapped

SEPARATOR = re.compile(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?\|? *")
_BAR = re.compile(r"(?<!\\)\|")
_GAP = " │ "
_LEAST = 3
"""Columns of the narrowest cell."""


def cells_of(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(inner)]


class Table:
    """Rows that share their columns. A long table is several of these: the widths are those of
    its first rows, so that what is drawn stays where it is while more comes."""

    __slots__ = ("_head", "_rows", "_wanted")

    def __init__(
        self, rows: Sequence[Sequence[str]], *, head: bool, wanted: Sequence[int] = ()
    ) -> None:
        self._rows = [[list(inline(cell)) for cell in row] for row in rows]
        self._head = head
        self._wanted = wanted or self._widest()

    @property
    def wanted(self) -> Sequence[int]:
        return self._wanted

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[Spans]:
        widths = _shared(self._wanted, width)
        drawn: list[Spans] = []
        for number, row in enumerate(self._rows):
            is_head = self._head and number == 0
            drawn += _row(row, widths, bold=is_head)
            if is_head:
                drawn.append([("─┼─".join("─" * size for size in widths), "muted")])
        return drawn

    def _widest(self) -> list[int]:
        columns = max((len(row) for row in self._rows), default=0)
        return [
            max(
                [_LEAST, *(cell_len(plain(row[n])) for row in self._rows if n < len(row))],
            )
            for n in range(columns)
        ]


def _shared(wanted: Sequence[int], width: int) -> list[int]:
    """Columns as wide as they want to be; the widest give way when there is no room."""
    room = max(len(wanted) * _LEAST, width - len(_GAP) * (len(wanted) - 1))
    if sum(wanted) <= room:
        return list(wanted)
    left, fair = room, dict[int, int]()
    narrowest_first = sorted(range(len(wanted)), key=lambda n: wanted[n])
    for done, n in enumerate(narrowest_first):
        fair[n] = max(_LEAST, min(wanted[n], left // (len(wanted) - done)))
        left -= fair[n]
    return [fair[n] for n in range(len(wanted))]


def _row(row: Sequence[Spans], widths: Sequence[int], *, bold: bool) -> list[Spans]:
    columns = [wrapped(row[n] if n < len(row) else [], size) for n, size in enumerate(widths)]
    lines: list[Spans] = []
    for y in range(max((len(column) for column in columns), default=0)):
        line: list[Span] = []
        for n, (column, size) in enumerate(zip(columns, widths, strict=True)):
            cell = column[y] if y < len(column) else []
            line += [(_GAP, "muted")] if n else []
            line += [(text, f"{style} bold" if bold else style) for text, style in cell]
            line.append((" " * (size - cell_len(plain(cell))), ""))
        lines.append(line)
    return lines
