"""Suggestions for misspelt names ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable

_SHORT_NAME_CHARS, _LONG_NAME_CHARS = 4, 12
_MIN_PARTIAL_NAME_CHARS = 4
"""From here on a part of a name is no accident."""


def find_closest_name(word: str, names: Iterable[str]) -> str | None:
    """The name that is a few slips away, or of which only a part was written; None: no name is.

    Capitals, `-` and `_` make no difference.
    """
    normalized = _normalize_name(word)
    known = [(_normalize_name(name), name) for name in names]
    slips = [
        (steps, -len(plain), name)
        for plain, name in known
        if (steps := compute_edit_distance(normalized, plain, _get_max_distance(plain))) is not None
    ]
    if slips:
        return min(slips)[2]
    if len(normalized) < _MIN_PARTIAL_NAME_CHARS:
        return None
    parts = [(len(plain), name) for plain, name in known if _is_partial_name(normalized, plain)]
    return min(parts)[1] if parts else None


def compute_edit_distance(source: str, target: str, max_distance: int) -> int | None:
    """How many letters must be changed, added, left out, or swapped with their neighbour; None:
    more than `max_distance`."""
    if abs(len(source) - len(target)) > max_distance:
        return None
    before: list[int] = []
    last = list(range(len(target) + 1))
    for i, a in enumerate(source, 1):
        row = [i]
        for j, b in enumerate(target, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == target[j - 2] and b == source[i - 2]:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before, last = last, row
    return last[-1] if last[-1] <= max_distance else None


def _get_max_distance(name: str) -> int:
    """Short names are near many words."""
    if len(name) <= _SHORT_NAME_CHARS:
        return min(1, len(name) - 1)
    return 2 if len(name) < _LONG_NAME_CHARS else 3


def _is_partial_name(word: str, name: str) -> bool:
    return name.startswith(word) or (word in name and 2 * len(word) > len(name))


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
