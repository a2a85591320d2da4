"""Words on a terminal, broken between lines while they come.

A word that is still growing is drawn at once, so that the last thing a model said is never
hidden; when it outgrows the line it is taken back and begins the next one. Where nobody watches
(no terminal) words are written when they are whole, and lines are not broken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from joey.presentation.text import NARROWEST, cells

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
_PIECES = re.compile(rf"\n|[ \t]+|[{_WIDE}]|[^ \t\n{_WIDE}]+")


class Flow:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        # The last column stays empty: behind it, terminals disagree about where the cursor is.
        self._width = max(NARROWEST, console.width) - 1
        self._column = 0
        self._gap = ""
        """Blanks between what stands there and the word to come."""
        self._word: list[tuple[str, str]] = []
        self._drawn = 0
        """How much of the word is drawn: its pieces that are, in cells."""
        self._pieces_drawn = 0
        self.hang = 0
        """How far the lines that follow are indented."""
        self.lines = 0
        """Lines that were ended, by the text or by the edge."""

    def put(self, text: str, style: str = "") -> None:
        for piece in _PIECES.findall(text):
            if piece == "\n":
                self.end_line()
            elif piece[0] in " \t":
                self._end_word()
                self._gap += piece.replace("\t", "    ")
            elif cells(piece) > len(piece) and len(piece) == 1:
                self._end_word()
                self._grow(piece, style)
                self._end_word()
            else:
                self._grow(piece, style)

    def verbatim(self, text: str, style: str = "") -> None:
        """Text whose line breaks are its own."""
        self._end_word()
        self._write(self._gap + text, style)
        self._gap = ""
        last = text.rpartition("\n")[2]
        self._column = cells(last) if "\n" in text else self._column + cells(last)
        self.lines += text.count("\n")

    def end_line(self) -> None:
        self._end_word()
        self._gap = ""
        self._break()

    def finish(self) -> None:
        """Nothing more comes: what is held back is written, and the line ended."""
        self._end_word()
        self._gap = ""
        if self._column:
            self._break()

    def _break(self) -> None:
        self._write("\n", "")
        self._column = 0
        self.lines += 1

    def _grow(self, text: str, style: str) -> None:
        self._word.append((text, style))
        if self._live:
            self._draw()

    def _end_word(self) -> None:
        if not self._word:
            return
        self._draw()
        self._column += self._drawn
        if self._live and self._column > self._width:
            # Longer than a line: the terminal has broken it.
            self._column %= self._width + 1
        self._word.clear()
        self._drawn = self._pieces_drawn = 0

    def _draw(self) -> None:
        size = sum(cells(text) for text, _ in self._word)
        started = self._drawn > 0
        gap = 0 if started else len(self._gap)
        too_long = self._live and self._column + gap + size > self._width
        if too_long and self._column > self.hang and self._drawn < self._width - self.hang:
            self._take_back()
            self._break()
            self._gap = " " * self.hang
        if self._gap:
            self._write(self._gap, "")
            self._column += len(self._gap)
            self._gap = ""
        for text, style in self._word[self._pieces_drawn :]:
            self._write(text, style)
        self._drawn, self._pieces_drawn = size, len(self._word)

    def _take_back(self) -> None:
        if self._drawn:
            self._console.file.write(f"\x1b[{self._drawn}D\x1b[K")
        self._drawn = self._pieces_drawn = 0

    def _write(self, text: str, style: str) -> None:
        self._console.out(text, style=style or None, end="", highlight=False)
