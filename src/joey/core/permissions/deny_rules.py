"""Deny rules applied to a command line.

They look through quotes, paths, wrappers, options before a subcommand, and case. About a line that
is not plain they know less, so they are stricter: where a denied command may be hidden, the user
is asked.
"""

from __future__ import annotations

from msgspec import Struct

from joey.core.permissions.hidden_code import (
    code_doubt,
    find_evaluated,
    git_doubt,
    inner_lines,
    made_and_run,
)
from joey.core.permissions.policy import Ask, Deny
from joey.core.permissions.programs import (
    COMMAND_RUNNERS,
    EXEC_ARGUMENTS_BY_PROGRAM,
    VERSION_CHARACTERS,
    carries_out_input,
    concern,
    only_reads,
    program_name,
    started_at,
)
from joey.core.permissions.rules import CommandRule, CommandRules, DenyMatch, longest, meant, named
from joey.core.permissions.shell import (
    RESERVED_WORDS,
    Words,
    fed_commands,
    parts,
    possible_commands,
    unquoted,
    without_redirections,
)
from joey.core.text import regex

_ASSIGNMENT_RE = regex(r"[A-Za-z_]\w*(\[.*\])?\+?=")
_EXPANSION_RE = regex(r"[$*?\[{~]")
_BACKTICKS_RE = regex("`[^`]*`")
"""What it gives may be a part of a word; `$` stands for that."""
_MAX_COMMAND_STARTS = 100
"""Where a command may begin; nobody writes more by hand."""


class DenyRuleChecker(Struct, frozen=True):
    allowing: CommandRules
    refusing: CommandRules

    def of_plain(self, line: str, commands: tuple[Words, ...]) -> Deny | Ask | None:
        """About a line that both readers understand."""
        if not self.refusing:
            return None
        doubt: Ask | None = _fed_doubt(line)
        for words in dict.fromkeys(commands):
            for found in (self._of_command(words), self._of_inner_lines(words)):
                if isinstance(found, Deny):
                    return found
                doubt = doubt or found
        return doubt or self._of_prepared(commands) or self._of_hidden(line, commands)

    def _of_prepared(self, commands: tuple[Words, ...]) -> Ask | None:
        """What one command only prints, another one may keep, and a third one run."""
        if not any(_runs_something(words) for words in commands):
            return None
        for words in commands:
            said = parts(unquoted(words))
            for rule in self.refusing:
                if rule.parts and _has_in_order(said, rule.parts):
                    shown = " ".join(words)
                    return Ask(
                        f"`{shown}` names what rule `{rule.text}` denies beside what runs it"
                    )
        return None

    def of_any(self, line: str) -> Deny | Ask | None:
        """About a line that is not plain."""
        if not self.refusing:
            return None
        commands = (
            *possible_commands(line),
            *possible_commands(without_redirections(line)),
            *possible_commands(_BACKTICKS_RE.sub("$", line)),
        )
        if not commands:
            return Ask("the line holds no command that could be judged")
        doubt: Ask | None = None
        for words in dict.fromkeys(commands):
            program = _program(words)
            if program and isinstance(found := self._of_command(program), Deny):
                return found
            doubt = doubt or self._of_beginning(program)
        if doubt is not None:
            return doubt
        mentioned = {part for words in commands for part in parts(words)}
        for rule in self.refusing:
            if mentioned.intersection((*rule.parts[:1], "-".join(rule.parts))):
                return Ask(f"the line mentions what rule `{rule.text}` denies and cannot be judged")
        if any(_hides_program(words) for words in commands):
            return Ask("what the line runs is known only when it runs")
        return _fed_doubt(line) or self._of_hidden(line, commands)

    def of_computed(self, line: str) -> Ask | None:
        """About code that the line computes."""
        found = find_evaluated(line) if self.refusing else None
        if found is None:
            return None
        return Ask(f"`{found.shown}` {found.by.value}; deny rules cannot see what that runs")

    def _of_beginning(self, words: Words) -> Ask | None:
        if not words:
            return None
        compared, fitting = named(words), longest(words, self.allowing)
        alike = (rule for rule in self.refusing if _begins_alike(compared, rule, fitting))
        rule = next(alike, None)
        return None if rule is None else Ask(f"the line begins like rule `{rule.text}`")

    def _of_hidden(self, line: str, commands: tuple[Words, ...]) -> Ask | None:
        """About what the line brings along, and does not name."""
        programs = tuple(words for each in commands if (words := _program(each)))
        bare = tuple(_program(each) for each in possible_commands(without_redirections(line)))
        if (made := made_and_run(line, tuple(filter(None, bare)))) is not None:
            return Ask(f"what is in `{made}` is known only when it runs")
        reason: str | None = None
        about_git = any(
            rule.words[:1] == ("git",) and len(rule.words) > 1 for rule in self.refusing
        )
        for words in programs:
            reason = reason or code_doubt(words) or (git_doubt(words) if about_git else None)
        return None if reason is None else Ask(reason)

    def _of_command(self, words: Words) -> Deny | Ask | None:
        """About one command, by all rules; a refusal counts more than a doubt."""
        compared = named(words)
        rest = parts(unquoted(compared[1:]))
        started = _started(compared)
        if len(started) > _MAX_COMMAND_STARTS:
            return Ask(f"{compared[0]} starts more than can be judged")
        fitting = longest(words, self.allowing)
        allowed = 0 if fitting is None else len(fitting.words)
        doubt: Ask | None = None
        for rule in self.refusing:
            outranked = allowed > len(rule.words)
            found = DenyMatch.NONE if outranked else meant(compared, rule.words)
            found = max((found, *(_run(place, rule.parts) for place in started)), key=_strength)
            if found is DenyMatch.CERTAIN:
                return _deny(rule, compared)
            if found is DenyMatch.POSSIBLE:
                doubt = doubt or Ask(
                    f"`{' '.join(compared)}` may be what rule `{rule.text}` denies"
                )
            if not outranked and _begins_alike(compared, rule, fitting):
                doubt = doubt or Ask(f"`{' '.join(compared)}` begins like rule `{rule.text}`")
            mentions = rest if outranked else (*parts(compared[:1]), *rest)
            if not doubt and rule.parts and _has_in_order(mentions, rule.parts):
                doubt = _mention(words, compared, rule)
        return doubt

    def _of_inner_lines(self, words: Words) -> Deny | Ask | None:
        """About arguments that another shell may read as a line of its own."""
        doubt: Ask | None = None
        for text in inner_lines(words):
            found = self.of_any(text)
            if isinstance(found, Deny):
                return found
            doubt = doubt or found
        return doubt


