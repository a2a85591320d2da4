"""Names that are not there and must not be made: something stands in their place meanwhile.

Nothing can be mounted on a name that does not exist. So while a command runs, an empty folder has
the name, and for the command one that cannot be written is mounted over it. Everybody else sees it
too, so this is for names only where an empty folder means nothing (git takes an empty `.git` for
none). It is removed with the last command that needs it.
What a killed process has left is known by its date, and serves again until it is removed.
"""

from __future__ import annotations

import fcntl
import os
import stat

_DATE = (1, 1)
"""Modified in the first second of 1970: nobody's own."""
_TRIES = 10
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Placeholders:
    def __init__(self, root: str) -> None:
        self._root = root
        self._held: dict[str, int] = {}

    def take(self, path: str) -> bool:
        """Occupy a name below the root; False when it is, or stays, somebody else's."""
        for _ in range(_TRIES):
            try:
                _make(f"{self._root}/{path}")
                descriptor = os.open(f"{self._root}/{path}", _FOLDER)
            except OSError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if not _is_ours(os.fstat(descriptor)):
                os.close(descriptor)
                return False
            if self._is_at(path, descriptor):
                self._held[path] = descriptor
                return True
            os.close(descriptor)  # Another has just removed it.
        return False

    def drop(self) -> None:
        """Free the names that nobody else occupies."""
        for path, descriptor in self._held.items():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_ours(os.fstat(descriptor)) and self._is_at(path, descriptor):
                    os.rmdir(f"{self._root}/{path}")
            except OSError:
                continue  # It is used by another command, or is no longer empty.
            finally:
                os.close(descriptor)
        self._held.clear()

    def _is_at(self, path: str, descriptor: int) -> bool:
        try:
            found = os.lstat(f"{self._root}/{path}")
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))


def _make(place: str) -> None:
    try:
        os.mkdir(place)
    except FileExistsError:
        return
    os.utime(place, _DATE, follow_symlinks=False)


def is_placeholder(path: str) -> bool:
    try:
        return _is_ours(os.lstat(path))
    except OSError:
        return False


def _is_ours(found: os.stat_result) -> bool:
    """Whoever puts something into it changes its date."""
    return stat.S_ISDIR(found.st_mode) and int(found.st_mtime) == _DATE[0]
