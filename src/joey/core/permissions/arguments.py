"""Argument specifications of programs, and the parser that reads a command line by them.

A specification lists the arguments known to be harmless; all others need approval. So an option
that is missing here, abbreviated, or new in the next version needs approval. Options that follow
links in directories are left out too: they would lead out of the workspace.

In a list of options `-k:` takes a value that may be a path, `-t=` takes a value that is mere text,
`-a==` takes two such values, and `-n#` takes a number, if one follows: other programs, or other
versions, may not take any, and then the next word is a word like others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Literal

from msgspec import Struct

from joey.core.permissions.shell import Words
from joey.core.text import compile_regex

_ValueSpec = Literal[":", "=", "==", "#"]


class ProgramSpec(Struct, frozen=True):
    harmless_options: str = ""
    harmless_subcommands: str | None = None
    """What may stand first when a rule names the program alone (a subcommand); None: anything."""
    max_operands: int | None = None
    """How many are read; a further one would be changed, or would change something."""
    harmless_operand_pattern: str = ""
    """A pattern that each operand fits when it is harmless."""
    unsafe_argument_pattern: str = ""
    """A pattern of words that are more than the name of something to read."""
    text_operands: Literal["", "first", "all"] = ""
    """Operands that name no file: the first one (a pattern to look for) or all. Where all are text
    and there are no options, whatever looks like one is text too."""
    has_single_dash_options: bool = False
    """Words of options begin with one dash, and letters cannot be bundled (`-name`)."""
    has_bundled_options: bool = False
    """The first argument is a bundle of options, with or without a dash (tar)."""
    has_target_operands: bool = False
    """Operands are things to be done: a rule that names one of them says nothing about others."""
    required_options: str = ""
    """Without one of these options the program changes files."""
    requires_options_first: bool = False
    """Options stand before the first operand; whatever looks like one behind it is none."""


class ArgumentKind(Enum):
    OPTION = "option"
    UNKNOWN_OPTION = "unknown"
    VALUE = "value"
    OPERAND = "operand"


class Argument(Struct, frozen=True):
    word_index: int
    word: str
    kind: ArgumentKind
    is_text: bool = False
    """It names no file, whatever it looks like."""

    @property
    def is_text_value(self) -> bool:
        """Whether it counts as text only because it follows an option."""
        return self.kind is ArgumentKind.VALUE and self.is_text


class _OptionSet(Struct, frozen=True):
    flags: frozenset[str]
    value_options: dict[str, _ValueSpec]

    def has(self, option: str) -> bool:
        return option in self.flags or option in self.value_options


_NUMERIC_OPTION_RE = compile_regex(r"-\d+")
_QUANTITY_RE = compile_regex(r"[+-]?\d+(\.\d+)?[kKMGTbBw%]{0,3}")
_NO_PATTERN_OPERAND_OPTION_RE = compile_regex(r"-(?!-)[^ef]*[ef]|--(regexp|file|files|type-list)\b")


@cache
def _parse_options(text: str) -> _OptionSet:
    flags: set[str] = set()
    valued: dict[str, _ValueSpec] = {}
    for word in text.split():
        match word[-2:], word[-1]:
            case ("==", _):
                valued[word[:-2]] = "=="
            case (_, ":" | "=" | "#" as takes):
                valued[word[:-1]] = takes
            case _:
                flags.add(word)
    return _OptionSet(frozenset(flags), valued)


def parse_arguments(words: Words, spec: ProgramSpec) -> list[Argument]:
    """Parse the words after the program as it would read them."""
    if spec.text_operands == "all" and not spec.harmless_options:
        return [
            Argument(at, word, ArgumentKind.OPERAND, True) for at, word in enumerate(words) if at
        ]
    arguments = list(_iter_arguments(words, spec))
    if spec.text_operands == "all":
        return [_mark_as_text(argument) for argument in arguments]
    if spec.text_operands == "first" and not any(
        map(_NO_PATTERN_OPERAND_OPTION_RE.match, words[1:])
    ):
        for index, argument in enumerate(arguments):
            if argument.kind is ArgumentKind.OPERAND:
                arguments[index] = _mark_as_text(argument)
                break
    return arguments


def _mark_as_text(argument: Argument) -> Argument:
    if argument.kind is ArgumentKind.UNKNOWN_OPTION:
        return argument
    return Argument(argument.word_index, argument.word, argument.kind, True)


def _iter_arguments(words: Words, spec: ProgramSpec) -> Iterator[Argument]:
    known = _parse_options(spec.harmless_options)
    takes: _ValueSpec | None = None
    settled = False
    for at, word in enumerate(words[1:], start=1):
        if settled:
            # An operand, whatever it looks like; or an option of the program that this one runs.
            harmless = _is_operand(word) or _is_known_option(word, known, spec)
            kind = ArgumentKind.OPERAND if harmless else ArgumentKind.UNKNOWN_OPTION
            yield Argument(at, word, kind)
            continue
        if at == 1 and spec.has_bundled_options and not word.startswith("--"):
            # Letters with or without a dash; the values of all of them are the next words.
            letters = [f"-{letter}" for letter in word.removeprefix("-")]
            harmless = all(known.has(letter) for letter in letters)
            kind = ArgumentKind.OPTION if harmless else ArgumentKind.UNKNOWN_OPTION
            yield Argument(at, word, kind)
            continue
        if takes == "#" and not _QUANTITY_RE.fullmatch(word):
            takes = None
        if takes is not None:
            # If the option takes no value after all, this would be the next one.
            harmless = _is_operand(word) or _is_known_option(word, known, spec)
            kind = ArgumentKind.VALUE if harmless else ArgumentKind.UNKNOWN_OPTION
            yield Argument(at, word, kind, takes in ("=", "=="))
            takes = "=" if takes == "==" else None
        elif word == "--":
            settled = True
            yield Argument(at, word, ArgumentKind.OPTION, is_text=True)
        elif _is_operand(word):
            settled = spec.requires_options_first
            yield Argument(at, word, ArgumentKind.OPERAND)
        elif not _is_known_option(word, known, spec):
            yield Argument(at, word, ArgumentKind.UNKNOWN_OPTION)
        else:
            takes, is_text = _classify_option_value(word, known, spec)
            yield Argument(at, word, ArgumentKind.OPTION, is_text)


def _classify_option_value(
    word: str, known: _OptionSet, spec: ProgramSpec
) -> tuple[_ValueSpec | None, bool]:
    """Classify the value that a known option takes from the next word, and whether this word itself
    names no file."""
    name, separator, _ = word.partition("=")
    if word.startswith("--") or spec.has_single_dash_options:
        takes = known.value_options.get(_spell_option(name, spec))
        return (None, takes != ":") if separator else (takes, True)
    for index, letter in enumerate(word[1:], start=1):
        if f"-{letter}" in known.value_options:
            takes = known.value_options[f"-{letter}"]
            return (takes, True) if index == len(word) - 1 else (None, takes != ":")
    return None, True


def _is_known_option(word: str, known: _OptionSet, spec: ProgramSpec) -> bool:
    if _NUMERIC_OPTION_RE.fullmatch(word):
        return True
    name = word.partition("=")[0]
    if spec.has_single_dash_options or word.startswith("--"):
        return known.has(_spell_option(name, spec))
    if word in known.flags:
        return True
    for at, letter in enumerate(word[1:], start=2):
        takes, rest = known.value_options.get(f"-{letter}"), word[at:]
        if takes is not None:
            return takes != "#" or not rest or _QUANTITY_RE.fullmatch(rest) is not None
        if f"-{letter}" not in known.flags and not letter.isdigit():
            return False
    return True


def _spell_option(name: str, spec: ProgramSpec) -> str:
    """Spell an option as in the program's list of options."""
    return name[1:] if spec.has_single_dash_options and name.startswith("--") else name


