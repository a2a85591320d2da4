"""Deny rules applied to a command line.

They match through quotes, paths, wrappers, options before a subcommand, and case. Lines that are
not plain can be judged less exactly, so the rules are stricter: where a denied command may be
hidden, the user is asked.
"""

from __future__ import annotations

import re

from msgspec import Struct

from joey.core.permissions import hidden_code, programs
from joey.core.permissions.command_rules import (
    CommandRule,
    CommandRules,
    DenyMatch,
    find_longest_match,
    match_deny_rule,
    normalize_command,
)
from joey.core.permissions.policy import Ask, Deny
from joey.core.permissions.reasons import Reason, ReasonKind
from joey.core.permissions.shell import (
    RESERVED_WORDS,
    Words,
    find_pipe_receivers,
    split_possible_commands,
    split_words_into_parts,
    strip_quotes,
    strip_quotes_and_redirections,
)
from joey.core.text import compile_regex

_ASSIGNMENT_RE = compile_regex(r"[A-Za-z_]\w*(\[.*\])?\+?=")
_EXPANSION_RE = compile_regex(r"[$*?\[{~]")
_BACKTICKS_RE = compile_regex("`[^`]*`")
"""What it gives may be a part of a word; `$` stands for that."""
_SHORT_OPTION_RE = compile_regex(r"\A-(?!-).?", re.DOTALL)
"""What follows may be its value: `-Srm`."""
_MAX_COMMAND_STARTS = 100


class DenyRuleChecker(Struct, frozen=True):
    allow_rules: CommandRules
    deny_rules: CommandRules

    def check_plain(self, line: str, commands: tuple[Words, ...]) -> Deny | Ask | None:
        """Check a line that both parsers understand."""
        if not self.deny_rules:
            return None
        doubt: Ask | None = _check_piped_input(line)
        for words in dict.fromkeys(commands):
            for found in (self._check_command(words), self._check_inner_command_lines(words)):
                if isinstance(found, Deny):
                    return found
                doubt = doubt or found
        return (
            doubt
            or self._check_mentions_with_runner(commands)
            or self._check_hidden_code(line, commands)
        )

    def _check_mentions_with_runner(self, commands: tuple[Words, ...]) -> Ask | None:
        """Check a line with words that one command prints, another may store, and a third may
        run."""
        if not any(_can_start_program(words) for words in commands):
            return None
        for words in commands:
            mentioned = split_words_into_parts(strip_quotes(words))
            for rule in self.deny_rules:
                if rule.has_mention_in(mentioned):
                    return _doubt(ReasonKind.MENTIONS_DENIED_WITH_RUNNER, rule, words)
        return None

    def check_non_plain(self, line: str) -> Deny | Ask | None:
        """Check a line that is not plain."""
        if not self.deny_rules:
            return None
        commands = (
            *split_possible_commands(line),
            *split_possible_commands(strip_quotes_and_redirections(line)),
            *split_possible_commands(_BACKTICKS_RE.sub("$", line)),
        )
        if not commands:
            return Ask.because(ReasonKind.NO_COMMAND)
        doubt: Ask | None = None
        for words in dict.fromkeys(commands):
            program = _skip_to_program(words)
            if program and isinstance(found := self._check_command(program), Deny):
                return found
            doubt = doubt or self._check_prefix(program)
        if doubt is not None:
            return doubt
        mentioned = {part for words in commands for part in split_words_into_parts(words)}
        for rule in self.deny_rules:
            if mentioned.intersection((*rule.mention_parts[:1], "-".join(rule.mention_parts))):
                return Ask.because(ReasonKind.LINE_MENTIONS_DENIED, rule=rule.text)
        if any(_has_computed_program(words) for words in commands):
            return Ask.because(ReasonKind.COMPUTED_PROGRAM)
        return _check_piped_input(line) or self._check_hidden_code(line, commands)

    def check_evaluated_code(self, line: str) -> Ask | None:
        """Check code that the line computes."""
        found = hidden_code.find_evaluated_code(line) if self.deny_rules else None
        if found is None:
            return None
        return Ask.because(
            ReasonKind.EVALUATED_CODE, excerpt=found.excerpt, detail=found.kind.value
        )

    def _check_prefix(self, words: Words) -> Ask | None:
        if not words:
            return None
        compared, fitting = normalize_command(words), find_longest_match(words, self.allow_rules)
        for rule in self.deny_rules:
            if _has_rule_prefix(compared, rule, fitting):
                return Ask.because(ReasonKind.LINE_BEGINS_LIKE_DENIED, rule=rule.text)
        return None

    def _check_hidden_code(self, line: str, commands: tuple[Words, ...]) -> Ask | None:
        """Check code that the line brings along without naming it."""
        bare = split_possible_commands(strip_quotes_and_redirections(line))
        cut = tuple(filter(None, map(_skip_to_program, bare)))
        if (created := hidden_code.find_created_program(line, cut)) is not None:
            return Ask.because(ReasonKind.CREATED_PROGRAM, excerpt=created)
        about_git = any(
            rule.words[:1] == ("git",) and len(rule.words) > 1 for rule in self.deny_rules
        )
        for words in filter(None, map(_skip_to_program, commands)):
            concern = hidden_code.find_code_concern(words)
            if about_git and concern is None:
                concern = hidden_code.find_git_alias_or_setting_concern(words)
            if concern is not None:
                return Ask.because(ReasonKind.HIDDEN_CODE, detail=concern)
        return None

    def _check_command(self, words: Words) -> Deny | Ask | None:
        """Check one command against all rules; a certain match beats a possible one."""
        compared = normalize_command(words)
        rest = split_words_into_parts(strip_quotes(compared[1:]))
        started = _find_started_commands(compared)
        if len(started) > _MAX_COMMAND_STARTS:
            return Ask.because(ReasonKind.MANY_COMMANDS, excerpt=compared[0])
        fitting = find_longest_match(words, self.allow_rules)
        allowed = 0 if fitting is None else len(fitting.words)
        doubt: Ask | None = None
        for rule in self.deny_rules:
            outranked = allowed > len(rule.words)
            found = DenyMatch.NONE if outranked else match_deny_rule(compared, rule.words)
            found = max((found, *(_match_started_command(s, rule.mention_parts) for s in started)))
            if found is DenyMatch.CERTAIN:
                denied = " ".join(compared)
                return Deny(Reason(ReasonKind.DENIED, rule=rule.text, excerpt=denied))
            if found is DenyMatch.POSSIBLE:
                doubt = doubt or _doubt(ReasonKind.MAYBE_DENIED, rule, compared)
            if not outranked and _has_rule_prefix(compared, rule, fitting):
                doubt = doubt or _doubt(ReasonKind.BEGINS_LIKE_DENIED, rule, compared)
            mentions = rest if outranked else (*split_words_into_parts(compared[:1]), *rest)
            if doubt or not rule.has_mention_in(mentions):
                continue
            # The program may run it, unless it is known to only read.
            if not programs.is_read_only(words, 1) or programs.find_concern(words, 1):
                doubt = _doubt(ReasonKind.MENTIONS_DENIED, rule, compared)
        return doubt

    def _check_inner_command_lines(self, words: Words) -> Deny | Ask | None:
        """Check arguments that another shell may parse as a command line."""
        doubt: Ask | None = None
        for text in hidden_code.find_inner_command_lines(words):
            found = self.check_non_plain(text)
            if isinstance(found, Deny):
                return found
            doubt = doubt or found
        return doubt


