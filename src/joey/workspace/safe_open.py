"""Opening of files and directories without following symlinks.

Decisions about a path are made after its symlinks were resolved. Opening the result by name would
rely on no symlink being added since. Here each directory is opened from its parent and a symlink is
an error, so the file is the approved one or none. The links in `/proc` that bypass file names count
as symlinks too.

`openat2` could do this in one call, but not on every system, not while creating directories on the
way, and without telling which directory was replaced.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

from joey.core.path_access import DirectoryIdentity
from joey.system import files

SYMLINK_MODE, EXECUTABLE_MODE = "120000", "100755"
_REPLACED_DIRECTORY_TEXT = "its folder was replaced by another one meanwhile; make the call again"
_KERNEL_DIRECTORIES = ("/proc", "/sys")
_MAX_RESOLVE_ATTEMPTS = 20


def resolve_real_path(path: Path) -> Path:
    """Resolve a path that need not exist. Raises OSError if a part of it keeps changing."""
    for _ in range(_MAX_RESOLVE_ATTEMPTS):
        # A link that is none any more when it is read; as likely as not, it is over by now.
        with suppress(OSError):
            return Path(os.path.realpath(path))
    raise OSError(errno.EAGAIN, "its folders are being changed at the moment")


def find_directory_identity(directory: Path) -> DirectoryIdentity | None:
    """Find the identity of the directory, or its nearest existing parent; None if that is not
    accessible."""
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


def open_directory(
    path: Path, *, create: bool = False, identity: DirectoryIdentity | None = None
) -> AbstractContextManager[int]:
    """Open a directory as a `dir_fd`. Raises OSError if a part of the path is missing, a link or
    not a directory; or the directory at the `identity` was replaced."""

    def check_identity(depth: int, descriptor: int) -> None:
        if identity is not None and depth + 1 == identity.depth:
            facts = os.fstat(descriptor)
            if (facts.st_dev, facts.st_ino) != (identity.device, identity.inode):
                raise OSError(errno.ESTALE, _REPLACED_DIRECTORY_TEXT)

    check = None if identity is None else check_identity
    return files.open_directory(path.parts[1:], path.anchor, create=create, check=check)


@contextmanager
def open_regular_file(path: Path) -> Iterator[int]:
    """Open a regular file for reading; other files are not even opened, since opening some devices
    has effects. Raises OSError if there is none, or it is a kernel file."""
    name = path.name or "."
    with open_directory(path.parent) as directory:
        files.check_regular_file(os.stat(name, dir_fd=directory, follow_symlinks=False))
        opened = files.open_regular_file(name, follow_symlinks=False, dir_fd=directory)
    with opened as file:
        # There the kernel exposes internals, such as the environment of processes.
        is_kernel_path = os.path.join(*path.parts[:2]) in _KERNEL_DIRECTORIES  # noqa: PTH118
        if is_kernel_path or os.fstat(file.fileno()).st_dev in _find_kernel_devices():
            raise OSError(errno.EINVAL, "it is not on a disk, but made up by the system")
        yield file.fileno()


def lstat_path(path: Path) -> os.stat_result:
    """Stat a path, which may be a link itself. Raises OSError."""
    with open_directory(path.parent) as directory:
        return os.stat(path.name or ".", dir_fd=directory, follow_symlinks=False)


def lstat_at(name: str | bytes, directory: int) -> os.stat_result | None:
    """Stat a name in an open directory; None if there is none. Raises OSError."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def replace_tracked_file(
    directory: int,
    name: str | bytes,
    mode: str,
    data: bytes,
    earlier: os.stat_result | None,
    temporary_name: str | None = None,
) -> None:
    """Make a file match git's entry with this mode: `data` is its content, or the target of a
    symlink. A regular file keeps its permissions; a program becomes executable for everyone who may
    read it. Raises OSError."""
    with files.replace_at(directory, name, temporary_name) as temporary:
        if mode == SYMLINK_MODE:
            os.symlink(data, temporary, dir_fd=directory)
            return
        is_program = mode == EXECUTABLE_MODE
        is_replaced = earlier is not None and stat.S_ISREG(earlier.st_mode)
        fresh = 0o600 if is_replaced else 0o777 if is_program else 0o666
        with files.create_file(temporary, fresh, dir_fd=directory) as file:
            files.write_fully(file.fileno(), data)
            if earlier is not None and is_replaced:
                plain = earlier.st_mode & 0o666
                os.fchmod(file.fileno(), plain | (plain & 0o444) >> 2 if is_program else plain)


@cache
def _find_kernel_devices() -> frozenset[int]:
    """Find the devices of kernel file systems, to recognize these files where they are mounted
    elsewhere."""
    found = set()
    for path in _KERNEL_DIRECTORIES:
        with suppress(OSError):
            found.add(os.stat(path).st_dev)  # noqa: PTH116
    return frozenset(found - {os.stat("/").st_dev})  # noqa: PTH116
