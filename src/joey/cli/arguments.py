"""Argument parser and value types that the command line and all commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from joey.cli.exit_codes import UsageError
from joey.core.suggest import find_closest_name
from joey.core.text import compile_regex

_TIME_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RELATIVE_TIME_RE = compile_regex(rf"(\d{{1,6}})([{''.join(_TIME_UNITS)}])", re.ASCII)
_UUID_RE = compile_regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
EDIT_SETTINGS_COMMAND = '$EDITOR "$(joey config path)"'

_PEER_FLAGS = {
    "--allowed-tools": "--allow",
    "--allowedTools": "--allow",
    "--cd": "-w",
    "-C": "-w",
    "--dangerously-skip-permissions": "-y",
    "--disallowed-tools": "--deny",
    "--disallowedTools": "--deny",
    "--full-auto": "-y",
    "--message": "-p",
    "--permission-mode": "-y, --allow-writes or --mode architect",
    "--verbose": "--debug",
    "-v": "--version",
    "-V": "--version",
    "--yes-always": "-y",
    "--yolo": "-y",
}
"""Flags of other agents, and what does the same here."""


class CliHelpFormatter(argparse.HelpFormatter):
    """Wraps single paragraphs; text with its own line breaks stays unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class CliArgumentParser(argparse.ArgumentParser):
    """Reports errors with joey's exit code and suggests the closest match."""

    default_action = ""
    """The action of a command that is given none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**(options | {"formatter_class": CliHelpFormatter}))

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        names_none = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
        if self.default_action and names_none:
            args = [self.default_action, *args]
        return super().parse_args(args)

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
        raise argparse.ArgumentError(action, f"{str(value)!r} is not available{meant}")

    def _format_flag_suggestion(self, message: str) -> str:
        """Suggest the flag closest to an unknown one."""
        _, found, rest = message.partition("unrecognized arguments: ")
        unknown = rest.split(" ")[0].partition("=")[0]
        if not found or not unknown.startswith("-"):
            return ""
        if self.prog == "joey" and unknown == "--sandbox":
            return "; commands are sandboxed without it"
        near = _PEER_FLAGS.get(unknown) if self.prog == "joey" else None
        if near is None and unknown.startswith("--"):
            near = find_closest_name(unknown, _iter_flags(self))
        return f"; did you mean {near}?" if near else ""


class TrailingCommandParser(CliArgumentParser):
    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """Parse arguments; after `--` comes another program's command line, which is kept as it
        is."""
        end = args.index("--") if "--" in args else len(args)
        arguments = super().parse_args(args[:end])
        arguments.command_line = [*getattr(arguments, "command_line", ()), *args[end + 1 :]]
        if arguments.command_line and arguments.action not in ("add", "explain", "run"):
            self.error(f"{self.prog} {arguments.action} takes no command after --")
        return arguments


class SubcommandParser(CliArgumentParser):
    """Parser of one action of a command: arguments and flags may be in any order, and it reports
    unknown ones itself."""

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
    """Iterate over its own flags and those of its actions, for which it reports errors."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _iter_flags(inner)
        elif action.help != argparse.SUPPRESS:
            yield from action.option_strings


Argument = tuple[str, str] | tuple[str, str, str] | tuple[str, str, str | None, Mapping[str, Any]]
"""Names, help, metavar and further options of a flag or a positional argument. A flag with
neither metavar nor choices is a switch."""
Row = Argument | list[Argument]
"""An argument, or several of which only one may be given."""
DEBUG: Argument = ("--debug", argparse.SUPPRESS)
MODEL_FLAGS: tuple[Argument, ...] = (
    ("-m --model", "which model (see joey models)", "MODEL"),
    ("--provider", "anthropic, openai, openrouter, ollama…", "PROVIDER"),
    ("--base-url", "another address of the provider", "URL"),
    ("--profile", "a profile (see joey profiles)", "PROFILE"),
)
REPEATABLE: Mapping[str, Any] = {"action": "append", "default": []}


def add_arguments(container: argparse._ActionsContainer, rows: Iterable[Row]) -> None:
    for row in rows:
        if isinstance(row, list):
            add_arguments(container.add_mutually_exclusive_group(), row)
            continue
        options: dict[str, Any] = dict(row[3]) if len(row) == 4 else {}
        if len(row) > 2 and row[2] is not None:
            options["metavar"] = row[2]
        elif row[0].startswith("-") and "choices" not in options:
            options["action"] = "store_true"
        container.add_argument(*row[0].split(), help=row[1], **options)


class Action(NamedTuple):
    """An action of a command (`joey COMMAND ACTION`): its help line and its arguments."""

    about: str
    arguments: Sequence[Row] = ()
    description: str | None = None
    """Default: the line of the list, as a sentence."""
    epilog: str | None = None


class Command(NamedTuple):
    about: str
    arguments: Sequence[Row] = ()
    actions: Mapping[str, Action] = {}
    epilog: str | None = None
    parser_class: type[CliArgumentParser] = CliArgumentParser
    action_class: type[CliArgumentParser] = SubcommandParser
    default_action: str = "list"
    """Where there is an action of this name."""


def build_parser(name: str, command: Command) -> CliArgumentParser:
    parser = command.parser_class(
        prog=f"joey {name}", description=command.about, epilog=command.epilog, allow_abbrev=False
    )
    add_arguments(parser, command.arguments)
    if not command.actions:
        return parser
    if command.default_action in command.actions:
        parser.default_action = command.default_action
    actions = parser.add_subparsers(
        dest="action",
        required=True,
        metavar="|".join(command.actions),
        parser_class=command.action_class,
    )
    for word, action in command.actions.items():
        inner = actions.add_parser(
            word,
            help=action.about + (" (default)" if word == parser.default_action else ""),
            description=action.description or f"{action.about[:1].upper()}{action.about[1:]}.",
            epilog=action.epilog,
            allow_abbrev=False,
        )
        add_arguments(inner, (DEBUG, *action.arguments))
    return parser


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text!r}")
    return int(text)


def parse_limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def parse_uuid(text: str) -> str:
    if not _UUID_RE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID")
    return text.lower()


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


def parse_age(text: str) -> int:
    """Parse an age into milliseconds."""
    if (match := _RELATIVE_TIME_RE.fullmatch(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 36h, 30d or 4w")
    return int(match[1]) * {"m": 1, "h": 60, "d": 1440, "w": 10080}[match[2]] * 60_000


def parse_time_ms(text: str) -> int:
    """Parse a date, a time or an age into milliseconds since 1970."""
    from datetime import datetime, timedelta

    try:
        if ago := _RELATIVE_TIME_RE.fullmatch(text):
            when = datetime.now() - timedelta(**{_TIME_UNITS[ago[2]]: int(ago[1])})
        else:
            when = datetime.fromisoformat(text)
        return max(0, int(when.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date such as 2026-01-31 or an age such as 36h, 7d or 2w"
        ) from None
