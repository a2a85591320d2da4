"""Every place where one text stands in another, those that overlap included.

`str.find` is fast as long as what is found does not overlap much. A text that repeats itself, such
as many equal lines in many more of them, would be compared anew at every line; from there on it is
gone through once, character by character (Knuth, Morris, Pratt).
"""

from __future__ import annotations

from collections.abc import Iterator

_TOLERATED = 8
"""How often, on average, a character may be part of what was found."""


def occurrences(text: str, wanted: str) -> Iterator[int]:
    """Positions in order; an empty text is nowhere."""
    if not wanted:
        return
    allowance = _TOLERATED * len(text)
    position = text.find(wanted)
    while position >= 0:
        yield position
        allowance -= len(wanted)
        if allowance < 0:
            yield from _overlapping(text, wanted, position + 1)
            return
        position = text.find(wanted, position + 1)


def _overlapping(text: str, wanted: str, start: int) -> Iterator[int]:
    borders = _borders(wanted)
    matched = 0
    for position in range(start, len(text)):
        character = text[position]
        while matched and (matched == len(wanted) or wanted[matched] != character):
            matched = borders[matched - 1]
        if wanted[matched] == character:
            matched += 1
        if matched == len(wanted):
            yield position + 1 - matched


def _borders(wanted: str) -> list[int]:
    """For each beginning of a text, the longest part that it both starts and ends with."""
    borders = [0] * len(wanted)
    length = 0
    for end in range(1, len(wanted)):
        while length and wanted[end] != wanted[length]:
            length = borders[length - 1]
        if wanted[end] == wanted[length]:
            length += 1
        borders[end] = length
    return borders
