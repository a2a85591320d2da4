"""Words that bring along what the person has run before them: for the model whole, for people
in a line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from joey.presentation.text import one_line

HEADING = "\n\nI have run this in my shell:\n\n"
_COMMAND = re.compile(r"(?:\A|\n\n)\$ ([^\n]*)")
_BLOCK = re.compile(r"(`{3,})\n(.*)\n\1", re.DOTALL)


def with_ran(words: str, ran: Sequence[str]) -> str:
    """The words, with commands and what they printed."""
    if not ran:
        return words
    return f"{words}{HEADING}{fenced((chr(10) * 2).join(ran))}"


def in_short(text: str) -> str:
    """The words as they were written, and the names of the commands below them."""
    words, _, rest = text.rpartition(HEADING)
    block = _BLOCK.fullmatch(rest.rstrip())
    if not words or block is None:
        return text
    names = ", ".join(f"`{one_line(name, 60)}`" for name in _COMMAND.findall(block[2]))
    return f"{words}\n(with the output of {names})" if names else text


def fenced(text: str) -> str:
    """A block of code with a fence that is in none of its lines."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
