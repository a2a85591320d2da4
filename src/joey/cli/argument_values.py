"""Values of flags, as people write them, and the parser that reads them."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from joey.cli.exit_codes import UsageError


class Parser(argparse.ArgumentParser):
    """Errors are ours to print, with our exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


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
