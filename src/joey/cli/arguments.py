"""Argument parser and value types that the command line and all commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from joey.cli.exit_codes import UsageError
from joey.core.suggest import find_closest_name

EDIT_SETTINGS_COMMAND = '$EDITOR "$(joey config path)"'


class CliHelpFormatter(argparse.HelpFormatter):
    """One paragraph is wrapped; what has lines of its own stays as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class CliArgumentParser(argparse.ArgumentParser):
    """Errors are ours to print, with our exit code, and with what was probably meant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**(options | {"formatter_class": CliHelpFormatter}))

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"{message}{self._format_flag_suggestion(message)} (see {self.prog} --help)"
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = find_closest_name(str(value), choices)
        meant = f"; did you mean {near}?" if near else f": it can be {', '.join(choices)}"
        if self.prog == "joey config" and value == "edit":
            meant = f": use {EDIT_SETTINGS_COMMAND}"
        raise argparse.ArgumentError(action, f"there is no {str(value)!r} here{meant}")

    def _format_flag_suggestion(self, message: str) -> str:
        """The flag that is nearest to one that nobody knows."""
        _, found, rest = message.partition("unrecognized arguments: ")
        unknown = rest.split(" ")[0].partition("=")[0]
        if not found or not unknown.startswith("--"):
            return ""
        near = find_closest_name(unknown, _iter_flags(self))
        return f"; did you mean {near}?" if near else ""


class SubcommandParser(CliArgumentParser):
    """Of one action of a command: its words and flags may stand in any order, and what it does
    not know is its own to complain about."""

    _is_parsing_intermixed = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if self._is_parsing_intermixed or args is None:
            return super().parse_known_args(args, namespace)
        self._is_parsing_intermixed = True
        try:
            read = super().parse_known_args if "--" in args else self.parse_known_intermixed_args
            parsed, unknown = read(args, namespace)
        finally:
            self._is_parsing_intermixed = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def _iter_flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Its own, and those of its actions, on whose behalf it complains."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _iter_flags(inner)
        elif action.help != argparse.SUPPRESS:
            yield from action.option_strings


def format_sentence(text: str) -> str:
    """A line of a list, as it stands alone."""
    return f"{text[:1].upper()}{text[1:]}."


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def parse_dollars(text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+", text, re.ASCII) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars")
    return float(text)


def parse_duration(text: str) -> float:
    match = re.fullmatch(r"(\d*\.?\d+)([smh]?)", text, re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90, 90s, 10m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
