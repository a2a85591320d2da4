"""The answers to a question: few, and each shown whole over as many lines as it needs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Size

from joey.presentation.text import cut
from joey.tui.choice_list import MARK, ChoiceList, Line

FEW = 5
"""Lines that a small terminal has for answers, so that a no stands beside the yes."""
OTHERS = 5
"""Lines of a small terminal that are not for answers; each text above them takes two more."""
INDENT = 2
"""Of the lines behind the first: they stand under its words, not under its number."""


class AnswerList(ChoiceList):
    def __init__(self, lines: Sequence[Line], texts: int = 0) -> None:
        """`texts` stand between the heading and the answers."""
        super().__init__(lines, numbered=True)
        self._texts = texts

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        needed = sum(len(self._pieces(row, width)) for row in range(len(self.lines)))
        left = viewport.height - OTHERS - 2 * self._texts
        room = max(3, min(FEW, left), viewport.height // 2 - 2)
        return min(room, max(1, needed))

    def _scroll(self) -> None:
        room, width = self.size.height, self.size.width
        self._top = min(self._top, self.at)
        if not room:
            return
        while self._top < self.at:
            rows = range(self._top, self.at + 1)
            if sum(len(self._pieces(row, width)) for row in rows) <= room:
                return
            self._top += 1

    def _row_at(self, y: int) -> int:
        for row in range(self._top, len(self.lines)):
            y -= len(self._pieces(row, self.size.width))
            if y < 0:
                return row
        return len(self.lines)

    def render(self) -> Text:
        drawn = [
            Text(f"{MARK if row == self.at and not number else '  '}{piece}", self._style(row))
            for row in range(self._top, len(self.lines))
            for number, piece in enumerate(self._pieces(row, self.size.width))
        ]
        return Text("\n", no_wrap=True).join(drawn[: max(1, self.size.height)])

    def _style(self, row: int) -> str:
        return "bold cyan" if row == self.at else ""

    def _pieces(self, row: int, width: int) -> list[str]:
        label = self._label(row)
        _, places = cut(label, max(8, width - len(MARK)), INDENT)
        first, *more = (label[start:end] for start, end in places)
        return [first, *(f"{' ' * INDENT}{piece}" for piece in more)]
