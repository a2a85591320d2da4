"""What `joey tasks list` and `search` look for, and the index they ask."""

from __future__ import annotations

import argparse
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TextIO

from joey.cli.argument_values import count
from joey.core.text import regex
from joey.presentation.text import columns, sanitise, wrap

if TYPE_CHECKING:
    from joey.ports.storage import TaskIndex, TaskQuery

STATUSES = ("completed", "failed", "interrupted", "running", "waiting", "delegated")
_WORTH_A_WORD = 200
"""Tasks; fewer are read before anybody could read about it."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = regex(rf"(\d{{1,6}})([{''.join(_UNITS)}])", re.ASCII)


def add_filters(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--number", metavar="N", type=count, default=20, help="how many (20)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
    where.add_argument("--all", action="store_true", help="of all folders")
    add("--status", choices=STATUSES, metavar="S", help=", ".join(STATUSES))
    add("--since", metavar="WHEN", type=moment, help="changed since: 2026-01-31, 36h, 7d, 2w")
    add("--refresh", action="store_true", help="look at every task folder, however many there are")
    add("--json", action="store_true", help="as a JSON array")


def moment(text: str) -> int:
    """A day, a time, or so long ago; in milliseconds since 1970."""
    try:
        if ago := _AGO.fullmatch(text):
            when = datetime.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            when = datetime.fromisoformat(text)
        return max(0, int(when.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a day such as 2026-01-31, nor a time such as 36h, 7d or 2w"
        ) from None


def query_of(arguments: Namespace, workspace: str | None, words: str | None = None) -> TaskQuery:
    # Every command reads this file for its flags; only those that look for tasks come here.
    from joey.ports.storage import TaskQuery

    return TaskQuery(
        words=words,
        workspace=workspace,
        status=arguments.status,
        since=arguments.since,
        limit=arguments.number,
    )


@contextmanager
def opened_index() -> Iterator[TaskIndex]:
    """The index of tasks; a person sees how it is filled, and hears what was wrong with it."""
    from joey.app import open_task_index

    line = _Line(sys.stderr)
    index = open_task_index(progress=line.tell if columns(sys.stderr) else None)
    try:
        yield index
    finally:
        line.clear()
        index.close()
        for notice in index.notices:
            text = sanitise(f"joey: {notice}")
            print(wrap(text, columns(sys.stderr)), file=sys.stderr)


class _Line:
    """`indexing 1,200 of 100,000…`, drawn over itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = False

    def tell(self, done: int, total: int) -> None:
        if total < _WORTH_A_WORD:
            return
        self._drawn = True
        self._stream.write(f"\r\x1b[Kindexing {done:,} of {total:,}…")
        self._stream.flush()
        if done == total:
            self.clear()

    def clear(self) -> None:
        if self._drawn:
            self._drawn = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()
