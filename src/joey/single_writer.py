"""One at a time changes a file: other threads and other processes wait."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joey.errors import ConfigError
from joey.private_folders import make_folder

_PATIENCE = 5.0
_BETWEEN = 0.01
"""Seconds that another process may take for its change, and between looks whether it is done."""


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """One process at a time reads a file, changes what it read, and writes it.

    Raises:
        ConfigError: another one does not come to an end, or the folder cannot be used.
    """
    try:
        make_folder(path.parent)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"{path} is being changed by another process. Try again."
                ) from None
            time.sleep(_BETWEEN)
