"""Private files and directories: owner-only, replaced atomically, changed by one writer at a time.

`mkdir` with a mode obeys the umask, and with `parents` it creates the missing parents as open as
the umask allows; `make_private_directory` creates each of them 0700. `replace_files` touches no
file before all new ones are safe on disk, so a reader never sees half of one. `lock_for_update`
locks the directory of a file while a process reads it, changes what it read, and writes it; other
threads and other processes wait. `compute_file_digest` identifies a file's content: trust in a file
ends when its digest changes.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from joey.errors import ConfigError, StoreError

PRIVATE_DIRECTORY_MODE = 0o700


def make_private_directory(path: Path) -> None:
    """Make `path` and whatever is missing above it, each 0700 whatever the umask says."""
    missing = list(
        itertools.takewhile(lambda directory: not directory.exists(), (path, *path.parents))
    )
    for directory in reversed(missing):
        directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)
        directory.chmod(PRIVATE_DIRECTORY_MODE)


def get_per_workspace_directory(parent: Path, workspace: Path) -> Path:
    """Where something about a workspace is kept; nothing is made."""
    # Imported on need: it is slow to load, and most tasks never come here.
    from hashlib import sha256

    return parent / sha256(os.fsencode(workspace)).hexdigest()[:16]


PRIVATE_FILE_MODE = 0o600
_TEMP_PREFIX, _TEMP_SUFFIX = ".joey-", ".tmp"
_WRITE_BUFFER_BYTES = 256 * 1024
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def build_storage_error(action: str, directory: Path, error: OSError) -> StoreError:
    """`error` in words for the user, with what to do about it."""
    reason = error.strerror or str(error)
    if is_disk_full(error):
        advice = "Free some space there and try again; what was recorded before is intact."
    else:
        advice = "Check that the folder is there and that you may read and write it."
    return StoreError(f"{action} in {directory}: {reason}. {advice}")


def is_disk_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL_ERRNOS


def ensure_directory_private(directory: Path) -> None:
    """Close a folder that was there before to everybody else."""
    if stat.S_IMODE(directory.stat().st_mode) != PRIVATE_DIRECTORY_MODE:
        directory.chmod(PRIVATE_DIRECTORY_MODE)


def sync_directory(directory: Path) -> None:
    """Return when the names in `directory` would survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular_file(path: Path | str, limit: int = -1) -> bytes | None:
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


def replace_files(directory: Path, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Replace files of `directory`; none is touched before all the new ones are safe on disk.

    Content that comes in pieces is never in memory as a whole.

    Raises:
        StoreError: the disk is full, or the folder cannot be written; the old files are intact.
    """
    from tempfile import mkstemp  # and with it `random`: those who only read do without

    temporary: dict[Path, Path] = {}
    try:
        for name, data in contents.items():
            descriptor, path = mkstemp(_TEMP_SUFFIX, _TEMP_PREFIX, directory)
            temporary[Path(path)] = directory / name
            _write_and_sync(descriptor, data)
        for new, target in temporary.items():
            new.replace(target)
        sync_directory(directory)
    except OSError as error:
        names = ", ".join(contents)
        raise build_storage_error(f"could not write {names}", directory, error) from error
    finally:
        for new in temporary:
            new.unlink(missing_ok=True)


def save_under_numbered_name(directory: Path, stem: str, data: bytes, suffix: str = "") -> Path:
    """Keep `data` in `directory` under the first free name `<stem><n><suffix>`."""
    numbered = (directory / f"{stem}{number}{suffix}" for number in itertools.count(1))
    path = next(path for path in numbered if not path.exists())
    replace_files(directory, {path.name: data})
    return path


def remove_temp_files(directory: Path) -> None:
    """Remove temporary files of a process that died before it could."""
    for path in directory.glob(f"{_TEMP_PREFIX}*{_TEMP_SUFFIX}"):
        path.unlink(missing_ok=True)


def write_fully(descriptor: int, data: bytes) -> None:
    """`os.write`, going on after short writes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _write_and_sync(descriptor: int, data: bytes | Iterable[bytes]) -> None:
    try:
        os.fchmod(descriptor, PRIVATE_FILE_MODE)
        for piece in (data,) if isinstance(data, bytes) else _iter_buffered(data):
            write_fully(descriptor, piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _iter_buffered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces in fewer, larger ones."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _WRITE_BUFFER_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


_LOCK_TIMEOUT_S = 5.0
_LOCK_POLL_INTERVAL_S = 0.01


@contextmanager
def lock_for_update(path: Path) -> Iterator[None]:
    """One process at a time reads a file, changes what it read, and writes it.

    Raises:
        ConfigError: another one does not come to an end, or the folder cannot be used.
    """
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        _acquire_lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"{path} is being changed by another process. Try again."
                ) from None
            time.sleep(_LOCK_POLL_INTERVAL_S)


_READ_CHUNK_BYTES = 1024 * 1024
_MAX_HASHED_BYTES = 64 * 1024 * 1024


def compute_file_digest(path: Path) -> bytes | None:
    """Of the content of a regular file; None for anything else.

    A file that is very long, or that cannot be read, is known by its length and its times: the
    last of these cannot be set to what it was.

    Raises:
        OSError
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > _MAX_HASHED_BYTES or not os.access(path, os.R_OK):
        return f"{found.st_size} bytes of {found.st_mtime_ns}, {found.st_ctime_ns}".encode()
    return _hash_file(path)


def _hash_file(path: Path) -> bytes | None:
    from hashlib import sha256

    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        digest = sha256()
        while chunk := os.read(descriptor, _READ_CHUNK_BYTES):
            digest.update(chunk)
        return digest.digest()
    finally:
        os.close(descriptor)


FileFingerprint = tuple[int, int, int] | None


def read_fingerprint(path: Path | str) -> FileFingerprint:
    """What changes whenever a file is written; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (runs before every request)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
