"""A text that is edited line by line, with exact and loose search for lines.

*Exact* compares the lines unchanged. *Loose* treats a run of white space as one space and
typographic characters as plain ones, and ignores blank lines: models that copy from memory get
these wrong first. Both are string searches over the joined lines, so their cost is that of reading
the text a few times. `str.find` is fast as long as matches overlap little; repetitive text is
searched in one pass from there on (Knuth, Morris, Pratt).

Every line keeps its own line ending, and whether the text ends with a newline stays unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import accumulate, takewhile
from operator import add, eq
from typing import NamedTuple

from joey.core.text import compile_regex

_WORD_RE = compile_regex(r"\w+")
_PLAIN_TEXT_BY_CODE_POINT = {
    ord(character): plain
    for plain, characters in (
        ("-", "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"),
        ("'", "\u2018\u2019\u201a\u201b"),
        ('"', "\u201c\u201d\u201e\u201f"),
        (" ", "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"),
        ("...", "\u2026"),
    )
    for character in characters
}


class LineSpan(NamedTuple):
    """Lines from `start` up to but not including `stop`, counted from 0."""

    start: int
    stop: int


class ChangedLines(NamedTuple):
    """Lines from `start` up to but not including `stop` of a new text, and how many old ones they
    replace."""

    start: int
    stop: int
    old_count: int


def replace_typography(text: str) -> str:
    return text if text.isascii() else text.translate(_PLAIN_TEXT_BY_CODE_POINT)


def normalize_text(text: str) -> str:
    return " ".join(replace_typography(text).split())


class Document:
    def __init__(self, text: str) -> None:
        *terminated, rest = text.split("\n")
        self.lines = [line.removesuffix("\r") for line in terminated]
        self._line_endings = ["\r\n" if line.endswith("\r") else "\n" for line in terminated]
        self._default_newline = "\r\n" if "\r\n" in self._line_endings else "\n"
        self.ends_with_newline = not rest
        if rest:
            self.lines.append(rest)
            self._line_endings.append("")

    @property
    def text(self) -> str:
        # The line without a newline may now be before others, and vice versa.
        ends = [end or self._default_newline for end in self._line_endings]
        if ends and not self.ends_with_newline:
            ends[-1] = ""
        return "".join(map(add, self.lines, ends))

    @cached_property
    def normalized_lines(self) -> list[str]:
        """The lines normalized for the loose comparison; blank ones are empty."""
        return [normalize_text(line) for line in self.lines]

    @cached_property
    def line_index(self) -> Mapping[str, Sequence[int]]:
        """The numbers of each line, normalized for the loose comparison."""
        return build_line_index((line,) for line in self.normalized_lines)

    @cached_property
    def word_index(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the lines that contain each word."""
        return build_line_index(map(tokenize_line, self.normalized_lines))

    def replace(self, span: LineSpan, lines: Sequence[str]) -> None:
        """Replace lines. New lines get the line ending of the first line they replace, or else of
        the one before it; equal lines around them stay."""
        caches = vars(self)
        caches.pop("line_index", None)
        caches.pop("word_index", None)
        old = self.lines[span.start : span.stop]
        head, tail = count_common_ends(old, lines)
        start, stop = span.start + head, span.stop - tail
        new = lines[head : len(lines) - tail]
        neighbour = start if start < stop else max(0, start - 1)
        end = "".join(self._line_endings[neighbour : neighbour + 1]) or self._default_newline
        self.lines[start:stop] = new
        self._line_endings[start:stop] = [end] * len(new)
        if "normalized_lines" in caches:
            self.normalized_lines[start:stop] = [normalize_text(line) for line in new]

    def find_exact(self, search: list[str], within: LineSpan) -> list[LineSpan]:
        """Find every exact match of the searched lines within these lines."""
        text = "\n".join(["", *self.lines[within.start : within.stop], ""])
        joined_search = "\n".join(["", *search, ""])
        spans: list[LineSpan] = []
        line, counted = within.start, 0
        for position in iter_occurrences(text, joined_search):
            line += text.count("\n", counted, position)
            counted = position
            spans.append(LineSpan(line, line + len(search)))
        return spans

    def find_loose(self, search: list[str], within: LineSpan) -> list[LineSpan]:
        """Find every match that differs only in white space and typography."""
        normal = self.normalized_lines
        numbers = [number for number in range(within.start, within.stop) if normal[number]]
        lines = [normal[number] for number in numbers]
        text = " ".join(lines)
        joined_search = normalize_text("\n".join(search))
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        blank_before = count_leading_blank_lines(search)
        blank_after = count_leading_blank_lines(search[::-1])
        spans: list[LineSpan] = []
        for position in iter_occurrences(text, joined_search):
            end = position + len(joined_search) + 1
            first, after = bisect_left(starts, position), bisect_left(starts, end)
            if starts[first] == position and starts[after : after + 1] == [end]:
                span = LineSpan(numbers[first], numbers[after - 1] + 1)
                spans.append(self._include_blank_lines(span, blank_before, blank_after, within))
        return spans

    def _include_blank_lines(
        self, span: LineSpan, before: int, after: int, within: LineSpan
    ) -> LineSpan:
        """Extend a span over blank lines around it, as many as the search has and the text
        offers."""
        start, stop = span
        while before and start > within.start and not self.normalized_lines[start - 1]:
            start, before = start - 1, before - 1
        while after and stop < within.stop and not self.normalized_lines[stop]:
            stop, after = stop + 1, after - 1
        return LineSpan(start, stop)


