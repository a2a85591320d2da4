"""Worker that extracts the text of a document, with the reader of its format.

`python -m joey.content.document_worker KIND` reads the document on stdin. Formats that need a
library or much code are modules of their own, and only the one that a document needs is loaded.
The text of a notebook is its cells in order, with their output.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from joey.content.worker_main import MAX_CPU_S, serve_request
from joey.errors import ToolError

_ANSI_ESCAPE_RE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def extract_notebook_lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is no notebook."""
    try:
        notebook = json.loads(data)
    except ValueError as error:
        raise ToolError(f"it is no notebook: {error}.") from error
    for number, cell in enumerate(_get_cells(notebook), 1):
        yield f"--- Cell {number} ({cell.get('cell_type', 'unknown')}) ---"
        yield from _join_text(cell.get("source", cell.get("input"))).splitlines()
        outputs = [
            text
            for output in _filter_dicts(cell.get("outputs"))
            if (text := _format_output(output))
        ]
        if outputs:
            yield f"--- Output of cell {number} ---"
            for text in outputs:
                yield from text.splitlines()


def _get_cells(notebook: Any) -> list[dict[str, Any]]:
    """Old notebooks have their cells in worksheets."""
    match notebook:
        case {"cells": list() as cells}:
            return _filter_dicts(cells)
        case {"worksheets": list() as sheets}:
            return [
                cell
                for sheet in _filter_dicts(sheets)
                for cell in _filter_dicts(sheet.get("cells"))
            ]
    raise ToolError("it is no notebook: it has no cells.")


def _format_output(output: dict[str, Any]) -> str:
    """Output as text; images are only named."""
    match output:
        case {"traceback": list() as traceback} if traceback:
            return _ANSI_ESCAPE_RE.sub("", "\n".join(map(_join_text, traceback)))
        case {"text": text}:
            return _ANSI_ESCAPE_RE.sub("", _join_text(text))
        case {"data": {"text/plain": text}}:
            return _join_text(text)
        case {"data": dict() as data} if data:
            return f"[{', '.join(sorted(data))}]"
    return ""


def _join_text(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return "".join(part for part in value if isinstance(part, str))
    return ""


def _filter_dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


MAX_TEXT_CHARS = 4 * 1024 * 1024
_READ_TIMEOUT_S = MAX_CPU_S * 0.75
"""What has been read until then is the result."""


def main(kind: str) -> None:
    serve_request(lambda data: collect_text(extract_lines(kind, data)).encode(errors="replace"))


def extract_lines(kind: str, data: bytes) -> Iterator[str]:
    """Each format loads what it needs, and no more."""
    match kind:
        case "pdf":
            from joey.content import pdf

            return pdf.extract_lines(data)
        case "word":
            from joey.content import docx

            return docx.extract_lines(data)
        case "spreadsheet":
            from joey.content import spreadsheet

            return spreadsheet.extract_lines(data)
        case "notebook":
            return extract_notebook_lines(data)
    raise ToolError(f"{kind} is not a kind of document.")


def collect_text(lines: Iterable[str]) -> str:
    """The lines as one text: all of them, or those that fit and can be had in time."""
    started = time.monotonic()
    kept: list[str] = []
    room = MAX_TEXT_CHARS
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            kept.append(line[:room])
            kept.append(
                f"[The rest is left out: there are more than {MAX_TEXT_CHARS // 2**20} MB.]"
            )
            break
        kept.append(line)
        if time.monotonic() - started > _READ_TIMEOUT_S:
            kept.append("[The rest is left out: it takes too long to read.]")
            break
    return "".join(f"{line}\n" for line in kept)


if __name__ == "__main__":
    main(sys.argv[1])
