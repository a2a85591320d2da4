"""Where the checkpoints of a workspace are kept, and who may change them.

Who changes them holds an advisory lock of the kernel, and so does every git that it runs: when a
process is killed, its last git may still be at work, and the lock ends with that one. The lock
file is empty unless somebody is at work, so that the next one knows when the last one never came
to an end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from joey.errors import CheckpointError
from joey.system.files import make_folder, workspace_folder

LOCK = "lock"
_REPOSITORY, _DAMAGED, _NAME, _RESTORING = "repository", "damaged", "workspace", "restoring"
_MODE = 0o600
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Hold(Struct, frozen=True):
    """The lock, while one has it."""

    descriptor: int
    was_broken_off: bool
    """Whether the last one who had it was killed at work."""


class ShadowFolder:
    """Folders are 0700, files 0600."""

    def __init__(self, parent: Path, workspace: Path) -> None:
        self._parent = parent
        self._workspace = workspace

    @cached_property
    def path(self) -> Path:
        return workspace_folder(self._parent, self._workspace)

    @property
    def parent(self) -> Path:
        return self._parent

    @property
    def repository(self) -> Path:
        return self.path / _REPOSITORY

    @property
    def restoring(self) -> Path:
        """There as long as files are being brought back."""
        return self.path / _RESTORING

    def make(self) -> None:
        make_folder(self._parent)
        self._parent.chmod(0o700)
        self.path.mkdir(mode=0o700, exist_ok=True)
        name = self.path / _NAME
        if not name.exists():
            write_private(name, os.fsencode(self._workspace) + b"\n")

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[Hold]:
        """Raises CheckpointError: somebody else has it, and keeps it."""
        latest = time.monotonic() + _PATIENCE_SECONDS
        while (descriptor := self._take()) is None:
            if time.monotonic() > latest:
                raise CheckpointError(
                    "another process is at work on the checkpoints of this workspace, for more"
                    f" than {_PATIENCE_SECONDS:g} seconds. Try again when it is done."
                )
            await asyncio.sleep(_POLL_SECONDS)
        try:
            hold = Hold(descriptor, was_broken_off=os.fstat(descriptor).st_size > 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            yield hold
            # Not after a failure: whoever comes next is to see whether it left something behind.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _take(self) -> int | None:
        try:
            self.make()
            return take_lock(self.path / LOCK)
        except OSError as error:
            raise CheckpointError(
                f"the folder for checkpoints, {self.path}, cannot be used:"
                f" {error.strerror or error}."
            ) from error

    def put_aside(self) -> Path:
        """Begin anew; what was there is kept until this has to be done again."""
        aside = self.path / _DAMAGED
        shutil.rmtree(aside, ignore_errors=True)
        self.repository.rename(aside)
        return aside

    def clear(self) -> None:
        """Keep nothing of the files; the lock stays."""
        for name in (_REPOSITORY, _DAMAGED):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def remove_locks(self) -> None:
        """What a killed git leaves behind, and stumbles over the next time. Only with the lock."""
        if not self.repository.exists():
            return
        for path in _leftovers(self.repository):
            path.unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(facts.st_blocks * 512 for facts in _facts(self.path))


def write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def signature(path: Path) -> tuple[int, ...]:
    """Other whenever it was changed; nothing where it is not there."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return ()
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino


def take_lock(path: Path) -> int | None:
    """The lock's descriptor, or None when somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        # Held, or the whole folder was just removed.
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _leftovers(repository: Path) -> Iterator[Path]:
    yield from repository.glob("*.lock")
    yield from repository.glob("refs/**/*.lock")
    yield from repository.glob("objects/pack/tmp_*")
    yield from repository.glob("objects/pack/.tmp-*")


def _facts(folder: Path) -> Iterator[os.stat_result]:
    """Of everything below; what goes meanwhile does not count."""
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    yield entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
