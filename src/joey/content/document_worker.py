"""Worker that extracts the text of a document, with the reader of its format.

`python -m joey.content.document_worker KIND` reads the document on stdin. Only the libraries of
its format are loaded. A PDF is read page by page; of a DOCX file each paragraph is a line, and each
table row, its cells separated by tabs; of a notebook the cells in order, with their output.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from joey.content.worker_main import MAX_CPU_S, serve_request
from joey.errors import ToolError

_ANSI_ESCAPE_RE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def extract_notebook_lines(data: bytes) -> Iterator[str]:
    """Extract the lines of a notebook. Raises ToolError if the file is not a notebook."""
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
    """Return the cells; old notebooks keep them in worksheets."""
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
    """Format output as text; images are only named."""
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


def extract_pdf_lines(data: bytes) -> Iterator[str]:
    """Extract the lines of a PDF. Raises ToolError if it is damaged or locked."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    try:
        reader = PdfReader(BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = 0 if locked else len(reader.pages)
    except DependencyError as error:
        raise ToolError(f"it is encrypted: {error}.") from error
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ToolError(f"it is damaged: {error}.") from error
    if locked:
        raise ToolError("it is encrypted, and can be read only with its password.")
    for number in range(pages):
        yield f"--- Page {number + 1} ---"
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # a damaged page can raise anything
            text = f"[This page cannot be read: {error}]"
        yield from text.splitlines() or ["[No text: the page may be a picture.]"]


_DOCUMENT_PATH = "word/document.xml"
_ELEMENT_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_FALLBACK_ELEMENT = "Fallback"
"""The same content once more, for programs that do not know the newer form."""


def extract_docx_lines(data: bytes) -> Iterator[str]:
    """Extract the lines of a DOCX file. Raises ToolError if it is damaged, locked, or unpacks to
    too much."""
    from joey.content.ooxml_package import OoxmlEventKind, OoxmlPackage, iter_xml_events

    page = _ParagraphCollector()
    parents = [""]
    repeated = 0
    for kind, name, _ in iter_xml_events(OoxmlPackage(data).iter_chunks(_DOCUMENT_PATH)):
        if name == _FALLBACK_ELEMENT and kind is not OoxmlEventKind.TEXT:
            repeated += 1 if kind is OoxmlEventKind.START else -1
        if kind is OoxmlEventKind.START:
            if not repeated:
                page.start_element(name, parents[-1])
            parents.append(name)
        elif kind is OoxmlEventKind.END:
            parents.pop()
            if not repeated:
                yield from page.end_element(name)
        elif not repeated and parents[-1] == "t":
            page.add_text(name)


class _ParagraphCollector:
    """Collects the open paragraph and table row."""

    def __init__(self) -> None:
        self._paragraph: list[str] = []
        self._cell: list[str] = []
        self._row: list[str] = []
        self._open_cell_depth = 0
        """Of tables within tables, only the outermost has rows here."""

    def start_element(self, name: str, parent: str) -> None:
        if name == "tc":
            self._open_cell_depth += 1
        elif parent == "r" and name in _ELEMENT_CHARACTERS:
            self._paragraph.append(_ELEMENT_CHARACTERS[name])

    def add_text(self, text: str) -> None:
        self._paragraph.append(text)

    def end_element(self, name: str) -> Iterator[str]:
        if name == "p":
            paragraph = "".join(self._paragraph)
            self._paragraph.clear()
            if self._open_cell_depth:
                self._cell.append(paragraph.replace("\n", " "))
            else:
                yield paragraph
        elif name == "tc":
            self._open_cell_depth -= 1
            if not self._open_cell_depth:
                self._row.append(" ".join(filter(None, self._cell)))
                self._cell.clear()
        elif name == "tr" and not self._open_cell_depth:
            yield "\t".join(self._row)
            self._row.clear()


MAX_TEXT_CHARS = 4 * 1024 * 1024
_READ_TIMEOUT_S = MAX_CPU_S * 0.75
"""What has been read until then is the result."""


def extract_text(kind: str, data: bytes) -> bytes:
    return collect_text(extract_lines(kind, data)).encode(errors="replace")


def extract_lines(kind: str, data: bytes) -> Iterator[str]:
    """Extract lines by kind; each format loads only the libraries that it needs."""
    match kind:
        case "pdf":
            return extract_pdf_lines(data)
        case "word":
            return extract_docx_lines(data)
        case "spreadsheet":
            from joey.content import spreadsheet

            return spreadsheet.extract_lines(data)
        case "notebook":
            return extract_notebook_lines(data)
    raise ToolError(f"{kind} is not a kind of document.")


def collect_text(lines: Iterable[str]) -> str:
    """Join the lines: all, or those that fit into the limits of size and time."""
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
    serve_request(lambda data: extract_text(sys.argv[1], data))
