"""Text that others wrote, made safe to print: it may be read, but not command the terminal.

Models, files and programs can put bytes into their text that move the cursor, rewrite what was
already shown, set the clipboard or turn the reading order around, and so make a person approve
something else than they see. Each character is judged by itself, so text may be cut anywhere.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links, the clipboard
    r"|[PX^_][^\x1b]*\x1b\\"  # strings for the terminal itself
    r"|[ -/]+[0-~]"  # character sets
    r"|(?![\[\]PX^_])[0-~])"
)
_DELETED = (code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t")
_REORDERING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = (0x200B, 0x2060, 0xFEFF, *range(0xE0000, 0xE0080))
HIDDEN = (*_REORDERING, *_INVISIBLE)
_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_DELETED),
    **{code: f"<U+{code:04X}>" for code in HIDDEN},
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}


def sanitise(text: str) -> str:
    """`text` without control sequences; characters that reorder or hide text are named instead."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return text.translate(_TABLE)


def one_line(text: str, width: int = 100) -> str:
    """The safe text on one line, cut with an ellipsis when it is longer than `width`."""
    line = " ".join(sanitise(text[: 4 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
