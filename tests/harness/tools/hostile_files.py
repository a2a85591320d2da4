"""Files that are not what a reader expects, and how much memory reading takes."""

from __future__ import annotations

import os
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SPARSE_FILE_BYTES = 2 * 2**30
LONG_LINE_BYTES = 100 * 2**20
MEGABYTE = 2**20


def make_special_files(directory: Path) -> tuple[str, ...]:
    """A pipe, a socket, a link to a device, links that lead to themselves; their names."""
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        where = Path.cwd()
        os.chdir(directory)  # the path of a socket must be short
        try:
            listener.bind("socket")
        finally:
            os.chdir(where)
    (directory / "loop").symlink_to("loop")
    (directory / "there").symlink_to("back")
    (directory / "back").symlink_to("there")
    return "pipe", "socket", "loop", "there"


def make_sparse(path: Path, head: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(SPARSE_FILE_BYTES)


def make_long_line(path: Path) -> None:
    """One line of 100 MB, and a short one after it."""
    with path.open("wb") as file:
        for _ in range(LONG_LINE_BYTES // MEGABYTE):
            file.write(b"x" * MEGABYTE)
        file.write(b"\nneedle\n")


@contextmanager
def limit_peak_memory(megabytes: int) -> Iterator[None]:
    """What is done inside never holds more than this."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE, f"{peak / MEGABYTE:.1f} MB"
