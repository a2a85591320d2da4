"""Suggestions for misspelt names ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable

_SHORT_NAME_CHARS, _LONG_NAME_CHARS = 4, 12
_MIN_PARTIAL_NAME_CHARS = 4
"""Letters from which on a part of a name is no accident."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is a few slips away, or of which only a part was written; None: no name is.

    Capitals, `-` and `_` make no difference.
    """
    wanted = _plain(word)
    known = [(_plain(name), name) for name in names]
    slips = [
        (steps, -len(plain), name)
        for plain, name in known
        if (steps := distance(wanted, plain, _most_slips(plain))) is not None
    ]
    if slips:
        return min(slips)[2]
    if len(wanted) < _MIN_PARTIAL_NAME_CHARS:
        return None
    parts = [(len(plain), name) for plain, name in known if _is_part(wanted, plain)]
    return min(parts)[1] if parts else None


def distance(one: str, other: str, most: int) -> int | None:
    """How many letters must be changed, added, left out, or swapped with their neighbour; None:
    more than `most`."""
    if abs(len(one) - len(other)) > most:
        return None
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before, last = last, row
    return last[-1] if last[-1] <= most else None


def _most_slips(name: str) -> int:
    """Short names are near many words."""
    if len(name) <= _SHORT_NAME_CHARS:
        return min(1, len(name) - 1)
    return 2 if len(name) < _LONG_NAME_CHARS else 3


def _is_part(word: str, name: str) -> bool:
    return name.startswith(word) or (word in name and 2 * len(word) > len(name))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
