"""Values of flags, as people write them, and the parser that reads them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from joey.cli.exit_codes import UsageError


class Parser(argparse.ArgumentParser):
    """Errors are ours to print, with our exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class ActionParser(Parser):
    """Of one action of a command: its words and flags may stand in any order, and what it does
    not know is its own to complain about."""

    _is_mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if self._is_mixing or args is None:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            read = super().parse_known_args if "--" in args else self.parse_known_intermixed_args
            parsed, unknown = read(args, namespace)
        finally:
            self._is_mixing = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def money(text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+", text, re.ASCII) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars")
    return float(text)


def duration(text: str) -> float:
    match = re.fullmatch(r"(\d*\.?\d+)([smh]?)", text, re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90, 90s, 10m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
