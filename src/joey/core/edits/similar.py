"""The place in a text that is most like what was searched, when it stands nowhere as it is.

Comparing everything with everything is what makes fuzzy edits slow, so only windows are compared
that share a line with the search, those that share most of them first; where there are few lines
to look at, all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from joey.core.edits.document import Document, Span, normalise

Similarity = Callable[[str, str], float]
"""How alike two texts are, from 0 to 1."""

_FEW_LINES = 250
_MOST_CANDIDATES = 100
_COMPARED_CHARACTERS = 1_600_000_000
"""Product of lengths that may be compared for one search; bounds its time."""
_COMMON_LINE = 10_000


class Likeness(NamedTuple):
    span: Span
    score: float


def most_similar(
    document: Document,
    search: list[str],
    within: Span,
    similarity: Similarity,
    distance: Callable[[int], float],
) -> Likeness | None:
    """The best window; of equals, the one with the smallest `distance` from where it should be.

    Of a window much longer than the search only the beginning is compared: it is not alike.
    """
    wanted = normalise("\n".join(search))
    affordable = max(1, _COMPARED_CHARACTERS // max(1, len(wanted)) ** 2)
    best: Likeness | None = None
    starts = sorted(_candidates(document, search, within)[:affordable], key=distance)
    for start in starts:
        span = Span(start, min(start + len(search), within.stop))
        window = " ".join(filter(None, document.normal[span.start : span.stop]))
        score = similarity(wanted, window[: len(wanted) * 4])
        if best is None or score > best.score:
            best = Likeness(span, score)
    return best


def _candidates(document: Document, search: list[str], within: Span) -> list[int]:
    """Lines where a window may start, the most promising first."""
    votes = _votes(document, search, within)
    last = max(within.start, within.stop - len(search))
    starts = [start for start, _ in votes.most_common() if within.start <= start <= last]
    if within.stop - within.start <= _FEW_LINES:
        return starts + [start for start in range(within.start, last + 1) if start not in votes]
    return starts[:_MOST_CANDIDATES]


def _votes(document: Document, search: list[str], within: Span) -> Counter[int]:
    """How many lines each window shares with the search, line for line."""
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for offset, line in enumerate(map(normalise, search)):
        if line:
            offsets[line].append(offset)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number in range(within.start, within.stop):
        line = document.normal[number]
        if line in offsets:
            places[line].append(number)
    rare = [line for line in places if len(places[line]) * len(offsets[line]) <= _COMMON_LINE]
    return Counter(_starts(rare, places, offsets))


def _starts(
    lines: Iterable[str], places: dict[str, list[int]], offsets: dict[str, list[int]]
) -> Iterable[int]:
    for line in lines:
        for number in places[line]:
            for offset in offsets[line]:
                yield number - offset
