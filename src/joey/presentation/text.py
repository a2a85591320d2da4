"""Text for the terminal: sanitised, and wrapped to its width.

Models, files and programs can put bytes into their text that move the cursor, overwrite what was
shown, set the clipboard or reverse the reading order, and so make a user approve something other
than they see. `sanitize` judges each character by itself, so text may be cut anywhere.

`wrap` breaks lines between words. Whatever precedes the text of a line (spaces, a bullet, a number)
is its lead; continuation lines are indented by as much. A word longer than a line is cut.
"""

from __future__ import annotations

import os
import re
from typing import TextIO
from unicodedata import combining, east_asian_width

_ESCAPE_SEQUENCE_RE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links, the clipboard
    r"|[PX^_][^\x1b]*\x1b\\"  # strings for the terminal itself
    r"|[ -/]+[0-~]"  # character sets
    r"|(?![\[\]PX^_])[0-~])"
)
_DELETED_CODE_POINTS = (
    code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
)
_BIDI_CODE_POINTS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE_CODE_POINTS = (0x200B, 0x2060, 0xFEFF, *range(0xE0000, 0xE0080))
BIDI_AND_INVISIBLE_CODE_POINTS = (*_BIDI_CODE_POINTS, *_INVISIBLE_CODE_POINTS)
_SANITIZE_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_DELETED_CODE_POINTS),
    **{code: f"<U+{code:04X}>" for code in BIDI_AND_INVISIBLE_CODE_POINTS},
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}


def sanitize(text: str) -> str:
    """`text` without control sequences; characters that reorder or hide text are named instead."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE_RE.sub("", text)
    return text.translate(_SANITIZE_TABLE)


def to_one_line(text: str, width: int = 100) -> str:
    """The safe text on one line, cut with an ellipsis when it is longer than `width`."""
    line = " ".join(sanitize(text[: 4 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


MIN_TERMINAL_WIDTH = 20
_LINE_LEAD_RE = re.compile(r"\s*(?:(?:[-*+•●│$!›✓✗·~?]|\d{1,3}[.)]|joey:) +|[+-]\s*)?")
_WORD_RE = re.compile(r"\S+")


def measure_width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text
    )


def get_terminal_width(stream: TextIO | None) -> int | None:
    """The width of the terminal that a stream leads to; None when it leads elsewhere."""
    try:
        if stream is None or not stream.isatty():
            return None
        return max(MIN_TERMINAL_WIDTH, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return None


def wrap(text: str, width: int | None) -> str:
    """Every line of the text within `width` columns; None leaves them as they are."""
    if width is None:
        return text
    return "\n".join(
        piece if number == 0 else f"{' ' * hang}{piece}"
        for line in text.split("\n")
        for hang, pieces in [find_line_breaks(line, width)]
        for number, piece in enumerate(line[start:end] for start, end in pieces)
    )


def find_line_breaks(
    line: str, width: int, extra_indent: int = 0
) -> tuple[int, list[tuple[int, int]]]:
    """Where a line is broken: how far continuations are indented, and each piece's place in it.

    With `extra_indent` they stand that much to the right of the text.
    """
    if measure_width(line) <= width:
        return 0, [(0, len(line))]
    lead = _LINE_LEAD_RE.match(line)
    text = lead.end() if lead else 0
    hang = measure_width(line[:text]) + extra_indent
    if hang > width // 2:
        hang = 2
    pieces: list[tuple[int, int]] = []
    start, end, room = 0, 0, width
    for word in _WORD_RE.finditer(line):
        if end > max(start, text) and measure_width(line[start : word.end()]) > room:
            pieces.append((start, end))
            start, room = word.start(), width - hang
        while measure_width(line[start : word.end()]) > room:
            fitting = _find_fitting_end(line, start, room)
            pieces.append((start, fitting))
            start, room = fitting, width - hang
        end = word.end()
    return hang, [*pieces, (start, end)]


def _find_fitting_end(line: str, start: int, room: int) -> int:
    """The end of the longest piece from `start` that fits; at least one character."""
    end = start + 1
    while end < len(line) and measure_width(line[start : end + 1]) <= room:
        end += 1
    return end
