"""The programs that a command line starts, as a list for the user who approves it.

Inner lines (`bash -c '…'`), substitutions and the bodies of loops are looked into. Of a line that
is too long or cannot be parsed, every word that might be a program is listed: rather too many than
too few.
"""

from __future__ import annotations

from collections.abc import Iterator

from joey.core.permissions.commands import MAX_COMMAND_CHARS
from joey.core.permissions.hidden_code import find_inner_command_lines
from joey.core.permissions.programs import (
    COMMAND_RUNNERS,
    EXEC_ARGUMENTS_BY_PROGRAM,
    normalize_program_name,
)
from joey.core.permissions.shell import RESERVED_WORDS, split_possible_commands
from joey.core.permissions.shell_parser import parse_script
from joey.core.permissions.shell_words import UnsupportedSyntaxError
from joey.core.text import compile_regex, reveal

MAX_PROGRAMS = 60
_MAX_NESTED_LINES = 4
_MAX_RUNNER_WORDS = 12
_MAX_WORD_CHARS = 32
_ASSIGNMENT_RE = compile_regex(r"[A-Za-z_]\w*\+?=")
_NON_ASCII_RE = compile_regex(r"[^\x00-\x7f…]")


def list_programs(line: str) -> tuple[str, ...]:
    """List the programs in the order of the line, each once. A command that runs another one is
    listed with its words (`sudo -u root rm`); letters that only look like ASCII are named."""
    names = dict.fromkeys(_format_program(words) for words in _iter_commands(line, 0))
    return tuple(filter(None, names))[:MAX_PROGRAMS]


def _iter_commands(line: str, depth: int) -> Iterator[tuple[str, ...]]:
    try:
        commands = parse_script(line).commands if len(line) <= MAX_COMMAND_CHARS else None
    except UnsupportedSyntaxError:
        commands = None
    if commands is None:
        yield from _split_roughly(line)
        return
    for command in commands:
        if not command.words:
            continue
        yield tuple(word.raw if word.expansions else word.text for word in command.words)
        if depth < _MAX_NESTED_LINES:
            for inner in find_inner_command_lines(tuple(word.text for word in command.words)):
                yield from _iter_commands(inner, depth + 1)


def _split_roughly(line: str) -> Iterator[tuple[str, ...]]:
    for words in split_possible_commands(line):
        program = [
            word for word in words if word not in RESERVED_WORDS and not _ASSIGNMENT_RE.match(word)
        ]
        if program:
            yield (program[0],)


def _format_program(words: tuple[str, ...]) -> str:
    name = normalize_program_name(words[0])
    is_runner = name in COMMAND_RUNNERS or EXEC_ARGUMENTS_BY_PROGRAM.get(
        name, frozenset()
    ).intersection(words)
    shown = [each for each in words[1:] if not _ASSIGNMENT_RE.match(each)] if is_runner else []
    cut = [reveal(each) for each in (words[0], *shown[:_MAX_RUNNER_WORDS])]
    text = " ".join(
        each if len(each) <= _MAX_WORD_CHARS else f"{each[: _MAX_WORD_CHARS - 1]}…" for each in cut
    )
    if len(shown) > _MAX_RUNNER_WORDS:
        text += " …"
    return _NON_ASCII_RE.sub(lambda found: f"<U+{ord(found[0]):04X}>", " ".join(text.split()))
