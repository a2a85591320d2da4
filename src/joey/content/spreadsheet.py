"""Text of a spreadsheet: sheet by sheet, a line for each row, cells separated by tabs.

The calamine library reads the values. Of an XLSX file, what it leaves out is added: the text of
formulas without a stored value, errors, and links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from io import BytesIO
from posixpath import join, normpath
from typing import TYPE_CHECKING

from joey.content.ooxml_package import OLE_MAGIC, OoxmlEventKind, OoxmlPackage, iter_xml_events
from joey.errors import ToolError

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

MAX_ROWS = 50_000
_MAX_COLUMNS = 16_384
_MAX_CELL_CHARS = 32_767
"""As in Excel."""
_XL_DIRECTORY = "xl"
_WORKBOOK_PATH = f"{_XL_DIRECTORY}/workbook.xml"
_NOTABLE_CELL_RE = re.compile(rb"""<(?:\w+:)?(?:f[\s/>]|hyperlink\s)|\st=["']e["']""")

_CellNotes = dict[int, dict[int, str]]
"""Texts by row and column, both counted from 0."""


def extract_lines(data: bytes) -> Iterator[str]:
    """Extract the lines. Raises ToolError if the file is damaged, locked, or unpacks to too
    much."""
    from python_calamine import CalamineError, SheetVisibleEnum, load_workbook

    is_zip = data.startswith(b"PK")
    if is_zip:
        OoxmlPackage(data).check_size()
    try:
        workbook = load_workbook(BytesIO(data))
        paths = _read_sheet_paths(OoxmlPackage(data)) if is_zip else {}
        names = (
            sheet.name
            for sheet in workbook.sheets_metadata
            if sheet.visible == SheetVisibleEnum.Visible
        )
        for number, name in enumerate(names):
            yield from ("",) if number else ()
            yield f"--- Sheet: {name} ---"
            notes, links = ({}, {}) if name not in paths else _read_notes(data, paths[name])
            yield from _iter_lines(workbook.get_sheet_by_name(name), notes, links)
    except CalamineError as error:
        locked = "encrypted with a password, or " if data.startswith(OLE_MAGIC) else ""
        raise ToolError(f"it is {locked}damaged: {error}.") from error


def _iter_lines(sheet: CalamineSheet, notes: _CellNotes, links: _CellNotes) -> Iterator[str]:
    first_column = sheet.start[1] if sheet.start else 0
    last_row, last_column = sheet.end or (-1, 0)
    if last_column >= _MAX_COLUMNS:
        raise ToolError(f"it is damaged: there is no column {last_column}.")
    rows = sheet.iter_rows()  # from the first row, but not from the first column
    for number in range(max(last_row, *notes, *links, -1) + 1):
        if number >= MAX_ROWS:
            yield f"[The rows after {MAX_ROWS} are left out.]"
            return
        cells = {}
        if number <= last_row:
            cells = {at: _format_cell(value) for at, value in enumerate(next(rows), first_column)}
        cells |= notes.get(number, {})
        for at, link in links.get(number, {}).items():
            text = cells.get(at, "")
            cells[at] = f"{text} ({link})" if text != link else text
        if any(cells.values()):
            width = max(at for at, text in cells.items() if text) + 1
            yield "\t".join(cells.get(at, "") for at in range(width))


def _format_cell(value: float | str | bool | time | date | datetime | timedelta) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if value.is_integer() and abs(value) < 10**15:
            return str(int(value))
        case datetime():
            return (value + timedelta(milliseconds=500)).isoformat(" ", "seconds")
        case time():
            return value.isoformat("seconds")
    return _flatten(str(value))


def _flatten(text: str) -> str:
    return text[:_MAX_CELL_CHARS].replace("\n", " ").replace("\t", " ")


def _read_sheet_paths(package: OoxmlPackage) -> dict[str, str]:
    """Read the parts of an XLSX file that hold its sheets, by name; empty for other formats."""
    if _WORKBOOK_PATH not in package:
        return {}
    targets = _read_relationships(package, _WORKBOOK_PATH)
    return {
        attributes.get("name", ""): normpath(join(f"/{_XL_DIRECTORY}", target)).lstrip("/")
        for kind, element, attributes in iter_xml_events(package.iter_chunks(_WORKBOOK_PATH))
        if kind is OoxmlEventKind.START and element == "sheet"
        if (target := targets.get(attributes.get("id", "")))
    }


def _read_relationships(package: OoxmlPackage, path: str) -> Mapping[str, str]:
    """Read the targets of ids in a part of the document."""
    directory, _, name = path.rpartition("/")
    relations = f"{directory}/_rels/{name}.rels"
    if relations not in package:
        return {}
    return {
        attributes.get("Id", ""): attributes.get("Target", "")
        for kind, element, attributes in iter_xml_events(package.iter_chunks(relations))
        if kind is OoxmlEventKind.START and element == "Relationship"
    }


def _read_notes(data: bytes, path: str) -> tuple[_CellNotes, _CellNotes]:
    """Read errors, formulas without a value, and links; parsed only if there are any."""
    package = OoxmlPackage(data)
    notes: _CellNotes = {}
    links: _CellNotes = {}
    if path not in package or not _NOTABLE_CELL_RE.search(b"".join(package.iter_chunks(path))):
        return notes, links
    package = OoxmlPackage(data)
    targets = _read_relationships(package, path)
    row, column, is_error, inside = -1, -1, False, ""
    texts = {"v": "", "f": ""}
    for kind, name, attributes in iter_xml_events(package.iter_chunks(path)):
        if kind is OoxmlEventKind.TEXT:
            if inside:
                texts[inside] = (texts[inside] + name)[:_MAX_CELL_CHARS]
        elif kind is OoxmlEventKind.END:
            inside = ""
            if name == "c" and is_error and texts["v"]:
                notes.setdefault(row, {})[column] = f"[Error: {_flatten(texts['v'])}]"
            elif name == "c" and texts["f"] and not texts["v"]:
                notes.setdefault(row, {})[column] = f"[Formula: {_flatten(texts['f'])}]"
        elif name == "row":
            row, column = _parse_int(attributes.get("r", ""), row + 2) - 1, -1
        elif name == "c":
            column = _parse_column(attributes.get("r", ""), column + 1)
            is_error = attributes.get("t") == "e"
            texts = {"v": "", "f": ""}
        elif name in texts:
            inside = name
        elif name == "hyperlink" and (target := targets.get(attributes.get("id", ""))):
            place = attributes.get("ref", "").partition(":")[0]
            linked = _parse_int(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0) - 1
            links.setdefault(linked, {})[_parse_column(place, 0)] = _flatten(target)
    return notes, links


def _parse_column(cell_reference: str, following: int) -> int:
    """Parse a cell's column (`C7` is 2); a cell without a reference follows the one before it."""
    column = 0
    for letter in cell_reference[:4]:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
    if column > _MAX_COLUMNS:
        raise ToolError(f"it is damaged: there is no column {cell_reference[:10]}.")
    return column - 1 if column else following


def _parse_int(text: str, default: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else default
