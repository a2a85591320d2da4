"""May this command line run without a person looking at it?

Rules are words: `git status` allows `git status` and `git status --short`, not `gitx` and not
`git statusx`. A line is allowed when it is plain (see `shell`), each of its commands fits an
allow rule, and the arguments beyond the rule raise no concern (see `programs`). The rule `*`
allows any line. Deny rules win unless a longer allow rule fits the same command; they look
through quotes, paths, wrappers and case, and where they cannot be sure they ask.

What is allowed here is allowed by one reading of the line; `agreement` asks for a second one.
"""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.permissions.decisions import ANYTHING, Allow, Ask, Decision
from joey.core.permissions.denials import Denials
from joey.core.permissions.programs import carries_out_input, concern
from joey.core.permissions.rules import (
    Rules,
    allowing_rules,
    longest,
    rank,
    refusing_rules,
)
from joey.core.permissions.shell import Chain, Words, plain_chain, plain_commands
from joey.core.permissions.strange_syntax import describe_syntax

LONGEST = 16_384
"""Characters that are judged; longer lines are for a person."""


def judge_command(command: str, allowed: Sequence[str], denied: Sequence[str]) -> Decision:
    """Allow it by a rule, refuse it by a rule, or say why a person has to decide."""
    if not command.strip():
        return Ask("the command is empty")
    refusing = refusing_rules(denied)
    if ANYTHING in allowed and not refusing:
        return Allow(ANYTHING)
    if len(command) > LONGEST:
        return Ask("the command is too long to be judged")
    allowing = allowing_rules(allowed)
    chain = plain_chain(command)
    denials = Denials(allowing, refusing)
    if chain is None:
        objection = denials.of_any(command)
    else:
        objection = denials.of_plain(command, tuple(words for _, words in chain))
    objection = objection or denials.of_computed(command)
    if objection is not None:
        return objection
    if ANYTHING in allowed:
        return Allow(ANYTHING)
    if not chain:
        return Ask(describe_syntax(command))
    return _approval(chain, allowing)


def granted_words(command: str, allowed: Sequence[str]) -> tuple[tuple[Words, int], ...]:
    """Each command of a plain line, and how many of its words its rule names; else nothing, also
    for a line that is too long to be judged."""
    if len(command) > LONGEST:
        return ()
    allowing = allowing_rules(allowed)
    return tuple((words, rank(words, allowing)) for words in plain_commands(command) or ())


def _approval(chain: Chain, allowing: Rules) -> Decision:
    used: dict[str, None] = {}
    for joint, words in chain:
        rule = longest(words, allowing)
        if rule is None:
            return Ask(f"no rule allows `{' '.join(words)}`")
        if reason := concern(words, len(rule.words)):
            return Ask(f"rule `{rule.text}` allows the program, but {reason}")
        if joint == "|" and carries_out_input(words):
            return Ask(f"`{' '.join(words)}` may carry out what it is given by the pipe")
        used[rule.text] = None
    return Allow(", ".join(used))
