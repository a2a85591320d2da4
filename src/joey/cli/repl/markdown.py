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

from joey.presentation.text import MIN_WIDTH, cells

if TYPE_CHECKING:
    from rich.console import Console


CODE_STYLE = "cyan"
MAX_SPAN_CHARS = 400
"""Characters that are held back for the end of a bold text or of code."""
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
        self._flow = WrappingWriter(console)
        self._held = ""
        """The beginning of a line, or of a mark, whose meaning is not clear yet."""
        self._begun = False
        """The kind of the current line is known."""
        self._style = ""
        self._fence = ""
        """What closes the block of code we are in."""
        self._blank = -1
        """Empty lines that were not drawn, because perhaps nothing follows them; -1: at the top."""

    def feed(self, text: str) -> None:
        *lines, last = text.split("\n")
        for line in lines:
            self._piece(line, ended=True)
        if last:
            self._piece(last, ended=False)

    def pause(self) -> None:
        """Something else is to be drawn: put down what is held back, and end the line."""
        if self._held or self._begun:
            self._put("", ended=True)
        self._flow.finish()
        self._begun, self._held = False, ""

    def _piece(self, text: str, *, ended: bool) -> None:
        self._put(text, ended=ended)
        if ended:
            self._begun, self._held, self._style = False, "", ""

    def _put(self, text: str, *, ended: bool) -> None:
        """More of the current line; nothing is held back once it has `ended`."""
        text, self._held = self._held + text, ""
        if self._fence:
            self._code(text, ended=ended)
            return
        if not self._begun:
            if ended and not text.strip():
                self._blank += self._blank >= 0
                return
            if not ended and _AMBIGUOUS_PREFIX_RE.fullmatch(text):
                self._held = text
                return
            if _FENCE_RE.match(text):
                self._open_fence(text, ended=ended)
                return
            text = self._begin(text, ended=ended)
        for piece, style in self._spans(text, self._style, ended=ended):
            self._flow.put(piece, style)
        if ended:
            self._flow.end_line()

    def _begin(self, line: str, *, ended: bool) -> str:
        """Draw what stands before the text of a line; the text."""
        self._begun = True
        self._draw_blank()
        self._flow.hang = 0
        if ended and _HORIZONTAL_RULE_RE.fullmatch(line):
            self._flow.put("─" * 20, "dim")
            return ""
        if found := _HEADING_RE.match(line):
            self._style = "bold"
        elif found := _BULLET_RE.match(line):
            self._flow.put(f"{found[1]}• ")
            self._flow.hang = len(found[1]) + 2
        elif found := _NUMBERED_ITEM_RE.match(line):
            self._flow.put(found.group())
            self._flow.hang = cells(found.group())
        elif found := _QUOTE_RE.match(line):
            self._flow.put("│ ", "dim")
            self._flow.hang = 2
        else:
            self._flow.hang = len(line) - len(line.lstrip(" "))
            return line
        return line[found.end() :]

    def _spans(self, text: str, style: str, *, ended: bool) -> Iterator[tuple[str, str]]:
        """The text with its styles; from a mark that may still be closed on, it is held back."""
        while mark := _INLINE_MARK_RE.search(text):
            before, behind = text[: mark.start()], text[mark.end() :]
            close = _closing(mark.group(), behind)
            may_close = len(behind) < MAX_SPAN_CHARS and not behind[:1].isspace()
            if close is None and may_close and not ended:
                self._held = text[mark.start() :]
                yield before, style
                return
            if close is None:
                yield text[: mark.end()], style
                text = behind
                continue
            yield before, style
            inner, text = behind[:close], behind[close + len(mark.group()) :]
            if mark.group() == "**":
                yield from self._spans(inner, f"{style} bold".strip(), ended=True)
            else:
                yield inner, CODE_STYLE
        if not ended and text.endswith("*"):
            self._held, text = "*", text[:-1]
        yield text, style

    def _draw_blank(self) -> None:
        for _ in range(self._blank):
            self._flow.end_line()
        self._blank = 0

    # Blocks of code

    def _open_fence(self, line: str, *, ended: bool) -> None:
        """The line of a fence is not shown; what is in the block is, set in."""
        found = _FENCE_RE.match(line)
        if not ended or found is None:
            self._held = line
            return
        self._draw_blank()
        self._fence = found[1]

    def _code(self, text: str, *, ended: bool) -> None:
        """A line of code, or a piece of one, as it is."""
        if not self._begun:
            could_close = text.strip().startswith(self._fence[0]) or not text.strip()
            if not ended and could_close:
                self._held = text
                return
            closing = text.strip()
            if ended and closing.startswith(self._fence) and not closing.strip(self._fence[0]):
                self._fence = ""
                return
            self._begun = True
            self._flow.verbatim("  ")
        self._flow.verbatim(f"{text}\n" if ended else text)


