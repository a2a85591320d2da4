"""Files that only their owner can read, replaced so that no moment shows half of one."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from joey.errors import StoreError
from joey.private_folders import FOLDER_MODE

FILE_MODE = 0o600
_PREFIX, _SUFFIX = ".joey-", ".tmp"
_GATHERED = 256 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def storage_error(what: str, folder: Path, error: OSError) -> StoreError:
    """`error` in words for the person, with what to do about it."""
    reason = error.strerror or str(error)
    if is_full(error):
        advice = "Free some space there and try again; what was recorded before is intact."
    else:
        advice = "Check that the folder is there and that you may read and write it."
    return StoreError(f"{what} in {folder}: {reason}. {advice}")


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def make_private(folder: Path) -> None:
    """Close a folder that was there before to everybody else."""
    if stat.S_IMODE(folder.stat().st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` would survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path | str, limit: int = -1) -> bytes | None:
    """The bytes of a regular file, at most `limit`; None when there is no such file.

    A pipe or a folder of that name counts as no file, and never blocks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def replace_files(folder: Path, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Replace files of `folder`; none is touched before all the new ones are safe on disk.

    Content that comes in pieces is never in memory as a whole.

    Raises:
        StoreError: the disk is full, or the folder cannot be written; the old files are intact.
    """
    temporary: dict[Path, Path] = {}
    try:
        for name, data in contents.items():
            descriptor, path = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
            temporary[Path(path)] = folder / name
            _fill(descriptor, data)
        for new, target in temporary.items():
            new.replace(target)
        sync_folder(folder)
    except OSError as error:
        names = ", ".join(contents)
        raise storage_error(f"could not write {names}", folder, error) from error
    finally:
        for new in temporary:
            new.unlink(missing_ok=True)


def keep_aside(folder: Path, stem: str, data: bytes, suffix: str = "") -> Path:
    """Keep `data` in `folder` under the first free name `<stem><n><suffix>`."""
    numbered = (folder / f"{stem}{number}{suffix}" for number in itertools.count(1))
    path = next(path for path in numbered if not path.exists())
    replace_files(folder, {path.name: data})
    return path


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of a process that died before it could."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        path.unlink(missing_ok=True)


def write_fully(descriptor: int, data: bytes) -> None:
    """`os.write`, going on after short writes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _fill(descriptor: int, data: bytes | Iterable[bytes]) -> None:
    try:
        os.fchmod(descriptor, FILE_MODE)
        for piece in (data,) if isinstance(data, bytes) else _gathered(data):
            write_fully(descriptor, piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces in fewer, larger ones."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _GATHERED:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
