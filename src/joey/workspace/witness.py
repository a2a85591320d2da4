"""What ripgrep says a file holds, compared with the file itself.

ripgrep opens files by their names. While it walks, a folder may become a link to anywhere, and it
would tell what it found there. So nothing of it is shown that is not in the file when that is
opened without following a link.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable
from pathlib import Path

from joey.workspace.descent import open_regular

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LARGEST_WIDE = 64 * 1024 * 1024

Piece = tuple[int, bytes]
"""Where a line begins in the file, and how; as text in UTF-8 without a byte order mark."""


def confirms(path: bytes, pieces: Iterable[Piece]) -> bool:
    """Whether all of the pieces are in the file at a path, which leads through no link."""
    try:
        with open_regular(Path(os.fsdecode(path))) as descriptor:
            file = _Reader(descriptor)
            return all(file.at(start, len(text)) == text for start, text in pieces)
    except (OSError, ValueError):
        return False  # it is gone, or a link by now


class _Reader:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        head = os.pread(descriptor, 3, 0)
        self._skipped = 3 if head == codecs.BOM_UTF8 else 0
        self._text = self._whole() if head.startswith(_UTF_16) else None

    def at(self, start: int, length: int) -> bytes:
        if self._text is not None:
            return self._text[start : start + length]
        return os.pread(self._descriptor, length, start + self._skipped)

    def _whole(self) -> bytes:
        """A text that ripgrep has translated, as it has it."""
        data = os.pread(self._descriptor, _LARGEST_WIDE, 0)
        return data.decode("utf-16", errors="replace").encode()
