"""The sections of a Markdown text: from each heading to the next one that is not below it."""

from __future__ import annotations

from msgspec import Struct

from joey.core.regex import regex

_ATX = regex(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = regex(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = regex(r" {0,3}(`{3,}|~{3,})")
_FRONT_MATTER = "---"
_NO_PARAGRAPH = regex(r"[ \t]*$| {4}|\t| {0,3}(?:[>|]|[-*+][ \t]|\d{1,9}[.)][ \t])")
"""A line that an underline does not make a heading: empty, code, a quote, a table, a list."""


class _Heading(Struct, frozen=True):
    line: int
    level: int


def sections(lines: list[str]) -> list[tuple[int, int]]:
    """First and last lines, counted from 1, in order."""
    headings = _headings(lines)
    found: list[tuple[int, int]] = []
    open_ones: list[_Heading] = []
    for heading in (*headings, _Heading(len(lines) + 1, 0)):
        while open_ones and open_ones[-1].level >= heading.level:
            found.append((open_ones.pop().line, heading.line - 1))
        open_ones.append(heading)
    return sorted(found)


def _headings(lines: list[str]) -> list[_Heading]:
    headings: list[_Heading] = []
    fence = ""
    above = ""
    start = _after_front_matter(lines)
    for number, line in enumerate(lines[start:], start + 1):
        paragraph, above = above, ""
        if marks := _FENCE.match(line):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence) and not line.strip(f"{fence[0]} \t"):
                fence = ""
        elif fence:
            continue
        elif heading := _ATX.match(line):
            headings.append(_Heading(number, len(heading[1])))
        elif (under := _UNDERLINE.match(line)) and not _NO_PARAGRAPH.match(paragraph):
            headings.append(_Heading(number - 1, 1 if under[1][0] == "=" else 2))
        else:
            above = line
    return headings


def _after_front_matter(lines: list[str]) -> int:
    if not lines or lines[0].rstrip() != _FRONT_MATTER:
        return 0
    return next(
        (at + 1 for at, line in enumerate(lines) if at and line.rstrip() == _FRONT_MATTER), 0
    )
