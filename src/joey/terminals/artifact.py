"""The file that keeps the whole output of a command, byte for byte, up to a cap."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import BinaryIO

from joey.system.files import make_folder

log = logging.getLogger(__name__)

CAP = 256 * 1024 * 1024


class Artifact:
    """Opened by the first byte, so that a silent command leaves no file."""

    def __init__(self, path: Path, cap: int = CAP) -> None:
        self._path = path
        self._cap = cap
        self._room = cap
        self._file: BinaryIO | None = None
        self._closed = False

    def write(self, data: bytes) -> None:
        """Keep `data`; a disk that takes no more must not disturb the command."""
        if self._closed:
            return
        try:
            if self._file is None:
                self._file = _create(self._path)
            self._file.write(data[: self._room])
            self._room -= len(data)
            if self._room < 0:
                size = self._cap // (1024 * 1024)
                self._file.write(b"\n[...output after the first %d MiB was not kept...]\n" % size)
                self.close()
            else:
                self._file.flush()
        except OSError as error:
            log.warning("output of a command is no longer kept in %s: %s", self._path, error)
            self.close()

    def close(self) -> None:
        self._closed = True
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            log.warning("the end of %s could not be written: %s", self._path, error)
        self._file = None


def _create(path: Path) -> BinaryIO:
    make_folder(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")
