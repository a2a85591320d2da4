"""Words of models, files and programs on their way into an editor, which shows Markdown."""

from __future__ import annotations

import re

from joey.presentation.text import sanitise

MOST_SHOWN = 32 * 1024
"""Characters of a result that are shown."""
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def fenced(text: str, language: str = "", *, whole: bool = False) -> str:
    """A code block whose fence is longer than any in the text. What a person has to decide about
    is shown `whole`."""
    text = sanitise(text) if whole else clipped(sanitise(text))
    longest = max((len(match[1]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def clipped(text: str, most: int = MOST_SHOWN) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[…{len(text) - 2 * half} characters left out…]\n{text[-half:]}"


def code(text: str) -> str:
    """A word of code within a line."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}"
