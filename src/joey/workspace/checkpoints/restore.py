"""The writing back of checkpointed files into a workspace, and never anywhere else.

Each directory on the path is opened from its parent and must not be a symlink, so a symlink that
appears meanwhile is an error. A file is replaced atomically. An obstacle that was never saved (a
large file, a pipe, a directory with ignored files) stays.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

from joey.system.files import make_temp_name, open_directory
from joey.workspace.checkpoints.scan import MAX_FILE_BYTES
from joey.workspace.checkpoints.shadow_repo import write_private_file
from joey.workspace.safe_open import lstat_at, replace_tracked_file


class FileRestorer:
    """Restores files, blocking. Only one file at a time is incomplete, under a name recorded at
    `recovery_path`: if the process is killed, `remove_interrupted_leftovers` finds it."""

    def __init__(self, root: Path, recovery_path: Path) -> None:
        self._workspace = root
        self._recovery_path = recovery_path
        self._temporary_name = make_temp_name()
        self._possibly_emptied_directories: set[bytes] = set()

    def write_recovery_file(self, paths: Sequence[bytes]) -> None:
        directories = sorted({path.rpartition(b"/")[0] for path in paths})
        lines = [self._temporary_name, *map(quote_from_bytes, directories), ""]
        write_private_file(self._recovery_path, "\n".join(lines).encode("ascii"))

    def finish(self) -> None:
        """Remove directories that became empty."""
        for path in sorted(self._possibly_emptied_directories, key=len, reverse=True):
            self._remove_empty_parents(path)
        self._recovery_path.unlink(missing_ok=True)

    def remove_file(self, path: bytes) -> bool:
        """Remove a file; False if it did not exist. Raises OSError."""
        *above, name = _split_path(path)
        try:
            with open_directory(above, self._workspace) as directory:
                if not _is_checkpointable(os.lstat(name, dir_fd=directory)):
                    return False
                os.unlink(name, dir_fd=directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._possibly_emptied_directories.add(path.rpartition(b"/")[0])
        return True

    def write_file(self, path: bytes, mode: str, data: bytes) -> bool:
        """Write a file; False if another program's file is in the way. Raises OSError."""
        *above, name = _split_path(path)
        with open_directory(above, self._workspace, create=True) as directory:
            earlier = lstat_at(name, directory)
            if earlier is not None and stat.S_ISDIR(earlier.st_mode):
                _remove_empty_tree(name, directory)
                earlier = None
            if earlier is not None and not _is_checkpointable(earlier):
                return False
            replace_tracked_file(directory, name, mode, data, earlier, self._temporary_name)
        return True

    def _remove_empty_parents(self, path: bytes) -> None:
        """Remove a directory and its parents, as long as they are empty."""
        while path:
            *above, name = _split_path(path)
            try:
                with open_directory(above, self._workspace) as directory:
                    os.rmdir(name, dir_fd=directory)
            except OSError:
                return  # something is in it, or it has gone already
            path = path.rpartition(b"/")[0]


def remove_interrupted_leftovers(root: Path, recovery_path: Path) -> None:
    """Remove the leftovers of a restoration that was killed."""
    try:
        temporary, *directories = recovery_path.read_text(encoding="ascii").split("\n")[:-1] or [""]
    except FileNotFoundError:
        return
    remains = FileRestorer(root, recovery_path)
    for directory in directories if temporary else ():
        with suppress(OSError):  # the folder may have gone, or the file was never there
            remains.remove_file(
                b"/".join(filter(None, (unquote_to_bytes(directory), temporary.encode())))
            )
    recovery_path.unlink(missing_ok=True)


def _split_path(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    if any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
        raise OSError(f"{path!r} is not a path in a workspace")
    return parts


def _remove_empty_tree(name: bytes, parent: int) -> None:
    """Remove a directory that contains only empty directories. Raises OSError if it contains
    more."""
    for _, _, files, _ in os.fwalk(name, dir_fd=parent):
        if files:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
    for _, directories, _, directory in os.fwalk(name, topdown=False, dir_fd=parent):
        for below in directories:
            os.rmdir(below, dir_fd=directory)
    os.rmdir(name, dir_fd=parent)


def _is_checkpointable(facts: os.stat_result) -> bool:
    """Whether checkpoints can hold a file of this kind."""
    if stat.S_ISREG(facts.st_mode):
        return facts.st_size <= MAX_FILE_BYTES
    return stat.S_ISLNK(facts.st_mode)