def _is_operand(word: str) -> bool:
    return word == "-" or not word.startswith("-")


def find_argument_concern(name: str, words: Words, granted: int, spec: ProgramSpec) -> str | None:
    """Return why the user should review the arguments after the first `granted` words, or None."""
    arguments = parse_arguments(words, spec)
    for argument in arguments:
        if argument.word_index < granted:
            continue
        if argument.kind is ArgumentKind.UNKNOWN_OPTION:
            return f"option `{argument.word}` of {name} is not known to be harmless"
        word, is_operand = argument.word, argument.kind is ArgumentKind.OPERAND
        unsafe = spec.unsafe_argument_pattern and re.search(spec.unsafe_argument_pattern, word)
        strange = is_operand and not re.match(spec.harmless_operand_pattern, word)
        if unsafe or strange or _is_response_file(name, argument):
            return f"`{word}` is not known to be harmless for {name}"
    operands = [argument for argument in arguments if argument.kind is ArgumentKind.OPERAND]
    chosen = operands[0] if operands and operands[0].word_index >= granted else None
    harmless = spec.harmless_subcommands
    if harmless is not None and chosen and chosen.word not in harmless.split():
        return f"`{name} {chosen.word}` is not known to be harmless"
    if spec.has_target_operands and granted > 1 and operands and operands[-1].word_index >= granted:
        return f"the rule does not name what {name} is to do with `{operands[-1].word}`"
    if spec.max_operands is not None and len(operands) > spec.max_operands:
        return f"the last argument of {name} would be changed, not read"
    required = spec.required_options.split()
    if required and not any(_has_option(option, arguments) for option in required):
        return f"{name} without {' or '.join(required)} does more than look"
    return None


def _is_response_file(name: str, argument: Argument) -> bool:
    """Whether a word means a file of arguments (`@file`), as in many programs; for git it is a
    revision, and for npm the beginning of a package name."""
    is_file = argument.kind is ArgumentKind.OPERAND and not argument.is_text
    knows_none = name.startswith("git ") or name in ("bun", "npm", "pnpm", "yarn")
    return is_file and argument.word.startswith("@") and not knows_none


def _has_option(option: str, arguments: list[Argument]) -> bool:
    """Whether an option is present, also in a bundle of letters."""
    given = [argument.word for argument in arguments if argument.kind is ArgumentKind.OPTION]
    if option in given or len(option) != len("-x"):
        return option in given
    return any(option[1] in word for word in given if not word.startswith("--"))
