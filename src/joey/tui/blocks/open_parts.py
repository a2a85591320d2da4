"""Parts of a Markdown text that are made of many lines and still grow: code and tables."""

from __future__ import annotations

import re

from joey.tui.blocks.code import coloured
from joey.tui.blocks.pieces import CHUNK, Marked, Piece, Verbatim
from joey.tui.blocks.spans import Spans
from joey.tui.blocks.tables import Table, cells_of

TABLE_ROWS = 50
"""Rows that decide about the columns."""
MARGIN: Spans = (("  ", ""),)
FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([\w+#.-]*)[^`]*")


class OpenCode:
    def __init__(self, fence: re.Match[str]) -> None:
        self._indent = len(fence[1])
        self._fence = fence[2]
        self._language = fence[3].lower()
        self._lines: list[str] = []
        self._seen: list[Spans] = []
        """The lines as they are shown until there are enough to be coloured together."""

    def takes(self, line: str) -> bool:
        closing = line.strip()
        return not closing.startswith(self._fence) or bool(closing.strip(self._fence[0]))

    def put(self, line: str) -> list[Piece]:
        """What no more lines can change."""
        self._lines.append(self._dedented(line))
        return self.close() if len(self._lines) >= CHUNK else []

    def open(self, line: str) -> list[Piece]:
        """What still grows, with a line that is not at its end."""
        for whole in self._lines[len(self._seen) :]:
            self._seen.append([*MARGIN, *coloured([whole], self._language)[0]])
        unfinished = self._dedented(line)
        may_close = not unfinished.strip(f"{self._fence[0]} ")
        last: list[Spans] = [] if may_close else [[*MARGIN, (unfinished, "")]]
        lines = [*self._seen, *last]
        return [Marked(lines, hang=len(MARGIN[0][0]))] if lines else []

    def close(self) -> list[Piece]:
        lines, self._lines, self._seen = self._lines, [], []
        return [Verbatim(lines, MARGIN, self._language)] if lines else []

    def _dedented(self, line: str) -> str:
        inside = line[: self._indent].strip(" ")
        return line[self._indent :] if not inside else line


class OpenTable:
    def __init__(self, head: str) -> None:
        self._rows = [cells_of(head)]
        self._wanted: tuple[int, ...] = ()
        """The widths of the columns, once they are decided."""

    def takes(self, line: str) -> bool:
        return "|" in line

    def put(self, line: str) -> list[Piece]:
        self._rows.append(cells_of(line))
        return self.close() if len(self._rows) >= TABLE_ROWS else []

    def open(self, line: str) -> list[Piece]:
        rows = [*self._rows, cells_of(line)] if line.strip() else self._rows
        return [self._table(rows)] if rows else []

    def close(self) -> list[Piece]:
        if not self._rows:
            return []
        table = self._table(self._rows)
        self._rows, self._wanted = [], tuple(table.wanted)
        return [table]

    def _table(self, rows: list[list[str]]) -> Table:
        return Table(rows, head=not self._wanted, wanted=self._wanted)
