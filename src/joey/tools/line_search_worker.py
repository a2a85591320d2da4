"""The child process of `search_lines`: a request on stdin, the matching lines on stdout.

A module of its own because it runs by its path in a process of its own, apart from the package: it
imports the standard library only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

_MAX_LINE_BYTES = 64 * 1024
"""Longer lines are searched and shown in pieces."""


def search(path: str, pattern: str, limit: int) -> dict[str, object]:
    """All matches are counted; the first ones are shown until `limit` bytes are used up."""
    expression = _compile_pattern(pattern)
    matches = ((number, line) for number, line in _iter_lines(path) if expression.search(line))
    shown: list[tuple[int, str]] = []
    total, room = 0, limit
    for number, line in matches:
        total += 1
        size = len(line.encode()) + 1
        if size <= room:
            shown.append((number, line))
        elif not shown:
            shown.append((number, line.encode()[:room].decode(errors="ignore")))
        room = room - size if size <= room else 0
    return {"total": total, "lines": shown}


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError):
        return re.compile(re.escape(pattern), re.IGNORECASE)


def _iter_lines(path: str) -> Iterator[tuple[int, str]]:
    number = 1
    with open(path, "rb") as file:  # noqa: PTH123 (pathlib would double the start-up time)
        while raw := file.readline(_MAX_LINE_BYTES):
            yield number, raw.decode(errors="replace").rstrip("\r\n")
            number += raw.endswith(b"\n")


if __name__ == "__main__":
    json.dump(search(**json.load(sys.stdin)), sys.stdout)
