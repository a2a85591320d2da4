"""Rules as words, and which of them fit a command."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from joey.core.permissions.decisions import ANYTHING
from joey.core.permissions.programs import program_name
from joey.core.permissions.shell import Words, parts, plain_commands


class Rule(Struct, frozen=True):
    text: str
    words: Words
    parts: Words = ()
    """Deny rules: what to look for among the arguments of other programs."""


Rules = tuple[Rule, ...]


def allowing_rules(texts: Sequence[str]) -> Rules:
    return _allowing_rules(tuple(texts))


def refusing_rules(texts: Sequence[str]) -> Rules:
    return _refusing_rules(tuple(texts))


@lru_cache(maxsize=32)
def _allowing_rules(texts: tuple[str, ...]) -> Rules:
    return tuple(Rule(text, words) for text in texts if (words := _allowed_words(text)))


@lru_cache(maxsize=32)
def _refusing_rules(texts: tuple[str, ...]) -> Rules:
    rules = ((text, _denied_words(text)) for text in texts if text.strip())
    return tuple(Rule(text, words, parts(words)) for text, words in rules)


def longest(words: Words, allowing: Rules) -> Rule | None:
    first = words[0]
    same = [rule for rule in allowing if rule.words[0] == first]
    shown = _without_pager(words)
    fitting = (
        rule
        for rule in same
        if starts_with(words, rule.words) or (shown and starts_with(shown, rule.words))
    )
    return max(fitting, key=lambda rule: len(rule.words), default=None)


def _without_pager(words: Words) -> Words:
    """`git --no-pager log` as `git log`, which it is where no person looks; else nothing."""
    return ("git", *words[2:]) if words[:2] == ("git", "--no-pager") else ()


def rank(words: Words, allowing: Rules) -> int:
    """How many of the words a rule names."""
    rule = longest(words, allowing)
    return 0 if rule is None else len(rule.words)


def starts_with(words: Words, wanted: Words) -> bool:
    return words[: len(wanted)] == wanted


def named(words: Words) -> Words:
    """Words as deny rules compare them: the program without its folder, all in lower case."""
    if not words:
        return ()
    return (program_name(words[0]), *(word.casefold() for word in words[1:]))


def _allowed_words(rule: str) -> Words:
    """None when the rule is not one plain command: such a rule fits nothing."""
    commands = plain_commands(rule)
    return commands[0] if commands is not None and len(commands) == 1 else ()


def _denied_words(rule: str) -> Words:
    """However the rule is written; none for `*`, which fits everything."""
    return named(_allowed_words(rule) or tuple(word for word in rule.split() if word != ANYTHING))
