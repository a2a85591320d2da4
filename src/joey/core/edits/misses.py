"""Why a text was not found in a file, or too often, and what is there instead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from joey.core.edits.document import Document, Span
from joey.core.edits.evidence import PartFailure, at_lines, numbered, percent, times
from joey.core.edits.flat_text import FlatText, Stretch, flatten
from joey.core.edits.similar import Similarity, most_similar
from joey.core.edits.tolerant import WordSearch
from joey.core.text import has_line_numbers

_AROUND = 3
_SHOWN_PLACES = 3
_LEAST_LIKENESS = 0.3
"""What is less alike has nothing to do with it."""


def explain_miss(text: FlatText, wanted: str, new: str, similarity: Similarity) -> PartFailure:
    """The text is nowhere: whether it is there in other words, or what is most like it."""
    wanted = flatten(wanted)
    hints = [
        "It has line numbers in front of its lines, which are not part of the file: leave them out."
        if has_line_numbers(wanted)
        else "",
        _already_there(text, wanted, new),
    ]
    document = Document(text.flat)
    reason, spans = _nearest(text, document, wanted, similarity)
    summary = " ".join(filter(None, [reason, *hints]))
    return PartFailure(summary, _shown(document, spans))


def explain_count(text: FlatText, places: Sequence[Stretch]) -> PartFailure:
    """The text is there, but not as often as it should be."""
    numbers = text.line_numbers(place.start for place in places)
    document = Document(text.flat)
    lasts = text.line_numbers(max(place.start, place.stop - 1) for place in places)
    spans = [Span(first - 1, last) for first, last in zip(numbers, lasts, strict=True)]
    return PartFailure(
        f"It is there {times(len(places))}, {at_lines(numbers)}.", _shown(document, spans)
    )


def _nearest(
    text: FlatText, document: Document, wanted: str, similarity: Similarity
) -> tuple[str, list[Span]]:
    if matches := WordSearch(text.flat).find(wanted):
        numbers = text.line_numbers(match.place.start for match in matches)
        lasts = text.line_numbers(match.place.stop - 1 for match in matches)
        spans = [Span(first - 1, last) for first, last in zip(numbers, lasts, strict=True)]
        return f"The same words with other white space are {at_lines(numbers)}.", spans
    lines = wanted.strip("\n").split("\n")
    everywhere = Span(0, len(document.lines))
    if loose := document.find_loose(lines, everywhere):
        where = at_lines([span.start + 1 for span in loose])
        return f"It differs from the text {where} in quotes, dashes or white space only.", loose
    likeness = most_similar(document, lines, everywhere, similarity, lambda start: start)
    if likeness is None or likeness.score < _LEAST_LIKENESS:
        return "Nothing in the file is much like it.", []
    first, last = likeness.span.start + 1, likeness.span.stop
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"The most similar text, {where}, is {percent(likeness.score)} alike.", [likeness.span]


def _already_there(text: FlatText, wanted: str, new: str) -> str:
    """A new text that is a part of the old one, or is there often, tells nothing."""
    if not new.strip() or flatten(new) in wanted:
        return ""
    places = list(islice(text.places(new), _SHOWN_PLACES + 1))
    if not 0 < len(places) <= _SHOWN_PLACES:
        return ""
    where = at_lines(text.line_numbers(place.start for place in places))
    return f"The new text is there already, {where}: the change may have been made before."


def _shown(document: Document, spans: Sequence[Span]) -> str:
    """The first places, with some lines around, each line once."""
    shown: list[Span] = []
    for span in spans[:_SHOWN_PLACES]:
        start, stop = max(0, span.start - _AROUND), span.stop + _AROUND
        if shown and start <= shown[-1].stop:
            start, stop = shown[-1].start, max(stop, shown.pop().stop)
        shown.append(Span(start, stop))
    return "\n...\n".join(numbered(document.lines, span) for span in shown)
