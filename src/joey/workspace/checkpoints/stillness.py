"""What has changed in a workspace since it was last looked at, told without git.

Most steps change nothing or little, and in a small folder a look at the times of all that is in
it, but for what git ignores as a whole, takes less than starting a program. Of a larger one
nothing is said.

A time tells of a change only when it is older than the look by more than a tick of the clock
that files are stamped with: something written in the same tick would look the same. Files that
are fresher count as changed the next time, whatever their times say then.
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

_Facts = tuple[int, int, int, int, int]


class Glance(Struct, frozen=True):
    """All files of the workspace, by kind, size and times."""

    files: dict[bytes, _Facts]
    fresh: frozenset[bytes]
    """Those whose times say nothing yet."""
    rules: bytes
    """By which files from above the workspace are left out."""

    def changed_since(self, earlier: Glance) -> set[bytes]:
        """Files that are not certain to be as they were."""
        if self.files == earlier.files:
            return set(earlier.fresh)
        different = self.files.items() ^ earlier.files.items()
        return {path for path, _ in different} | earlier.fresh


def glance(root: Path, passed_over: frozenset[bytes]) -> Glance | None:
    """Blocks for some milliseconds at most. None: there is too much. Folders that are passed over
    are named by whole paths. Raises OSError: it cannot be looked into, or changes just now."""
    now = time.time_ns()
    files: dict[bytes, _Facts] = {}
    fresh: list[bytes] = []
    top = os.fsencode(root)
    pending, count = [top], 0
    while pending:
        with os.scandir(pending.pop()) as found:
            for entry in found:
                count += 1
                if count > MOST_ENTRIES:
                    return None
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    # A repository's own folder says nothing about the files beside it.
                    if entry.name != b".git" and entry.path not in passed_over:
                        pending.append(entry.path)
                    continue
                path = entry.path[len(top) + 1 :]
                files[path] = _of(facts)
                if not _settled(facts, now):
                    fresh.append(path)
    return Glance(files, frozenset(fresh), rules_text(root))


def _settled(facts: os.stat_result, now: int) -> bool:
    tick = _TICK if facts.st_ctime_ns % _COARSE else _COARSE_TICK
    return now - facts.st_ctime_ns > tick


def _of(facts: os.stat_result) -> _Facts:
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
