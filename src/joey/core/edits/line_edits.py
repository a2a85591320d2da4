"""Changing some lines of a text while all others keep their bytes.

Every line keeps its own end. A new line ends as the line does that it replaces, or else the one
before it. Whether the text ends with a newline stays as it was, unless something else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from msgspec import Struct


class LineEdit(Struct, frozen=True):
    """Lines `start` up to but not including `stop`, counted from 0, become these."""

    start: int
    stop: int
    lines: tuple[str, ...]


class TextLines:
    """A text as its lines, without their ends."""

    def __init__(self, text: str) -> None:
        *self.lines, rest = text.split("\n")
        self._ends = ["\n"] * len(self.lines)
        if "\r\n" in text:
            self._ends = ["\r\n" if line.endswith("\r") else "\n" for line in self.lines]
            self.lines = [line.removesuffix("\r") for line in self.lines]
        self._newline = "\r\n" if self._ends.count("\r\n") * 2 > len(self._ends) else "\n"
        self._ends_with_newline = not rest
        if rest:
            self.lines.append(rest)
            self._ends.append("")

    def edited(self, edits: Sequence[LineEdit], *, final_newline: bool | None = None) -> str:
        """The text after edits that are in the order of the lines and do not overlap."""
        lines: list[str] = []
        ends: list[str] = []
        at = 0
        for edit in edits:
            lines += self.lines[at : edit.start]
            ends += self._ends[at : edit.start]
            lines += edit.lines
            ends += [self._end_for(edit)] * len(edit.lines)
            at = edit.stop
        lines += self.lines[at:]
        ends += self._ends[at:]
        if not lines:
            return ""
        # What ended the text may stand before something else now, and the other way round.
        last = len(self.lines) - 1
        if self._ends and not self._ends[last]:
            ends = [end or self._newline for end in ends]
        keep = self._ends_with_newline if final_newline is None else final_newline
        ends[-1] = (ends[-1] or self._newline) if keep else ""
        return "".join(map(add, lines, ends))

    def _end_for(self, edit: LineEdit) -> str:
        neighbour = edit.start if edit.start < edit.stop else edit.start - 1
        known = self._ends[neighbour] if 0 <= neighbour < len(self._ends) else ""
        return known or self._newline
