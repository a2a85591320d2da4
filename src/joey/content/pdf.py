"""Text of a PDF, page by page; encrypted ones are refused.

A module of its own because only a worker that reads a PDF loads its library.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from pypdf import PageObject, PdfReader
from pypdf.errors import DependencyError, PyPdfError

from joey.errors import ToolError


def extract_lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is damaged or locked."""
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
        yield from _extract_page_text(reader, number).splitlines() or [
            "[No text: the page may be a picture.]"
        ]


def _extract_page_text(reader: PdfReader, number: int) -> str:
    """One page; a page that cannot be read does not spoil the others."""
    try:
        page: PageObject = reader.pages[number]
        return page.extract_text()
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # what a damaged page can raise has no end
        return f"[This page cannot be read: {error}]"
