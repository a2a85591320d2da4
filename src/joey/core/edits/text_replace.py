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
from itertools import accumulate, islice, takewhile
from operator import eq
from typing import NamedTuple, TypeVar

from msgspec import Struct

from joey.core.edits.document import Document, LineSpan
from joey.core.edits.similar import (
    EditFailure,
    SimilarityFunction,
    at_lines,
    most_similar,
    numbered,
    percent,
    times,
)
from joey.core.text import has_line_numbers, regex
from joey.errors import ToolError


class ReplaceResult(Struct, frozen=True):
    text: str
    places: tuple[CharSpan, ...]
    """Where the old text was."""
    is_exact: bool = True
    """False when its white space was another one."""


class CountMismatch(Struct, frozen=True):
    places: tuple[CharSpan, ...] = ()
    """Where the text is, by the first way of looking that found any."""
    is_exact: bool = True


def replace_text(
    text: NormalizedText, old: str, new: str, *, expected: int | None = 1, tolerant: bool = False
) -> ReplaceResult | CountMismatch:
    """Replace `old` everywhere if it is there `expected` times; None takes any number but 0.

    One that overlaps another cannot be meant alone. With `tolerant`, white space may differ: step
    by step, until one finds the expected number, or more, which the next could only add to.
    """
    first: CountMismatch | None = None
    for places, is_exact in _steps(text, old, tolerant):
        if expected == len(places) == 1 and (other := text.overlapping(places[0])):
            return CountMismatch((*places, other), is_exact)
        if places and expected in (len(places), None):
            return ReplaceResult(text.replace(places, new), places, is_exact)
        if places and first is None:
            first = CountMismatch(places, is_exact)
        if expected is not None and len(places) > expected:
            break
    return first or CountMismatch()


def _steps(
    text: NormalizedText, old: str, tolerant: bool
) -> Iterator[tuple[tuple[CharSpan, ...], bool]]:
    yield tuple(text.find(old)), True
    if not tolerant:
        return
    matches = WordSearch(text.flat).find(flatten(old))
    yield tuple(match.place for match in matches if match.on_its_lines), False
    yield tuple(match.place for match in matches), False


_CRLF_RE = regex("\r\n")
_MAX_RESULT_CHARS = 64 * 1024 * 1024
MAX_MATCHES = 1_000_000

T = TypeVar("T")


class CharSpan(NamedTuple):
    """Characters `start` up to but not including `stop` of the flat text."""

    start: int
    stop: int


def flatten(text: str) -> str:
    return text.replace("\r\n", "\n")


class NormalizedText:
    def __init__(self, text: str) -> None:
        self.text = text
        self.flat = flatten(text)

    def find(self, wanted: str, within: CharSpan | None = None) -> list[CharSpan]:
        """Every place where the text stands, from left to right, none overlapping another.

        Raises:
            ToolError: there are too many.
        """
        return countable(self.places(wanted, within))

    def places(self, wanted: str, within: CharSpan | None = None) -> Iterator[CharSpan]:
        wanted = flatten(wanted)
        start, stop = within or CharSpan(0, len(self.flat))
        position = self.flat.find(wanted, start, stop) if wanted else -1
        while position >= 0:
            place = CharSpan(position, position + len(wanted))
            yield place
            position = self.flat.find(wanted, place.stop, stop)

    def overlapping(self, place: CharSpan) -> CharSpan | None:
        """Where the text of a place stands once more, beginning inside of the place."""
        wanted = self.flat[place.start : place.stop]
        at = self.flat.find(wanted, place.start + 1, place.stop + len(wanted) - 1)
        return CharSpan(at, at + len(wanted)) if at >= 0 else None

    def lines(self, first: int | None, last: int | None) -> CharSpan:
        """From line `first` to line `last`, counted from 1, without the end of the last one."""
        length = len(self.flat)
        starts = [0, *(match.end() for match in re.finditer("\n", self.flat))]
        start = dict(enumerate(starts, 1)).get(max(first or 1, 1), length)
        if last is None or last >= len(starts):
            return CharSpan(start, length)
        return CharSpan(start, max(start, starts[max(last, 1)] - 1))

    def line_numbers(self, positions: Iterable[int]) -> list[int]:
        """The lines in which rising positions are, counted from 1."""
        numbers: list[int] = []
        line, counted = 1, 0
        for position in positions:
            line += self.flat.count("\n", counted, position)
            counted = position
            numbers.append(line)
        return numbers

    def replace(self, places: Sequence[CharSpan], new: str) -> str:
        """The real text with the same new text at each of these places, which rise.

        Raises:
            ToolError: the result would be too long.
        """
        if len(self.text) + len(places) * len(new) > _MAX_RESULT_CHARS:
            raise ToolError(
                f"Replacing {len(places)} places would make the file longer than"
                f" {_MAX_RESULT_CHARS // 2**20} MB."
            )
        flat_new = flatten(new)
        pieces: list[str] = []
        done = 0
        for place, end in zip(places, self._line_ends(places), strict=True):
            kept = self._kept(place, flat_new)
            start, stop = self._real(kept.start), self._real(kept.stop)
            inner = flat_new[kept.start - place.start : len(flat_new) - (place.stop - kept.stop)]
            pieces.append(self.text[done:start])
            pieces.append(new if end is None else inner.replace("\n", end))
            done = stop
        return "".join([*pieces, self.text[done:]])

    @cached_property
    def _marks(self) -> list[int]:
        """Where the flat text has `\\n` for `\\r\\n`."""
        if len(self.flat) == len(self.text):
            return []
        return [match.start() - count for count, match in enumerate(_CRLF_RE.finditer(self.text))]

    def _real(self, position: int) -> int:
        return position + bisect_left(self._marks, position)

    def _line_ends(self, places: Sequence[CharSpan]) -> Iterator[str | None]:
        """How the line of each place ends, else the last that does; None if there is no other."""
        last = self.flat.rfind("\n")
        at = -1
        for place in places:
            if at < place.start:
                at = self.flat.find("\n", place.start) if place.start <= last else last
            yield None if last < 0 else self._end_at(at)

    def _end_at(self, position: int) -> str:
        mark = bisect_left(self._marks, position)
        return "\r\n" if self._marks[mark : mark + 1] == [position] else "\n"

    def _kept(self, place: CharSpan, new: str) -> CharSpan:
        """The part of a place that the new text really changes."""
        if not self._marks:
            return place
        old = self.flat[place.start : place.stop]
        head = _agreement(old, new)
        tail = _agreement(old[head:][::-1], new[head:][::-1])
        return CharSpan(place.start + head, place.stop - tail)