def _closing(mark: str, behind: str) -> int | None:
    """Where the mark that closes this one is; None while there is none."""
    if mark == "**":
        if behind[:1].isspace():
            return None
        found = re.search(r"(?<=\S)\*\*", behind)
    else:
        found = re.search(rf"(?<!`){mark}(?!`)", behind)
    return found.start() if found else None


_WIDE_CHARS = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
_TOKEN_RE = re.compile(rf"\n|[ \t]+|[{_WIDE_CHARS}]|[^ \t\n{_WIDE_CHARS}]+")


class WrappingWriter:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        # The last column stays empty: behind it, terminals disagree about where the cursor is.
        self._width = max(MIN_WIDTH, console.width) - 1
        self._column = 0
        self._gap = ""
        """Blanks between what stands there and the word to come."""
        self._word: list[tuple[str, str]] = []
        self._drawn = 0
        """How much of the word is drawn: its pieces that are, in cells."""
        self._pieces_drawn = 0
        self.hang = 0
        """How far the lines that follow are indented."""
        self.lines = 0
        """Lines that were ended, by the text or by the edge."""

    def put(self, text: str, style: str = "") -> None:
        for piece in _TOKEN_RE.findall(text):
            if piece == "\n":
                self.end_line()
            elif piece[0] in " \t":
                self._end_word()
                self._gap += piece.replace("\t", "    ")
            elif cells(piece) > len(piece) and len(piece) == 1:
                self._end_word()
                self._grow(piece, style)
                self._end_word()
            else:
                self._grow(piece, style)

    def verbatim(self, text: str, style: str = "") -> None:
        """Text whose line breaks are its own."""
        self._end_word()
        self._write(self._gap + text, style)
        self._gap = ""
        last = text.rpartition("\n")[2]
        self._column = cells(last) if "\n" in text else self._column + cells(last)
        self.lines += text.count("\n")

    def end_line(self) -> None:
        self._end_word()
        self._gap = ""
        self._break()

    def finish(self) -> None:
        """Nothing more comes: what is held back is written, and the line ended."""
        self._end_word()
        self._gap = ""
        if self._column:
            self._break()

    def _break(self) -> None:
        self._write("\n", "")
        self._column = 0
        self.lines += 1

    def _grow(self, text: str, style: str) -> None:
        self._word.append((text, style))
        if self._live:
            self._draw()

    def _end_word(self) -> None:
        if not self._word:
            return
        self._draw()
        self._column += self._drawn
        if self._live and self._column > self._width:
            # Longer than a line: the terminal has broken it.
            self._column %= self._width + 1
        self._word.clear()
        self._drawn = self._pieces_drawn = 0

    def _draw(self) -> None:
        size = sum(cells(text) for text, _ in self._word)
        started = self._drawn > 0
        gap = 0 if started else len(self._gap)
        too_long = self._live and self._column + gap + size > self._width
        if too_long and self._column > self.hang and self._drawn < self._width - self.hang:
            self._take_back()
            self._break()
            self._gap = " " * self.hang
        if self._gap:
            self._write(self._gap, "")
            self._column += len(self._gap)
            self._gap = ""
        for text, style in self._word[self._pieces_drawn :]:
            self._write(text, style)
        self._drawn, self._pieces_drawn = size, len(self._word)

    def _take_back(self) -> None:
        if self._drawn:
            self._console.file.write(f"\x1b[{self._drawn}D\x1b[K")
        self._drawn = self._pieces_drawn = 0

    def _write(self, text: str, style: str) -> None:
        self._console.out(text, style=style or None, end="", highlight=False)
