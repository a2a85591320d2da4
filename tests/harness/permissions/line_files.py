"""Hostile lines that were thought of one by one, in files with a line each.

`lines/looking.txt` has commands of programs that look, told to do more; escapes stand for what they
mean in lines that begin with `E:`. `lines/asked.txt` has lines that must be asked when only the
rules before `@@` allow anything; `lines/usual.txt` has commands with the options that READMEs and
CI files usually give them, which run unasked under theirs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

_LINES_DIRECTORY = Path(__file__).parent / "lines"
_ESCAPE_PREFIX = "E:"
_RULES_SEPARATOR = "@@"


def load_misuse_lines() -> Iterator[str]:
    for line in (_LINES_DIRECTORY / "looking.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(_ESCAPE_PREFIX):
            bytes_of = line.removeprefix(_ESCAPE_PREFIX).encode().decode("unicode_escape")
            yield bytes_of.encode("latin-1").decode()
        else:
            yield line


def list_misused_programs() -> tuple[str, ...]:
    """A rule for each program that the lines are about."""
    names = {words[0].strip("'\"") for line in load_misuse_lines() if (words := line.split())}
    return tuple(sorted(name for name in names if name.replace("-", "").isalnum()))


def load_asked_lines() -> Iterator[tuple[tuple[str, ...], str]]:
    return _load_lines_with_rules("asked.txt")


def load_usual_lines() -> Iterator[tuple[tuple[str, ...], str]]:
    return _load_lines_with_rules("usual.txt")


def _load_lines_with_rules(name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for line in (_LINES_DIRECTORY / name).read_text(encoding="utf-8").splitlines():
        rules, _, command = line.partition(f" {_RULES_SEPARATOR} ")
        yield tuple(rules.split(", ")), command


def load_project_lines() -> Iterator[tuple[str, tuple[str, ...]]]:
    for lines in load_projects().values():
        yield from ((line, tuple(rules)) for line, rules in lines.items())


def load_projects() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads((_LINES_DIRECTORY / "projects.toml").read_text(encoding="utf-8"))
