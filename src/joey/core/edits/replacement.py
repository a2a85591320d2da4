"""Replacing a text that must be found a certain number of times."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from joey.core.edits.flat_text import FlatText, Stretch, flatten
from joey.core.edits.tolerant import WordSearch


class Replaced(Struct, frozen=True):
    text: str
    places: tuple[Stretch, ...]
    """Where the old text was."""
    is_exact: bool = True
    """False when its white space was another one."""


class Miscounted(Struct, frozen=True):
    places: tuple[Stretch, ...] = ()
    """Where the text is, by the first way of looking that found any."""
    is_exact: bool = True


def replace_text(
    text: FlatText, old: str, new: str, *, expected: int | None = 1, tolerant: bool = False
) -> Replaced | Miscounted:
    """Replace `old` everywhere if it is there `expected` times; None takes any number but 0.

    One that overlaps another cannot be meant alone. With `tolerant`, white space may differ: step
    by step, until one finds the expected number, or more, which the next could only add to.
    """
    first: Miscounted | None = None
    for places, is_exact in _steps(text, old, tolerant):
        if expected == len(places) == 1 and (other := text.overlapping(places[0])):
            return Miscounted((*places, other), is_exact)
        if places and expected in (len(places), None):
            return Replaced(text.replace(places, new), places, is_exact)
        if places and first is None:
            first = Miscounted(places, is_exact)
        if expected is not None and len(places) > expected:
            break
    return first or Miscounted()


def _steps(text: FlatText, old: str, tolerant: bool) -> Iterator[tuple[tuple[Stretch, ...], bool]]:
    yield tuple(text.find(old)), True
    if not tolerant:
        return
    matches = WordSearch(text.flat).find(flatten(old))
    yield tuple(match.place for match in matches if match.on_its_lines), False
    yield tuple(match.place for match in matches), False
