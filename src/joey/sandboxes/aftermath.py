"""Protected names that were not there before a command, anywhere in its workspace.

A folder that has not been changed since holds none. What was moved with the folder that it lies in
is what it was, and stays. A directory that existed but was not surveyed before (beyond the survey's
limit, or unreadable) is not judged: its protected names may have been there all along.
"""

from __future__ import annotations

# ruff: noqa: PTH101, PTH116, PTH123 (`pathlib` takes longer, to load and to use)
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from joey.sandboxes.survey import Folder, Name

_REALTIME_COARSE = 5
"""The clock that file systems take their timestamps from."""


class Aftermath:
    def __init__(
        self, root: str, known: dict[str, Folder], guarded: set[str], left_out: set[str]
    ) -> None:
        """`guarded` are paths that are put back with all that is in them, `left_out` those that the
        person has opened."""
        self._root = root
        self._known = known
        self._guarded = guarded
        self._left_out = guarded | left_out
        self._identities = {
            (inode, changed) for folder in known.values() for _, inode, changed in folder[3]
        }
        self._inodes = {folder[1] for folder in known.values()}
        self._is_complete = "" in known and all(
            path in known for folder in known.values() for path in folder[2]
        )
        self._started = time.clock_gettime_ns(_REALTIME_COARSE)

    def appeared(self) -> list[str]:
        """Paths below the root, those above before those below."""
        root, known, found = f"{self._root}/", self._known.get, list[str]()
        look, pending = os.lstat, [""]
        for path in pending:  # grows while it is walked
            try:
                seen = look(root + path)
                folder = known(path)
                if folder is not None and folder[1] == seen.st_ino:
                    if folder[0] == seen.st_ctime_ns:
                        if folder[2]:
                            pending += filter(self._known.__contains__, folder[2])
                        continue
                elif not stat.S_ISDIR(seen.st_mode) or not self._is_judged(root + path, seen):
                    continue
                else:
                    folder = None  # it is new, or another stands in its place
                prefix = f"{path}/" if path else ""
                folders, names = self._read(root + path, prefix, folder[3] if folder else ())
            except OSError:
                continue  # It went away.
            pending += folders
            found += names
        return found

    def _is_judged(self, place: str, seen: os.stat_result) -> bool:
        """Whether a directory that was not surveyed at this path is new, or was surveyed at
        another path; any other may hold names that have been there all along."""
        if self._is_complete or seen.st_ino in self._inodes:
            return True
        from joey.sandboxes.kernel import birth_time  # ctypes takes its time to load

        born = birth_time(place)
        return born is not None and born >= self._started

    def _read(
        self, place: str, prefix: str, known: tuple[Name, ...]
    ) -> tuple[list[str], list[str]]:
        # Takes its time, and is seldom needed.
        from joey.sandboxes.survey import HEAVY, MOST_NAMES, is_held

        before = {name: inode for name, inode, _ in known}
        folders: list[str] = []
        names: list[str] = []
        with _opened_up(place) as entries:
            for entry in entries:
                if is_held(entry.name):
                    path = prefix + entry.name
                    is_old = before.get(entry.name) == entry.inode() or self._is_known(entry)
                    if path not in self._left_out and not is_old:
                        names.append(path)
                elif entry.name not in HEAVY and entry.is_dir(follow_symlinks=False):
                    folders.append(prefix + entry.name)
        folders = [each for each in folders if each not in self._guarded]
        return folders, names if len(known) < MOST_NAMES else []

    def _is_known(self, entry: os.DirEntry[str]) -> bool:
        found = entry.stat(follow_symlinks=False)
        return (found.st_ino, found.st_ctime_ns) in self._identities


def _opened_up(place: str) -> Any:
    """Also a folder that a command has closed to its owner."""
    try:
        return os.scandir(place)
    except PermissionError:
        folder = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            mode = os.fstat(folder).st_mode
            os.chmod(f"/proc/self/fd/{folder}", mode & 0o7777 | 0o700)
        finally:
            os.close(folder)
        return os.scandir(place)


class Spared:
    """What joey has written itself, with leave: a file with lines of inode, time and path."""

    def __init__(self, record: str) -> None:
        self._record = record

    def covers(self, place: str) -> bool:
        """Whether all that is there is as joey has written it."""
        written = self._read()
        return bool(written) and _all_files(place, lambda *file: file in written)

    def _read(self) -> set[tuple[int, int]]:
        try:
            with open(self._record, encoding="ascii") as file:
                lines = [line.split() for line in file]
        except OSError:
            return set()  # It has written nothing.
        return {(int(line[0]), int(line[1])) for line in lines if len(line) == 2}


def _all_files(place: str, holds: Callable[[int, int], bool]) -> bool:
    found = os.stat(place, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        return stat.S_ISREG(found.st_mode) and holds(found.st_ino, found.st_ctime_ns)
    with os.scandir(place) as entries:
        return all(_all_files(entry.path, holds) for entry in entries)
