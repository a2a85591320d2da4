"""Files: private ones replaced atomically, hostile ones opened without waiting or following links.

`mkdir` with a mode obeys the umask, and with `parents` it creates the missing parents as open as
the umask allows; `make_private_directory` creates each of them 0700. `replace_files` touches no
file before all new ones are safe on disk, so a reader never sees half of one. `compute_file_digest`
identifies a file's content: trust in a file ends when its digest changes.

A file of a workspace may be a pipe, a device, or a link to a private key, even after it was
checked. `open_regular_file` only opens regular files, and never blocks. `open_directory` opens each
directory from the one above it, and a symlink is an error.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from io import FileIO
from pathlib import Path

from joey.errors import StoreError

PRIVATE_DIRECTORY_MODE = 0o700


def make_private_directory(path: Path) -> None:
    """Create `path` and its missing parents, each with mode 0700 regardless of the umask."""
    missing = itertools.takewhile(lambda above: not above.exists(), (path, *path.parents))
    for directory in reversed(list(missing)):
        directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)
        directory.chmod(PRIVATE_DIRECTORY_MODE)


class PrivateDirectory:
    """A private directory about a workspace: mode 0700, and its files 0600."""

    def __init__(self, parent: Path, workspace: Path) -> None:
        self.parent = parent
        self._workspace = workspace

    @cached_property
    def path(self) -> Path:
        """Its existing or future path."""
        # Imported late: it is slow to load, and most tasks do not need it.
        from hashlib import sha256

        return self.parent / sha256(os.fsencode(self._workspace)).hexdigest()[:16]

    def create(self) -> None:
        make_private_directory(self.path)


PRIVATE_FILE_MODE = 0o600
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_WALK_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_TEMP_PREFIX, _TEMP_SUFFIX = ".joey-", ".tmp"
_WRITE_BUFFER_BYTES = 256 * 1024
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def build_storage_error(action: str, directory: Path, error: OSError) -> StoreError:
    """Build an error for the user from `error`, with what to do about it."""
    reason = error.strerror or str(error)
    if is_disk_full(error):
        advice = "Free some space there and try again; what was recorded before is intact."
    else:
        advice = "Check that the folder is there and that you may read and write it."
    return StoreError(f"{action} in {directory}: {reason}. {advice}")


@contextmanager
def translate_storage_errors(action: str, directory: Path) -> Iterator[None]:
    """Raises StoreError instead of OSError."""
    try:
        yield
    except OSError as error:
        raise build_storage_error(action, directory, error) from error


def is_disk_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL_ERRNOS


def ensure_directory_private(directory: Path) -> None:
    """Make an existing directory inaccessible to others."""
    if stat.S_IMODE(directory.stat().st_mode) != PRIVATE_DIRECTORY_MODE:
        directory.chmod(PRIVATE_DIRECTORY_MODE)


def sync_directory(directory: Path) -> None:
    """Return when the names in `directory` would survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=256)
def keep_absolute_directories(search_path: str, *, outside: tuple[Path, ...] = ()) -> str:
    """Return a `PATH` without directories that depend on the current one, and without those in the
    workspaces that it must be `outside` of (links included): anyone who can write there would
    decide which programs are found."""
    above = {*outside, *(each.resolve() for each in outside)}
    return os.pathsep.join(
        entry
        for entry in search_path.split(os.pathsep)
        if Path(entry).is_absolute()
        and not any(
            place.is_relative_to(each)
            for each in above
            for place in (Path(os.path.normpath(entry)), Path(entry).resolve())
        )
    )


class NotRegularFileError(OSError):
    """A pipe, a device or a socket."""


def open_regular_file(
    path: Path | str | bytes, *, follow_symlinks: bool = True, dir_fd: int | None = None
) -> FileIO:
    """Open a regular file for reading; never blocks on other files. Raises OSError."""
    flags = _READ_FLAGS if follow_symlinks else _READ_FLAGS | os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        check_regular_file(os.fstat(descriptor))
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def open_regular_file_within(directory: Path | str, path: str) -> FileIO:
    """Open a regular file below a directory, with no symlink in the path. Raises OSError."""
    *above, name = path.split("/")
    with open_directory(above, directory) as parent:
        return open_regular_file(name or ".", follow_symlinks=False, dir_fd=parent)


