"""The rules that allow what was just asked, and as little else as rules can say."""

from __future__ import annotations

from joey.core.permissions.commands import judge_command
from joey.core.permissions.decisions import Allow
from joey.core.permissions.runners import RUNNERS, SHELL_STATE
from joey.core.permissions.shell import Words, plain_commands
from joey.core.regex import regex

_PLAIN_WORD = regex(r"[\w\-./:,+@%=^]+")
_STATEFUL = RUNNERS | SHELL_STATE


def narrowest_rule(command: str) -> str | None:
    """The rule whose words are exactly those of the command; None when no rule can say it.

    A line that is not one plain command has none: see `narrowest_rules` for chains. Neither has a
    command that runs others: a rule for it would say nothing about what it runs later.
    """
    rules = narrowest_rules(command)
    return rules[0] if rules is not None and len(rules) == 1 else None


def narrowest_rules(command: str) -> tuple[str, ...] | None:
    """The same for each command of a plain line; None when a rule is missing for any of them."""
    commands = plain_commands(command)
    if not commands or any(words[0] in _STATEFUL for words in commands):
        return None
    rules = tuple(dict.fromkeys(quoted(words) for words in commands))
    return rules if isinstance(judge_command(command, rules, ()), Allow) else None


def quoted(words: Words) -> str:
    """The words as a line that holds just them."""
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    if _PLAIN_WORD.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
