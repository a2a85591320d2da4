"""The most similar place in a text for an edit that does not match, and its evidence.

Comparing every window makes fuzzy edits slow. If there are few lines, all windows are compared;
otherwise only those that share lines or words with the search, with rare and long ones counting
most. A search too long to compare by characters is compared by lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from joey.core.edits.diff import iter_changes
from joey.core.edits.line_document import (
    ChangedLines,
    Document,
    LineSpan,
    build_line_index,
    normalize_text,
    tokenize_line,
)
from joey.core.text import number_lines, unescape_entities

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


class SimilarMatch(NamedTuple):
    span: LineSpan
    score: float


def find_most_similar(
    document: Document,
    search: list[str],
    within: LineSpan,
    similarity: SimilarityFunction,
    distance: Callable[[int], float],
) -> SimilarMatch | None:
    """Find the best window; of equals, the one with the smallest `distance` from its expected
    place. Of a window much longer than the search, only the beginning is compared: it is not
    similar unless it contains lines of the search."""
    lines = [normalize_text(line) for line in search]
    joined_search = " ".join(filter(None, lines))
    if not joined_search:
        return None
    too_long = len(joined_search) > _MAX_COMPARED_CHARS
    effort = len(lines) if too_long else len(joined_search) ** 2
    affordable = max(1, (_MAX_COMPARED_LINES if too_long else _MAX_COMPARISON_COST) // effort)
    best: SimilarMatch | None = None
    for start in sorted(_find_candidate_starts(document, lines, within, affordable), key=distance):
        span = LineSpan(start, min(start + len(lines), within.stop))
        window = document.normalized_lines[span.start : span.stop]
        same = sum(len(one) for one, other in zip(lines, window, strict=False) if one == other)
        score = same / len(joined_search)
        if not too_long:
            joined_window = " ".join(filter(None, window))[: len(joined_search) * 4]
            score = max(score, similarity(joined_search, joined_window))
        if best is None or score > best.score:
            best = SimilarMatch(span, score)
    return best


def _find_candidate_starts(
    document: Document, lines: list[str], within: LineSpan, limit: int
) -> Sequence[int]:
    """Find lines where a window may start; the most promising if there are too many."""
    starts = range(within.start, max(within.start, within.stop - len(lines)) + 1)
    if within.stop - within.start <= _MAX_LINES_FOR_FULL_SCAN and len(starts) <= limit:
        return starts
    weights = _weigh_windows(document, lines)
    candidates = (start for start in weights if start in starts)
    return nlargest(min(limit, _MAX_CANDIDATES), candidates, key=weights.__getitem__)


def _weigh_windows(document: Document, lines: list[str]) -> dict[int, float]:
    """Score how much each window has in common with the search, line by line."""
    common = [
        *_iter_common_keys(build_line_index((line,) for line in lines), document.line_index),
        *_iter_common_keys(
            build_line_index(map(tokenize_line, lines[:_MAX_INDEXED_SEARCH_LINES])),
            document.word_index,
        ),
    ]
    weights: defaultdict[int, float] = defaultdict(float)
    pairs = 0
    for offsets, numbers, weight in sorted(common, key=lambda found: len(found[0]) * len(found[1])):
        pairs += len(offsets) * len(numbers)
        if pairs > _MAX_LINE_PAIRS:
            break
        for number in numbers:
            for offset in offsets:
                weights[number - offset] += weight
    return weights


def _iter_common_keys(
    offsets: dict[str, list[int]], index: Mapping[str, Sequence[int]]
) -> Iterator[tuple[list[int], Sequence[int], float]]:
    for key, found in offsets.items():
        numbers = index.get(key, ())
        if key and numbers:
            yield found, numbers, len(key) / len(numbers)


_MAX_EVIDENCE_LINES = 100
_MAX_EVIDENCE_CHARS = 8_000
_MAX_LISTED_LINE_NUMBERS = 10
_MAX_SHOWN_DIFFERENCES = 5
_MAX_DIFFERING_LINES = 5
_MAX_SHIFTED_LINES = 10
"""Lines that a search may lack, so that its ends are outside of a window of its length."""


class EditFailure(Struct, frozen=True):
    summary: str
    """What is wrong, without anything from the text."""
    evidence: str = ""
    """Lines of the text that help to put it right."""


def explain_entities(search: str, text: str) -> str:
    """Return a sentence if the search would match with its entities decoded."""
    search = search.strip()
    plain = unescape_entities(search)
    if search in text or plain not in unescape_entities(text):
        return ""
    if plain in text:
        return (
            " Your text has `&lt;`, `&gt;` or `&amp;` where the file has the characters `<`, `>`"
            " and `&` themselves: write those."
        )
    return (
        " The file has entities (`&lt;`, `&gt;`, `&amp;`) where your text has the characters"
        " themselves, or the reverse: write them as the file does."
    )


def render_numbered_lines(lines: Sequence[str], span: LineSpan) -> str:
    """Render lines with numbers, as read_file shows them."""
    start = max(0, span.start)
    shown = lines[start : min(span.stop, start + _MAX_EVIDENCE_LINES)]
    return truncate_evidence(number_lines("\n".join(shown) + "\n", start + 1)).rstrip("\n")


def render_differences(document: Document, search: list[str], span: LineSpan) -> str:
    """Render the first differences between a search and the lines of a span, each with its lines of
    the search and context."""
    start = max(0, span.start - _MAX_SHIFTED_LINES)
    stop = min(len(document.lines), span.stop + _MAX_SHIFTED_LINES)
    file_lines = document.normalized_lines[start:stop]
    changes = list(iter_changes([normalize_text(line) for line in search], file_lines))
    parts: list[str] = []
    for change in changes:
        wanted = search[change.old_start : change.old_stop]
        first, last = start + change.new_start, start + change.new_stop
        if change.old_start == 0:  # lines before and after the match are not differences
            first = max(first, last - len(wanted))
        elif change.old_stop == len(search):
            last = min(last, first + len(wanted))
        if not "".join([*wanted, *document.lines[first:last]]).strip():
            continue
        where = f"line {first + 1}" if last - first == 1 else f"lines {first + 1}-{last}"
        has = _truncate_lines(wanted) if wanted else "(nothing)"
        shown = LineSpan(first - 2, min(last, first + _MAX_DIFFERING_LINES) + 2)
        parts.append(
            f"SEARCH has {'instead of ' + where if first < last else f'before line {first + 1}'}:\n"
            f"{has}\nThe file has:\n{render_numbered_lines(document.lines, shown)}"
        )
    more = len(parts) - _MAX_SHOWN_DIFFERENCES
    parts[_MAX_SHOWN_DIFFERENCES:] = [f"[{more} more differences]"] if more > 0 else []
    return truncate_evidence("\n\n".join(parts))


def _truncate_lines(lines: list[str]) -> str:
    omitted = len(lines) - _MAX_DIFFERING_LINES
    note = [f"[{omitted} more lines]"] if omitted > 0 else []
    return "\n".join([*lines[:_MAX_DIFFERING_LINES], *note])


def truncate_evidence(text: str) -> str:
    omitted = len(text) - _MAX_EVIDENCE_CHARS
    note = f"\n[...{omitted} characters omitted...]" if omitted > 0 else ""
    return text[:_MAX_EVIDENCE_CHARS] + note


def format_percent(share: float) -> str:
    """Format a percentage, rounded down: a difference must not read as 100%."""
    return f"{int(share * 100)}%"


def format_line_numbers(spans: Sequence[LineSpan]) -> str:
    """Format the line numbers where spans begin (`at line 3`, `at lines 3, 8, 12`), and how many
    more there are."""
    listed = ", ".join(str(span.start + 1) for span in spans[:_MAX_LISTED_LINE_NUMBERS])
    more = len(spans) - _MAX_LISTED_LINE_NUMBERS
    rest = f" and {more} more" if more > 0 else ""
    return f"at line{'s' if len(spans) > 1 else ''} {listed}{rest}"


def format_changed_lines(spans: Sequence[ChangedLines]) -> str:
    """Format changed lines in order (`line 3, 2 lines removed after line 7, lines 8-12, 20`); empty
    for no change."""
    shown = spans[:_MAX_LISTED_LINE_NUMBERS]
    parts: list[str] = []
    for is_written, group in groupby(shown, key=lambda span: span.start < span.stop):
        run = list(group)
        if is_written:
            plural = "s" if len(run) > 1 or run[0].stop - run[0].start > 1 else ""
            parts.append(f"line{plural} {', '.join(map(_format_line_range, run))}")
        else:
            parts += [
                f"{span.old_count} line{'' if span.old_count == 1 else 's'} removed"
                f" {f'after line {span.start}' if span.start else 'at the start'}"
                for span in run
            ]
    more = len(spans) - len(shown)
    return ", ".join(parts) + (f" and {more} more places" if more else "")


def _format_line_range(span: ChangedLines) -> str:
    first, last = span.start + 1, span.stop
    return str(first) if first == last else f"{first}-{last}"


def format_times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
