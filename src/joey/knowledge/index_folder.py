"""Where the index of a workspace is kept, and who may change it.

Any process may read. Who changes it holds an advisory lock of the kernel, which ends with its
process however that ends. A second lock keeps two processes from paying for the same vectors.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from joey.system.files import make_folder, workspace_folder

DATABASE = "code.sqlite"
BUILDING, EMBEDDING = "build.lock", "embed.lock"


class IndexFolder:
    """Folders are 0700, files 0600. It outlives the process."""

    def __init__(self, parent: Path, workspace: Path) -> None:
        self._parent = parent
        self._workspace = workspace

    @cached_property
    def path(self) -> Path:
        return workspace_folder(self._parent, self._workspace)

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def make(self) -> None:
        make_folder(self.path)

    @contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        """Whether nobody else holds the lock; until the end of the block nobody else can."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path / name, flags, 0o600)
        try:
            yield _lock(descriptor)
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Throw the database away."""
        for suffix in ("", "-wal", "-shm"):
            self.path.joinpath(DATABASE + suffix).unlink(missing_ok=True)

    def leave(self) -> None:
        """After the last use."""


class PassingFolder(IndexFolder):
    """For work that nothing is to be kept of: somewhere else, and only as long as it is used."""

    @cached_property
    def path(self) -> Path:
        from tempfile import mkdtemp

        return Path(mkdtemp(prefix="joey-index-"))

    def leave(self) -> None:
        from shutil import rmtree

        if "path" in self.__dict__:  # it was made
            rmtree(self.path, ignore_errors=True)
            del self.path


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