def _has_rule_prefix(compared: Words, rule: CommandRule, allowed: CommandRule | None) -> bool:
    """Whether a rule matches as a prefix, as in Roo Code: there `rm` denies `rmdir` too, unless a
    longer rule allows that."""
    beginning = " ".join(rule.text.casefold().split())
    is_longer = allowed is not None and len(allowed.text) > len(beginning)
    return not is_longer and " ".join(compared).startswith(beginning)


def _find_started_commands(words: Words) -> list[Words]:
    """Find the arguments that are run as commands, split into words."""
    name = words[0].rstrip(programs.VERSION_CHARACTERS) or words[0]
    if name in programs.COMMAND_RUNNERS or words[0] in programs.COMMAND_RUNNERS:
        return [
            split_words_into_parts(words[1:]),
            split_words_into_parts(tuple(_SHORT_OPTION_RE.sub("", word) for word in words[1:])),
        ]
    starters = programs.EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    positions = [at for at, word in enumerate(words) if at and word.partition("=")[0] in starters]
    if len(positions) > _MAX_COMMAND_STARTS:
        return [()] * len(positions)
    return [
        split_words_into_parts((words[at].partition("=")[2], *words[at + 1 :])) for at in positions
    ]


def _can_start_program(words: Words) -> bool:
    name = programs.normalize_program_name(words[0])
    return (
        "/" in words[0]
        or name in programs.COMMAND_RUNNERS
        or programs.find_started_program_index(name, words) is not None
    )


def _check_piped_input(line: str) -> Ask | None:
    """Check generated input, which may contain denied commands."""
    for words in find_pipe_receivers(line):
        program = _skip_to_program(words)
        if program and programs.can_execute_input(program):
            return Ask.because(ReasonKind.COMPUTED_INPUT, excerpt=" ".join(program))
    return None


def _has_computed_program(words: Words) -> bool:
    """Whether the shell would compute the name of a program."""
    program = _skip_to_program(words)
    if program and program[0].startswith("-"):
        program = program[1:]  # the line was split within a command: `-exec`
    if not program or program[0] == "[":
        return False
    name = programs.normalize_program_name(program[0])
    if name in programs.COMMAND_RUNNERS:
        return any(_EXPANSION_RE.search(word) for word in program)
    starters = programs.EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    behind = (at + 1 for at, word in enumerate(program[:-1]) if at and word in starters)
    first = next(behind, None)
    if (
        first is not None
        and programs.normalize_program_name(program[first]) in programs.COMMAND_RUNNERS
    ):
        return any(_EXPANSION_RE.search(word) for word in program)
    named_there = (program[at] for at in (0, *(() if first is None else (first, *behind))))
    return any(_EXPANSION_RE.search(word) for word in named_there)


def _skip_to_program(words: Words) -> Words:
    """Skip to the name of the program in a part of a line."""
    at = 0
    while at < len(words) and (words[at] in RESERVED_WORDS or _ASSIGNMENT_RE.match(words[at])):
        at += 1
    return words[at:]


def _match_started_command(words: Words, denied: Words) -> DenyMatch:
    """Find a denied command among the words that are run."""
    if not denied:
        return DenyMatch.NONE
    positions = [at for at, word in enumerate(words) if word.startswith(denied[0])]
    if len(positions) > _MAX_COMMAND_STARTS:
        return DenyMatch.POSSIBLE
    return max((match_deny_rule(words[at:], denied) for at in positions), default=DenyMatch.NONE)


def _doubt(kind: ReasonKind, rule: CommandRule, words: Words) -> Ask:
    return Ask.because(kind, rule=rule.text, excerpt=" ".join(words))
