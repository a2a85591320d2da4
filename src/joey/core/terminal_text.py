"""Command output as a terminal would show it, shortened for a reader.

Programs that draw progress bars return to the start of the line and overwrite it. A user sees only
the last state, and so does the model. Repeated lines are counted instead of shown.
"""

from __future__ import annotations

from itertools import groupby

from joey.core.text import compile_regex

_ERASE_LINE_RE = compile_regex(r"\x1b\[[02]?K")
_ESCAPE_SEQUENCE_RE = compile_regex(
    r"(?!\x1b\[[02]?K)\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # strings for the terminal itself
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-~])"
)
_CONTROL_REPLACEMENTS = {
    code: "\ufffd" for code in (*range(0x20), 0x7F) if code not in (0x09, 0x0A)
}


def render_terminal_output(text: str) -> str:
    """Render `text` as a terminal would, with runs of equal lines counted."""
    text = _ESCAPE_SEQUENCE_RE.sub("", text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text or "\x1b" in text:
        text = "\n".join(map(_render_line, text.split("\n")))
    return collapse_repeated_lines(text.translate(_CONTROL_REPLACEMENTS))


def collapse_repeated_lines(text: str) -> str:
    """Collapse runs of three and more equal lines into one and a note, if that is shorter."""
    collapsed: list[str] = []
    for line, run in groupby(text.split("\n")):
        repeats = sum(1 for _ in run) - 1
        note = f"<previous line repeated {repeats} additional times>"
        collapsed.append(line)
        if repeats > 1 and len(note) + 1 < repeats * (len(line) + 1):
            collapsed.append(note)
        else:
            collapsed.extend([line] * repeats)
    return "\n".join(collapsed)


def format_size(count: int, unit: str = "B") -> str:
    """Format a size: `512B`, `1.5KB`, `3.0MB`; `unit` follows a plain number of bytes."""
    if count < 1024:
        return f"{count}{unit}"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f}KB"
    return f"{count / (1024 * 1024):.1f}MB"


def count_incomplete_utf8_bytes(data: bytes) -> int:
    """Count the bytes at the end of `data` that begin an incomplete UTF-8 character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if back < size else 0
    return 0


def _render_line(line: str) -> str:
    """Render one line after all its carriage returns, erasures and backspaces."""
    screen = ""
    for stroke in line.split("\r"):
        column = 0
        for number, piece in enumerate(_ERASE_LINE_RE.split(stroke)):
            if number:
                screen = screen[:column]
            typed = _apply_backspaces(piece)
            screen = screen[:column] + typed + screen[column + len(typed) :]
            column += len(typed)
    return screen


def _apply_backspaces(text: str) -> str:
    if "\b" not in text:
        return text
    remaining: list[str] = []
    for character in text:
        if character != "\b":
            remaining.append(character)
        elif remaining:
            remaining.pop()
    return "".join(remaining)