def tokenize_line(line: str) -> Iterable[str]:
    """Return each word of a line once."""
    return dict.fromkeys(_WORD_RE.findall(line))


def build_line_index(lines: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Build an index from keys to the numbers of the lines that have them."""
    index: defaultdict[str, list[int]] = defaultdict(list)
    for number, keys in enumerate(lines):
        for key in keys:
            index[key].append(number)
    return index


def count_common_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Count the common leading and trailing items of two sequences of lines or characters."""
    head = _count_common_prefix(one, other)
    return head, _count_common_prefix(one[head:][::-1], other[head:][::-1])


def _count_common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def count_leading_blank_lines(lines: list[str]) -> int:
    return next((count for count, line in enumerate(lines) if line.strip()), len(lines))


_MAX_OVERLAP_FACTOR = 8
"""How often, on average, a character may be part of what was found."""


def iter_occurrences(text: str, search: str) -> Iterator[int]:
    """Iterate over the positions of a text in order; an empty text has none."""
    if not search:
        return
    budget = _MAX_OVERLAP_FACTOR * len(text)
    position = text.find(search)
    while position >= 0:
        yield position
        budget -= len(search)
        if budget < 0:
            yield from _iter_overlapping_occurrences(text, search, position + 1)
            return
        position = text.find(search, position + 1)


def _iter_overlapping_occurrences(text: str, search: str, start: int) -> Iterator[int]:
    # For each prefix of the search text, the longest proper prefix that is also its suffix.
    borders = [0] * len(search)
    length = 0
    for end in range(1, len(search)):
        while length and search[end] != search[length]:
            length = borders[length - 1]
        if search[end] == search[length]:
            length += 1
        borders[end] = length
    matched = 0
    for position in range(start, len(text)):
        character = text[position]
        while matched and (matched == len(search) or search[matched] != character):
            matched = borders[matched - 1]
        if search[matched] == character:
            matched += 1
        if matched == len(search):
            yield position + 1 - matched


def get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def reindent_lines(lines: Sequence[str], matched: Iterable[tuple[str, str]]) -> list[str]:
    """Reindent new lines for a place whose lines, as written and as in the file, may differ in
    indentation: shift all if all differ by the same amount, or only in tabs versus spaces; only the
    first line if only it differs; otherwise change nothing. Blank lines stay."""
    pairs = [
        (get_indent(written), get_indent(real))
        for written, real in matched
        if written.strip() and real.strip()
    ]
    indents = set(pairs)
    shift = (_find_shift(indents) or _find_tab_conversion(indents)) if indents else None
    if shift is None:
        is_first_cut = len(pairs) > 1 and all(written == real for written, real in pairs[1:])
        if is_first_cut and lines and get_indent(lines[0]) == pairs[0][0]:
            return [pairs[0][1] + lines[0].lstrip(), *lines[1:]]
        return list(lines)
    return [shift(get_indent(line)) + line.lstrip() if line.strip() else line for line in lines]


def _find_shift(indents: Set[tuple[str, str]]) -> Callable[[str], str] | None:
    """Find a common shift of indentation: one prefix more, or less."""
    if all(real.endswith(written) for written, real in indents):
        missing = {real.removesuffix(written) for written, real in indents}
        return missing.pop().__add__ if len(missing) == 1 else None
    surplus = {len(written) - len(real) for written, real in indents}
    count = surplus.pop()
    is_same = not surplus and all(written.endswith(real) for written, real in indents)
    return (lambda indent: indent[count:]) if is_same else None


def _find_tab_conversion(indents: Set[tuple[str, str]]) -> Callable[[str], str] | None:
    """Find a conversion of indentation between tabs and spaces of one width, with the same change
    of levels on all lines."""
    blanks = {*"".join(one for one, _ in indents)}, {*"".join(other for _, other in indents)}
    if blanks not in (({" "}, {"\t"}), ({"\t"}, {" "})):
        return None
    sizes = sorted({(len(written), len(real)) for written, real in indents})
    (low, low_real), (high, high_real) = sizes[0] if len(sizes) > 1 else (0, 0), sizes[-1]
    grown, grown_real = high - low, high_real - low_real
    if grown <= 0 or grown_real <= 0 or max(grown, grown_real) % min(grown, grown_real):
        return None
    if any((high - one) * grown_real != (high_real - other) * grown for one, other in sizes):
        return None
    blank = blanks[1].pop()

    def convert(indent: str) -> str:
        size, rest = divmod((len(indent) - high) * grown_real, grown)
        return blank * max(0, high_real + size) + " " * (rest // grown_real)

    return convert
