"""`python -m joey.knowledge.document_text KIND`: the text of the document on stdin."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from joey.errors import ToolError
from joey.knowledge.confinement import CPU_SECONDS, serve

LONGEST = 4 * 1024 * 1024
_PATIENCE = CPU_SECONDS * 0.75
"""Seconds after which what has been read until then is the result."""


def main(kind: str) -> None:
    serve(lambda data: collected(lines_of(kind, data)).encode(errors="replace"))


def lines_of(kind: str, data: bytes) -> Iterator[str]:
    """Each format loads what it needs, and no more."""
    match kind:
        case "pdf":
            from joey.knowledge import pdf

            return pdf.lines(data)
        case "word":
            from joey.knowledge import word

            return word.lines(data)
        case "spreadsheet":
            from joey.knowledge import spreadsheet

            return spreadsheet.lines(data)
        case "notebook":
            from joey.knowledge import notebook

            return notebook.lines(data)
    raise ToolError(f"{kind} is not a kind of document.")


def collected(lines: Iterable[str]) -> str:
    """The lines as one text: all of them, or those that fit and can be had in time."""
    started = time.monotonic()
    kept: list[str] = []
    room = LONGEST
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept.append(line[:room])
            kept.append(f"[The rest is left out: there are more than {LONGEST // 2**20} MB.]")
            break
        kept.append(line)
        if time.monotonic() - started > _PATIENCE:
            kept.append("[The rest is left out: it takes too long to read.]")
            break
    return "".join(f"{line}\n" for line in kept)


if __name__ == "__main__":
    main(sys.argv[1])
