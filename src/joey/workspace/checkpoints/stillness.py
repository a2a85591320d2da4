"""Whether anything in a workspace has changed since it was last kept, told without git.

Most steps change nothing, and in a small folder a look at the times of all that is in it takes
less than starting a program. Of a larger one nothing is said.

A time tells of a change only when it is older than the look by more than a tick of the clock
that files are stamped with: something written in the same tick would look the same.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from msgspec import Struct

from joey.workspace.checkpoints.rules import rules_text

MOST_ENTRIES = 1_500
_TICK = 20_000_000
_COARSE_TICK = 3_000_000_000
"""Nanoseconds; the second where files are stamped with whole milliseconds, or with seconds."""
_COARSE = 1_000_000

_Facts = tuple[str, int, int, int, int, int]


class Glance(Struct, frozen=True):
    """All that is in the workspace, by name, kind, size and times."""

    entries: tuple[_Facts, ...]
    rules: bytes
    """By which files from above the workspace are left out."""


def glance(root: Path) -> Glance | None:
    """Blocks for some milliseconds at most. None: there is too much, or too fresh, or a folder
    that cannot be looked into."""
    now = time.time_ns()
    entries: list[_Facts] = []
    pending = [str(root)]
    try:
        while pending:
            folder = pending.pop()
            facts = os.lstat(folder)
            if not stat.S_ISDIR(facts.st_mode) or not _settled(facts, now):
                return None
            entries.append(_of(folder, facts))
            with os.scandir(folder) as found:
                for entry in found:
                    facts = entry.stat(follow_symlinks=False)
                    if not _settled(facts, now) or len(entries) + len(pending) > MOST_ENTRIES:
                        return None
                    if stat.S_ISDIR(facts.st_mode):
                        # A repository's own folder says nothing about the files beside it.
                        pending.extend([] if entry.name == ".git" else [entry.path])
                    else:
                        entries.append(_of(entry.path, facts))
        return Glance(tuple(sorted(entries)), rules_text(root))
    except OSError:
        return None  # it changes just now, or git has to say what is wrong with it


def _settled(facts: os.stat_result, now: int) -> bool:
    tick = _TICK if facts.st_ctime_ns % _COARSE else _COARSE_TICK
    return now - facts.st_ctime_ns > tick


def _of(path: str, facts: os.stat_result) -> _Facts:
    return path, facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
