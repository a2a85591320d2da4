"""A text as models see it, with `\\n` at the end of every line, over the text as it is.

Places are found in the flat text and replaced in the real one, where the lines may end with
`\\r\\n`, all or some of them. New lines end as the line does that they are put into. Where a
replacement begins or ends like what it replaces, that much is left alone: a quoted line that
merely stands around the change keeps its own end.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, takewhile
from operator import eq
from typing import NamedTuple, TypeVar

from joey.core.regex import regex
from joey.errors import ToolError

_CRLF = regex("\r\n")
_LONGEST = 64 * 1024 * 1024
MOST_PLACES = 1_000_000

T = TypeVar("T")


class Stretch(NamedTuple):
    """Characters `start` up to but not including `stop` of the flat text."""

    start: int
    stop: int


def flatten(text: str) -> str:
    return text.replace("\r\n", "\n")


class FlatText:
    def __init__(self, text: str) -> None:
        self.text = text
        self.flat = flatten(text)

    def find(self, wanted: str, within: Stretch | None = None) -> list[Stretch]:
        """Every place where the text stands, from left to right, none overlapping another.

        Raises:
            ToolError: there are too many.
        """
        return countable(self.places(wanted, within))

    def places(self, wanted: str, within: Stretch | None = None) -> Iterator[Stretch]:
        wanted = flatten(wanted)
        start, stop = within or Stretch(0, len(self.flat))
        position = self.flat.find(wanted, start, stop) if wanted else -1
        while position >= 0:
            place = Stretch(position, position + len(wanted))
            yield place
            position = self.flat.find(wanted, place.stop, stop)

    def overlapping(self, place: Stretch) -> Stretch | None:
        """Where the text of a place stands once more, beginning inside of the place."""
        wanted = self.flat[place.start : place.stop]
        at = self.flat.find(wanted, place.start + 1, place.stop + len(wanted) - 1)
        return Stretch(at, at + len(wanted)) if at >= 0 else None

    def lines(self, first: int | None, last: int | None) -> Stretch:
        """From line `first` to line `last`, counted from 1, without the end of the last one."""
        length = len(self.flat)
        starts = [0, *(match.end() for match in re.finditer("\n", self.flat))]
        start = dict(enumerate(starts, 1)).get(max(first or 1, 1), length)
        if last is None or last >= len(starts):
            return Stretch(start, length)
        return Stretch(start, max(start, starts[max(last, 1)] - 1))

    def line_numbers(self, positions: Iterable[int]) -> list[int]:
        """The lines in which rising positions are, counted from 1."""
        numbers: list[int] = []
        line, counted = 1, 0
        for position in positions:
            line += self.flat.count("\n", counted, position)
            counted = position
            numbers.append(line)
        return numbers

    def replace(self, places: Sequence[Stretch], new: str) -> str:
        """The real text with the same new text at each of these places, which rise.

        Raises:
            ToolError: the result would be too long.
        """
        if len(self.text) + len(places) * len(new) > _LONGEST:
            raise ToolError(
                f"Replacing {len(places)} places would make the file longer than"
                f" {_LONGEST // 2**20} MB."
            )
        flat_new = flatten(new)
        pieces: list[str] = []
        done = 0
        for place, end in zip(places, self._line_ends(places), strict=True):
            kept = self._kept(place, flat_new)
            start, stop = self._real(kept.start), self._real(kept.stop)
            inner = flat_new[kept.start - place.start : len(flat_new) - (place.stop - kept.stop)]
            pieces.append(self.text[done:start])
            pieces.append(new if end is None else inner.replace("\n", end))
            done = stop
        return "".join([*pieces, self.text[done:]])

    @cached_property
    def _marks(self) -> list[int]:
        """Where the flat text has `\\n` for `\\r\\n`."""
        if len(self.flat) == len(self.text):
            return []
        return [match.start() - count for count, match in enumerate(_CRLF.finditer(self.text))]

    def _real(self, position: int) -> int:
        return position + bisect_left(self._marks, position)

    def _line_ends(self, places: Sequence[Stretch]) -> Iterator[str | None]:
        """How the line of each place ends, else the last that does; None if there is no other."""
        last = self.flat.rfind("\n")
        at = -1
        for place in places:
            if at < place.start:
                at = self.flat.find("\n", place.start) if place.start <= last else last
            yield None if last < 0 else self._end_at(at)

    def _end_at(self, position: int) -> str:
        mark = bisect_left(self._marks, position)
        return "\r\n" if self._marks[mark : mark + 1] == [position] else "\n"

    def _kept(self, place: Stretch, new: str) -> Stretch:
        """The part of a place that the new text really changes."""
        if not self._marks:
            return place
        old = self.flat[place.start : place.stop]
        head = _agreement(old, new)
        tail = _agreement(old[head:][::-1], new[head:][::-1])
        return Stretch(place.start + head, place.stop - tail)


def countable(places: Iterable[T]) -> list[T]:
    """All places where a text is.

    Raises:
        ToolError: there are too many.
    """
    found = list(islice(places, MOST_PLACES + 1))
    if len(found) > MOST_PLACES:
        raise ToolError(f"The text is there more than {MOST_PLACES} times. Quote more of it.")
    return found


def _agreement(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
