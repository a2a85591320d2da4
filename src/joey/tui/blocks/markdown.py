"""Markdown as it comes: finished lines become pieces once, and only the open end is drawn again.

What a line is, is known from its beginning and from what is open above it: a block of code, or a
table. So the cost of a text is linear in it, and however it is cut up while it streams, the same
pieces come out. Very long lines and parts are cut at places that depend on the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from joey.presentation.text import sanitise
from joey.tui.blocks.inline import inline
from joey.tui.blocks.open_parts import FENCE, OpenCode, OpenTable
from joey.tui.blocks.pieces import BLANK, LazyLine, Piece, Rule
from joey.tui.blocks.spans import TAB, Spans
from joey.tui.blocks.tables import SEPARATOR

LONGEST_LINE = 4_000
"""Characters that are drawn as one line; a longer one goes on as if it were another."""
_HEADING = re.compile(r" {0,3}(#{1,6}) +")
_BULLET = re.compile(r"( *)[-*+] +(\[[ xX]\] +)?")
_NUMBER = re.compile(r" *\d{1,9}[.)] +")
_QUOTE = re.compile(r" {0,3}((?:> ?)+)")
_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_UNDECIDED = re.compile(r" *(?:#{1,6}|[-*+_]{1,2}|`{1,2}|~{1,2}|>|\d{1,9}[.)]?) *")
"""The beginning of a line whose meaning is not clear yet."""


class Markdown:
    def __init__(self, head: Sequence[Piece] = ()) -> None:
        """`head` is drawn above the text."""
        self._head = len(head)
        self.settled: list[Piece] = [*head]
        """What no more text can change."""
        self._line = ""
        """The end of the text: a line that may go on."""
        self._hang: int | None = None
        """The line is the rest of a long one, whose text begins in this column."""
        self._blank = False
        self._part: OpenCode | OpenTable | None = None
        self._headline: str | None = None
        """A line that is the head of a table if the next one says so."""

    def feed(self, text: str) -> None:
        rest, at = self._line + text, 0
        while True:
            end = rest.find("\n", at, at + LONGEST_LINE + 1)
            if end >= 0:
                self._put(_clean(rest[at:end]), goes_on=False)
                at = end + 1
            elif len(rest) - at > LONGEST_LINE:
                end = rest.rfind(" ", at + 1, at + LONGEST_LINE) + 1 or at + LONGEST_LINE
                self._put(_clean(rest[at:end]), goes_on=True)
                at = end
            else:
                self._line = rest[at:]
                return

    def close(self) -> None:
        """Nothing more comes."""
        line, self._line = self._line, ""
        if line:
            self._put(_clean(line), goes_on=False)
        self._end_part()

    def open(self) -> list[Piece]:
        """What is drawn below the settled pieces, as it is now."""
        line = _clean(self._line)
        if self._part is not None and (self._hang is not None or self._part.takes(line)):
            return self._part.open(line)
        if self._part is not None and not line.strip():
            return self._part.open("")
        held = self._part.open("") if self._part is not None else []
        if self._headline is not None:
            held = [_piece(self._headline)]
            if not line.strip(" |:-"):
                return held
        if not line.strip() or _UNDECIDED.fullmatch(line) or FENCE.fullmatch(line):
            return held
        gap: list[Piece] = [BLANK] if self._needs_gap(line) and not held else []
        return [*held, *gap, self._drawn(line)]

    def _put(self, line: str, *, goes_on: bool) -> None:
        if self._hang is not None:
            self._put_rest(line, goes_on=goes_on)
        elif not self._held_in_part(line, goes_on=goes_on):
            self._begin_line(line, goes_on=goes_on)

    def _put_rest(self, line: str, *, goes_on: bool) -> None:
        """More of a line that is too long to be one."""
        self.settled += [self._drawn(line)] if self._part is None else self._part.put(line)
        if not goes_on:
            self._hang = None

    def _held_in_part(self, line: str, *, goes_on: bool) -> bool:
        """Whether the line belongs to what is open above it; else that is ended."""
        if self._headline is not None and not goes_on and SEPARATOR.fullmatch(line):
            self._part, self._headline = OpenTable(self._headline), None
            return True
        if self._part is None or not (goes_on or self._part.takes(line)):
            was_code = isinstance(self._part, OpenCode)
            self._end_part()
            return was_code
        self.settled += self._part.put(line)
        self._hang = 0 if goes_on else None
        return True

    def _begin_line(self, line: str, *, goes_on: bool) -> None:
        if not line.strip():
            self._blank = True
            return
        if self._needs_gap(line):
            self.settled.append(BLANK)
        self._blank = False
        if not goes_on and (found := FENCE.fullmatch(line)):
            self._part = OpenCode(found)
        elif not goes_on and "|" in line:
            self._headline = line
        else:
            self.settled.append(_piece(line))
        self._hang = _lead(line) if goes_on else None

    def _end_part(self) -> None:
        if self._headline is not None:
            self.settled.append(_piece(self._headline))
            self._headline = None
        if self._part is not None:
            self.settled += self._part.close()
            self._part, self._blank = None, True

    def _needs_gap(self, line: str) -> bool:
        if len(self.settled) == self._head:
            return False
        return self._blank or bool(FENCE.fullmatch(line) or _HEADING.match(line))

    def _drawn(self, line: str) -> Piece:
        if self._hang is None:
            return _piece(line)
        return LazyLine(" " * self._hang + line, self._hang, partial(_plain, lead=self._hang))


def _clean(line: str) -> str:
    return sanitise(line).expandtabs(TAB)


def _piece(line: str) -> Piece:
    if _RULE.fullmatch(line):
        return Rule()
    if found := _QUOTE.match(line):
        return LazyLine(line, _lead(line), _styled, ("│ " * found[1].count(">"), "muted"))
    return LazyLine(line, _lead(line), _styled)


def _lead(line: str) -> int:
    """The column in which the text of a line begins."""
    if found := _BULLET.match(line):
        return len(found[1]) + 2
    if found := _NUMBER.match(line):
        return found.end()
    if found := _QUOTE.match(line):
        return 2 * found[1].count(">")
    return len(line) - len(line.lstrip(" "))


def _styled(line: str) -> Spans:
    if found := _HEADING.match(line):
        style = "heading bold underline" if found[1] == "#" else "heading bold"
        return list(inline(line[found.end() :].rstrip(" #"), style))
    if found := _BULLET.match(line):
        box = (found[2] or "").strip()
        mark = {"": "• ", "[ ]": "☐ "}.get(box, "☑ ")
        return [(found[1], ""), (mark, "mark"), *inline(line[found.end() :])]
    if found := _NUMBER.match(line):
        return [(found.group(), "mark"), *inline(line[found.end() :])]
    if found := _QUOTE.match(line):
        bars = "│ " * found[1].count(">")
        return [(bars, "muted"), *inline(line[found.end() :], "quote")]
    return _plain(line, lead=len(line) - len(line.lstrip(" ")))


def _plain(line: str, lead: int) -> Spans:
    return [(line[:lead], ""), *inline(line[lead:])]
