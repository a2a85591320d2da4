"""Streaming Markdown: finished lines become pieces once, only the open end is drawn again.

The kind of a line follows from its beginning and from the open code block or table above it. So
the cost is linear in the text, and however the text is split while it streams, the same pieces
come out. Very long lines and parts are cut at positions that depend on the text alone. Inline
markup that is not closed is shown as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from rich.cells import cell_len

from joey.presentation.text import sanitize
from joey.tui.blocks.block import (
    BLANK_LINE,
    CHUNK_LINES,
    BlockPart,
    HangingIndentLines,
    HorizontalRule,
    LazyWrappedLine,
    VerbatimLines,
)
from joey.tui.blocks.styled_text import TAB_SIZE, Span, Spans, coloured, plain, wrapped

MAX_LINE_CHARS = 4_000
"""Characters that are drawn as one line; a longer one goes on as if it were another."""
_HEADING_RE = re.compile(r" {0,3}(#{1,6}) +")
_BULLET_RE = re.compile(r"( *)[-*+] +(\[[ xX]\] +)?")
_NUMBERED_ITEM_RE = re.compile(r" *\d{1,9}[.)] +")
_QUOTE_RE = re.compile(r" {0,3}((?:> ?)+)")
_RULE_RE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_AMBIGUOUS_START_RE = re.compile(r" *(?:#{1,6}|[-*+_]{1,2}|`{1,2}|~{1,2}|>|\d{1,9}[.)]?) *")
"""The beginning of a line whose meaning is not clear yet."""


class MarkdownParser:
    def __init__(self, head: Sequence[BlockPart] = ()) -> None:
        """`head` is drawn above the text."""
        self._head = len(head)
        self.settled: list[BlockPart] = [*head]
        """What no more text can change."""
        self._line = ""
        """The end of the text: a line that may go on."""
        self._hang: int | None = None
        """The line is the rest of a long one, whose text begins in this column."""
        self._blank = False
        self._part: OpenCodeBlock | OpenTable | None = None
        self._headline: str | None = None
        """A line that is the head of a table if the next one says so."""

    def feed(self, text: str) -> None:
        rest, at = self._line + text, 0
        while True:
            end = rest.find("\n", at, at + MAX_LINE_CHARS + 1)
            if end >= 0:
                self._put(_clean(rest[at:end]), goes_on=False)
                at = end + 1
            elif len(rest) - at > MAX_LINE_CHARS:
                end = rest.rfind(" ", at + 1, at + MAX_LINE_CHARS) + 1 or at + MAX_LINE_CHARS
                self._put(_clean(rest[at:end]), goes_on=True)
                at = end
            else:
                self._line = rest[at:]
                return

    def close(self) -> None:
        """Nothing more comes."""
        line, self._line = self._line, ""
        if line:
            self._put(_clean(line), goes_on=False)
        self._end_part()

    def open(self) -> list[BlockPart]:
        """What is drawn below the settled pieces, as it is now."""
        line = _clean(self._line)
        if self._part is not None and (self._hang is not None or self._part.takes(line)):
            return self._part.open(line)
        if self._part is not None and not line.strip():
            return self._part.open("")
        held = self._part.open("") if self._part is not None else []
        if self._headline is not None:
            held = [_piece(self._headline)]
            if not line.strip(" |:-"):
                return held
        if not line.strip() or _AMBIGUOUS_START_RE.fullmatch(line) or FENCE_RE.fullmatch(line):
            return held
        gap: list[BlockPart] = [BLANK_LINE] if self._needs_gap(line) and not held else []
        return [*held, *gap, self._drawn(line)]

    def _put(self, line: str, *, goes_on: bool) -> None:
        if self._hang is not None:
            self._put_rest(line, goes_on=goes_on)
        elif not self._held_in_part(line, goes_on=goes_on):
            self._begin_line(line, goes_on=goes_on)

    def _put_rest(self, line: str, *, goes_on: bool) -> None:
        """More of a line that is too long to be one."""
        self.settled += [self._drawn(line)] if self._part is None else self._part.put(line)
        if not goes_on:
            self._hang = None

    def _held_in_part(self, line: str, *, goes_on: bool) -> bool:
        """Whether the line belongs to what is open above it; else that is ended."""
        if self._headline is not None and not goes_on and TABLE_SEPARATOR_RE.fullmatch(line):
            self._part, self._headline = OpenTable(self._headline), None
            return True
        if self._part is None or not (goes_on or self._part.takes(line)):
            was_code = isinstance(self._part, OpenCodeBlock)
            self._end_part()
            return was_code
        self.settled += self._part.put(line)
        self._hang = 0 if goes_on else None
        return True

    def _begin_line(self, line: str, *, goes_on: bool) -> None:
        if not line.strip():
            self._blank = True
            return
        if self._needs_gap(line):
            self.settled.append(BLANK_LINE)
        self._blank = False
        if not goes_on and (found := FENCE_RE.fullmatch(line)):
            self._part = OpenCodeBlock(found)
        elif not goes_on and "|" in line:
            self._headline = line
        else:
            self.settled.append(_piece(line))
        self._hang = _lead(line) if goes_on else None

    def _end_part(self) -> None:
        if self._headline is not None:
            self.settled.append(_piece(self._headline))
            self._headline = None
        if self._part is not None:
            self.settled += self._part.close()
            self._part, self._blank = None, True

    def _needs_gap(self, line: str) -> bool:
        if len(self.settled) == self._head:
            return False
        return self._blank or bool(FENCE_RE.fullmatch(line) or _HEADING_RE.match(line))

    def _drawn(self, line: str) -> BlockPart:
        if self._hang is None:
            return _piece(line)
        return LazyWrappedLine(
            " " * self._hang + line, self._hang, partial(_plain, lead=self._hang)
        )


def _clean(line: str) -> str:
    return sanitize(line).expandtabs(TAB_SIZE)


def _piece(line: str) -> BlockPart:
    if _RULE_RE.fullmatch(line):
        return HorizontalRule()
    if found := _QUOTE_RE.match(line):
        return LazyWrappedLine(line, _lead(line), _styled, ("│ " * found[1].count(">"), "muted"))
    return LazyWrappedLine(line, _lead(line), _styled)


def _lead(line: str) -> int:
    """The column in which the text of a line begins."""
    if found := _BULLET_RE.match(line):
        return len(found[1]) + 2
    if found := _NUMBERED_ITEM_RE.match(line):
        return found.end()
    if found := _QUOTE_RE.match(line):
        return 2 * found[1].count(">")
    return len(line) - len(line.lstrip(" "))


def _styled(line: str) -> Spans:
    if found := _HEADING_RE.match(line):
        style = "heading bold underline" if found[1] == "#" else "heading bold"
        return list(inline(line[found.end() :].rstrip(" #"), style))
    if found := _BULLET_RE.match(line):
        box = (found[2] or "").strip()
        mark = {"": "• ", "[ ]": "☐ "}.get(box, "☑ ")
        return [(found[1], ""), (mark, "mark"), *inline(line[found.end() :])]
    if found := _NUMBERED_ITEM_RE.match(line):
        return [(found.group(), "mark"), *inline(line[found.end() :])]
    if found := _QUOTE_RE.match(line):
        bars = "│ " * found[1].count(">")
        return [(bars, "muted"), *inline(line[found.end() :], "quote")]
    return _plain(line, lead=len(line) - len(line.lstrip(" ")))


def _plain(line: str, lead: int) -> Spans:
    return [(line[:lead], ""), *inline(line[lead:])]


TABLE_CHUNK_ROWS = 50
"""Rows that decide about the columns."""
CODE_MARGIN: Spans = (("  ", ""),)
FENCE_RE = re.compile(r"( *)(`{3,}|~{3,}) *([\w+#.-]*)[^`]*")


class OpenCodeBlock:
    def __init__(self, fence: re.Match[str]) -> None:
        self._indent = len(fence[1])
        self._fence = fence[2]
        self._language = fence[3].lower()
        self._lines: list[str] = []
        self._seen: list[Spans] = []
        """The lines as they are shown until there are enough to be coloured together."""

    def takes(self, line: str) -> bool:
        closing = line.strip()
        return not closing.startswith(self._fence) or bool(closing.strip(self._fence[0]))

    def put(self, line: str) -> list[BlockPart]:
        """What no more lines can change."""
        self._lines.append(self._dedented(line))
        return self.close() if len(self._lines) >= CHUNK_LINES else []

    def open(self, line: str) -> list[BlockPart]:
        """What still grows, with a line that is not at its end."""
        for whole in self._lines[len(self._seen) :]:
            self._seen.append([*CODE_MARGIN, *coloured([whole], self._language)[0]])
        unfinished = self._dedented(line)
        may_close = not unfinished.strip(f"{self._fence[0]} ")
        last: list[Spans] = [] if may_close else [[*CODE_MARGIN, (unfinished, "")]]
        lines = [*self._seen, *last]
        return [HangingIndentLines(lines, hang=len(CODE_MARGIN[0][0]))] if lines else []

    def close(self) -> list[BlockPart]:
        lines, self._lines, self._seen = self._lines, [], []
        return [VerbatimLines(lines, CODE_MARGIN, self._language)] if lines else []

    def _dedented(self, line: str) -> str:
        inside = line[: self._indent].strip(" ")
        return line[self._indent :] if not inside else line


class OpenTable:
    def __init__(self, head: str) -> None:
        self._rows = [cells_of(head)]
        self._wanted: tuple[int, ...] = ()
        """The widths of the columns, once they are decided."""

    def takes(self, line: str) -> bool:
        return "|" in line

    def put(self, line: str) -> list[BlockPart]:
        self._rows.append(cells_of(line))
        return self.close() if len(self._rows) >= TABLE_CHUNK_ROWS else []

    def open(self, line: str) -> list[BlockPart]:
        rows = [*self._rows, cells_of(line)] if line.strip() else self._rows
        return [self._table(rows)] if rows else []

    def close(self) -> list[BlockPart]:
        if not self._rows:
            return []
        table = self._table(self._rows)
        self._rows, self._wanted = [], tuple(table.wanted)
        return [table]

    def _table(self, rows: list[list[str]]) -> TablePart:
        return TablePart(rows, head=not self._wanted, wanted=self._wanted)


TABLE_SEPARATOR_RE = re.compile(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?\|? *")
_CELL_SEPARATOR_RE = re.compile(r"(?<!\\)\|")
_COLUMN_SEPARATOR = " │ "
_MIN_COLUMN_WIDTH = 3


def cells_of(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_SEPARATOR_RE.split(inner)]


class TablePart:
    """Rows that share their columns. A long table is several of these: the widths are those of
    its first rows, so that what is drawn stays where it is while more comes."""

    __slots__ = ("_head", "_rows", "_wanted")

    def __init__(
        self, rows: Sequence[Sequence[str]], *, head: bool, wanted: Sequence[int] = ()
    ) -> None:
        self._rows = [[list(inline(cell)) for cell in row] for row in rows]
        self._head = head
        self._wanted = wanted or self._widest()

    @property
    def wanted(self) -> Sequence[int]:
        return self._wanted

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[Spans]:
        widths = _shared(self._wanted, width)
        drawn: list[Spans] = []
        for number, row in enumerate(self._rows):
            is_head = self._head and number == 0
            drawn += _row(row, widths, bold=is_head)
            if is_head:
                drawn.append([("─┼─".join("─" * size for size in widths), "muted")])
        return drawn

    def _widest(self) -> list[int]:
        columns = max((len(row) for row in self._rows), default=0)
        return [
            max(
                [
                    _MIN_COLUMN_WIDTH,
                    *(cell_len(plain(row[n])) for row in self._rows if n < len(row)),
                ],
            )
            for n in range(columns)
        ]


def _shared(wanted: Sequence[int], width: int) -> list[int]:
    """Columns as wide as they want to be; the widest give way when there is no room."""
    room = max(len(wanted) * _MIN_COLUMN_WIDTH, width - len(_COLUMN_SEPARATOR) * (len(wanted) - 1))
    if sum(wanted) <= room:
        return list(wanted)
    left, fair = room, dict[int, int]()
    narrowest_first = sorted(range(len(wanted)), key=lambda n: wanted[n])
    for done, n in enumerate(narrowest_first):
        fair[n] = max(_MIN_COLUMN_WIDTH, min(wanted[n], left // (len(wanted) - done)))
        left -= fair[n]
    return [fair[n] for n in range(len(wanted))]


def _row(row: Sequence[Spans], widths: Sequence[int], *, bold: bool) -> list[Spans]:
    columns = [wrapped(row[n] if n < len(row) else [], size) for n, size in enumerate(widths)]
    lines: list[Spans] = []
    for y in range(max((len(column) for column in columns), default=0)):
        line: list[Span] = []
        for n, (column, size) in enumerate(zip(columns, widths, strict=True)):
            cell = column[y] if y < len(column) else []
            line += [(_COLUMN_SEPARATOR, "muted")] if n else []
            line += [(text, f"{style} bold" if bold else style) for text, style in cell]
            line.append((" " * (size - cell_len(plain(cell))), ""))
        lines.append(line)
    return lines


MAX_INLINE_SPAN_CHARS = 400
"""Characters between two marks that belong together."""
_INLINE_TEXT_PATTERN = rf"[^\n]{{1,{MAX_INLINE_SPAN_CHARS}}}?"
_INLINE_MARKUP_RE = re.compile(
    rf"(?<!`)(?P<tick>`+)(?!`)(?P<code>{_INLINE_TEXT_PATTERN})(?<!`)(?P=tick)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    rf"|!?\[(?P<label>[^\[\]\n]{{0,{MAX_INLINE_SPAN_CHARS}}})\]\((?P<url>[^\s()]{{1,2000}})(?:\s\"[^\"\n]*\")?\)"
    rf"|(?P<two>\*\*|(?<!\w)__)(?=\S)(?P<bold>{_INLINE_TEXT_PATTERN})(?<=\S)(?P=two)(?!\*)"
    rf"|~~(?=\S)(?P<strike>{_INLINE_TEXT_PATTERN})(?<=\S)~~"
    rf"|(?<![\w*])\*(?=[^\s*])(?P<star>{_INLINE_TEXT_PATTERN})(?<=[^\s*])\*(?![\w*])"
    rf"|(?<!\w)_(?=[^\s_])(?P<low>{_INLINE_TEXT_PATTERN})(?<=[^\s_])_(?!\w)"
)


def inline(text: str, style: str = "") -> Iterator[Span]:
    """The text without its marks, each piece with its style."""
    at = 0
    for found in _INLINE_MARKUP_RE.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], style
        yield from _marked(found, style)
        at = found.end()
    if at < len(text):
        yield text[at:], style


def _marked(found: re.Match[str], style: str) -> Iterator[Span]:
    match found.lastgroup:
        case "code":
            code = found["code"]
            padded = code[0] == code[-1] == " " and code.strip()
            yield code[1:-1] if padded else code, f"{style} code".strip()
        case "escaped":
            yield found["escaped"], style
        case "url":
            label, url = found["label"], found["url"]
            yield from inline(label, f"{style} link underline".strip())
            if label != url:
                yield f" ({url})" if label else url, f"{style} muted".strip()
        case "strike":
            yield from inline(found["strike"], f"{style} strike".strip())
        case "bold":
            yield from inline(found["bold"], f"{style} bold".strip())
        case name:
            yield from inline(found[name or 0], f"{style} italic".strip())
