"""What can be written next, read from the parsers themselves: a new command or flag completes
without another entry anywhere.

Words of a command line go in, the last of them unfinished; candidates come out. What stands
behind a flag or in a place is known by its metavar (see `completion_values`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from joey.cli.arguments import COMMANDS, run_parser
from joey.cli.command_arguments import COMMAND_PARSERS
from joey.cli.completion_values import Files, Place, values_of

HELP = "help"
REPEATED = (argparse._AppendAction,)


class Candidate(Struct, frozen=True):
    value: str
    about: str = ""


class Completion(Struct, frozen=True):
    candidates: tuple[Candidate, ...] = ()
    files: Files = Files.NONE
    """What of the disk fits too; that is the shell's own business."""


def complete(words: Sequence[str]) -> Completion:
    """`words` are those behind `joey`; the last is being written, and may be empty."""
    *before, current = words or [""]
    if not before and not current.startswith("-"):
        return _among(current, [*_commands(), Candidate(HELP, "the options of a command")])
    if before[:1] == [HELP]:
        return _among(current, _commands()) if len(before) == 1 else Completion()
    walk = _Walk(before)
    if walk.parser is None:
        return Completion()
    if walk.wanting is not None:
        return _values(walk, walk.wanting, current)
    if not walk.ended and current.startswith("--") and "=" in current:
        flag, _, value = current.partition("=")
        action = walk.parser._option_string_actions.get(flag)
        return Completion() if action is None else _values(walk, action, value, f"{flag}=")
    if not walk.ended and current.startswith("-"):
        return _among(current, walk.flags())
    return _words(walk, current)


class _Walk:
    """Through the words that are complete: which parser reads the next one, and what it wants."""

    def __init__(self, words: Sequence[str]) -> None:
        first, rest = (words[0], words[1:]) if words and words[0] in COMMANDS else ("", words)
        self.parser: argparse.ArgumentParser | None = (
            COMMAND_PARSERS[first]() if first else run_parser()
        )
        self.wanting: argparse.Action | None = None
        """The flag whose value comes next."""
        self.ended = False
        """`--` was written: no flags from there on."""
        self.words: list[str] = []
        self.given: dict[str, str] = {}
        """Values of flags, by their longest names."""
        self.used: set[str] = set()
        for word in rest:
            if self.parser is None:
                return
            self._take(self.parser, word)

    def _take(self, parser: argparse.ArgumentParser, word: str) -> None:
        if self.wanting is not None and not (_is_greedy(self.wanting) and word.startswith("-")):
            self.given[self.wanting.dest] = word
            if not _is_greedy(self.wanting):
                self.wanting = None
        elif self.ended or not word.startswith("-") or word == "-":
            self._take_word(parser, word)
        elif word == "--":
            self.wanting, self.ended = None, True
        else:
            self._take_flag(parser, word)

    def _take_flag(self, parser: argparse.ArgumentParser, word: str) -> None:
        flag, is_joined, value = word.partition("=")
        action = parser._option_string_actions.get(flag)
        self.wanting = None
        if action is None:
            return
        self.used |= set(action.option_strings)
        if is_joined:
            self.given[action.dest] = value
        elif _takes_value(action):
            self.wanting = action

    def _take_word(self, parser: argparse.ArgumentParser, word: str) -> None:
        if (below := _below(parser)) is not None:
            self.parser = below.get(word)
            self.words = []
        else:
            self.words.append(word)

    def flags(self) -> Iterator[Candidate]:
        """Those that may still be written, by their long names first."""
        assert self.parser is not None
        for action in self.parser._actions:
            if action.help == argparse.SUPPRESS or not action.option_strings:
                continue
            if isinstance(action, REPEATED) or not self.used & set(action.option_strings):
                about = _plain(action.help)
                yield from (Candidate(flag, about) for flag in reversed(action.option_strings))


def _words(walk: _Walk, current: str) -> Completion:
    assert walk.parser is not None
    if (below := _below(walk.parser)) is not None:
        return _among(current, (Candidate(name, _about(each)) for name, each in below.items()))
    places = walk.parser._get_positional_actions()
    number = len(walk.words)
    if number < len(places):
        return _values(walk, places[number], current)
    if places and _is_greedy(places[-1]):
        return _values(walk, places[-1], current)
    return Completion()


def _values(walk: _Walk, action: argparse.Action, current: str, before: str = "") -> Completion:
    if action.choices is not None:
        found = [Candidate(str(choice)) for choice in action.choices]
        return _among(current, found, before)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    prog = walk.parser.prog if walk.parser is not None else ""
    place = Place(metavar, current, tuple(walk.words), walk.given, prog, action.dest)
    offered, files = values_of(place)
    return _among(current, (Candidate(*each) for each in offered), before, files)


def _among(
    current: str,
    candidates: Iterator[Candidate] | Sequence[Candidate],
    before: str = "",
    files: Files = Files.NONE,
) -> Completion:
    fitting = (each for each in candidates if each.value.startswith(current))
    return Completion(tuple(Candidate(before + each.value, each.about) for each in fitting), files)


def _commands() -> list[Candidate]:
    return [Candidate(name, _about(make())) for name, make in COMMAND_PARSERS.items()]


def _below(parser: argparse.ArgumentParser) -> dict[str, Any] | None:
    """The parsers of a command's actions; None where there are none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _about(parser: argparse.ArgumentParser) -> str:
    return _plain((parser.description or "").partition(". ")[0].partition(": ")[0])


def _plain(text: str | None) -> str:
    return (text or "").replace("%%", "%").rstrip(".")


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _is_greedy(action: argparse.Action) -> bool:
    return action.nargs in ("*", "+")
