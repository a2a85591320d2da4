"""Lines of code, coloured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from rich.syntax import Syntax

from joey.tui.blocks.spans import Span, Spans

LONGEST_COLOURED = 2_000
"""Characters of a line; longer ones were not written by people, and are shown plainly."""
_HUES = {
    ("Keyword",): "keyword",
    ("Name", "Builtin"): "builtin",
    ("Name", "Function"): "function",
    ("Name", "Class"): "function",
    ("Name", "Decorator"): "builtin",
    ("Name", "Exception"): "builtin",
    ("Name", "Tag"): "keyword",
    ("Name", "Attribute"): "function",
    ("Literal", "String"): "string",
    ("Literal", "Number"): "number",
    ("Comment",): "comment",
    ("Operator", "Word"): "keyword",
    ("Generic", "Deleted"): "removed",
    ("Generic", "Inserted"): "added",
    ("Generic", "Heading"): "heading",
}


def coloured(lines: Sequence[str], language: str) -> list[Spans]:
    """Each line with its styles, as the language's grammar has it."""
    lexer = _lexer(language)
    if lexer is None or any(len(line) > LONGEST_COLOURED for line in lines):
        return [[(line, "")] for line in lines]
    tokens = lexer.get_tokens("\n".join(lines))
    found: list[Spans] = list(_lines(tokens))
    found += [[]] * (len(lines) - len(found))
    return found[: len(lines)]


def knows(language: str) -> bool:
    return _lexer(language) is not None


def language_of(path: str) -> str:
    """The language of a file, by its name; empty when none is known."""
    name = path.rpartition("/")[2]
    return _guessed(name.rpartition(".")[2] if "." in name else name)


@lru_cache(maxsize=200)
def _guessed(extension: str) -> str:
    guess = Syntax.guess_lexer(f"file.{extension}")
    return "" if guess == "default" else guess


@lru_cache(maxsize=50)
def _lexer(language: str) -> Any:
    """One that leaves the text as it is; None for a language that nobody knows."""
    lexer = Syntax("", language).lexer if language else None
    if lexer is not None:
        lexer.stripnl = lexer.stripall = False
        lexer.ensurenl = False
    return lexer


def _lines(tokens: Iterable[tuple[Any, str]]) -> Iterator[list[Span]]:
    line: list[Span] = []
    for kind, text in tokens:
        hue = _hue(tuple(kind))
        first, *rest = text.split("\n")
        if first and line and line[-1][1] == hue:
            line[-1] = (line[-1][0] + first, hue)
        elif first:
            line.append((first, hue))
        for piece in rest:
            yield line
            line = [(piece, hue)] if piece else []
    yield line


@lru_cache(maxsize=200)
def _hue(kind: tuple[str, ...]) -> str:
    return next((_HUES[kind[:n]] for n in range(len(kind), 0, -1) if kind[:n] in _HUES), "")
