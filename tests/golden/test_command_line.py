"""Flags, arguments and exit codes of `joey` and its commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from tests.golden import homes
from tests.golden.golden import ROOT, check_json

FAILURES = (
    *("mistakes", "declined", "schema", "turns", "calls", "budget", "tokens", "time", "internal"),
    *(f"provider:{problem}" for problem in homes.PROVIDER_PROBLEMS),
)


def described(
    name: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The arguments of a parser and of all below it, by how a command line begins."""
    nested = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    exclusive = [
        ["/".join(action.option_strings) for action in group._group_actions]
        for group in parser._mutually_exclusive_groups
    ]
    yield (
        name,
        [argument(each) for each in parser._actions]
        + [{"only one of": group} for group in exclusive],
    )
    for action in nested:
        for word, inner in action.choices.items():
            yield from described(f"{name} {word}", inner)


def argument(action: argparse.Action) -> dict[str, Any]:
    about = {
        "options": list(action.option_strings),
        "metavar": action.metavar,
        "nargs": action.nargs,
        "choices": None if action.choices is None else [str(each) for each in action.choices],
        "default": repr(action.default),
        "const": repr(action.const),
        "required": action.required,
        "hidden": action.help == argparse.SUPPRESS,
        "checked": action.type is not None,
        "repeatable": isinstance(action, argparse._AppendAction),
    }
    usual = {"default": "None", "const": "None"}
    return {key: value for key, value in about.items() if value and value != usual.get(key)}


def test_every_flag_and_argument_is_the_same() -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, parser in homes.parsers().items():
        found.update(described(name, parser))
    check_json("command_line/arguments.json", found)


def test_the_exit_codes_are_the_same() -> None:
    codes = {name: int(code) for name, code in homes.EXIT_CODES.items()}
    failures = {code: homes.exit_code_of_failure(code) for code in FAILURES}
    assert sorted(codes.values()) == homes.ALL_EXIT_CODES
    check_json("command_line/exit_codes.json", {"codes": codes, "of failures": failures})


def test_the_exit_codes_are_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    _, _, section = text.partition("\n## Exit codes\n")
    rows = re.findall(r"^\| ([\d, ]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    documented = sorted(int(code) for row in rows for code in row.split(", "))
    assert documented == homes.ALL_EXIT_CODES
