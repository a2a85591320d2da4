"""Streaming Markdown: finished lines become pieces once, only the open end is drawn again.

The kind of a line follows from its beginning and from the open code block or table above it. So the
cost is linear in the text, and the pieces are the same however the text is split while it streams.
Very long lines and parts are cut at positions that only depend on the text. Inline markup that is
not closed is shown as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest

from rich.cells import cell_len

from joey.tui.blocks.block_layout import (
    BLANK_LINE,
    CHUNK_LINES,
    BlockPart,
    HangingIndentLines,
    HorizontalRule,
    LazyWrappedLine,
    VerbatimLines,
)
from joey.tui.blocks.styled_text import (
    Span,
    Spans,
    clean_text,
    highlight_lines,
    to_plain_text,
    wrap_spans,
)

MAX_LINE_CHARS = 4_000
"""A longer line goes on as if it were another."""
_HEADING_RE = re.compile(r" {0,3}(#{1,6}) +")
_BULLET_RE = re.compile(r"( *)[-*+] +(\[[ xX]\] +)?")
_NUMBERED_ITEM_RE = re.compile(r" *\d{1,9}[.)] +")
_QUOTE_RE = re.compile(r" {0,3}((?:> ?)+)")
_HORIZONTAL_RULE_RE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_AMBIGUOUS_START_RE = re.compile(r" *(?:#{1,6}|[-*+_]{1,2}|`{1,2}|~{1,2}|>|\d{1,9}[.)]?) *")


class MarkdownParser:
    def __init__(self, head: Sequence[BlockPart] = ()) -> None:
        """`head` is drawn above the text."""
        self._heading_part_count = len(head)
        self.stable_parts: list[BlockPart] = [*head]
        """What no more text can change."""
        self._open_line = ""
        """The end of the text: a line that may go on."""
        self._continuation_column: int | None = None
        """The line is the rest of a long one, whose text begins in this column."""
        self._has_blank_above = False
        self._open_part: OpenCodeBlock | OpenTable | None = None
        self._possible_table_header: str | None = None
        """A line that is the head of a table if the next one says so."""

    def feed(self, text: str) -> None:
        rest, at = self._open_line + text, 0
        while True:
            end = rest.find("\n", at, at + MAX_LINE_CHARS + 1)
            if end >= 0:
                self._add_line(clean_text(rest[at:end]), goes_on=False)
                at = end + 1
            elif len(rest) - at > MAX_LINE_CHARS:
                end = rest.rfind(" ", at + 1, at + MAX_LINE_CHARS) + 1 or at + MAX_LINE_CHARS
                self._add_line(clean_text(rest[at:end]), goes_on=True)
                at = end
            else:
                self._open_line = rest[at:]
                return

    def close(self) -> None:
        """End the stream."""
        line, self._open_line = self._open_line, ""
        if line:
            self._add_line(clean_text(line), goes_on=False)
        self._close_open_part()

    def build_open_parts(self) -> list[BlockPart]:
        """Build the pieces below the settled ones in their current state."""
        line = clean_text(self._open_line)
        if self._open_part is not None and (
            self._continuation_column is not None or self._open_part.can_accept(line)
        ):
            return self._open_part.build_open_parts(line)
        if self._open_part is not None and not line.strip():
            return self._open_part.build_open_parts("")
        open_parts = self._open_part.build_open_parts("") if self._open_part is not None else []
        if self._possible_table_header is not None:
            open_parts = [_build_line_part(self._possible_table_header)]
            if not line.strip(" |:-"):
                return open_parts
        if not line.strip() or _AMBIGUOUS_START_RE.fullmatch(line) or FENCE_RE.fullmatch(line):
            return open_parts
        gap: list[BlockPart] = [BLANK_LINE] if self._needs_gap(line) and not open_parts else []
        return [*open_parts, *gap, self._build_line(line)]

    def _add_line(self, line: str, *, goes_on: bool) -> None:
        if self._continuation_column is not None:
            self.stable_parts += (
                self._open_part.add_line(line) if self._open_part else [self._build_line(line)]
            )
            if not goes_on:
                self._continuation_column = None
        elif not self._try_add_to_open_part(line, goes_on=goes_on):
            self._begin_line(line, goes_on=goes_on)

    def _try_add_to_open_part(self, line: str, *, goes_on: bool) -> bool:
        """Add the line to the open part above it; False if that ends instead."""
        header = self._possible_table_header
        if header is not None and not goes_on and TABLE_SEPARATOR_RE.fullmatch(line):
            self._open_part, self._possible_table_header = OpenTable(header), None
            return True
        if self._open_part is None or not (goes_on or self._open_part.can_accept(line)):
            was_code = isinstance(self._open_part, OpenCodeBlock)
            self._close_open_part()
            return was_code
        self.stable_parts += self._open_part.add_line(line)
        self._continuation_column = 0 if goes_on else None
        return True

    def _begin_line(self, line: str, *, goes_on: bool) -> None:
        if not line.strip():
            self._has_blank_above = True
            return
        if self._needs_gap(line):
            self.stable_parts.append(BLANK_LINE)
        self._has_blank_above = False
        if not goes_on and (found := FENCE_RE.fullmatch(line)):
            self._open_part = OpenCodeBlock(found)
        elif not goes_on and "|" in line:
            self._possible_table_header = line
        else:
            self.stable_parts.append(_build_line_part(line))
        self._continuation_column = _find_text_column(line) if goes_on else None

    def _close_open_part(self) -> None:
        if self._possible_table_header is not None:
            self.stable_parts.append(_build_line_part(self._possible_table_header))
            self._possible_table_header = None
        if self._open_part is not None:
            self.stable_parts += self._open_part.flush()
            self._open_part, self._has_blank_above = None, True

    def _needs_gap(self, line: str) -> bool:
        if len(self.stable_parts) == self._heading_part_count:
            return False
        return self._has_blank_above or bool(FENCE_RE.fullmatch(line) or _HEADING_RE.match(line))

    def _build_line(self, line: str) -> BlockPart:
        if self._continuation_column is None:
            return _build_line_part(line)
        return LazyWrappedLine(
            " " * self._continuation_column + line,
            self._continuation_column,
            partial(_style_plain_line, lead=self._continuation_column),
        )


def _build_line_part(line: str) -> BlockPart:
    if _HORIZONTAL_RULE_RE.fullmatch(line):
        return HorizontalRule()
    if found := _QUOTE_RE.match(line):
        return LazyWrappedLine(
            line, _find_text_column(line), _style_line, ("│ " * found[1].count(">"), "muted")
        )
    return LazyWrappedLine(line, _find_text_column(line), _style_line)


def _find_text_column(line: str) -> int:
    """Find the column in which the text of a line begins."""
    if found := _BULLET_RE.match(line):
        return len(found[1]) + 2
    if found := _NUMBERED_ITEM_RE.match(line):
        return found.end()
    if found := _QUOTE_RE.match(line):
        return 2 * found[1].count(">")
    return len(line) - len(line.lstrip(" "))


def _style_line(line: str) -> Spans:
    if found := _HEADING_RE.match(line):
        style = "heading bold underline" if found[1] == "#" else "heading bold"
        return list(parse_inline(line[found.end() :].rstrip(" #"), style))
    if found := _BULLET_RE.match(line):
        box = (found[2] or "").strip()
        mark = {"": "• ", "[ ]": "☐ "}.get(box, "☑ ")
        return [(found[1], ""), (mark, "mark"), *parse_inline(line[found.end() :])]
    if found := _NUMBERED_ITEM_RE.match(line):
        return [(found.group(), "mark"), *parse_inline(line[found.end() :])]
    if found := _QUOTE_RE.match(line):
        bars = "│ " * found[1].count(">")
        return [(bars, "muted"), *parse_inline(line[found.end() :], "quote")]
    return _style_plain_line(line, lead=len(line) - len(line.lstrip(" ")))


def _style_plain_line(line: str, lead: int) -> Spans:
    return [(line[:lead], ""), *parse_inline(line[lead:])]


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
        self._rendered_lines: list[Spans] = []
        """The lines as they are shown until there are enough to be coloured together."""

    def can_accept(self, line: str) -> bool:
        closing = line.strip()
        return not closing.startswith(self._fence) or bool(closing.strip(self._fence[0]))

    def add_line(self, line: str) -> list[BlockPart]:
        """Add a line that later lines cannot change."""
        self._lines.append(self._dedent(line))
        return self.flush() if len(self._lines) >= CHUNK_LINES else []

    def build_open_parts(self, line: str) -> list[BlockPart]:
        """Build the growing part, with an incomplete last line."""
        for whole in self._lines[len(self._rendered_lines) :]:
            (spans,) = highlight_lines([whole], self._language)
            self._rendered_lines.append([*CODE_MARGIN, *spans])
        unfinished = self._dedent(line)
        may_close = not unfinished.strip(f"{self._fence[0]} ")
        last: list[Spans] = [] if may_close else [[*CODE_MARGIN, (unfinished, "")]]
        lines = [*self._rendered_lines, *last]
        return [HangingIndentLines(lines, hang=len(CODE_MARGIN[0][0]))] if lines else []

    def flush(self) -> list[BlockPart]:
        lines, self._lines, self._rendered_lines = self._lines, [], []
        return [VerbatimLines(lines, CODE_MARGIN, self._language)] if lines else []

    def _dedent(self, line: str) -> str:
        inside = line[: self._indent].strip(" ")
        return line[self._indent :] if not inside else line


class OpenTable:
    def __init__(self, head: str) -> None:
        self._rows = [split_cells(head)]
        self._column_widths: tuple[int, ...] = ()
        """The widths of the columns, once they are decided."""

    def can_accept(self, line: str) -> bool:
        return "|" in line

    def add_line(self, line: str) -> list[BlockPart]:
        self._rows.append(split_cells(line))
        return self.flush() if len(self._rows) >= TABLE_CHUNK_ROWS else []

    def build_open_parts(self, line: str) -> list[BlockPart]:
        rows = [*self._rows, split_cells(line)] if line.strip() else self._rows
        return [self._build_table(rows)] if rows else []

    def flush(self) -> list[BlockPart]:
        if not self._rows:
            return []
        table = self._build_table(self._rows)
        self._rows, self._column_widths = [], tuple(table.natural_widths)
        return [table]

    def _build_table(self, rows: list[list[str]]) -> TablePart:
        return TablePart(
            rows, has_header=not self._column_widths, natural_widths=self._column_widths
        )


TABLE_SEPARATOR_RE = re.compile(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?\|? *")
_CELL_SEPARATOR_RE = re.compile(r"(?<!\\)\|")
_COLUMN_SEPARATOR = " │ "
_MIN_COLUMN_WIDTH = 3


def split_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_SEPARATOR_RE.split(inner)]


class TablePart:
    """Rows with shared columns. A long table is split into several of these: the widths are those
    of its first rows, so that drawn rows stay in place while more arrive."""

    __slots__ = ("_has_header", "_rows", "natural_widths")

    def __init__(
        self, rows: Sequence[Sequence[str]], *, has_header: bool, natural_widths: Sequence[int] = ()
    ) -> None:
        self._rows = [[list(parse_inline(cell)) for cell in row] for row in rows]
        self._has_header = has_header
        self.natural_widths = natural_widths or self._measure_natural_widths()

    def measure_height(self, width: int) -> int:
        return len(self.render_lines(width))

    def render_lines(self, width: int) -> list[Spans]:
        widths = _fit_column_widths(self.natural_widths, width)
        drawn: list[Spans] = []
        for number, row in enumerate(self._rows):
            is_head = self._has_header and number == 0
            drawn += _render_row(row, widths, bold=is_head)
            if is_head:
                drawn.append([("─┼─".join("─" * size for size in widths), "muted")])
        return drawn

    def _measure_natural_widths(self) -> list[int]:
        return [
            max(_MIN_COLUMN_WIDTH, *(cell_len(to_plain_text(cell)) for cell in column))
            for column in zip_longest(*self._rows, fillvalue=())
        ]


def _fit_column_widths(natural_widths: Sequence[int], width: int) -> list[int]:
    """Fit the column widths; the widest shrink if there is not enough room."""
    available_width = max(
        len(natural_widths) * _MIN_COLUMN_WIDTH,
        width - len(_COLUMN_SEPARATOR) * (len(natural_widths) - 1),
    )
    if sum(natural_widths) <= available_width:
        return list(natural_widths)
    left, fair = available_width, dict[int, int]()
    narrowest_first = sorted(range(len(natural_widths)), key=lambda n: natural_widths[n])
    for done, n in enumerate(narrowest_first):
        fair[n] = max(
            _MIN_COLUMN_WIDTH, min(natural_widths[n], left // (len(natural_widths) - done))
        )
        left -= fair[n]
    return [fair[n] for n in range(len(natural_widths))]


def _render_row(row: Sequence[Spans], widths: Sequence[int], *, bold: bool) -> list[Spans]:
    columns = [wrap_spans(row[n] if n < len(row) else [], size) for n, size in enumerate(widths)]
    lines: list[Spans] = []
    for y in range(max((len(column) for column in columns), default=0)):
        line: list[Span] = []
        for n, (column, size) in enumerate(zip(columns, widths, strict=True)):
            cell = column[y] if y < len(column) else []
            line += [(_COLUMN_SEPARATOR, "muted")] if n else []
            line += [(text, f"{style} bold" if bold else style) for text, style in cell]
            line.append((" " * (size - cell_len(to_plain_text(cell))), ""))
        lines.append(line)
    return lines


MAX_INLINE_SPAN_CHARS = 400
"""Between two marks that belong together."""
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


def parse_inline(text: str, style: str = "") -> Iterator[Span]:
    """Parse inline markup into pieces with styles."""
    at = 0
    for found in _INLINE_MARKUP_RE.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], style
        yield from _style_inline_match(found, style)
        at = found.end()
    if at < len(text):
        yield text[at:], style


def _style_inline_match(found: re.Match[str], style: str) -> Iterator[Span]:
    match found.lastgroup:
        case "code":
            code = found["code"]
            padded = code[0] == code[-1] == " " and code.strip()
            yield code[1:-1] if padded else code, f"{style} code".strip()
        case "escaped":
            yield found["escaped"], style
        case "url":
            label, url = found["label"], found["url"]
            yield from parse_inline(label, f"{style} link underline".strip())
            if label != url:
                yield f" ({url})" if label else url, f"{style} muted".strip()
        case "strike":
            yield from parse_inline(found["strike"], f"{style} strike".strip())
        case "bold":
            yield from parse_inline(found["bold"], f"{style} bold".strip())
        case name:
            yield from parse_inline(found[name or 0], f"{style} italic".strip())
