"""A text that is edited line by line, with exact and loose search for lines.

*Exact* compares the lines as they are. *Loose* compares them with runs of white space counted as
one space, typographic characters as plain ones and blank lines as nothing: a model that copies
from memory deviates from the file in these first. Both are string searches over the joined
lines, so their cost is that of reading the text a few times. `str.find` is fast as long as matches
do not overlap much; a repetitive text is searched in one pass from there on (Knuth, Morris,
Pratt).

Every line keeps its own line end, and whether the text ends with one stays as it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from operator import eq
from typing import NamedTuple

from joey.core.text import regex

_WORD_RE = regex(r"\w+")
_TYPOGRAPHY_TRANSLATION = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u2013": "-",
        "\u2014": "-",
        "\u00a0": " ",
    }
)


class LineSpan(NamedTuple):
    """Lines `start` up to but not including `stop`, counted from 0."""

    start: int
    stop: int


def normalise(text: str) -> str:
    if not text.isascii():
        text = text.translate(_TYPOGRAPHY_TRANSLATION)
    return " ".join(text.split())


class Document:
    def __init__(self, text: str) -> None:
        *whole, rest = text.split("\n")
        self.lines = [line.removesuffix("\r") for line in whole]
        self._ends = ["\r\n" if line.endswith("\r") else "\n" for line in whole]
        self._newline = "\r\n" if "\r\n" in self._ends else "\n"
        self._ends_with_newline = not rest
        if rest:
            self.lines.append(rest)
            self._ends.append("")
        self._normal: list[str] | None = None
        self._line_index: dict[str, list[int]] | None = None
        self._word_index: dict[str, list[int]] | None = None

    @property
    def text(self) -> str:
        if not self.lines:
            return ""
        ends = self._ends
        if not self._ends_with_newline:
            # The line that had no end may stand before others now.
            ends = [end or self._newline for end in ends[:-1]] + [""]
        return "".join([part for pair in zip(self.lines, ends, strict=True) for part in pair])

    @property
    def normal(self) -> list[str]:
        """The lines as the loose comparison sees them; blank ones are empty."""
        if self._normal is None:
            self._normal = [normalise(line) for line in self.lines]
        return self._normal

    @property
    def line_index(self) -> Mapping[str, Sequence[int]]:
        """Where each line is, as the loose comparison sees it."""
        if self._line_index is None:
            self._line_index = index_of((line,) for line in self.normal)
        return self._line_index

    @property
    def word_index(self) -> Mapping[str, Sequence[int]]:
        """The lines in which each word is."""
        if self._word_index is None:
            self._word_index = index_of(map(tokenize_line, self.normal))
        return self._word_index

    def replace(self, span: LineSpan, lines: list[str]) -> None:
        """New lines end as the first line that they replace does; equal ones around them stay."""
        self._line_index = self._word_index = None
        old = self.lines[span.start : span.stop]
        head = _agreement(old, lines)
        tail = _agreement(old[head:][::-1], lines[head:][::-1])
        start, stop = span.start + head, span.stop - tail
        new = lines[head : len(lines) - tail]
        end = self._ends[start if start < stop else max(0, start - 1)] or self._newline
        self.lines[start:stop] = new
        self._ends[start:stop] = [end] * len(new)
        if self._normal is not None:
            self._normal[start:stop] = [normalise(line) for line in new]

    def find_exact(self, search: list[str], within: LineSpan) -> list[LineSpan]:
        """Every place within these lines where the searched lines stand as they are."""
        text = "\n".join(["", *self.lines[within.start : within.stop], ""])
        wanted = "\n".join(["", *search, ""])
        spans: list[LineSpan] = []
        line, counted = within.start, 0
        for position in occurrences(text, wanted):
            line += text.count("\n", counted, position)
            counted = position
            spans.append(LineSpan(line, line + len(search)))
        return spans

    def find_loose(self, search: list[str], within: LineSpan) -> list[LineSpan]:
        """Every place where the lines say the same but for white space and typography."""
        normal = self.normal
        numbers = [number for number in range(within.start, within.stop) if normal[number]]
        lines = [normal[number] for number in numbers]
        text = " ".join(lines)
        wanted = normalise("\n".join(search))
        starts = accumulate((len(line) + 1 for line in lines), initial=0)
        ordinals = {start: ordinal for ordinal, start in enumerate(starts)}
        blank_before = blank_run(search)
        blank_after = blank_run(search[::-1])
        spans: list[LineSpan] = []
        for position in occurrences(text, wanted):
            first = ordinals.get(position)
            after = ordinals.get(position + len(wanted) + 1)
            if first is not None and after is not None:
                span = LineSpan(numbers[first], numbers[after - 1] + 1)
                spans.append(self._widen(span, blank_before, blank_after, within))
        return spans

    def _widen(self, span: LineSpan, before: int, after: int, within: LineSpan) -> LineSpan:
        """Take in the blank lines around a span, as many as the search has and the text offers."""
        start, stop = span
        while before and start > within.start and not self.normal[start - 1]:
            start, before = start - 1, before - 1
        while after and stop < within.stop and not self.normal[stop]:
            stop, after = stop + 1, after - 1
        return LineSpan(start, stop)


def tokenize_line(line: str) -> Iterable[str]:
    """Each word of a line once."""
    return dict.fromkeys(_WORD_RE.findall(line))


def index_of(lines: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """The numbers of the lines that have a key; each line is given by its keys."""
    index: defaultdict[str, list[int]] = defaultdict(list)
    for number, keys in enumerate(lines):
        for key in keys:
            index[key].append(number)
    return index


def _agreement(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def blank_run(lines: list[str]) -> int:
    for count, line in enumerate(lines):
        if line.strip():
            return count
    return len(lines)


_MAX_OVERLAP_FACTOR = 8
"""How often, on average, a character may be part of what was found."""


def occurrences(text: str, wanted: str) -> Iterator[int]:
    """Positions in order; an empty text is nowhere."""
    if not wanted:
        return
    allowance = _MAX_OVERLAP_FACTOR * len(text)
    position = text.find(wanted)
    while position >= 0:
        yield position
        allowance -= len(wanted)
        if allowance < 0:
            yield from _overlapping(text, wanted, position + 1)
            return
        position = text.find(wanted, position + 1)


def _overlapping(text: str, wanted: str, start: int) -> Iterator[int]:
    borders = _borders(wanted)
    matched = 0
    for position in range(start, len(text)):
        character = text[position]
        while matched and (matched == len(wanted) or wanted[matched] != character):
            matched = borders[matched - 1]
        if wanted[matched] == character:
            matched += 1
        if matched == len(wanted):
            yield position + 1 - matched


def _borders(wanted: str) -> list[int]:
    """For each beginning of a text, the longest part that it both starts and ends with."""
    borders = [0] * len(wanted)
    length = 0
    for end in range(1, len(wanted)):
        while length and wanted[end] != wanted[length]:
            length = borders[length - 1]
        if wanted[end] == wanted[length]:
            length += 1
        borders[end] = length
    return borders


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def shifted(line: str, indents: Mapping[str, str]) -> str:
    """A line with the real indentation; `indents` gives, for some as written, those of the place.

    One that is not known is taken relative to the nearest that is. Blank lines stay.
    """
    if not line.strip():
        return line
    indent = indent_of(line)
    outer = max((known for known in indents if indent.startswith(known)), key=len, default=None)
    if outer is not None:
        return indents[outer] + line[len(outer) :]
    inner = min((known for known in indents if known.startswith(indent)), key=len, default=None)
    if inner is None:
        return line
    real = indents[inner]
    return real[: max(0, len(real) - len(inner) + len(indent))] + line[len(indent) :]
