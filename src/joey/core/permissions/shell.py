"""The part of the shell's grammar that can be judged by reading it.

A line is *plain* when it is a chain of simple commands, each made of literal words, joined by
``&&``, ``||``, ``;``, ``|`` or line breaks. Everything else (expansion, substitution,
redirection, assignment, control flow, background jobs, patterns, comments, and whatever nobody
thought of) is not: unquoted words may hold the listed characters only, so unknown syntax can
never pass as a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Words = tuple[str, ...]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = word_set(
    "if then elif else fi for while until do done case esac select in function time coproc"
    " { } ! [[ ]]"
)
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<joint>&&|\|\||\|)
    | (?P<end>[;\n])
    | (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\$`]|\\[^$`\n])*")
    | (?P<bare>[\w\-./:,+@%=^~]+)
    """,
    re.VERBOSE,
)
_TILDE_EXPANSION = re.compile(r"(?<![A-Za-z0-9])~")
_ESCAPED = re.compile(r'\\(["\\])')
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BREAK = re.compile(r"[;&|()`\n\r]")
_REDIRECTION = re.compile(r"\d*[<>]+")
_QUOTING = re.compile(r"\\\n|[\\'\"]")
_PART = re.compile(r"[\w.+-]+")


class _NotPlainError(Exception):
    """The line uses something that cannot be judged by reading it."""


def plain_commands(line: str) -> tuple[Words, ...] | None:
    """The commands of a plain line as words without their quotes; None for any other line."""
    if _CONTROL.search(line):
        return None
    try:
        return tuple(_commands(line))
    except _NotPlainError:
        return None


def possible_commands(line: str) -> tuple[Words, ...]:
    """Any line, cut wherever a command might begin, quotes dropped: to find words, not to trust
    them."""
    pieces = _BREAK.split(_QUOTING.sub("", line))
    return tuple(
        tuple(words) for piece in pieces if (words := _REDIRECTION.sub(" ", piece).split())
    )


def parts(words: Words) -> Words:
    """Everything in the words that might itself be a word to another program, in lower case."""
    return tuple(part.casefold() for word in words for part in _PART.findall(word))


def _commands(line: str) -> Iterator[Words]:
    words: list[str] = []
    unfinished = False
    for kind, text in _tokens(line):
        if kind == "word":
            words.append(text)
            unfinished = False
        elif words:
            yield _simple(words)
            words = []
            unfinished = kind == "joint"
        elif text != "\n":
            raise _NotPlainError
    if words:
        yield _simple(words)
    elif unfinished:
        raise _NotPlainError


def _simple(words: list[str]) -> Words:
    program = words[0]
    if not program or "=" in program or program in RESERVED:
        raise _NotPlainError
    return tuple(words)


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """In order: `word`, `joint` (``&& || |``) and `end` (``;`` or a line break)."""
    at = 0
    word: str | None = None
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            raise _NotPlainError
        at = match.end()
        kind, text = str(match.lastgroup), match.group()
        if kind in {"single", "double", "bare"}:
            word = _joined(word or "", kind, text)
            continue
        if word is not None:
            yield "word", word
            word = None
        if kind != "blank":
            yield kind, text
    if word is not None:
        yield "word", word


def _joined(word: str, kind: str, text: str) -> str:
    match kind:
        case "single":
            return word + text[1:-1]
        case "double":
            return word + _ESCAPED.sub(r"\1", text[1:-1])
    if _TILDE_EXPANSION.search(word[-1:] + text):
        raise _NotPlainError
    return word + text
