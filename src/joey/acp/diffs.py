"""Changes of files as editors draw them: the text before and after, one pair for each hunk.

The engine's events carry unified diffs with a few lines around each change. A pair holds the lines
of one hunk; of a file that is new, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NEW_FILE = "--- /dev/null"


class Change(Struct, frozen=True):
    path: str
    old: str | None
    """None: the file is new."""
    new: str
    line: int
    """Where the change begins, in the file as it will be."""


def changes_of(path: str | None, diff: str | None, row: dict[str, Any]) -> list[Change]:
    """What a call is about to change. `row` tells of several files where `path` names none."""
    if path is not None:
        return list(_changes(path, diff or ""))
    batch = row.get("batchDiffs")
    listed = batch if isinstance(batch, list) else []
    files = ((str(one.get("path")), str(one.get("content") or "")) for one in listed)
    return [change for name, text in files for change in _changes(name, text)]


def with_exact_end(changes: Iterable[Change], words: Iterable[str]) -> list[Change]:
    """Whether a new file ends with a line break is in the model's own `words`, not in a diff."""
    exact = {word.replace("\r\n", "\n") for word in words}
    return [
        Change(one.path, None, one.new[:-1], one.line)
        if one.old is None and one.new not in exact and one.new[:-1] in exact
        else one
        for one in changes
    ]


def _changes(path: str, diff: str) -> Iterator[Change]:
    is_new = diff.startswith(_NEW_FILE)
    hunk: _Lines | None = None
    for line in diff.split("\n"):
        if found := _HUNK.match(line):
            if hunk is not None:
                yield hunk.change(path, is_new=is_new)
            hunk = _Lines(max(1, int(found[2])))
        elif hunk is not None:
            hunk.add(line)
    if hunk is not None:
        yield hunk.change(path, is_new=is_new)
    elif is_new:
        yield Change(path, None, "", 1)


class _Lines:
    def __init__(self, start: int) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self._start = start
        self._first: int | None = None

    def add(self, line: str) -> None:
        sign, text = line[:1], line[1:]
        if sign in ("-", "+") and self._first is None:
            self._first = self._start + len(self._new)
        if sign in (" ", "-"):
            self._old.append(text)
        if sign in (" ", "+"):
            self._new.append(text)

    def change(self, path: str, *, is_new: bool) -> Change:
        old, new = ("".join(f"{line}\n" for line in lines) for lines in (self._old, self._new))
        return Change(path, None if is_new else old, new, self._first or self._start)
