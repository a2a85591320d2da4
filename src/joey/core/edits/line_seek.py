"""Finding lines in a text, ever more tolerantly: four passes, each over the whole text.

1. as they are; 2. white space at their ends does not count; 3. nor at their beginnings;
4. nor the difference between typographic and plain dashes, quotes and spaces.

Each pass is a string search over the joined lines, so that no pattern, however repetitive, costs
more than reading the text a few times. What a pass needs is made when it is first used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
_SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_PLAIN = {
    ord(character): plain
    for plain, characters in (
        ("-", _DASHES),
        ("'", _SINGLE_QUOTES),
        ('"', _DOUBLE_QUOTES),
        (" ", _SPACES),
    )
    for character in characters
}


def _as_it_is(line: str) -> str:
    return line


def _plain(line: str) -> str:
    line = line.strip()
    return line if line.isascii() else line.translate(_PLAIN)


_PASSES: tuple[Callable[[str], str], ...] = (_as_it_is, str.rstrip, str.strip, _plain)


class LineSeeker:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._joined: dict[int, tuple[str, list[int]]] = {}

    def find(self, pattern: Sequence[str], start: int) -> int | None:
        """The first line from `start` on where the pattern, which has lines, stands."""
        if start + len(pattern) > len(self._lines):
            return None
        for number, simplify in enumerate(_PASSES):
            text, offsets = self._text(number)
            at = text.find(_join(map(simplify, pattern)), offsets[start])
            if at >= 0:
                return bisect_left(offsets, at)
        return None

    def find_at_end(self, pattern: Sequence[str], start: int) -> int | None:
        """The line where the pattern stands as the last lines of the text."""
        at = len(self._lines) - len(pattern)
        if at < start:
            return None
        tail = self._lines[at:]
        fits = any(list(map(key, tail)) == list(map(key, pattern)) for key in _PASSES)
        return at if fits else None

    def _text(self, number: int) -> tuple[str, list[int]]:
        """The lines as a pass sees them, each between newlines, and where each begins."""
        if number not in self._joined:
            lines = list(map(_PASSES[number], self._lines))
            offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
            self._joined[number] = (_join(lines), offsets)
        return self._joined[number]


def _join(lines: Iterable[str]) -> str:
    return "\n".join(["", *lines, ""])
