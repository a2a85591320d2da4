"""The most similar place in a text for an edit that does not match, and its evidence.

Comparing everything with everything makes fuzzy edits slow. Where there are few lines, all windows
are compared; elsewhere only those that share lines or words with the search, rare and long ones
counting most. A search that is too long to compare character by character is compared by its
lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from msgspec import Struct

from joey.core.edits.document import Document, LineSpan, index_of, normalise, tokenize_line
from joey.core.text import number_lines

SimilarityFunction = Callable[[str, str], float]
"""How alike two texts are, from 0 to 1."""

_MAX_LINES_FOR_FULL_SCAN = 250
_MAX_CANDIDATES = 100
_MAX_COMPARISON_COST = 400_000_000
"""Product of lengths that may be compared for one search; bounds its time."""
_MAX_COMPARED_CHARS = 20_000
_MAX_COMPARED_LINES = 100_000
_MAX_LINE_PAIRS = 100_000
"""Of a line or word in the search with one in the text; those that are rare come first."""
_MAX_INDEXED_SEARCH_LINES = 200
"""Of the search; so many are enough to recognise a place by its words."""

_LineIndex = Mapping[str, Sequence[int]]


class SimilarMatch(NamedTuple):
    span: LineSpan
    score: float


def most_similar(
    document: Document,
    search: list[str],
    within: LineSpan,
    similarity: SimilarityFunction,
    distance: Callable[[int], float],
) -> SimilarMatch | None:
    """The best window; of equals, the one with the smallest `distance` from where it should be.

    Of a window much longer than the search only the beginning is compared: it is not alike.
    """
    lines = [normalise(line) for line in search]
    wanted = " ".join(filter(None, lines))
    if not wanted:
        return None
    too_long = len(wanted) > _MAX_COMPARED_CHARS
    effort = len(lines) if too_long else len(wanted) ** 2
    affordable = max(1, (_MAX_COMPARED_LINES if too_long else _MAX_COMPARISON_COST) // effort)
    best: SimilarMatch | None = None
    for start in sorted(_candidates(document, lines, within, affordable), key=distance):
        span = LineSpan(start, min(start + len(lines), within.stop))
        window = document.normal[span.start : span.stop]
        if too_long:
            score = _shared(lines, window)
        else:
            score = similarity(wanted, " ".join(filter(None, window))[: len(wanted) * 4])
        if best is None or score > best.score:
            best = SimilarMatch(span, score)
    return best


def _shared(lines: list[str], window: list[str]) -> float:
    """How much of a text is the same, line for line."""
    same = sum(len(one) for one, other in zip(lines, window, strict=False) if one == other)
    return same / max(1, sum(map(len, lines)), sum(map(len, window)))


def _candidates(document: Document, lines: list[str], within: LineSpan, most: int) -> Sequence[int]:
    """Lines where a window may start, the most promising if there are too many."""
    last = max(within.start, within.stop - len(lines))
    starts = range(within.start, last + 1)
    if within.stop - within.start <= _MAX_LINES_FOR_FULL_SCAN and len(starts) <= most:
        return starts
    weights = {
        start: weight for start, weight in _weights(document, lines).items() if start in starts
    }
    return nlargest(min(most, _MAX_CANDIDATES), weights, key=weights.__getitem__)


def _weights(document: Document, lines: list[str]) -> dict[int, float]:
    """How much each window has in common with the search, line for line."""
    common = [
        *_common(index_of((line,) for line in lines), document.line_index),
        *_common(
            index_of(map(tokenize_line, lines[:_MAX_INDEXED_SEARCH_LINES])), document.word_index
        ),
    ]
    weights: defaultdict[int, float] = defaultdict(float)
    pairs = 0
    for offsets, places, weight in sorted(common, key=lambda found: len(found[0]) * len(found[1])):
        pairs += len(offsets) * len(places)
        if pairs > _MAX_LINE_PAIRS:
            break
        for place in places:
            for offset in offsets:
                weights[place - offset] += weight
    return weights


def _common(
    offsets: dict[str, list[int]], index: _LineIndex
) -> Iterator[tuple[list[int], Sequence[int], float]]:
    for key, found in offsets.items():
        places = index.get(key, ())
        if key and places:
            yield found, places, len(key) / len(places)


_MAX_EVIDENCE_LINES = 100
_MAX_EVIDENCE_CHARS = 8_000
_MAX_LISTED_LINE_NUMBERS = 10


class EditFailure(Struct, frozen=True):
    summary: str
    """What is wrong, without anything from the text."""
    evidence: str = ""
    """Lines of the text that help to put it right."""


def numbered(lines: Sequence[str], span: LineSpan) -> str:
    """Some of the lines, as read_file shows them."""
    start = max(0, span.start)
    shown = lines[start : min(span.stop, start + _MAX_EVIDENCE_LINES)]
    return cut(number_lines("\n".join(shown) + "\n", start + 1)).rstrip("\n")


def cut(text: str) -> str:
    if len(text) <= _MAX_EVIDENCE_CHARS:
        return text
    return (
        f"{text[:_MAX_EVIDENCE_CHARS]}\n[...{len(text) - _MAX_EVIDENCE_CHARS} characters "
        "omitted...]"
    )


def percent(share: float) -> str:
    """Rounded down: what is not quite equal must not read as 100%."""
    return f"{int(share * 100)}%"


def at_lines(numbers: Sequence[int]) -> str:
    """`at line 3` or `at lines 3, 8, 12`, and how many more there are."""
    listed = ", ".join(map(str, numbers[:_MAX_LISTED_LINE_NUMBERS]))
    more = len(numbers) - _MAX_LISTED_LINE_NUMBERS
    rest = f" and {more} more" if more > 0 else ""
    return f"at line{'s' if len(numbers) > 1 else ''} {listed}{rest}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
