"""From passages that fit to what is shown: two scores made one, neighbours joined, files mixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from joey.knowledge.index_store import Found, Match
from joey.ports.content import CodeHit

MEANING = 0.6
"""What likeness of meaning counts for, where it is known; the words count for the rest."""
LEAST = 0.2
"""What fits less than this, beside the best, is not worth reading."""
HITS_OF_A_FILE = 3
LONGEST_HIT = 120
"""Lines up to which neighbours are joined."""
MOST_CHARACTERS = 12_000
"""The same for what is in the lines."""
_EMPTY_BETWEEN = 3
"""So few lines between two passages are empty ones: no passage is that short."""


def combine(words: Sequence[Match], cosines: Mapping[int, float]) -> list[Match]:
    """Passages by words and by meaning, best first. One whose meaning is not known yet counts
    by its words alone."""
    by_words = {match.place: match.score for match in words}
    best = max(cosines.values(), default=0.0) or 1.0
    matches = []
    for place in {**by_words, **cosines}:
        score = by_words.get(place, 0.0)
        if place in cosines:
            score = (1 - MEANING) * score + MEANING * cosines[place] / best
        matches.append(Match(place, score))
    return sorted(matches, key=lambda match: (-match.score, match.place))


def mix(found: Iterable[Found], limit: int) -> list[CodeHit]:
    """Hits, best first: neighbours in a file are one hit, and no file fills the list."""
    hits: list[CodeHit] = []
    of_file: dict[str, list[int]] = {}
    for passage in found:
        if passage.score < LEAST or len(hits) == limit:
            break
        own = of_file.setdefault(passage.path, [])
        hit = CodeHit(passage.path, passage.score, passage.start, passage.end, passage.text)
        for at in own:
            if (joined := _join(hits[at], hit)) is not None:
                hits[at] = joined
                break
        else:
            if len(own) < HITS_OF_A_FILE:
                own.append(len(hits))
                hits.append(hit)
    return hits


def _join(hit: CodeHit, other: CodeHit) -> CodeHit | None:
    """Both as one hit, if they lie beside each other; the better one's score stays."""
    first, second = (hit, other) if hit.start <= other.start else (other, hit)
    gap = second.start - first.end - 1
    end = max(first.end, second.end)
    if gap > _EMPTY_BETWEEN or end - first.start >= LONGEST_HIT:
        return None
    if end > first.end and len(first.text) + len(second.text) > MOST_CHARACTERS:
        return None
    rest = second.text.split("\n")[max(0, -gap) :]
    lines = [*first.text.split("\n"), *[""] * max(0, gap), *rest]
    return structs.replace(hit, start=first.start, end=end, text="\n".join(lines))
