"""Protected names in a workspace: the scan for them, and placeholders for those that are absent.

The first scan walks all directories; later ones, before each command, only check each directory's
change time, and read those that have changed. The kernel sets that time: no command can reset it.
Directories that tools fill with thousands of files, and that are not opened as projects, are
skipped.

Nothing can be mounted on a name that does not exist. So while a command runs, an empty directory
has the name, and for the command a read-only one is mounted over it. Other processes see it too, so
this is only done for names where an empty directory has no effect (git ignores an empty `.git`). It
is removed with the last command that needs it. One left by a killed process is recognised by its
date, and reused until it is removed.

Loaded by the supervisor: the standard library only, and little of it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from itertools import chain

from joey.core.protected_paths import PLACEHOLDER_MTIME_S, is_protected

_SKIPPED_DIRECTORY_NAMES = frozenset(
    """
    node_modules bower_components .venv venv site-packages __pycache__ .tox .nox .gradle
    .mypy_cache .ruff_cache .pytest_cache .hypothesis .next .nuxt .svelte-kit .turbo .parcel-cache
    .terraform .bloop .metals .dart_tool .eggs
    """.split()  # noqa: SIM905 (a table is easier to read)
)
"""Not entered; those of them that are protected by name are what a build needs to work at all."""
_UNPROTECTED_NAMES = _SKIPPED_DIRECTORY_NAMES | {"pyvenv.cfg"}
MAX_SCANNED_DIRECTORIES = 4096
MAX_NAMES_PER_DIRECTORY = 2048
_CTIME_SETTLE_NS = 50_000_000
"""Until then a folder may be changed again without being told from before."""

ProtectedName = tuple[str, int, int]
"""A protected name, its inode, and when that was changed last."""
ScannedDirectory = tuple[int, int, tuple[str, ...], tuple[ProtectedName, ...]]
"""When it was changed last (0: look again in any case), its inode, the paths of the folders in it,
and its protected names."""


def is_protected_name(name: str) -> bool:
    return name not in _UNPROTECTED_NAMES and is_protected(name)


def is_scanned(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory that the scan enters."""
    return entry.name not in _SKIPPED_DIRECTORY_NAMES and entry.is_dir(follow_symlinks=False)


class ProtectedPathScanner:
    """Scans one workspace and caches the results."""

    def __init__(self, root: str) -> None:
        self._workspace = root
        self._scanned_directories: dict[str, ScannedDirectory] = {}

    def scan(self) -> dict[str, ScannedDirectory]:
        """List directories by their paths below the root, parents first."""
        root, known, look = f"{self._workspace}/", self._scanned_directories.get, os.lstat
        found: dict[str, ScannedDirectory] = {}
        pending = [""]
        for path in pending:  # grows while it is walked, so that what is deep comes last
            try:
                seen = look(root + path)
                directory = known(path)
                if not directory or directory[0] != seen.st_ctime_ns or directory[1] != seen.st_ino:
                    if not stat.S_ISDIR(seen.st_mode):
                        continue
                    directory = _scan_directory(root + path, path, seen)
                elif directory[3]:
                    # The content of a file may change without a change of its directory.
                    names = (_stat_name(root + path, name) for name, _, _ in directory[3])
                    directory = (*directory[:3], tuple(chain.from_iterable(names)))
            except OSError:
                continue  # It was removed, or is not accessible.
            found[path] = directory
            if directory[2]:
                pending += directory[2][: max(0, MAX_SCANNED_DIRECTORIES - len(pending))]
        self._scanned_directories = found
        return found


def _scan_directory(place: str, path: str, seen: os.stat_result) -> ScannedDirectory:
    directories: list[str] = []
    names: list[ProtectedName] = []
    prefix = f"{path}/" if path else ""
    with os.scandir(place) as entries:
        for entry in entries:
            if is_protected_name(entry.name):
                if len(names) < MAX_NAMES_PER_DIRECTORY:
                    names += _stat_name(place, entry.name)
            elif is_scanned(entry):
                directories.append(prefix + entry.name)
    is_settled = time.time_ns() - seen.st_ctime_ns > _CTIME_SETTLE_NS
    changed = seen.st_ctime_ns if is_settled else 0
    return changed, seen.st_ino, tuple(sorted(directories)), tuple(sorted(names))


def _stat_name(place: str, name: str) -> list[ProtectedName]:
    try:
        found = os.stat(f"{place}/{name}", follow_symlinks=False)
    except FileNotFoundError:
        return []  # It went away.
    return [(name, found.st_ino, found.st_ctime_ns)]


_MAX_CREATE_ATTEMPTS = 10
_OPEN_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class MountPlaceholders:
    def __init__(self, root: str) -> None:
        self._workspace = root
        self._locked_descriptors: dict[str, int] = {}

    def acquire(self, path: str) -> bool:
        """Occupy a name below the root; False if it is, or stays, in other use."""
        for _ in range(_MAX_CREATE_ATTEMPTS):
            try:
                _create_placeholder(f"{self._workspace}/{path}")
                descriptor = os.open(f"{self._workspace}/{path}", _OPEN_DIRECTORY_FLAGS)
            except OSError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            is_ours = _is_placeholder_stat(os.fstat(descriptor))
            if is_ours and self._is_same_directory(path, descriptor):
                self._locked_descriptors[path] = descriptor
                return True
            os.close(descriptor)
            if not is_ours:
                return False  # otherwise another process has just removed it
        return False

    def release(self) -> None:
        """Release names that no other command occupies."""
        for path, descriptor in self._locked_descriptors.items():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_placeholder_stat(os.fstat(descriptor)) and self._is_same_directory(
                    path, descriptor
                ):
                    os.rmdir(f"{self._workspace}/{path}")
            except OSError:
                continue  # It is used by another command, or is no longer empty.
            finally:
                os.close(descriptor)
        self._locked_descriptors.clear()

    def _is_same_directory(self, path: str, descriptor: int) -> bool:
        try:
            found = os.lstat(f"{self._workspace}/{path}")
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))


def _create_placeholder(place: str) -> None:
    try:
        os.mkdir(place)
    except FileExistsError:
        return
    os.utime(place, (PLACEHOLDER_MTIME_S,) * 2, follow_symlinks=False)


def is_placeholder(path: str) -> bool:
    try:
        return _is_placeholder_stat(os.lstat(path))
    except OSError:
        return False


def _is_placeholder_stat(found: os.stat_result) -> bool:
    """Whether it is an unchanged placeholder: adding an entry changes its date."""
    return stat.S_ISDIR(found.st_mode) and int(found.st_mtime) == PLACEHOLDER_MTIME_S