def countable(places: Iterable[T]) -> list[T]:
    """All places where a text is.

    Raises:
        ToolError: there are too many.
    """
    found = list(islice(places, MAX_MATCHES + 1))
    if len(found) > MAX_MATCHES:
        raise ToolError(f"The text is there more than {MAX_MATCHES} times. Quote more of it.")
    return found


def _agreement(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


_WORD_RE = regex(r"\S+")
_BLANK_CHARACTERS = frozenset(" \t")


class WordMatch(NamedTuple):
    place: CharSpan
    on_its_lines: bool
    """It is one of step 2: blanks stand where the wanted text has blanks."""


class WordSearch:
    """One flat text, in which texts are looked for by their words."""

    def __init__(self, flat: str) -> None:
        self._flat = flat
        self._joined = " ".join(flat.split())

    def find(self, wanted: str) -> list[WordMatch]:
        """Every place with these words, from left to right, none overlapping another.

        Raises:
            ToolError: there are too many.
        """
        joined_search = " ".join(wanted.split())
        if not joined_search or joined_search not in self._joined:
            return []
        gaps = re.findall(r"\s+", wanted.strip())
        before = wanted[: len(wanted) - len(wanted.lstrip())]
        after = wanted[len(wanted.rstrip()) :]
        found: list[WordMatch] = []
        free = 0
        for position in countable(self._positions(joined_search)):
            core = self._place(position, position + len(joined_search))
            start = max(free, self._reach(core.start, before[::-1], -1))
            place = CharSpan(start, self._reach(core.stop, after, 1))
            edges = (not before or start < core.start) and (not after or place.stop > core.stop)
            found.append(WordMatch(place, edges and self._fits(position, gaps)))
            free = place.stop
        return found

    def _positions(self, joined_search: str) -> Iterator[int]:
        position = self._joined.find(joined_search)
        while position >= 0:
            yield position
            position = self._joined.find(joined_search, position + len(joined_search))

    @cached_property
    def _starts(self) -> list[int]:
        """Where each word begins in the flat text."""
        return [match.start() for match in _WORD_RE.finditer(self._flat)]

    @cached_property
    def _joined_starts(self) -> list[int]:
        """Where each word begins in the joined text, and one past the end."""
        return list(accumulate((len(w) + 1 for w in self._joined.split(" ")), initial=0))

    def _word_at(self, position: int) -> int:
        return bisect_right(self._joined_starts, position) - 1

    def _flat_position(self, position: int) -> int:
        word = self._word_at(position)
        return self._starts[word] + position - self._joined_starts[word]

    def _place(self, start: int, stop: int) -> CharSpan:
        return CharSpan(self._flat_position(start), self._flat_position(stop - 1) + 1)

    def _fits(self, position: int, gaps: list[str]) -> bool:
        """Whether blanks stand between the words wherever the wanted text has only blanks."""
        first = self._word_at(position)
        for word, gap in enumerate(gaps, first):
            if "\n" in gap:
                continue
            length = self._joined_starts[word + 1] - self._joined_starts[word] - 1
            between = self._flat[self._starts[word] + length : self._starts[word + 1]]
            if not _BLANK_CHARACTERS.issuperset(between):
                return False
        return True

    def _reach(self, position: int, space: str, step: int) -> int:
        """How far a match goes that has this white space beside it, read away from its words."""
        reach = position
        for _ in range(space.count("\n")):
            at = self._skip_blanks(reach, step)
            if self._beside(at, step) != "\n":
                break
            reach = at + step
        if reach == position:
            return self._skip_blanks(position, step) if space else position
        return self._skip_blanks(reach, step) if space[-1] in _BLANK_CHARACTERS else reach

    def _skip_blanks(self, position: int, step: int) -> int:
        while self._beside(position, step) in _BLANK_CHARACTERS:
            position += step
        return position

    def _beside(self, position: int, step: int) -> str:
        """The character behind a position, or before it; nothing at the ends."""
        at = position if step > 0 else position - 1
        return self._flat[at] if 0 <= at < len(self._flat) else ""


_CONTEXT_LINES = 3
_MAX_SHOWN_MATCHES = 3
_MIN_SIMILARITY = 0.3


def explain_miss(
    text: NormalizedText, wanted: str, new: str, similarity: SimilarityFunction
) -> EditFailure:
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
    return EditFailure(summary, _shown(document, spans))


def explain_count(text: NormalizedText, places: Sequence[CharSpan]) -> EditFailure:
    """The text is there, but not as often as it should be."""
    numbers = text.line_numbers(place.start for place in places)
    document = Document(text.flat)
    lasts = text.line_numbers(max(place.start, place.stop - 1) for place in places)
    spans = [LineSpan(first - 1, last) for first, last in zip(numbers, lasts, strict=True)]
    return EditFailure(
        f"It is there {times(len(places))}, {at_lines(numbers)}.", _shown(document, spans)
    )


def _nearest(
    text: NormalizedText, document: Document, wanted: str, similarity: SimilarityFunction
) -> tuple[str, list[LineSpan]]:
    if matches := WordSearch(text.flat).find(wanted):
        numbers = text.line_numbers(match.place.start for match in matches)
        lasts = text.line_numbers(match.place.stop - 1 for match in matches)
        spans = [LineSpan(first - 1, last) for first, last in zip(numbers, lasts, strict=True)]
        return f"The same words with other white space are {at_lines(numbers)}.", spans
    lines = wanted.strip("\n").split("\n")
    everywhere = LineSpan(0, len(document.lines))
    if loose := document.find_loose(lines, everywhere):
        where = at_lines([span.start + 1 for span in loose])
        return f"It differs from the text {where} in quotes, dashes or white space only.", loose
    likeness = most_similar(document, lines, everywhere, similarity, lambda start: start)
    if likeness is None or likeness.score < _MIN_SIMILARITY:
        return "Nothing in the file is much like it.", []
    first, last = likeness.span.start + 1, likeness.span.stop
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"The most similar text, {where}, is {percent(likeness.score)} alike.", [likeness.span]


def _already_there(text: NormalizedText, wanted: str, new: str) -> str:
    """A new text that is a part of the old one, or is there often, tells nothing."""
    if not new.strip() or flatten(new) in wanted:
        return ""
    places = list(islice(text.places(new), _MAX_SHOWN_MATCHES + 1))
    if not 0 < len(places) <= _MAX_SHOWN_MATCHES:
        return ""
    where = at_lines(text.line_numbers(place.start for place in places))
    return f"The new text is there already, {where}: the change may have been made before."


def _shown(document: Document, spans: Sequence[LineSpan]) -> str:
    """The first places, with some lines around, each line once."""
    shown: list[LineSpan] = []
    for span in spans[:_MAX_SHOWN_MATCHES]:
        start, stop = max(0, span.start - _CONTEXT_LINES), span.stop + _CONTEXT_LINES
        if shown and start <= shown[-1].stop:
            start, stop = shown[-1].start, max(stop, shown.pop().stop)
        shown.append(LineSpan(start, stop))
    return "\n...\n".join(numbered(document.lines, span) for span in shown)
