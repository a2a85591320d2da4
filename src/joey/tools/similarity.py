"""How alike two texts are."""

from __future__ import annotations

_LONGEST_FRAGMENT = 500


def similarity(one: str, other: str) -> float:
    """From 0 to 1."""
    # Imported on need: only an edit that does not fit is compared like this.
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(one, other)


def fragment_similarity(one: str, other: str) -> float:
    """The same for a text that may be a part of a line: the part that is most like it counts."""
    if len(one) >= len(other) or len(one) > _LONGEST_FRAGMENT:
        return similarity(one, other)
    from rapidfuzz import fuzz

    return fuzz.partial_ratio(one, other) / 100
