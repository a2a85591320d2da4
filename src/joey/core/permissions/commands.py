"""May this command line run without a person looking at it?

Rules are words: `git status` allows `git status` and `git status --short`, not `gitx` and not
`git statusx`. A line is allowed when it is plain (see `shell`), each of its commands fits an
allow rule, and the arguments beyond the rule raise no concern (see `programs`). The rule `*`
allows any line. Deny rules win unless a longer allow rule fits the same command; they look
through quotes, paths, wrappers and case, and where they cannot be sure they ask.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from joey.core.permissions.decisions import Allow, Ask, Decision, Deny
from joey.core.permissions.programs import RUNNERS, carries_out_input, concern, program_name
from joey.core.permissions.shell import (
    RESERVED,
    Words,
    fed_commands,
    parts,
    plain_commands,
    possible_commands,
)

ANYTHING = "*"
_LONGEST = 16_384
"""Characters that are judged; longer lines are for a person."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=")
_SYNTAX = re.compile(r"[^\w\-./:,+@%=^]")
_SPELLED_LATER = re.compile(r"[$*?\[{~]")


class _Rule(Struct, frozen=True):
    text: str
    words: Words
    parts: Words = ()
    """Deny rules: what to look for among the arguments of other programs."""


def judge_command(command: str, allowed: Sequence[str], denied: Sequence[str]) -> Decision:
    """Allow it by a rule, refuse it by a rule, or say why a person has to decide."""
    if not command.strip():
        return Ask("the command is empty")
    refusing = [_refusing_rule(text) for text in denied if text.strip()]
    if ANYTHING in allowed and not refusing:
        return Allow(ANYTHING)
    if len(command) > _LONGEST:
        return Ask("the command is too long to be judged")
    allowing = _allowing_rules(allowed)
    commands = plain_commands(command)
    objection = (
        _doubt(command, allowing, refusing)
        if commands is None
        else _refusal(command, commands, allowing, refusing)
    )
    if objection is not None:
        return objection
    if ANYTHING in allowed:
        return Allow(ANYTHING)
    if commands is None:
        return Ask("its shell syntax is more than the rules can judge")
    return _approval(commands, allowing)


def granted_words(command: str, allowed: Sequence[str]) -> tuple[tuple[Words, int], ...]:
    """Each command of a plain line, and how many of its words its rule names; else nothing."""
    allowing = _allowing_rules(allowed)
    return tuple((words, _rank(words, allowing)) for words in plain_commands(command) or ())


def _approval(commands: tuple[Words, ...], allowing: list[_Rule]) -> Decision:
    used: dict[str, None] = {}
    for words in commands:
        rule = _longest(words, allowing)
        if rule is None:
            return Ask(f"no rule allows `{_shown(words)}`")
        if reason := concern(words, len(rule.words)):
            return Ask(f"rule `{rule.text}` allows the program, but {reason}")
        used[rule.text] = None
    return Allow(", ".join(used))


def _refusal(
    line: str, commands: tuple[Words, ...], allowing: list[_Rule], refusing: list[_Rule]
) -> Deny | Ask | None:
    """What the deny rules say about a plain line."""
    doubt = _fed_doubt(line) if refusing else None
    for words in dict.fromkeys(commands):
        rank = _rank(words, allowing)
        named = _named(words)
        rest = parts(named[1:])
        for rule in refusing:
            match _objection(named, rest, rule, rank):
                case Deny() as deny:
                    return deny
                case Ask() as ask:
                    doubt = doubt or ask
        for text in _inner_lines(named, words) if refusing else ():
            match _doubt(text, allowing, refusing):
                case Deny() as deny:
                    return deny
                case Ask() as ask:
                    doubt = doubt or ask
    return doubt


def _inner_lines(named: Words, words: Words) -> Words:
    """Arguments that another shell may read as a line of its own."""
    return tuple(filter(_SYNTAX.search, words[1:])) if named[0] in RUNNERS else ()


