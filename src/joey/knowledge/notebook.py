"""The text of a notebook: its cells in order, with what they printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from joey.errors import ToolError

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is no notebook."""
    try:
        notebook = json.loads(data)
    except ValueError as error:
        raise ToolError(f"it is no notebook: {error}.") from error
    for number, cell in enumerate(_cells(notebook), 1):
        yield f"--- Cell {number} ({cell.get('cell_type', 'unknown')}) ---"
        yield from _text(cell.get("source", cell.get("input"))).splitlines()
        outputs = [text for output in _dicts(cell.get("outputs")) if (text := _shown(output))]
        if outputs:
            yield f"--- Output of cell {number} ---"
            for text in outputs:
                yield from text.splitlines()


def _cells(notebook: Any) -> list[dict[str, Any]]:
    """Old notebooks have their cells in worksheets."""
    match notebook:
        case {"cells": list() as cells}:
            return _dicts(cells)
        case {"worksheets": list() as sheets}:
            return [cell for sheet in _dicts(sheets) for cell in _dicts(sheet.get("cells"))]
    raise ToolError("it is no notebook: it has no cells.")


def _shown(output: dict[str, Any]) -> str:
    """Output as text; pictures are only named."""
    match output:
        case {"traceback": list() as traceback} if traceback:
            return _ESCAPES.sub("", "\n".join(map(_text, traceback)))
        case {"text": text}:
            return _ESCAPES.sub("", _text(text))
        case {"data": {"text/plain": text}}:
            return _text(text)
        case {"data": dict() as data} if data:
            return f"[{', '.join(sorted(data))}]"
    return ""


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return "".join(part for part in value if isinstance(part, str))
    return ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