@contextmanager
def scan_directory(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Scan a directory, with no symlink in the path. Raises OSError."""
    with open_directory(path.parts[1:-1], path.anchor) as above:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path.name or ".", flags, dir_fd=above)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def check_regular_file(facts: os.stat_result) -> None:
    """Raises OSError."""
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, "it leads through too many symbolic links, or is a new one")
    if not stat.S_ISREG(facts.st_mode):
        raise NotRegularFileError(errno.EINVAL, "it is not a regular file")


def read_regular_file(path: Path | str, limit: int = -1) -> bytes | None:
    """Read a regular file, at most `limit` bytes; None if there is none: a pipe or a directory does
    not count, and never blocks."""
    try:
        with open_regular_file(path) as file:
            return file.read(limit)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegularFileError):
        return None


@contextmanager
def open_directory(
    parts: Iterable[str | bytes],
    start: Path | str,
    *,
    create: bool = False,
    check: Callable[[int, int], None] | None = None,
) -> Iterator[int]:
    """Open a directory as a `dir_fd`, from `start` down; `check` is called with the depth and the
    descriptor of each directory on the way. Raises OSError if a part is missing, a symlink or not a
    directory."""
    current = os.open(start, _WALK_FLAGS & ~os.O_NOFOLLOW)
    try:
        for depth, name in enumerate(("", *parts)):
            if depth:
                below = _open_child_directory(name, current, create)
                os.close(current)
                current = below
            if check is not None:
                check(depth, current)
        yield current
    finally:
        os.close(current)


def _open_child_directory(name: str | bytes, directory: int, create: bool) -> int:
    try:
        return os.open(name, _WALK_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _WALK_FLAGS, dir_fd=directory)


@contextmanager
def replace_at(directory: int, name: str | bytes, temporary: str | None = None) -> Iterator[str]:
    """Replace a file of an open directory by one first created under this temporary name."""
    temporary = temporary or make_temp_name()
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):  # it was not even created
            os.unlink(temporary, dir_fd=directory)
        raise


def make_temp_name() -> str:
    return f"{_TEMP_PREFIX}{os.urandom(8).hex()}{_TEMP_SUFFIX}"


def create_file(path: Path | str, mode: int, dir_fd: int | None = None) -> FileIO:
    """Create a new file, open for writing. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return FileIO(os.open(path, flags, mode, dir_fd=dir_fd), "w")


def open_private_file(path: Path, flags: int = os.O_RDWR) -> int:
    """Open a private file of joey, created with mode 0600 if missing. Raises OSError."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE_MODE)


def replace_files(directory: Path, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Replace files of `directory`; none is changed before all new ones are safe on disk. Content
    in pieces is never in memory as a whole. Raises StoreError if the disk is full, or the directory
    is not writable; then the old files are intact."""
    with translate_storage_errors(f"could not write {', '.join(contents)}", directory):
        _replace_all(directory, contents, PRIVATE_FILE_MODE)


def replace_file(path: Path, data: bytes, mode: int = PRIVATE_FILE_MODE) -> None:
    """Replace one file. Raises OSError; the old file is intact."""
    _replace_all(path.parent, {path.name: data}, mode)


def _replace_all(
    directory: Path, contents: Mapping[str, bytes | Iterable[bytes]], mode: int
) -> None:
    temporary: dict[Path, Path] = {}
    try:
        for name, data in contents.items():
            path = directory / make_temp_name()
            with create_file(path, PRIVATE_FILE_MODE) as file:
                temporary[path] = directory / name
                os.fchmod(file.fileno(), mode)
                for piece in (data,) if isinstance(data, bytes) else _iter_buffered(data):
                    write_fully(file.fileno(), piece)
                os.fsync(file.fileno())
        for new, target in temporary.items():
            new.replace(target)
        sync_directory(directory)
    finally:
        for new in temporary:
            new.unlink(missing_ok=True)


def save_under_numbered_name(directory: Path, stem: str, data: bytes, suffix: str = "") -> Path:
    """Save `data` in `directory` under the first free name `<stem><n><suffix>`."""
    numbered = (directory / f"{stem}{number}{suffix}" for number in itertools.count(1))
    path = next(path for path in numbered if not path.exists())
    replace_files(directory, {path.name: data})
    return path


def remove_temp_files(directory: Path) -> None:
    """Remove temporary files of dead processes."""
    for path in directory.glob(f"{_TEMP_PREFIX}*{_TEMP_SUFFIX}"):
        path.unlink(missing_ok=True)


def write_fully(descriptor: int, data: bytes) -> None:
    """Call `os.write` until all bytes are written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _iter_buffered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces into larger ones."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _WRITE_BUFFER_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


_READ_CHUNK_BYTES = 1024 * 1024
_MAX_HASHED_BYTES = 64 * 1024 * 1024


def compute_file_digest(path: Path) -> bytes | None:
    """Compute the digest of a regular file's content; None for anything else. For a very long or
    unreadable file, use its length and times, one of which cannot be set. Raises OSError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > _MAX_HASHED_BYTES or not os.access(path, os.R_OK):
        return f"{found.st_size} bytes of {found.st_mtime_ns}, {found.st_ctime_ns}".encode()
    from hashlib import sha256

    digest = sha256()
    with open_regular_file(path) as file:
        while chunk := file.read(_READ_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()


FileFingerprint = tuple[int, ...] | None


def read_fingerprint(path: Path | str) -> FileFingerprint:
    """Return a fingerprint that changes whenever a file is written; None if there is none."""
    try:
        return build_fingerprint(os.stat(path))  # noqa: PTH116 (runs before every request)
    except OSError:
        return None


def build_fingerprint(facts: os.stat_result) -> tuple[int, ...]:
    """Build a fingerprint. The last of these times cannot be set."""
    identity = (facts.st_dev, facts.st_ino, facts.st_mode)
    return (*identity, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