def _fed_doubt(line: str) -> Ask | None:
    """Text that is made while the line runs may name what is denied."""
    for words in fed_commands(line):
        program = _program(words)
        if program and carries_out_input(program):
            return Ask(f"what `{_shown(program)}` is given to carry out is known only when it runs")
    return None


def _objection(named: Words, rest: Words, rule: _Rule, rank: int) -> Deny | Ask | None:
    """What one deny rule says about a command that an allow rule of `rank` words fits."""
    outranked = rank > len(rule.words)
    if _starts_with(named, rule.words) and not outranked:
        return _deny(rule, named)
    if not rule.parts:
        return None
    if named[0] in RUNNERS and _has_run(rest, rule.parts):
        return _deny(rule, named)
    if _has_in_order(rest if outranked else (*parts(named[:1]), *rest), rule.parts):
        return Ask(f"`{_shown(named)}` mentions what rule `{rule.text}` denies")
    return None


def _doubt(line: str, allowing: list[_Rule], refusing: list[_Rule]) -> Deny | Ask | None:
    """What the deny rules say about a line that is not plain: less surely, so more strictly."""
    if not refusing:
        return None
    commands = possible_commands(line)
    if not commands:
        return Ask("the line holds no command that could be judged")
    for words in dict.fromkeys(commands):
        named = _named(words)
        for rule in refusing:
            if _starts_with(named, rule.words) and _rank(words, allowing) <= len(rule.words):
                return _deny(rule, words)
    mentioned = {part for words in commands for part in parts(words)}
    for rule in refusing:
        if mentioned.intersection(rule.parts[:1]):
            return Ask(f"the line mentions what rule `{rule.text}` denies and cannot be judged")
    if any(_hides_program(words) for words in commands):
        return Ask("what the line runs is known only when it runs")
    return _fed_doubt(line)


def _hides_program(words: Words) -> bool:
    """Would the shell compute the name of what it runs?"""
    program = _program(words)
    if not program or program_name(program[0]) not in RUNNERS:
        program = program[:1]
    return any(_SPELLED_LATER.search(word) for word in program)


def _program(words: Words) -> Words:
    """A piece of a line from the name of its program on."""
    at = 0
    while at < len(words) and (words[at] in RESERVED or _ASSIGNMENT.match(words[at])):
        at += 1
    return words[at:]


def _longest(words: Words, allowing: list[_Rule]) -> _Rule | None:
    fitting = (rule for rule in allowing if _starts_with(words, rule.words))
    return max(fitting, key=lambda rule: len(rule.words), default=None)


def _rank(words: Words, allowing: list[_Rule]) -> int:
    rule = _longest(words, allowing)
    return 0 if rule is None else len(rule.words)


def _allowing_rules(allowed: Sequence[str]) -> list[_Rule]:
    return [_Rule(text, words) for text in allowed if (words := _allowed_words(text))]


def _refusing_rule(text: str) -> _Rule:
    words = _denied_words(text)
    return _Rule(text, words, parts(words))


def _allowed_words(rule: str) -> Words:
    """None when the rule is not one plain command: such a rule fits nothing."""
    commands = plain_commands(rule)
    return commands[0] if commands is not None and len(commands) == 1 else ()


def _denied_words(rule: str) -> Words:
    """However the rule is written; none for `*`, which fits everything."""
    return _named(_allowed_words(rule) or tuple(word for word in rule.split() if word != ANYTHING))


def _named(words: Words) -> Words:
    """Words as deny rules compare them: the program without its folder, all in lower case."""
    if not words:
        return ()
    return (program_name(words[0]), *(word.casefold() for word in words[1:]))


def _starts_with(words: Words, wanted: Words) -> bool:
    return words[: len(wanted)] == wanted


def _has_run(words: Words, wanted: Words) -> bool:
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def _has_in_order(words: Words, wanted: Words) -> bool:
    rest = iter(words)
    return all(word in rest for word in wanted)


def _deny(rule: _Rule, words: Words) -> Deny:
    return Deny(rule.text, f"rule `{rule.text}` denies `{_shown(words)}`")


def _shown(words: Words) -> str:
    return " ".join(words)