def _begins_alike(compared: Words, rule: CommandRule, allowed: CommandRule | None) -> bool:
    """To Roo Code rules are the beginning of a line: its `rm` denies `rmdir` too, unless a longer
    rule allows that."""
    beginning = " ".join(rule.text.casefold().split())
    is_longer = allowed is not None and len(allowed.text) > len(beginning)
    return not is_longer and " ".join(compared).startswith(beginning)


def _mention(words: Words, compared: Words, rule: CommandRule) -> Ask | None:
    """What is named among the arguments may be run by the program, unless it is known to read."""
    if only_reads(words, 1) and concern(words, 1) is None:
        return None
    return Ask(f"`{' '.join(compared)}` mentions what rule `{rule.text}` denies")


def _started(words: Words) -> list[Words]:
    """The arguments that are run as commands, as the words in them."""
    name = words[0].rstrip(VERSION_CHARACTERS) or words[0]
    if name in COMMAND_RUNNERS or words[0] in COMMAND_RUNNERS:
        return [parts(words[1:]), parts(tuple(map(_attached, words[1:])))]
    starters = EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    places = [at for at, word in enumerate(words) if at and word.partition("=")[0] in starters]
    if len(places) > _MAX_COMMAND_STARTS:
        return [()] * len(places)
    return [parts((words[at].partition("=")[2], *words[at + 1 :])) for at in places]


def _attached(word: str) -> str:
    """What may be the value of an option of one letter: `-Srm`."""
    is_short = word.startswith("-") and not word.startswith("--")
    return word[2:] if is_short else word


def _runs_something(words: Words) -> bool:
    name = program_name(words[0])
    return "/" in words[0] or name in COMMAND_RUNNERS or started_at(name, words) is not None


def _fed_doubt(line: str) -> Ask | None:
    """Text that is made while the line runs may name what is denied."""
    for words in fed_commands(line):
        program = _program(words)
        if program and carries_out_input(program):
            shown = " ".join(program)
            return Ask(f"what `{shown}` is given to carry out is known only when it runs")
    return None


def _hides_program(words: Words) -> bool:
    """Would the shell compute the name of what it runs?"""
    program = _program(words)
    if program and program[0].startswith("-"):
        program = program[1:]  # the line was cut within a command: `-exec`
    if not program or program[0] == "[":
        return False
    name = program_name(program[0])
    if name in COMMAND_RUNNERS:
        return any(_EXPANSION_RE.search(word) for word in program)
    starters = EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    behind = (at + 1 for at, word in enumerate(program[:-1]) if at and word in starters)
    first = next(behind, None)
    if first is not None and program_name(program[first]) in COMMAND_RUNNERS:
        return any(_EXPANSION_RE.search(word) for word in program)
    named_there = (program[at] for at in (0, *(() if first is None else (first, *behind))))
    return any(_EXPANSION_RE.search(word) for word in named_there)


def _program(words: Words) -> Words:
    """A piece of a line from the name of its program on."""
    at = 0
    while at < len(words) and (words[at] in RESERVED_WORDS or _ASSIGNMENT_RE.match(words[at])):
        at += 1
    return words[at:]


def _run(words: Words, wanted: Words) -> DenyMatch:
    """Whether what is denied is among the words that are run."""
    if not wanted:
        return DenyMatch.NONE
    places = [at for at, word in enumerate(words) if word.startswith(wanted[0])]
    if len(places) > _MAX_COMMAND_STARTS:
        return DenyMatch.POSSIBLE
    return max((meant(words[at:], wanted) for at in places), key=_strength, default=DenyMatch.NONE)


def _strength(found: DenyMatch) -> int:
    return found.value


def _has_in_order(words: Words, wanted: Words) -> bool:
    rest = iter(words)
    return "-".join(wanted) in words or all(word in rest for word in wanted)


def _deny(rule: CommandRule, words: Words) -> Deny:
    return Deny(rule.text, f"rule `{rule.text}` denies `{' '.join(words)}`")
