"""Opening of files and directories without following symlinks.

Decisions about a path are made after its symlinks were resolved. Opening the result by its name
would trust that nobody has put a symlink in since. Here each directory is opened from the one
above it and a symlink is an error, so the file is the one that was decided about or none. The
links in `/proc` that bypass file names count as symlinks too.

`openat2` could do this in one call, but not on every system, not while creating directories on the
way, and without telling which directory was replaced.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from joey.core.path_access import DirectoryIdentity

_DIRECTORY_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK_FLAGS = _DIRECTORY_FLAGS | getattr(os, "O_PATH", os.O_RDONLY)
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_KERNEL_DIRECTORIES = ("/proc", "/sys")
_MAX_RESOLVE_ATTEMPTS = 20


def resolve_real_path(path: Path) -> Path:
    """Where a path leads, or would if it existed. Raises OSError: what is on the way keeps
    changing."""
    for _ in range(_MAX_RESOLVE_ATTEMPTS):
        # A link that is none any more when it is read; as likely as not, it is over by now.
        with suppress(OSError):
            return Path(os.path.realpath(path))
    raise OSError(errno.EAGAIN, "its folders are being changed at the moment")


def find_directory_identity(directory: Path) -> DirectoryIdentity | None:
    """The folder, or the one above it that exists; None when that cannot be seen."""
    parts = directory.parts
    for depth in range(len(parts), 0, -1):
        try:
            facts = os.stat(os.path.join(*parts[:depth]))  # noqa: PTH116, PTH118 (asked often)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return None  # going there will fail for the same reason
        return DirectoryIdentity(depth, facts.st_dev, facts.st_ino)
    return None


@contextmanager
def open_directory(
    path: Path, *, create: bool = False, identity: DirectoryIdentity | None = None
) -> Iterator[int]:
    """A handle by which files of a folder can be named (`dir_fd`). Raises OSError: a part of the
    path is missing, a link or no folder; or the folder at the `identity` is not the one that it
    was."""
    current = os.open(path.anchor, _WALK_FLAGS)
    try:
        for depth, name in enumerate(path.parts, start=1):
            if depth > 1:
                below = _open_child_directory(name, current, create)
                os.close(current)
                current = below
            if identity is not None and depth == identity.depth:
                _check_identity(current, identity)
        yield current
    finally:
        os.close(current)


@contextmanager
def open_regular_file(path: Path) -> Iterator[int]:
    """A descriptor to read a regular file; what else there may be is not even opened, since opening
    some devices does something. Raises OSError: there is none, or it is a file of the kernel's
    own."""
    with open_directory(path.parent) as directory:
        check_regular_file(os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False))
        descriptor = os.open(path.name or ".", _READ_FLAGS, dir_fd=directory)
    try:
        facts = os.fstat(descriptor)
        check_regular_file(facts)
        if is_kernel_path(path) or facts.st_dev in _find_kernel_devices():
            raise OSError(errno.EINVAL, "it is not on a disk, but made up by the system")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def scan_directory(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in a folder. Raises OSError."""
    with open_directory(path.parent) as above:
        descriptor = os.open(path.name or ".", _DIRECTORY_FLAGS | os.O_RDONLY, dir_fd=above)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def lstat_path(path: Path) -> os.stat_result:
    """What is at a path, which may be a link itself. Raises OSError."""
    with open_directory(path.parent) as directory:
        return os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False)


def check_regular_file(facts: os.stat_result) -> None:
    """Raises OSError."""
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory")
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, "it leads through too many symbolic links, or is a new one")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def is_kernel_path(path: Path) -> bool:
    """Whether a resolved path leads to where the system shows its own insides, such as the
    environment of processes."""
    return os.path.join(*path.parts[:2]) in _KERNEL_DIRECTORIES  # noqa: PTH118


@cache
def _find_kernel_devices() -> frozenset[int]:
    """By which these files are known where they are mounted elsewhere too."""
    found = set()
    for path in _KERNEL_DIRECTORIES:
        with suppress(OSError):
            found.add(os.stat(path).st_dev)  # noqa: PTH116
    return frozenset(found - {os.stat("/").st_dev})  # noqa: PTH116


def _open_child_directory(name: str, directory: int, create: bool) -> int:
    try:
        return os.open(name, _WALK_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _WALK_FLAGS, dir_fd=directory)


def _check_identity(descriptor: int, identity: DirectoryIdentity) -> None:
    facts = os.fstat(descriptor)
    if (facts.st_dev, facts.st_ino) != (identity.device, identity.inode):
        raise OSError(
            errno.ESTALE, "its folder was replaced by another one meanwhile; make the call again"
        )
