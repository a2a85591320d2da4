"""What a file is known by again: trust in it ends when this is another one."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

_CHUNK = 1024 * 1024
_LARGEST = 64 * 1024 * 1024


def file_digest(path: Path) -> bytes | None:
    """Of the content of a regular file; None for anything else.

    A file that is very long, or that cannot be read, is known by its length and its times: the
    last of these cannot be set to what it was.

    Raises:
        OSError
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return None
    if found.st_size > _LARGEST or not os.access(path, os.R_OK):
        return f"{found.st_size} bytes of {found.st_mtime_ns}, {found.st_ctime_ns}".encode()
    return _hashed(path)


def _hashed(path: Path) -> bytes | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        digest = hashlib.sha256()
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        return digest.digest()
    finally:
        os.close(descriptor)
