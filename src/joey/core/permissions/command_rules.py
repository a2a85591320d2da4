"""Command rules, and how they match the words of a command.

Allow rules match word by word. Deny rules match a command in any spelling: options may be anywhere,
bundled or separate, short or long; the name of a program may include its version or its first
argument. A certain match is refused, a possible one needs approval.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from msgspec import Struct

from joey.core.permissions.policy import ALLOW_ALL_RULE
from joey.core.permissions.programs import VERSION_CHARACTERS, normalize_program_name
from joey.core.permissions.shell import Words, parse_plain_commands, split_words_into_parts


class CommandRule(Struct, frozen=True):
    text: str
    words: Words
    mention_parts: Words = ()
    """Deny rules: what to look for among the arguments of other programs."""

    def has_mention_in(self, parts: Words) -> bool:
        if not self.mention_parts:
            return False
        rest = iter(parts)
        return "-".join(self.mention_parts) in parts or all(
            word in rest for word in self.mention_parts
        )


CommandRules = tuple[CommandRule, ...]


@lru_cache(maxsize=32)
def parse_allow_rules(texts: tuple[str, ...]) -> CommandRules:
    return tuple(CommandRule(text, words) for text in texts if (words := _parse_allow_rule(text)))


@lru_cache(maxsize=32)
def parse_deny_rules(texts: tuple[str, ...]) -> CommandRules:
    """Parse rules in any notation; `*`, which matches everything, has no words."""
    found: list[CommandRule] = []
    for text in filter(str.strip, texts):
        plain = tuple(word for word in text.split() if word != ALLOW_ALL_RULE)
        words = normalize_command(_parse_allow_rule(text) or plain)
        found.append(CommandRule(text, words, split_words_into_parts(words)))
    return tuple(found)


def find_longest_match(words: Words, allowing: CommandRules) -> CommandRule | None:
    # Without a terminal, `git --no-pager log` is `git log`.
    shown = ("git", *words[2:]) if words[:2] == ("git", "--no-pager") else words
    fitting = (
        rule
        for rule in allowing
        if rule.words[0] == words[0]
        and rule.words in (words[: len(rule.words)], shown[: len(rule.words)])
    )
    return max(fitting, key=lambda rule: len(rule.words), default=None)


def normalize_command(words: Words) -> Words:
    """Normalize words for deny rules: the program without its directory, all in lower case."""
    if not words:
        return ()
    return (normalize_program_name(words[0]), *(word.casefold() for word in words[1:]))


def _parse_allow_rule(rule: str) -> Words:
    """Parse an allow rule; a rule that is not one plain command has no words and matches
    nothing."""
    commands = parse_plain_commands(rule)
    return commands[0] if commands is not None and len(commands) == 1 else ()


def _parse_aliases(text: str) -> dict[str, str]:
    """Parse lines with a name and its synonyms."""
    rows = (line.split() for line in text.strip().splitlines())
    return {other: name for name, *others in rows for other in others}


_NPM_SUBCOMMAND_ALIASES = _parse_aliases("""
    install add i in ins inst insta instal isnt isnta isntal isntall
    uninstall unlink remove rm r un
    update up upgrade udpate
    run run-script rum urn
    test t tst
    exec x
    ci clean-install ic install-clean isntall-clean
    install-test it
    link ln
    config c set
    view info show v
""")
_SUBCOMMAND_ALIASES: dict[str, dict[str, str]] = {
    "npm": _NPM_SUBCOMMAND_ALIASES,
    "pnpm": _NPM_SUBCOMMAND_ALIASES,
    "bun": _NPM_SUBCOMMAND_ALIASES,
    "brew": _parse_aliases("uninstall remove rm\nupgrade up"),
    "dnf": _parse_aliases("remove erase\nupgrade update"),
    "git": _parse_aliases("add stage"),
    "yum": _parse_aliases("remove erase\nupgrade update"),
}


class DenyMatch(IntEnum):
    NONE = 0
    POSSIBLE = 1
    CERTAIN = 2


def match_deny_rule(words: Words, denied: Words) -> DenyMatch:
    """Match words, both from `normalize_command`."""
    if not denied or words[: len(denied)] == denied:
        return DenyMatch.CERTAIN
    words = _normalize_program_spelling(words, denied)
    if not words or words[0] != denied[0]:
        return DenyMatch.NONE
    aliases = _SUBCOMMAND_ALIASES.get(denied[0], {})
    words = tuple(aliases.get(word, word) for word in words)
    denied = tuple(aliases.get(word, word) for word in denied)
    named = tuple(word for word in denied[1:] if not word.startswith("-"))
    options = tuple(word for word in denied[1:] if word.startswith("-"))
    if denied in (("git", "push", "--force"), ("git", "push", "-f")) and any(
        word.startswith("+") for word in words
    ):
        options = ()  # For git, `+main` is `main` with force.
    given = [word.partition("=")[0] for word in words[1:] if word.startswith("-")]
    matches = (_match_option(option, given) for option in options)
    return min((_match_operands(words, named), *matches))


def _normalize_program_spelling(words: Words, denied: Words) -> Words:
    """Normalize `pip3.11` to `pip`, and `git-push` to `git push`."""
    if not words:
        return ()
    name, denied_program = words[0], denied[0]
    if name != denied_program and name.rstrip(VERSION_CHARACTERS) == denied_program:
        return (denied_program, *words[1:])
    rest = name.removeprefix(f"{denied_program}-")
    if rest != name and len(denied) > 1 and denied[1] in (rest, rest.partition("-")[0]):
        return (denied_program, *rest.split("-"), *words[1:])
    return words


def _match_operands(words: Words, denied_operands: Words) -> DenyMatch:
    """Whether the words follow each other; options with values may be between them."""
    found = DenyMatch.CERTAIN
    at = 1
    for name in denied_operands:
        while at < len(words) and words[at] != name:
            is_option = words[at].startswith("-")
            if not is_option and not words[at - 1].startswith("-"):
                break
            at += 1
        if at == len(words):
            return DenyMatch.NONE
        if words[at] != name:
            # Some programs accept abbreviated words.
            if not name.startswith(words[at]):
                return DenyMatch.NONE
            found = DenyMatch.POSSIBLE
        at += 1
    return found


def _match_option(denied_option: str, options: list[str]) -> DenyMatch:
    if denied_option in options:
        return DenyMatch.CERTAIN
    short = {letter for word in options if word[:2] != "--" for letter in word[1:]}
    long = [word for word in options if word[:2] == "--" and len(word) > len("--")]
    initials = short | {word[2] for word in long}
    if denied_option.startswith("--"):
        begun = any(denied_option.startswith(word) for word in long)
        is_near = denied_option[2:3] in short or any(
            word.startswith(denied_option) for word in long
        )
        return DenyMatch.CERTAIN if begun else DenyMatch.POSSIBLE if is_near else DenyMatch.NONE
    if short.issuperset(denied_option[1:]):
        return DenyMatch.CERTAIN
    return DenyMatch.POSSIBLE if initials.issuperset(denied_option[1:]) else DenyMatch.NONE
