"""Replacement of a text that must be found a certain number of times.

Places are found in a copy of the text in which every line ends with LF (`NormalizedText`), as
models see it, and replaced in the real one, where some or all lines may end with CRLF. New lines
end as the line does that they are inserted into. Where a replacement begins or ends like the text
it replaces, that much is left alone: a quoted line around the change keeps its own line end.

White space may differ, step by step:

1. *exact*: no difference.
2. *spaced*: every run of white space may be another one; a run without a newline stands for blanks
   and tabs only, so words of one line are found on one line.
3. *words*: the same words in the same order, whatever white space is between and around them.

A text that begins or ends with white space takes as many line ends of the file there as it has
itself, and the indentation beside them only if it has some: the surrounding white space stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple, TypeVar

from msgspec import Struct

from joey.core.edits.line_document import Document, LineSpan, count_common_ends
from joey.core.edits.similar import (
    EditFailure,
    SimilarityFunction,
    explain_entities,
    find_most_similar,
    format_line_numbers,
    format_percent,
    format_times,
    render_numbered_lines,
)
from joey.core.text import compile_regex, has_line_numbers
from joey.errors import ToolError


class ReplaceResult(Struct, frozen=True):
    text: str
    spans: tuple[CharSpan, ...]
    is_exact: bool = True
    """False when its white space was another one."""


class CountMismatch(Struct, frozen=True):
    spans: tuple[CharSpan, ...] = ()
    """Where the text is, by the first way of looking that found any."""
    is_exact: bool = True


def replace_text(
    text: NormalizedText, old: str, new: str, *, expected: int | None = 1, tolerant: bool = False
) -> ReplaceResult | CountMismatch:
    """Replace `old` everywhere if it occurs `expected` times; None allows any number but 0.
    Overlapping occurrences are ambiguous. With `tolerant`, white space may differ, step by step,
    until a step finds the expected number, or more, which later steps could only increase."""
    first: CountMismatch | None = None
    for spans, is_exact in _iter_match_steps(text, old, tolerant):
        if expected == len(spans) == 1 and (overlapping := text.find_overlapping(spans[0])):
            return CountMismatch((*spans, overlapping), is_exact)
        if spans and expected in (len(spans), None):
            return ReplaceResult(text.replace(spans, new), spans, is_exact)
        if spans and first is None:
            first = CountMismatch(spans, is_exact)
        if expected is not None and len(spans) > expected:
            break
    return first or CountMismatch()


def _iter_match_steps(
    text: NormalizedText, old: str, tolerant: bool
) -> Iterator[tuple[tuple[CharSpan, ...], bool]]:
    yield tuple(text.find(old)), True
    if not tolerant:
        return
    matches = WordSearch(text.normalized_text).find(normalize_newlines(old))
    yield tuple(match.span for match in matches if match.has_same_line_breaks), False
    yield tuple(match.span for match in matches), False


_CRLF_RE = compile_regex("\r\n")
_MAX_RESULT_CHARS = 64 * 1024 * 1024
MAX_MATCHES = 1_000_000

T = TypeVar("T")


class CharSpan(NamedTuple):
    """Characters from `start` up to but not including `stop` of the flat text."""

    start: int
    stop: int


def normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


class NormalizedText:
    def __init__(self, text: str) -> None:
        self.original_text = text
        self.normalized_text = normalize_newlines(text)

    def find(self, search: str, within: CharSpan | None = None) -> list[CharSpan]:
        """Find every place of the text from left to right, without overlaps. Raises ToolError if
        there are too many."""
        return collect_matches(self.iter_matches(search, within))

    def iter_matches(self, search: str, within: CharSpan | None = None) -> Iterator[CharSpan]:
        return _iter_matches(self.normalized_text, normalize_newlines(search), within)

    def find_overlapping(self, span: CharSpan) -> CharSpan | None:
        """Find occurrences of the text that begin inside of an earlier one."""
        matched = self.normalized_text[span.start : span.stop]
        at = self.normalized_text.find(matched, span.start + 1, span.stop + len(matched) - 1)
        return CharSpan(at, at + len(matched)) if at >= 0 else None

    def get_normalized_line_span(self, first: int | None, last: int | None) -> CharSpan:
        """Return the span from line `first` to line `last`, counted from 1, without the last
        newline."""
        length = len(self.normalized_text)
        starts = [0, *(match.end() for match in re.finditer("\n", self.normalized_text))]
        start = dict(enumerate(starts, 1)).get(max(first or 1, 1), length)
        if last is None or last >= len(starts):
            return CharSpan(start, length)
        return CharSpan(start, max(start, starts[max(last, 1)] - 1))

    def to_line_spans(self, spans: Sequence[CharSpan]) -> list[LineSpan]:
        """Return the lines of the places, which are in ascending order."""
        found: list[LineSpan] = []
        line = counted = 0
        for start, stop in spans:
            line += self.normalized_text.count("\n", counted, start)
            counted = start
            inner = self.normalized_text.count("\n", start, stop - 1)
            found.append(LineSpan(line, line + inner + 1))
        return found

    def replace(self, spans: Sequence[CharSpan], new: str) -> str:
        """Replace each of these places, in ascending order, in the real text. Raises ToolError if
        the result would be too long."""
        if len(self.original_text) + len(spans) * len(new) > _MAX_RESULT_CHARS:
            raise ToolError(
                f"Replacing {len(spans)} places would make the file longer than"
                f" {_MAX_RESULT_CHARS // 2**20} MB."
            )
        flat_new = normalize_newlines(new)
        pieces: list[str] = []
        done = 0
        for span, end in zip(spans, self._iter_line_endings(spans), strict=True):
            changed = self._trim_unchanged(span, flat_new)
            start, stop = map(self._to_original_position, changed)
            inner = flat_new[
                changed.start - span.start : len(flat_new) - (span.stop - changed.stop)
            ]
            pieces.append(self.original_text[done:start])
            pieces.append(new if end is None else inner.replace("\n", end))
            done = stop
        return "".join([*pieces, self.original_text[done:]])

    @cached_property
    def _crlf_positions(self) -> list[int]:
        """Where the flat text has `\\n` for `\\r\\n`."""
        if len(self.normalized_text) == len(self.original_text):
            return []
        return [
            match.start() - count
            for count, match in enumerate(_CRLF_RE.finditer(self.original_text))
        ]

    def _to_original_position(self, position: int) -> int:
        return position + bisect_left(self._crlf_positions, position)

    def _iter_line_endings(self, spans: Sequence[CharSpan]) -> Iterator[str | None]:
        """Iterate over the line ending of each place, or the last one before it; None if there is
        none."""
        last = self.normalized_text.rfind("\n")
        at = -1
        for span in spans:
            if at < span.start:
                at = self.normalized_text.find("\n", span.start) if span.start <= last else last
            mark = bisect_left(self._crlf_positions, at)
            end = "\r\n" if self._crlf_positions[mark : mark + 1] == [at] else "\n"
            yield None if last < 0 else end

    def _trim_unchanged(self, span: CharSpan, new: str) -> CharSpan:
        """Trim the part of a place that the new text leaves unchanged."""
        if not self._crlf_positions:
            return span
        head, tail = count_common_ends(self.normalized_text[span.start : span.stop], new)
        return CharSpan(span.start + head, span.stop - tail)


def collect_matches(matches: Iterable[T]) -> list[T]:
    """Collect all places of a text. Raises ToolError if there are too many."""
    found = list(islice(matches, MAX_MATCHES + 1))
    if len(found) > MAX_MATCHES:
        raise ToolError(f"The text is there more than {MAX_MATCHES} times. Quote more of it.")
    return found


def _iter_matches(text: str, search: str, within: CharSpan | None = None) -> Iterator[CharSpan]:
    start, stop = within or (0, len(text))
    position = text.find(search, start, stop) if search else -1
    while position >= 0:
        span = CharSpan(position, position + len(search))
        yield span
        position = text.find(search, span.stop, stop)


_WORD_RE = compile_regex(r"\S+")
_BLANK_CHARACTERS = frozenset(" \t")


class WordMatch(NamedTuple):
    span: CharSpan
    has_same_line_breaks: bool
    """It is one of step 2: blanks stand where the wanted text has blanks."""


class WordSearch:
    """A flat text in which texts are found by their words."""

    def __init__(self, flat: str) -> None:
        self._text = flat
        self._joined_text = " ".join(flat.split())

    def find(self, search: str) -> list[WordMatch]:
        """Find every place with these words from left to right, without overlaps. Raises ToolError
        if there are too many."""
        joined_search = " ".join(search.split())
        if not joined_search or joined_search not in self._joined_text:
            return []
        gaps = re.findall(r"\s+", search.strip())
        before = search[: len(search) - len(search.lstrip())]
        after = search[len(search.rstrip()) :]
        found: list[WordMatch] = []
        free = 0
        for match in collect_matches(_iter_matches(self._joined_text, joined_search)):
            begin = self._to_text_position(match.start)
            end = self._to_text_position(match.stop - 1) + 1
            start = max(free, self._extend_over_whitespace(begin, before[::-1], -1))
            span = CharSpan(start, self._extend_over_whitespace(end, after, 1))
            edges = (not before or start < begin) and (not after or span.stop > end)
            found.append(WordMatch(span, edges and self._has_matching_gaps(match.start, gaps)))
            free = span.stop
        return found

    @cached_property
    def _word_starts(self) -> list[int]:
        """The offsets of the words in the flat text."""
        return [match.start() for match in _WORD_RE.finditer(self._text)]

    @cached_property
    def _joined_word_starts(self) -> list[int]:
        """The offsets of the words in the joined text, and one past the end."""
        return list(accumulate((len(w) + 1 for w in self._joined_text.split(" ")), initial=0))

    def _find_word_index(self, position: int) -> int:
        return bisect_right(self._joined_word_starts, position) - 1

    def _to_text_position(self, position: int) -> int:
        word = self._find_word_index(position)
        return self._word_starts[word] + position - self._joined_word_starts[word]

    def _has_matching_gaps(self, position: int, gaps: list[str]) -> bool:
        """Whether only blanks separate the words wherever the wanted text has only blanks."""
        first = self._find_word_index(position)
        for word, gap in enumerate(gaps, first):
            if "\n" in gap:
                continue
            length = self._joined_word_starts[word + 1] - self._joined_word_starts[word] - 1
            between = self._text[self._word_starts[word] + length : self._word_starts[word + 1]]
            if not _BLANK_CHARACTERS.issuperset(between):
                return False
        return True

    def _extend_over_whitespace(self, position: int, space: str, step: int) -> int:
        """Extend a match over adjacent white space like that of the searched text."""
        reach = position
        for _ in range(space.count("\n")):
            at = self._skip_blanks(reach, step)
            if self._peek_character(at, step) != "\n":
                break
            reach = at + step
        if reach == position:
            return self._skip_blanks(position, step) if space else position
        return self._skip_blanks(reach, step) if space[-1] in _BLANK_CHARACTERS else reach

    def _skip_blanks(self, position: int, step: int) -> int:
        while self._peek_character(position, step) in _BLANK_CHARACTERS:
            position += step
        return position

    def _peek_character(self, position: int, step: int) -> str:
        """Return the character after or before a position; empty at the ends."""
        at = position if step > 0 else position - 1
        return self._text[at] if 0 <= at < len(self._text) else ""


_CONTEXT_LINE_COUNT = 3
_MAX_SHOWN_MATCHES = 3
_MIN_SIMILARITY = 0.3


def explain_not_found(
    text: NormalizedText, search: str, new: str, similarity: SimilarityFunction
) -> EditFailure:
    """Explain a text that is not found: it occurs with other words, or what is most similar."""
    search = normalize_newlines(search)
    document = Document(text.normalized_text)
    summary, spans = _describe_nearest_text(text, document, search, similarity)
    if has_line_numbers(search):
        summary += (
            " It has line numbers in front of its lines, which are not part of the file: leave"
            " them out."
        )
    summary += explain_entities(search, text.normalized_text)
    summary += _describe_existing_replacement(text, search, new)
    return EditFailure(summary, _render_spans(document, spans))


def explain_wrong_count(text: NormalizedText, spans: Sequence[CharSpan]) -> EditFailure:
    """Explain a text that occurs, but not as often as expected."""
    lines = text.to_line_spans(spans)
    return EditFailure(
        f"It is there {format_times(len(spans))}, {format_line_numbers(lines)}.",
        _render_spans(Document(text.normalized_text), lines),
    )


def _describe_nearest_text(
    text: NormalizedText, document: Document, search: str, similarity: SimilarityFunction
) -> tuple[str, list[LineSpan]]:
    if matches := WordSearch(text.normalized_text).find(search):
        spans = text.to_line_spans([match.span for match in matches])
        return f"The same words with other white space are {format_line_numbers(spans)}.", spans
    lines = search.strip("\n").split("\n")
    everywhere = LineSpan(0, len(document.lines))
    if loose := document.find_loose(lines, everywhere):
        where = format_line_numbers(loose)
        return f"It differs from the text {where} in quotes, dashes or white space only.", loose
    likeness = find_most_similar(document, lines, everywhere, similarity, lambda start: start)
    if likeness is None or likeness.score < _MIN_SIMILARITY:
        return "Nothing in the file is much like it.", []
    first, last = likeness.span.start + 1, likeness.span.stop
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"The most similar text, {where}, is {format_percent(likeness.score)} alike.", [
        likeness.span
    ]


def _describe_existing_replacement(text: NormalizedText, search: str, new: str) -> str:
    """Describe where the new text already occurs; a part of the old text, or a frequent text,
    proves nothing."""
    if not new.strip() or normalize_newlines(new) in search:
        return ""
    matches = list(islice(text.iter_matches(new), _MAX_SHOWN_MATCHES + 1))
    if not 0 < len(matches) <= _MAX_SHOWN_MATCHES:
        return ""
    where = format_line_numbers(text.to_line_spans(matches))
    return f" The new text is there already, {where}: the change may have been made before."


def _render_spans(document: Document, spans: Sequence[LineSpan]) -> str:
    """Render the first places with context lines, each line once."""
    merged: list[LineSpan] = []
    for span in spans[:_MAX_SHOWN_MATCHES]:
        start, stop = max(0, span.start - _CONTEXT_LINE_COUNT), span.stop + _CONTEXT_LINE_COUNT
        if merged and start <= merged[-1].stop:
            start, stop = merged[-1].start, max(stop, merged.pop().stop)
        merged.append(LineSpan(start, stop))
    return "\n...\n".join(render_numbered_lines(document.lines, span) for span in merged)
