"""Suggestions for misspelt names ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable

_SHORT_NAME_CHARS = 3
_MIN_SIMILARITY, _MIN_SHORT_SIMILARITY = 0.75, 0.66
_MIN_PARTIAL_NAME_CHARS = 4
"""From here on a part of a name is no accident."""
_MAX_NAME_CHARS = 100


def find_closest_name(word: str, names: Iterable[str]) -> str | None:
    """Find the most similar name, or the one that starts with the given text; None if there is
    none. Case, `-` and `_` make no difference."""
    from difflib import get_close_matches  # rarely needed, and never for the help

    written = _normalize_name(word)
    known = {_normalize_name(name): name for name in names}
    if len(written) > _MAX_NAME_CHARS:
        return None
    is_short = len(written) <= _SHORT_NAME_CHARS
    cutoff = _MIN_SHORT_SIMILARITY if is_short else _MIN_SIMILARITY
    found = get_close_matches(written, known, 3, cutoff)
    found.sort(key=lambda name: sorted(name) != sorted(written))  # swapped letters are likeliest
    if not found and len(written) >= _MIN_PARTIAL_NAME_CHARS:
        partial = (
            name
            for name in known
            if name.startswith(written) or (written in name and 2 * len(written) > len(name))
        )
        found = sorted(partial, key=len)
    return known[found[0]] if found else None


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
