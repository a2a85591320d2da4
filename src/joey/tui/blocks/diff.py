"""Diffs of files: numbered lines, with the different words of changed lines highlighted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

from msgspec import Struct

from joey.core.text import reveal, split_lines
from joey.tui.blocks.block_layout import CHUNK_LINES, MIN_TEXT_COLUMNS
from joey.tui.blocks.styled_text import TAB_SIZE, Span, Spans, chop_spans, count_chopped_lines

_HUNK_HEADER_RE = re.compile(
    r"@@ -(?P<old>\d+)(?:,(?P<olds>\d+))? \+(?P<new>\d+)(?:,(?P<news>\d+))? @@(?P<where>.*)"
)
_HEADER_PREFIXES = ("--- ", "+++ ", "diff --git ", "index ")
_SEARCH_REPLACE_MARKER_RE = re.compile(
    r"<<<<<<< SEARCH|:start_line: *(\d+)|:end_line:.*|-------|=======|>>>>>>> REPLACE"
)
_TOKEN_RE = re.compile(r"\w+|\s+|[^\w\s]")
MAX_COMPARED_LINE_CHARS = 400
"""Of a line that is compared word by word."""
_MIN_SIMILARITY = 0.4
_STYLES_BY_SIGN = {"+": "added", "-": "removed", " ": "", "@": "hunk", "#": "muted"}


class DiffLine(Struct, frozen=True):
    sign: str
    """`+`, `-`, a blank; `@` between two places of a file, `#` for what is said about it."""
    text: str
    line_number: int | None = None


def parse_diff(text: str) -> list[DiffLine]:
    """Parse a unified diff, SEARCH and REPLACE blocks, or the text of a new file."""
    lines = [line.expandtabs(TAB_SIZE) for line in split_lines(reveal(text))]
    if any(_HUNK_HEADER_RE.match(line) for line in lines):
        return list(_parse_unified_diff(lines))
    if "<<<<<<< SEARCH" in lines:
        return list(_parse_search_replace(lines))
    if any(line.startswith(("--- ", "+++ ")) for line in lines[:2]):
        return [DiffLine("#", line) for line in lines]
    return [DiffLine("+", line, n) for n, line in enumerate(lines, 1)]


def _parse_unified_diff(lines: Sequence[str]) -> Iterator[DiffLine]:
    """Parse a unified diff. The counts of each hunk say which lines are in it: `--- x` may be the
    removed line `-- x`."""
    several = sum(line.startswith("+++ ") for line in lines) > 1
    old = new = old_left = new_left = 0
    is_first = True
    for line in lines:
        sign = line[:1] or " "
        if found := _HUNK_HEADER_RE.match(line):
            old, new = int(found["old"]), int(found["new"])
            old_left, new_left = int(found["olds"] or 1), int(found["news"] or 1)
            if not is_first or found["where"].strip():
                yield DiffLine("@", f"⋯{found['where']}")
            is_first = False
        elif sign == "\\":
            yield DiffLine("#", line[1:].strip())
        elif (old_left > 0 or new_left > 0) and sign in "+- ":
            yield DiffLine(sign, line[1:], old if sign == "-" else new)
            in_old, in_new = sign != "+", sign != "-"
            old, old_left = old + in_old, old_left - in_old
            new, new_left = new + in_new, new_left - in_new
        elif line.startswith(_HEADER_PREFIXES):
            if several and line.startswith("+++ "):
                is_first = True
                yield DiffLine("#", line[4:])
        elif line:
            yield DiffLine("#", line)


def _parse_search_replace(lines: Sequence[str]) -> Iterator[DiffLine]:
    sign, number, seen = "#", 0, 0
    for line in lines:
        if not (found := _SEARCH_REPLACE_MARKER_RE.fullmatch(line)):
            known = number + seen if number and sign != "#" else None
            seen += 1
            yield DiffLine(sign, line, known)
        elif line.startswith("<"):
            if seen:
                yield DiffLine("@", "⋯")
            sign, number, seen = "-", 0, 0
        elif found[1]:
            number, seen = int(found[1]), 0
        elif line == "=======":
            sign, seen = "+", 0
        elif line.startswith(">"):
            sign = "#"


class DiffPart(Struct, frozen=True):
    """Some lines of a change; words are compared when they become visible."""

    lines: Sequence[DiffLine]
    number_width: int

    @property
    def hang(self) -> int:
        return self.number_width + 5

    def measure_height(self, width: int) -> int:
        columns, lead = max(MIN_TEXT_COLUMNS, width), " " * self.hang
        return sum(count_chopped_lines(lead + line.text, columns, self.hang) for line in self.lines)

    def render_lines(self, width: int) -> list[Spans]:
        columns = max(MIN_TEXT_COLUMNS, width)
        drawn: list[Spans] = []
        for line, spans in zip(self.lines, _highlight_changes(self.lines), strict=True):
            number = "" if line.line_number is None else str(line.line_number)
            sign = line.sign if line.sign in "+-" else " "
            gutter = [
                (f"  {number:>{self.number_width}} ", "muted"),
                (f"{sign} ", _STYLES_BY_SIGN[line.sign]),
            ]
            drawn += chop_spans([*gutter, *spans], columns, self.hang)
        return drawn


def split_into_parts(lines: Sequence[DiffLine]) -> list[DiffPart]:
    digits = len(str(max((line.line_number or 0 for line in lines), default=0)))
    return [
        DiffPart(lines[start : start + CHUNK_LINES], digits)
        for start in range(0, len(lines), CHUNK_LINES)
    ]


def _highlight_changes(lines: Sequence[DiffLine]) -> list[Spans]:
    """Highlight the differences between lines that replace each other."""
    drawn: list[Spans] = [[(line.text, _STYLES_BY_SIGN[line.sign])] for line in lines]
    at = 0
    while at < len(lines):
        removed = sum(1 for _ in takewhile(lambda line: line.sign == "-", lines[at:]))
        added = sum(1 for _ in takewhile(lambda line: line.sign == "+", lines[at + removed :]))
        for n in range(removed if removed == added else 0):
            old, new = at + n, at + removed + n
            drawn[old], drawn[new] = _highlight_changed_tokens(lines[old].text, lines[new].text)
        at += max(1, removed + added)
    return drawn


def _highlight_changed_tokens(old: str, new: str) -> tuple[Spans, Spans]:
    before, after = _TOKEN_RE.findall(old), _TOKEN_RE.findall(new)
    if max(len(old), len(new)) <= MAX_COMPARED_LINE_CHARS:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        if matcher.ratio() >= _MIN_SIMILARITY:
            steps = matcher.get_opcodes()
            removed = [_style_tokens(before[a:b], "removed", kind) for kind, a, b, _, _ in steps]
            added = [_style_tokens(after[a:b], "added", kind) for kind, _, _, a, b in steps]
            return [span for span in removed if span[0]], [span for span in added if span[0]]
    return [(old, "removed")], [(new, "added")]


def _style_tokens(tokens: Sequence[str], style: str, kind: str) -> Span:
    return "".join(tokens), style if kind == "equal" else f"{style}-word"
