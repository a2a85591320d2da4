"""Plain shell command lines: the part of the grammar that can be judged without running it.

A line is *plain* when it is a chain of simple commands, each made of literal words, joined by
``&&``, ``||``, ``;``, ``|`` or line breaks; their output may be joined (``2>&1``) or discarded
(``>/dev/null``). Everything else (expansion, substitution, other redirection, assignment, control
flow, background jobs, patterns, comments, and any unknown syntax) is not plain: unquoted words may
hold the listed characters and escapes only, so unknown syntax can never pass as a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from joey.core.text import compile_regex

Words = tuple[str, ...]
CommandChain = tuple[tuple[str, Words], ...]
"""The commands of a plain line, each with what joins it to the one before: `&&`, `||`, `|`, or
nothing."""


def parse_word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED_WORDS = parse_word_set(
    "if then elif else fi for while until do done case esac select in function time coproc"
    " { } ! [[ ]]"
)
_TOKEN_RE = compile_regex(
    r"""
      (?P<blank>(?:[ \t]|(?<=(?<!\\)[ \t])\\\n)+)
    | (?P<joint>&&|\|\||\|)
    | (?P<end>[;\n])
    | (?P<single>'[^']*')
    | (?P<outlet>(?<=(?<!\\)[ \t])[12]?>(?:&[12]|[ ]?/dev/null)(?=[ \t\n;|]|\Z))
    | (?P<double>"(?:[^"\\$`]|\\[^\n]|\$(?=["\ |)]))*")
    | (?P<bare>[\w\-./:,+@%=^~][\w\-./:,+@%=^~\#!]*)
    | (?P<escape>\\[ '"\\$`&|;()<>*?\[\]{}!\#~.])
    | (?P<sign>(?<=(?<!\\)[ \t])!(?=[ \t]))
    """,
    re.VERBOSE,
)
_TILDE_EXPANSION_RE = compile_regex(r"(?<![A-Za-z0-9])~")
_DOUBLE_QUOTE_ESCAPE_RE = compile_regex(r'\\(["\\$`])')
_CONTROL_CHARACTER_RE = compile_regex(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMMAND_SEPARATOR_RE = compile_regex(r"[;&|()`\n\r]")
# The look-behinds keep long runs from being retried at each of their characters.
_REDIRECTION_OPERATOR_RE = compile_regex(r"(?<![\d<>])\d*[<>]+")
_REDIRECTION_RE = compile_regex(r"(?:(?<![\d<>])\d*[<>]+[&|]?|&>+)\s*[^\s;&|()<>]+")
_QUOTE_CHARACTER_RE = compile_regex(r"\\\n|[\\'\"]")
_PIPE_RE = compile_regex(r"(?<!\|)\|(?!\|)")
_GROUPING_RE = compile_regex(r"[(){}`]|\b(?:if|for|while|until|case|select)\b")
"""Where the input of a command may be that of the group around it."""
_UNORDERED_INPUT_RE = compile_regex(r"[<>]\(|\(\s*\)|\b(?:function|coproc)\b")
"""What is fed may stand anywhere, also before what feeds it."""
_MAX_CACHED_LINE_CHARS = 2_000
_WORD_PART_RE = compile_regex(r"[\w.+-]+")


class _NotPlainError(Exception):
    """The line uses syntax that cannot be judged by reading it."""


def parse_plain_chain(line: str) -> CommandChain | None:
    """Parse the commands of a plain line into unquoted words; None for any other line."""
    is_short = len(line) <= _MAX_CACHED_LINE_CHARS
    return _parse_chain(line) if is_short else _parse_chain.__wrapped__(line)


@lru_cache(maxsize=256)
def _parse_chain(line: str) -> CommandChain | None:
    if _CONTROL_CHARACTER_RE.search(line):
        return None
    try:
        return tuple(_iter_commands(line))
    except _NotPlainError:
        return None


def parse_plain_commands(line: str) -> tuple[Words, ...] | None:
    """Parse a plain line without the operators between its commands."""
    chain = parse_plain_chain(line)
    return None if chain is None else tuple(words for _, words in chain)


def find_pipe_receivers(line: str) -> tuple[Words, ...]:
    """Find the commands of any line that may read other commands' output: rather too many than too
    few, split like `split_possible_commands` unless the line is plain."""
    chain = parse_plain_chain(line)
    if chain is not None:
        return tuple(words for joint, words in chain if joint == "|")
    text = strip_quotes_and_redirections(line)
    pipe = _PIPE_RE.search(text)
    if _UNORDERED_INPUT_RE.search(text):
        return split_possible_commands(text)
    if pipe is None:
        return ()
    if _GROUPING_RE.search(text):
        return split_possible_commands(text[pipe.end() :])
    return tuple(
        command
        for behind in _PIPE_RE.split(text)[1:]
        for command in split_possible_commands(behind.lstrip("& \t\r\n"))[:1]
    )


def strip_quotes_and_redirections(line: str) -> str:
    """Strip the quotes and redirections of any line."""
    return _REDIRECTION_RE.sub(" ", _QUOTE_CHARACTER_RE.sub("", line))


def split_possible_commands(line: str) -> tuple[Words, ...]:
    """Split any line wherever a command might begin and drop quotes: to find words, not to trust
    them."""
    pieces = _COMMAND_SEPARATOR_RE.split(_QUOTE_CHARACTER_RE.sub("", line))
    return tuple(
        tuple(words)
        for piece in pieces
        if (words := _REDIRECTION_OPERATOR_RE.sub(" ", piece).split())
    )


def strip_quotes(words: Words) -> Words:
    """Strip the quotes within a word, as another shell would."""
    return tuple(_QUOTE_CHARACTER_RE.sub("", word) for word in words)


def split_words_into_parts(words: Words) -> Words:
    """Split words into everything that might be a word to another program, in lower case."""
    return tuple(
        strip_executable_suffix(part.casefold())
        for word in words
        for part in _WORD_PART_RE.findall(word)
    )


def strip_executable_suffix(name: str) -> str:
    """Strip `.exe`: `git.exe` runs as `git` in a Linux on Windows."""
    return name[:-4] if name.endswith((".exe", ".cmd", ".bat")) else name


def _iter_commands(line: str) -> Iterator[tuple[str, Words]]:
    """Iterate over commands, each with the operator before it, if any."""
    words: list[str] = []
    joint = ""
    for kind, text in _iter_tokens(line):
        if kind == "word":
            words.append(text)
        elif words:
            yield joint, _build_simple_command(words)
            words = []
            joint = text if kind == "joint" else ""
        elif text != "\n":
            raise _NotPlainError
    if words:
        yield joint, _build_simple_command(words)
    elif joint:
        raise _NotPlainError


def _build_simple_command(words: list[str]) -> Words:
    program = words[0]
    if not program or "=" in program or program in RESERVED_WORDS:
        raise _NotPlainError
    return tuple(words)


def _iter_tokens(line: str) -> Iterator[tuple[str, str]]:
    """Iterate over tokens in order: `word`, `joint` (``&& || |``) and `end` (``;`` or a line
    break)."""
    at = 0
    word: str | None = None
    while at < len(line):
        match = _TOKEN_RE.match(line, at)
        if match is None:
            raise _NotPlainError
        at = match.end()
        kind, text = str(match.lastgroup), match.group()
        if kind in {"single", "double", "bare", "escape", "sign"}:
            word = _append_token(word or "", kind, text)
            continue
        if word is not None:
            yield "word", word
            word = None
        if kind not in {"blank", "outlet"}:
            yield kind, text
    if word is not None:
        yield "word", word


def _append_token(word: str, kind: str, text: str) -> str:
    match kind:
        case "single":
            return word + text[1:-1]
        case "double":
            return word + _DOUBLE_QUOTE_ESCAPE_RE.sub(r"\1", text[1:-1])
        case "escape" | "sign":
            return word + text[-1]
    if _TILDE_EXPANSION_RE.search(word[-1:] + text):
        raise _NotPlainError
    return word + text
