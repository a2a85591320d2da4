"""Markdown within a line: bold, italic, code, links. What is not closed is shown as written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from joey.tui.blocks.spans import Span

LONGEST_SPAN = 400
"""Characters between two marks that belong together."""
_INNER = rf"[^\n]{{1,{LONGEST_SPAN}}}?"
_MARKS = re.compile(
    rf"(?<!`)(?P<tick>`+)(?!`)(?P<code>{_INNER})(?<!`)(?P=tick)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    rf"|!?\[(?P<label>[^\[\]\n]{{0,{LONGEST_SPAN}}})\]\((?P<url>[^\s()]{{1,2000}})(?:\s\"[^\"\n]*\")?\)"
    rf"|(?P<two>\*\*|(?<!\w)__)(?=\S)(?P<bold>{_INNER})(?<=\S)(?P=two)(?!\*)"
    rf"|~~(?=\S)(?P<strike>{_INNER})(?<=\S)~~"
    rf"|(?<![\w*])\*(?=[^\s*])(?P<star>{_INNER})(?<=[^\s*])\*(?![\w*])"
    rf"|(?<!\w)_(?=[^\s_])(?P<low>{_INNER})(?<=[^\s_])_(?!\w)"
)


def inline(text: str, style: str = "") -> Iterator[Span]:
    """The text without its marks, each piece with its style."""
    at = 0
    for found in _MARKS.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], style
        yield from _marked(found, style)
        at = found.end()
    if at < len(text):
        yield text[at:], style


def _marked(found: re.Match[str], style: str) -> Iterator[Span]:
    match found.lastgroup:
        case "code":
            code = found["code"]
            padded = code[0] == code[-1] == " " and code.strip()
            yield code[1:-1] if padded else code, f"{style} code".strip()
        case "escaped":
            yield found["escaped"], style
        case "url":
            label, url = found["label"], found["url"]
            yield from inline(label, f"{style} link underline".strip())
            if label != url:
                yield f" ({url})" if label else url, f"{style} muted".strip()
        case "strike":
            yield from inline(found["strike"], f"{style} strike".strip())
        case "bold":
            yield from inline(found["bold"], f"{style} bold".strip())
        case name:
            yield from inline(found[name or 0], f"{style} italic".strip())
