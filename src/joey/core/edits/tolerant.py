"""Finding a text whose white space may differ, step by step.

1. *exact*: as it is.
2. *spaced*: every run of white space may be another one; a run without a newline stands for
   blanks and tabs only, so words of one line are found on one line.
3. *words*: the same words in the same order, whatever white space is between and around them.

A text that begins or ends with white space takes as many line ends of the file there as it has
itself, and the indentation beside them only if it has some: what stands around is not eaten.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from joey.core.edits.flat_text import Stretch, countable
from joey.core.regex import regex

_WORD = regex(r"\S+")
_BLANKS = frozenset(" \t")


class Match(NamedTuple):
    place: Stretch
    on_its_lines: bool
    """It is one of step 2: blanks stand where the wanted text has blanks."""


class WordSearch:
    """One flat text, in which texts are looked for by their words."""

    def __init__(self, flat: str) -> None:
        self._flat = flat
        self._joined = " ".join(flat.split())

    def find(self, wanted: str) -> list[Match]:
        """Every place with these words, from left to right, none overlapping another.

        Raises:
            ToolError: there are too many.
        """
        words = " ".join(wanted.split())
        if not words or words not in self._joined:
            return []
        gaps = re.findall(r"\s+", wanted.strip())
        before = wanted[: len(wanted) - len(wanted.lstrip())]
        after = wanted[len(wanted.rstrip()) :]
        found: list[Match] = []
        free = 0
        for position in countable(self._positions(words)):
            core = self._place(position, position + len(words))
            start = max(free, self._reach(core.start, before[::-1], -1))
            place = Stretch(start, self._reach(core.stop, after, 1))
            edges = (not before or start < core.start) and (not after or place.stop > core.stop)
            found.append(Match(place, edges and self._fits(position, gaps)))
            free = place.stop
        return found

    def _positions(self, words: str) -> Iterator[int]:
        position = self._joined.find(words)
        while position >= 0:
            yield position
            position = self._joined.find(words, position + len(words))

    @cached_property
    def _starts(self) -> list[int]:
        """Where each word begins in the flat text."""
        return [match.start() for match in _WORD.finditer(self._flat)]

    @cached_property
    def _joined_starts(self) -> list[int]:
        """Where each word begins in the joined text, and one past the end."""
        return list(accumulate((len(w) + 1 for w in self._joined.split(" ")), initial=0))

    def _word_at(self, position: int) -> int:
        return bisect_right(self._joined_starts, position) - 1

    def _flat_position(self, position: int) -> int:
        word = self._word_at(position)
        return self._starts[word] + position - self._joined_starts[word]

    def _place(self, start: int, stop: int) -> Stretch:
        return Stretch(self._flat_position(start), self._flat_position(stop - 1) + 1)

    def _fits(self, position: int, gaps: list[str]) -> bool:
        """Whether blanks stand between the words wherever the wanted text has only blanks."""
        first = self._word_at(position)
        for word, gap in enumerate(gaps, first):
            if "\n" in gap:
                continue
            length = self._joined_starts[word + 1] - self._joined_starts[word] - 1
            between = self._flat[self._starts[word] + length : self._starts[word + 1]]
            if not _BLANKS.issuperset(between):
                return False
        return True

    def _reach(self, position: int, space: str, step: int) -> int:
        """How far a match goes that has this white space beside it, read away from its words."""
        reach = position
        for _ in range(space.count("\n")):
            at = self._skip_blanks(reach, step)
            if self._beside(at, step) != "\n":
                break
            reach = at + step
        if reach == position:
            return self._skip_blanks(position, step) if space else position
        return self._skip_blanks(reach, step) if space[-1] in _BLANKS else reach

    def _skip_blanks(self, position: int, step: int) -> int:
        while self._beside(position, step) in _BLANKS:
            position += step
        return position

    def _beside(self, position: int, step: int) -> str:
        """The character behind a position, or before it; nothing at the ends."""
        at = position if step > 0 else position - 1
        return self._flat[at] if 0 <= at < len(self._flat) else ""
