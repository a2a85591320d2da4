"""Plain shell command lines: the part of the grammar that can be judged by reading it.

A line is *plain* when it is a chain of simple commands, each made of literal words, joined by
``&&``, ``||``, ``;``, ``|`` or line breaks; their output may be joined (``2>&1``) or discarded
(``>/dev/null``). Everything else (expansion, substitution, other redirection, assignment, control
flow, background jobs, patterns, comments, and any unknown syntax) is not plain: unquoted words may
hold the listed characters only, so unknown syntax can never pass as a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from joey.core.text import regex

Words = tuple[str, ...]
CommandChain = tuple[tuple[str, Words], ...]
"""The commands of a plain line, each with what joins it to the one before: `&&`, `||`, `|`, or
nothing."""


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED_WORDS = word_set(
    "if then elif else fi for while until do done case esac select in function time coproc"
    " { } ! [[ ]]"
)
_TOKEN_RE = regex(
    r"""
      (?P<blank>[ \t]+)
    | (?P<joint>&&|\|\||\|)
    | (?P<end>[;\n])
    | (?P<single>'[^']*')
    | (?P<outlet>(?<=[ \t])[12]?>(?:&[12]|[ ]?/dev/null)(?=[ \t\n;|]|\Z))
    | (?P<double>"(?:[^"\\$`]|\\[^$`\n]|\$(?=["\ |)]))*")
    | (?P<bare>[\w\-./:,+@%=^~]+)
    | (?P<sign>(?<=[ \t])(?:\\[()!](?=[ \t\n;|]|\Z)|!(?=[ \t])))
    """,
    re.VERBOSE,
)
_TILDE_EXPANSION_RE = regex(r"(?<![A-Za-z0-9])~")
_DOUBLE_QUOTE_ESCAPE_RE = regex(r'\\(["\\])')
_CONTROL_CHARACTER_RE = regex(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMMAND_SEPARATOR_RE = regex(r"[;&|()`\n\r]")
# The looks behind keep long runs from being tried again from each of their characters.
_REDIRECTION_OPERATOR_RE = regex(r"(?<![\d<>])\d*[<>]+")
_REDIRECTION_RE = regex(r"(?:(?<![\d<>])\d*[<>]+[&|]?|&>+)\s*[^\s;&|()<>]+")
_QUOTE_CHARACTER_RE = regex(r"\\\n|[\\'\"]")
_PIPE_RE = regex(r"(?<!\|)\|(?!\|)")
_GROUPING_RE = regex(r"[(){}`]|\b(?:if|for|while|until|case|select)\b")
"""Where the input of a command may be that of the group around it."""
_UNORDERED_INPUT_RE = regex(r"[<>]\(|\(\s*\)|\b(?:function|coproc)\b")
"""What is fed may stand anywhere, also before what feeds it."""
_MAX_CACHED_LINE_CHARS = 2_000
_WORD_PART_RE = regex(r"[\w.+-]+")


class _NotPlainError(Exception):
    """The line uses something that cannot be judged by reading it."""


def plain_chain(line: str) -> CommandChain | None:
    """The commands of a plain line as words without their quotes; None for any other line."""
    return _remembered_chain(line) if len(line) <= _MAX_CACHED_LINE_CHARS else _chain(line)


@lru_cache(maxsize=256)
def _remembered_chain(line: str) -> CommandChain | None:
    return _chain(line)


def _chain(line: str) -> CommandChain | None:
    if _CONTROL_CHARACTER_RE.search(line):
        return None
    try:
        return tuple(_commands(line))
    except _NotPlainError:
        return None


def plain_commands(line: str) -> tuple[Words, ...] | None:
    """The same without what joins them."""
    chain = plain_chain(line)
    return None if chain is None else tuple(words for _, words in chain)


def fed_commands(line: str) -> tuple[Words, ...]:
    """The commands of any line that may be given what others write: too many rather than too few.

    They are cut like `possible_commands`, unless the line is plain.
    """
    chain = plain_chain(line)
    if chain is not None:
        return tuple(words for joint, words in chain if joint == "|")
    text = without_redirections(line)
    pipe = _PIPE_RE.search(text)
    if _UNORDERED_INPUT_RE.search(text):
        return possible_commands(text)
    if pipe is None:
        return ()
    if _GROUPING_RE.search(text):
        return possible_commands(text[pipe.end() :])
    return tuple(
        command
        for behind in _PIPE_RE.split(text)[1:]
        for command in possible_commands(behind.lstrip("& \t\r\n"))[:1]
    )


def without_redirections(line: str) -> str:
    """Any line without its quotes, and without what goes to files or comes from them."""
    return _REDIRECTION_RE.sub(" ", _QUOTE_CHARACTER_RE.sub("", line))


def possible_commands(line: str) -> tuple[Words, ...]:
    """Any line, cut wherever a command might begin, quotes dropped: to find words, not to trust
    them."""
    pieces = _COMMAND_SEPARATOR_RE.split(_QUOTE_CHARACTER_RE.sub("", line))
    return tuple(
        tuple(words)
        for piece in pieces
        if (words := _REDIRECTION_OPERATOR_RE.sub(" ", piece).split())
    )


def unquoted(words: Words) -> Words:
    """As another shell would read what is quoted within a word."""
    return tuple(_QUOTE_CHARACTER_RE.sub("", word) for word in words)


def parts(words: Words) -> Words:
    """Everything in the words that might itself be a word to another program, in lower case."""
    return tuple(
        without_ending(part.casefold()) for word in words for part in _WORD_PART_RE.findall(word)
    )


def without_ending(name: str) -> str:
    """`git.exe` runs where `git` does, in a Linux on Windows too."""
    return name[:-4] if name.endswith((".exe", ".cmd", ".bat")) else name


def _commands(line: str) -> Iterator[tuple[str, Words]]:
    """Each command with what joins it to the one before it, if anything does."""
    words: list[str] = []
    joint = ""
    for kind, text in _tokens(line):
        if kind == "word":
            words.append(text)
        elif words:
            yield joint, _simple(words)
            words = []
            joint = text if kind == "joint" else ""
        elif text != "\n":
            raise _NotPlainError
    if words:
        yield joint, _simple(words)
    elif joint:
        raise _NotPlainError


def _simple(words: list[str]) -> Words:
    program = words[0]
    if not program or "=" in program or program in RESERVED_WORDS:
        raise _NotPlainError
    return tuple(words)


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    """In order: `word`, `joint` (``&& || |``) and `end` (``;`` or a line break)."""
    at = 0
    word: str | None = None
    while at < len(line):
        match = _TOKEN_RE.match(line, at)
        if match is None:
            raise _NotPlainError
        at = match.end()
        kind, text = str(match.lastgroup), match.group()
        if kind in {"single", "double", "bare", "sign"}:
            word = _joined(word or "", kind, text)
            continue
        if word is not None:
            yield "word", word
            word = None
        if kind not in {"blank", "outlet"}:
            yield kind, text
    if word is not None:
        yield "word", word


def _joined(word: str, kind: str, text: str) -> str:
    match kind:
        case "single":
            return word + text[1:-1]
        case "double":
            return word + _DOUBLE_QUOTE_ESCAPE_RE.sub(r"\1", text[1:-1])
        case "sign":
            return text[-1]
    if _TILDE_EXPANSION_RE.search(word[-1:] + text):
        raise _NotPlainError
    return word + text
