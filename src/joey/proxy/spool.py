"""Spool of exchanges that are under way: one file each, written before bytes are passed on.

A process keeps its files in its own directory next to the book, and holds a lock in it as long as
it lives, so others see whether it died. A file is a sequence of frames; each is written by one
system call, so traffic that was passed on is in the file even if the process is killed right after.
It is not synced: a power cut may lose the last seconds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from io import FileIO
from pathlib import Path
from struct import Struct as Layout
from typing import NamedTuple

from msgspec import Struct

from joey.proxy.exchange import ExchangeState, Header
from joey.system.files import PRIVATE_FILE_MODE, create_file, make_private_directory
from joey.system.locks import try_lock_file

_FRAME = Layout("<IBd")
"""Size of the data, kind, and milliseconds since the request arrived."""
_SUFFIX = ".rec"
_LOCK_FILE = "lock"


class FrameKind(IntEnum):
    OPEN = 1
    """The exchange as known when its request arrives, as JSON."""
    REQUEST = 2
    """Content of the request's body, masked."""
    RESPONSE_HEAD = 3
    RESPONSE = 4
    """Bytes of the response after its head."""
    END = 5


class SpooledHead(Struct, frozen=True):
    """The content of a `RESPONSE_HEAD` frame."""

    status: int
    headers: tuple[Header, ...]
    is_framed: bool
    """Bytes that follow have the framing that the headers declare; else they are content."""


class SpooledEnd(Struct, frozen=True):
    """The content of an `END` frame."""

    state: ExchangeState
    error: str = ""
    request_bytes: int | None = None
    """None if all of it is in the file."""
    response_bytes: int | None = None


class Frame(NamedTuple):
    kind: FrameKind
    ms: float
    data: bytes


def get_spool_root(book: Path) -> Path:
    return book.with_name(f"{book.name}-spool")


class SpoolDirectory:
    """The directory of this process. Raises OSError."""

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        while True:
            make_private_directory(self.path)
            # A process that files what others left may remove the directory in between.
            with suppress(FileNotFoundError):
                self._lock = try_lock_file(self.path / _LOCK_FILE)
                if self._lock is not None:
                    return

    def create_file(self, number: int) -> SpoolFile:
        return SpoolFile(self.path / f"{number}{_SUFFIX}")

    def close(self) -> None:
        """Close the directory; remaining files then belong to a dead process."""
        if self._lock is not None:
            if not list_spool_files(self.path):
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


class SpoolFile:
    """The file of one exchange, open for writing."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.path = path
        self._file = create_file(path, PRIVATE_FILE_MODE)

    def write(self, kind: FrameKind, ms: float, data: bytes) -> None:
        """Write a frame. Raises OSError if the disk is full; the frame may then be incomplete."""
        pieces = [_FRAME.pack(len(data), kind, ms), data]
        written = os.writev(self._file.fileno(), pieces)
        rest = b"".join(pieces)[written:] if written < _FRAME.size + len(data) else b""
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]

    def close(self) -> None:
        self._file.close()


def list_spool_files(directory: Path) -> list[Path]:
    """List spool files in order of arrival."""
    return sorted(directory.glob(f"*{_SUFFIX}"), key=lambda path: (len(path.name), path.name))


def lock_dead_directory(directory: Path) -> int | None:
    """Return the lock of a process that died, or None if it lives. Raises OSError."""
    return try_lock_file(directory / _LOCK_FILE)


def remove_dead_directory(directory: Path, lock: int) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    os.close(lock)


def iter_frames(
    file: FileIO, kinds: frozenset[FrameKind] = frozenset(FrameKind)
) -> Iterator[Frame]:
    """Iterate over frames of these kinds from the beginning. An incomplete last frame counts if it
    is part of a body. Raises OSError."""
    offset, file_size = 0, os.fstat(file.fileno()).st_size
    while len(header := os.pread(file.fileno(), _FRAME.size, offset)) == _FRAME.size:
        size, kind, ms = _FRAME.unpack(header)
        offset += _FRAME.size
        if kind in kinds:
            data = os.pread(file.fileno(), min(size, file_size), offset)
            if len(data) == size or kind in (FrameKind.REQUEST, FrameKind.RESPONSE):
                yield Frame(FrameKind(kind), ms, data)
        offset += size
