"""The decision whether a command line may run without approval.

Rules are words: `git status` allows `git status` and `git status --short`, not `gitx` and not `git
statusx`. A line is allowed if it is plain (see `shell`), each of its commands matches an allow
rule, and the arguments beyond the rule raise no concern (see `programs`). The rule `*` allows any
line. Deny rules win unless a longer allow rule matches the same command; they match through quotes,
paths, wrappers and case, and where a match is uncertain, the user is asked.

A line that is allowed here is allowed by one parser; `policy` asks for a second one.

Loaded only when a command is judged, because the tables of programs take long to load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote

from msgspec import Struct, structs

from joey.core.permissions import programs
from joey.core.permissions.command_deny_rules import DenyRuleChecker
from joey.core.permissions.command_rules import (
    CommandRule,
    CommandRules,
    find_longest_match,
    parse_allow_rules,
    parse_deny_rules,
)
from joey.core.permissions.policy import ALLOW_ALL_RULE, Allow, Ask, Decision
from joey.core.permissions.reasons import ReasonKind
from joey.core.permissions.shell import (
    RESERVED_WORDS,
    CommandChain,
    Words,
    parse_plain_chain,
    parse_plain_commands,
)
from joey.core.text import compile_regex

MAX_COMMAND_CHARS = 16_384
"""Longer lines are for a user."""


class GrantedCommand(Struct, frozen=True):
    """A command of a plain line, and how many of its words its rule covers."""

    joint: str
    words: Words
    granted: int
    listed_by: Words = ()
    """The `find` that names the files that the command reads, if one does (`xargs`)."""


def judge_command(
    command: str,
    allowed: Sequence[str],
    denied: Sequence[str],
    inside_paths: frozenset[str] | None = None,
) -> Decision:
    """Allow a command by a rule, refuse it by a rule, or say why a user has to decide.
    `inside_paths` are known to be in the workspace; None if the files were not checked."""
    if not command.strip():
        return Ask.because(ReasonKind.EMPTY_COMMAND)
    refusing = parse_deny_rules(tuple(denied))
    if ALLOW_ALL_RULE in allowed and not refusing:
        return Allow(ALLOW_ALL_RULE)
    if len(command) > MAX_COMMAND_CHARS:
        return Ask.because(ReasonKind.LONG_COMMAND)
    allowing = parse_allow_rules(tuple(allowed))
    chain = parse_plain_chain(command)
    denials = DenyRuleChecker(allowing, refusing)
    if chain is None:
        objection = denials.check_non_plain(command)
    else:
        objection = denials.check_plain(command, tuple(words for _, words in chain))
    objection = objection or denials.check_evaluated_code(command)
    if objection is not None:
        return objection
    if ALLOW_ALL_RULE in allowed:
        return Allow(ALLOW_ALL_RULE)
    if not chain:
        return Ask.because(
            ReasonKind.UNSUPPORTED_SYNTAX, detail=describe_unsupported_syntax(command)
        )
    return _judge_chain(chain, allowing, inside_paths)


def count_granted_words(command: str, allowed: Sequence[str]) -> tuple[GrantedCommand, ...]:
    """Count the granted words of each command in a plain line; None for other lines, and for one
    that is too long to judge."""
    if len(command) > MAX_COMMAND_CHARS:
        return ()
    allowing = parse_allow_rules(tuple(allowed))
    return tuple(
        GrantedCommand(joint, words, len(rule.words) if rule else 0, feeder)
        for joint, words, rule, feeder in _match_rules(parse_plain_chain(command) or (), allowing)
    )


def _match_rules(
    chain: CommandChain, allowing: CommandRules
) -> Iterator[tuple[str, Words, CommandRule | None, Words]]:
    """Match each command to its rule, with the operator before it and the `find` that names its
    files: a reader that `xargs` runs on those replaces `xargs`, if that has a rule."""
    before: Words = ()
    for joint, words in chain:
        rule = find_longest_match(words, allowing)
        at = programs.find_fed_reader_index(words, before) if joint == "|" and rule else None
        if at is None or rule is None:
            yield joint, words, rule, ()
        elif len(rule.words) > at:
            yield joint, words[at:], structs.replace(rule, words=rule.words[at:]), before
        else:
            yield joint, words[at:], find_longest_match(words[at:], allowing), before
        before = words


def _judge_chain(
    chain: CommandChain, allowing: CommandRules, inside_paths: frozenset[str] | None
) -> Decision:
    used: dict[str, None] = {}
    for joint, words, rule, feeder in _match_rules(chain, allowing):
        if feeder and inside_paths is None:
            return Ask.because(ReasonKind.EXECUTES_PIPE, excerpt="xargs")
        if rule is None:
            return Ask.because(ReasonKind.NO_RULE, excerpt=" ".join(words))
        if concern := programs.find_concern(words, len(rule.words), inside_paths):
            return Ask.because(ReasonKind.RISKY_ARGUMENTS, rule=rule.text, detail=concern)
        if joint == "|" and programs.can_execute_input(words):
            return Ask.because(ReasonKind.EXECUTES_PIPE, excerpt=" ".join(words))
        used[rule.text] = None
    return Allow(", ".join(used))


_PLAIN_WORD_RE = compile_regex(r"[\w\-./:,+@%=^]+")
_NO_RULE_PROGRAMS = programs.COMMAND_RUNNERS | programs.SHELL_STATE_BUILTINS


def build_narrowest_rule(command: str) -> str | None:
    """Build the rule with exactly the words of one plain command; None if no rule can express
    it."""
    rules = build_narrowest_rules(command)
    return rules[0] if rules is not None and len(rules) == 1 else None


def build_narrowest_rules(command: str) -> tuple[str, ...] | None:
    """Build the rule for each command of a plain line; None if any has none: a rule for a command
    that runs others would not cover what it runs later."""
    commands = parse_plain_commands(command)
    if not commands or any(words[0] in _NO_RULE_PROGRAMS for words in commands):
        return None
    rules = tuple(dict.fromkeys(quote_words(words) for words in commands))
    return rules if isinstance(judge_command(command, rules, ()), Allow) else None


def quote_words(words: Words) -> str:
    """Quote the words as a command line."""
    return " ".join(word if _PLAIN_WORD_RE.fullmatch(word) else quote(word) for word in words)


_UNSUPPORTED_SYNTAX_RE = compile_regex(
    r"""
      '[^']*'
    | (?<=[ \t])[12]?>(?:&[12]|[ ]?/dev/null)(?=[ \t\n;|]|\Z)
    | "(?:[^"\\$`]|\\[^\n]|\$(?=["\ |)]))*"
    | \\[ '"\\$`&|;()<>*?\[\]{}!\#~.]
    | (?<=[ \t])\\\n
    | (?P<substitution>"[^"]*(?:`|\$\()|`|\$\(|[<>]\()
    | (?P<variable>"[^"]*\$|\$)
    | (?P<redirection>\|&|(?:(?<!\S)\d+|&)?[<>]+)
    | (?P<job>(?<!&)&(?!&))
    | (?P<pattern>[*?\[{])
    | (?P<home>(?<![\w.^])~)
    | (?P<group>(?<!\\)[()])
    | (?P<comment>(?<!\S)\#)
    | (?P<assignment>(?:(?<=[;|&\n(])|\A)\s*[A-Za-z_]\w*\+?=)
    | (?P<escape>\\)
    | (?P<quote>['"])
    """,
    re.VERBOSE,
)
_SYNTAX_NAMES = {
    "substitution": "a substitution",
    "variable": "a variable",
    "redirection": "a redirection",
    "job": "a job in the background",
    "pattern": "a pattern",
    "home": "`~` for a home folder",
    "group": "a group",
    "comment": "a comment",
    "assignment": "an assignment",
    "escape": "a backslash",
    "quote": "a quote that is not closed",
}
_FIRST_WORD_RE = compile_regex(r"(?:\A|[;|&\n])\s*([^\s;|&]+)")
_SYNTAX_EXCERPT_RE = compile_regex(r"[<>]+\s+[^\s;]+|[^\s;\"]+")
_MAX_EXCERPT_CHARS = 40


def describe_unsupported_syntax(line: str) -> str:
    """Describe the first syntax that rules cannot judge: "a pattern (`*.py`)"."""
    for first in _FIRST_WORD_RE.findall(line):
        if first in RESERVED_WORDS or first == "[":
            return f"a keyword of the shell (`{first}`)"
    for piece in _UNSUPPORTED_SYNTAX_RE.finditer(line):
        if piece.lastgroup is not None:
            return f"{_SYNTAX_NAMES[piece.lastgroup]} (`{_extract_word_at(line, piece.end() - 1)}`)"
    return "signs that are none of a word"


def _extract_word_at(line: str, at: int) -> str:
    """Return the word around a character; for one between words, the words up to the next one."""
    start = max(line.rfind(each, 0, at) for each in ' \t\n;"') + 1
    found = _SYNTAX_EXCERPT_RE.match(line, start)
    excerpt = found[0] if found else line[at]
    return excerpt if len(excerpt) <= _MAX_EXCERPT_CHARS else f"{excerpt[:_MAX_EXCERPT_CHARS]}…"
