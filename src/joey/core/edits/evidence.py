"""What a model is shown of a text when its edit does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from joey.core.edits.document import Span
from joey.core.text import number_lines

_SHOWN_LINES = 100
_SHOWN_CHARACTERS = 8_000
_SHOWN_PLACES = 10


class PartFailure(Struct, frozen=True):
    summary: str
    """What is wrong, without anything from the text."""
    evidence: str = ""
    """Lines of the text that help to put it right."""


def numbered(lines: Sequence[str], span: Span) -> str:
    """Some of the lines, as read_file shows them."""
    start = max(0, span.start)
    shown = lines[start : min(span.stop, start + _SHOWN_LINES)]
    return cut(number_lines("\n".join(shown) + "\n", start + 1)).rstrip("\n")


def cut(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}\n[...{len(text) - _SHOWN_CHARACTERS} characters omitted...]"


def percent(share: float) -> str:
    """Rounded down: what is not quite equal must not read as 100%."""
    return f"{int(share * 100)}%"


def at_lines(numbers: Sequence[int]) -> str:
    """`at line 3` or `at lines 3, 8, 12`, and how many more there are."""
    listed = ", ".join(map(str, numbers[:_SHOWN_PLACES]))
    more = len(numbers) - _SHOWN_PLACES
    rest = f" and {more} more" if more > 0 else ""
    return f"at line{'s' if len(numbers) > 1 else ''} {listed}{rest}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
