"""Streaming Markdown for a terminal, with word wrap.

The kind of a line follows from its first characters; bold text and code within a line are held
back until they are closed. Text that turns out not to be markup is shown as written.

A word that is still growing is drawn at once, so that the end of a message is never hidden; when
it outgrows the line it is erased and begins the next one. Without a terminal, words are written
when they are complete, and lines are not broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from joey.presentation.text import MIN_TERMINAL_WIDTH, measure_width

if TYPE_CHECKING:
    from rich.console import Console


CODE_STYLE = "cyan"
MAX_PENDING_SPAN_CHARS = 400
"""Held back for the end of a bold text or of code."""
_AMBIGUOUS_PREFIX_RE = re.compile(r" *(#{1,6}|[-*+_](?: ?[-*_])*|\d{1,3}[.)]?|`{1,2}|~{1,2}|>|)")
_FENCE_RE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING_RE = re.compile(r" {0,3}#{1,6} +")
_BULLET_RE = re.compile(r"( *)[-*+] +")
_NUMBERED_ITEM_RE = re.compile(r" *\d{1,3}[.)] +")
_QUOTE_RE = re.compile(r" {0,3}> ?")
_HORIZONTAL_RULE_RE = re.compile(r" {0,3}([-*_])(?: ?\1){2,} *")
_INLINE_MARK_RE = re.compile(r"`+|\*\*")


class MarkdownStreamRenderer:
    def __init__(self, console: Console) -> None:
        self._writer = WrappingWriter(console)
        self._pending_text = ""
        """The beginning of a line, or of a mark, whose meaning is not clear yet."""
        self._has_line_begun = False
        """The kind of the current line is known."""
        self._line_style = ""
        self._closing_fence = ""
        """What closes the block of code we are in."""
        self._pending_blank_lines = -1
        """Empty lines that were not drawn, because perhaps nothing follows them; -1: at the top."""

    def feed(self, text: str) -> None:
        *lines, last = text.split("\n")
        for line in lines:
            self._feed_line_part(line, ended=True)
        if last:
            self._feed_line_part(last, ended=False)

    def flush_line(self) -> None:
        """Something else is to be drawn: put down what is held back, and end the line."""
        if self._pending_text or self._has_line_begun:
            self._render_line_part("", ended=True)
        self._writer.finish()
        self._has_line_begun, self._pending_text = False, ""

    def _feed_line_part(self, text: str, *, ended: bool) -> None:
        self._render_line_part(text, ended=ended)
        if ended:
            self._has_line_begun, self._pending_text, self._line_style = False, "", ""

    def _render_line_part(self, text: str, *, ended: bool) -> None:
        """More of the current line; nothing is held back once it has `ended`."""
        text, self._pending_text = self._pending_text + text, ""
        if self._closing_fence:
            self._write_code(text, ended=ended)
            return
        if not self._has_line_begun:
            if ended and not text.strip():
                self._pending_blank_lines += self._pending_blank_lines >= 0
                return
            if not ended and _AMBIGUOUS_PREFIX_RE.fullmatch(text):
                self._pending_text = text
                return
            if _FENCE_RE.match(text):
                self._begin_code_block(text, ended=ended)
                return
            text = self._begin_line(text, ended=ended)
        for piece, style in self._iter_spans(text, self._line_style, ended=ended):
            self._writer.write(piece, style)
        if ended:
            self._writer.end_line()

    def _begin_line(self, line: str, *, ended: bool) -> str:
        """Draw what stands before the text of a line; the text."""
        self._has_line_begun = True
        self._write_blank_lines()
        self._writer.hanging_indent = 0
        if ended and _HORIZONTAL_RULE_RE.fullmatch(line):
            self._writer.write("─" * 20, "dim")
            return ""
        if found := _HEADING_RE.match(line):
            self._line_style = "bold"
        elif found := _BULLET_RE.match(line):
            self._writer.write(f"{found[1]}• ")
            self._writer.hanging_indent = len(found[1]) + 2
        elif found := _NUMBERED_ITEM_RE.match(line):
            self._writer.write(found.group())
            self._writer.hanging_indent = measure_width(found.group())
        elif found := _QUOTE_RE.match(line):
            self._writer.write("│ ", "dim")
            self._writer.hanging_indent = 2
        else:
            self._writer.hanging_indent = len(line) - len(line.lstrip(" "))
            return line
        return line[found.end() :]

    def _iter_spans(self, text: str, style: str, *, ended: bool) -> Iterator[tuple[str, str]]:
        """The text with its styles; from a mark that may still be closed on, it is held back."""
        while mark := _INLINE_MARK_RE.search(text):
            before, behind = text[: mark.start()], text[mark.end() :]
            close = _find_closing_mark(mark.group(), behind)
            may_close = len(behind) < MAX_PENDING_SPAN_CHARS and not behind[:1].isspace()
            if close is None and may_close and not ended:
                self._pending_text = text[mark.start() :]
                yield before, style
                return
            if close is None:
                yield text[: mark.end()], style
                text = behind
                continue
            yield before, style
            inner, text = behind[:close], behind[close + len(mark.group()) :]
            if mark.group() == "**":
                yield from self._iter_spans(inner, f"{style} bold".strip(), ended=True)
            else:
                yield inner, CODE_STYLE
        if not ended and text.endswith("*"):
            self._pending_text, text = "*", text[:-1]
        yield text, style

    def _write_blank_lines(self) -> None:
        for _ in range(self._pending_blank_lines):
            self._writer.end_line()
        self._pending_blank_lines = 0

    # Blocks of code

    def _begin_code_block(self, line: str, *, ended: bool) -> None:
        """The line of a fence is not shown; what is in the block is, set in."""
        found = _FENCE_RE.match(line)
        if not ended or found is None:
            self._pending_text = line
            return
        self._write_blank_lines()
        self._closing_fence = found[1]

    def _write_code(self, text: str, *, ended: bool) -> None:
        """A line of code, or a piece of one, as it is."""
        if not self._has_line_begun:
            could_close = text.strip().startswith(self._closing_fence[0]) or not text.strip()
            if not ended and could_close:
                self._pending_text = text
                return
            closing = text.strip()
            if (
                ended
                and closing.startswith(self._closing_fence)
                and not closing.strip(self._closing_fence[0])
            ):
                self._closing_fence = ""
                return
            self._has_line_begun = True
            self._writer.write_verbatim("  ")
        self._writer.write_verbatim(f"{text}\n" if ended else text)


def _find_closing_mark(mark: str, behind: str) -> int | None:
    """Where the mark that closes this one is; None while there is none."""
    if mark == "**":
        if behind[:1].isspace():
            return None
        found = re.search(r"(?<=\S)\*\*", behind)
    else:
        found = re.search(rf"(?<!`){mark}(?!`)", behind)
    return found.start() if found else None


_WIDE_CHAR_RANGES = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
_TOKEN_RE = re.compile(rf"\n|[ \t]+|[{_WIDE_CHAR_RANGES}]|[^ \t\n{_WIDE_CHAR_RANGES}]+")


class WrappingWriter:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_terminal = console.is_terminal
        # The last column stays empty: behind it, terminals disagree about where the cursor is.
        self._width = max(MIN_TERMINAL_WIDTH, console.width) - 1
        self._column = 0
        self._pending_spaces = ""
        """Blanks between what stands there and the word to come."""
        self._word_parts: list[tuple[str, str]] = []
        self._drawn_word_cells = 0
        """How much of the word is drawn: its pieces that are, in cells."""
        self._drawn_part_count = 0
        self.hanging_indent = 0
        """How far the lines that follow are indented."""
        self.line_count = 0
        """Lines that were ended, by the text or by the edge."""

    def write(self, text: str, style: str = "") -> None:
        for piece in _TOKEN_RE.findall(text):
            if piece == "\n":
                self.end_line()
            elif piece[0] in " \t":
                self._end_word()
                self._pending_spaces += piece.replace("\t", "    ")
            elif measure_width(piece) > len(piece) and len(piece) == 1:
                self._end_word()
                self._extend_word(piece, style)
                self._end_word()
            else:
                self._extend_word(piece, style)

    def write_verbatim(self, text: str, style: str = "") -> None:
        """Text whose line breaks are its own."""
        self._end_word()
        self._write_styled(self._pending_spaces + text, style)
        self._pending_spaces = ""
        last = text.rpartition("\n")[2]
        self._column = measure_width(last) if "\n" in text else self._column + measure_width(last)
        self.line_count += text.count("\n")

    def end_line(self) -> None:
        self._end_word()
        self._pending_spaces = ""
        self._write_newline()

    def finish(self) -> None:
        """Nothing more comes: what is held back is written, and the line ended."""
        self._end_word()
        self._pending_spaces = ""
        if self._column:
            self._write_newline()

    def _write_newline(self) -> None:
        self._write_styled("\n", "")
        self._column = 0
        self.line_count += 1

    def _extend_word(self, text: str, style: str) -> None:
        self._word_parts.append((text, style))
        if self._is_terminal:
            self._draw_word()

    def _end_word(self) -> None:
        if not self._word_parts:
            return
        self._draw_word()
        self._column += self._drawn_word_cells
        if self._is_terminal and self._column > self._width:
            # Longer than a line: the terminal has broken it.
            self._column %= self._width + 1
        self._word_parts.clear()
        self._drawn_word_cells = self._drawn_part_count = 0

    def _draw_word(self) -> None:
        size = sum(measure_width(text) for text, _ in self._word_parts)
        started = self._drawn_word_cells > 0
        gap = 0 if started else len(self._pending_spaces)
        too_long = self._is_terminal and self._column + gap + size > self._width
        if (
            too_long
            and self._column > self.hanging_indent
            and self._drawn_word_cells < self._width - self.hanging_indent
        ):
            self._erase_word()
            self._write_newline()
            self._pending_spaces = " " * self.hanging_indent
        if self._pending_spaces:
            self._write_styled(self._pending_spaces, "")
            self._column += len(self._pending_spaces)
            self._pending_spaces = ""
        for text, style in self._word_parts[self._drawn_part_count :]:
            self._write_styled(text, style)
        self._drawn_word_cells, self._drawn_part_count = size, len(self._word_parts)

    def _erase_word(self) -> None:
        if self._drawn_word_cells:
            self._console.file.write(f"\x1b[{self._drawn_word_cells}D\x1b[K")
        self._drawn_word_cells = self._drawn_part_count = 0

    def _write_styled(self, text: str, style: str) -> None:
        self._console.out(text, style=style or None, end="", highlight=False)
