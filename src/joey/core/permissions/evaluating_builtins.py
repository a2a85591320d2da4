"""Builtins of bash that evaluate their arguments, and those that set variables.

A name that they are given may carry a subscript, and a subscript may run a command:
`printf -v 'a[$(date)]' x` does. Only names that are written out are known to be names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from msgspec import structs

from joey.core.permissions.programs import program_name
from joey.core.permissions.runners import RUNNERS
from joey.core.permissions.script_values import Values
from joey.core.permissions.shell import word_set
from joey.core.permissions.shell_script import EXPANDED, Word
from joey.core.regex import regex

Words = tuple[Word, ...]

_IDENTIFIER = regex("[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = regex(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_DECLARING = word_set("declare export local readonly typeset")
_COMPARISONS = word_set("= == != < > =~ -eq -ne -lt -le -gt -ge -nt -ot -ef")
_ARITHMETIC_COMPARISONS = word_set("-eq -ne -lt -le -gt -ge")
_VARIABLE_TESTS = word_set("-v -R")
_HARMLESS_TRAPS = ("", "-", "-l", "-p")
_LITERAL_END = regex(rf"[^\]{EXPANDED}]\Z")
_NO_NAME = regex(rf"[^\w{EXPANDED}-]")


def evaluates(words: Words, values: Values) -> bool:
    """Whether a command, as the shell carries it out, may evaluate what it is given."""
    name, arguments = program_name(words[0].text), words[1:]
    match name:
        case "command" | "builtin":
            return _passes_on(arguments, values)
        case "eval" | "let" | "alias" | "bind" | "compgen" | "complete" | "enable" | "fc":
            return bool(arguments)
        case "trap":
            return bool(arguments) and not _is_one_of(arguments[0], _HARMLESS_TRAPS)
        case "hash":
            return _has_option(arguments, "p")
        case "jobs":
            return _has_option(arguments, "x")
        case "set":
            options = tuple(takewhile(lambda word: word.text != "--", arguments))
            return _has_option(options, "k") or _has(options, ("keyword", "history"))
        case "mapfile" | "readarray":
            return _has_option(arguments, "C") or not all(word.is_literal for word in arguments)
        case "getopts":
            return not all(map(_has_no_subscript, arguments[:2]))
        case "read":
            return not all(map(_has_no_subscript, arguments))
        case "wait":
            return not all(_has_no_subscript(word) or values.is_numeric(word) for word in arguments)
        case "unset":
            return not all(_names_variable(word) for word in arguments)
        case "printf":
            return _stores(arguments, values)
        case "test" | "[":
            return _tests_variable(arguments, values)
    return name in _DECLARING and _declares(words, values)


def condition_evaluates(words: Words, values: Values) -> bool:
    """Whether `[[ … ]]` with these words does arithmetic on unknown values, or reads a variable
    that is named by one."""
    for at, word in enumerate(words):
        neighbours = (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2])
        if word.text in _ARITHMETIC_COMPARISONS and not all(map(values.is_numeric, neighbours)):
            return True
        if word.text in _VARIABLE_TESTS and not all(map(_names_variable, words[at + 1 : at + 2])):
            return True
    return False


def assigned_by(words: Words) -> Iterator[tuple[str, Word | None]]:
    """The variables that a command sets by its arguments, with the values that are written out."""
    name = program_name(words[0].text)
    if name in ("command", "builtin"):
        rest = tuple(word for word in words[1:] if not word.text.startswith("-"))
        yield from assigned_by(rest) if rest else ()
    elif name in _DECLARING:
        for word in words[1:]:
            if found := _ASSIGNMENT.match(word.text):
                yield found[1], structs.replace(word, text=word.text[found.end() :])
    elif name in RUNNERS:
        for word in words[1:]:
            if found := _ASSIGNMENT.match(word.text):
                yield found[1], None
    elif name in ("read", "mapfile", "readarray", "getopts", "wait"):
        for word in words[1:]:
            if _IDENTIFIER.fullmatch(word.text):
                yield word.text, None


def _passes_on(arguments: Words, values: Values) -> bool:
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-"):
        if arguments[at].text in ("-v", "-V"):
            return False
        at += 1
    return at < len(arguments) and evaluates(arguments[at:], values)


def _is_one_of(word: Word, texts: tuple[str, ...]) -> bool:
    return word.is_literal and word.text in texts


def _has(words: Words, texts: tuple[str, ...]) -> bool:
    return any(_is_one_of(word, texts) for word in words)


def _has_option(words: Words, letter: str) -> bool:
    """Also where it cannot be told."""
    return any(
        not word.is_literal or (word.text.startswith("-") and letter in word.text) for word in words
    )


def _names_variable(word: Word) -> bool:
    """Also an option of the command."""
    is_option = word.text.startswith("-") and "[" not in word.text
    return word.is_literal and (is_option or _IDENTIFIER.fullmatch(word.text) is not None)


def _has_no_subscript(word: Word) -> bool:
    return word.is_literal and "[" not in word.text


def _declares(words: Words, values: Values) -> bool:
    """Whether a declaration computes a name, or a value that it evaluates."""
    name = program_name(words[0].text)
    for word in words[1:]:
        if word.text.startswith("-"):
            evaluating = name in ("declare", "local", "typeset") and {"i", "n"} & set(word.text)
            if evaluating or not word.is_literal:
                return True
        elif not _ASSIGNMENT.match(word.text):
            if not _names_variable(word):
                return True
        elif words[0].raw != name and any(not each.quoted for each in word.expansions):
            return True  # only where bash sees the builtin's name is a value not split
    return False


def _stores(arguments: Words, values: Values) -> bool:
    """Whether printf has the option `-v`, or may have."""
    if not arguments:
        return False
    first = arguments[0]
    if first.is_literal:
        return first.text.startswith("-") and first.text != "--"
    if first.has_pattern:
        return True
    if first.text[0] not in (EXPANDED, "-") or all(map(values.is_harmless, first.expansions)):
        return False
    splits = any(not each.quoted for each in first.expansions)
    is_format = _LITERAL_END.search(first.text) and _NO_NAME.search(first.text)
    return splits or (len(arguments) > 1 and not is_format)


def _tests_variable(arguments: Words, values: Values) -> bool:
    """Whether `test` may be told by a value to look at a variable (`-v`)."""
    words = tuple(word for word in arguments if word.raw != "]")
    for word in words:
        splits = (each for each in word.expansions if not each.quoted)
        if word.has_pattern or not all(map(values.is_harmless, splits)):
            return True
    while words and _is_one_of(words[0], ("!",)):
        words = words[1:]
    for at, word in enumerate(words[:-1]):
        if word.text in _VARIABLE_TESTS and not _names_variable(words[at + 1]):
            return True
    if all(word.is_literal or all(map(values.is_harmless, word.expansions)) for word in words):
        return False
    match len(words):
        case 0 | 1:
            return False
        case 2:
            return not (words[0].is_literal and words[0].text.startswith("-"))
        case 3:
            return not _is_one_of(words[1], tuple(_COMPARISONS))
    return True
