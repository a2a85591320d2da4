"""Text of an XLSX file: sheet by sheet, a line for each row, cells separated by tabs.

The formats of the cells tell which numbers are dates and times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from posixpath import join, normpath

from msgspec import Struct

from joey.content.ooxml_package import OoxmlEventKind, OoxmlPackage, iter_xml_events
from joey.errors import ToolError

MAX_ROWS = 50_000
_XL_DIRECTORY = "xl"
_WORKBOOK_PATH = f"{_XL_DIRECTORY}/workbook.xml"
_SHARED_STRINGS_PATH = f"{_XL_DIRECTORY}/sharedStrings.xml"
_STYLES_PATH = f"{_XL_DIRECTORY}/styles.xml"
_MAX_COLUMNS = 16_384
_MAX_CELL_CHARS = 32_767
"""As in Excel."""


class _Worksheet(Struct, frozen=True):
    name: str
    path: str


class _Cell(Struct):
    column: int
    cell_type: str
    style_index: int
    value: str = ""
    formula: str = ""


def extract_lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is damaged, locked, or unpacks to too much."""
    package = OoxmlPackage(data)
    sheets, from_1904 = _read_workbook(package)
    strings = tuple(_iter_shared_strings(package)) if _SHARED_STRINGS_PATH in package else ()
    formats = (
        read_cell_formats(package.iter_chunks(_STYLES_PATH))
        if _STYLES_PATH in package
        else CellFormats()
    )
    for number, sheet in enumerate(sheets):
        if number:
            yield ""
        yield f"--- Sheet: {sheet.name} ---"
        yield from _WorksheetReader(package, sheet, strings, formats, from_1904).iter_rows()


def _read_workbook(package: OoxmlPackage) -> tuple[list[_Worksheet], bool]:
    """The sheets that a user would see, and whether days are counted from 1904."""
    targets = _read_relationships(package, _WORKBOOK_PATH)
    sheets: list[_Worksheet] = []
    from_1904 = False
    for kind, name, attributes in iter_xml_events(package.iter_chunks(_WORKBOOK_PATH)):
        if kind is not OoxmlEventKind.START:
            continue
        if name == "workbookPr":
            from_1904 = attributes.get("date1904") in ("1", "true")
        elif name == "sheet" and attributes.get("state", "visible") == "visible":
            target = targets.get(attributes.get("id", ""), "")
            sheets.append(
                _Worksheet(attributes.get("name", ""), _resolve_target(_XL_DIRECTORY, target))
            )
    return sheets, from_1904


def _read_relationships(package: OoxmlPackage, path: str) -> dict[str, str]:
    """Where the ids in a part of the document lead."""
    directory, _, name = path.rpartition("/")
    relations = f"{directory}/_rels/{name}.rels"
    if relations not in package:
        return {}
    return {
        attributes.get("Id", ""): attributes.get("Target", "")
        for kind, element, attributes in iter_xml_events(package.iter_chunks(relations))
        if kind is OoxmlEventKind.START and element == "Relationship"
    }


def _resolve_target(directory: str, target: str) -> str:
    return normpath(target.lstrip("/") if target.startswith("/") else join(directory, target))


def _iter_shared_strings(package: OoxmlPackage) -> Iterator[str]:
    """The texts that cells refer to by number; hints on pronunciation are none of them."""
    parts: list[str] = []
    parents = [""]
    spoken = False
    for kind, name, _ in iter_xml_events(package.iter_chunks(_SHARED_STRINGS_PATH)):
        if kind is OoxmlEventKind.START:
            parents.append(name)
            spoken = spoken or name == "rPh"
        elif kind is OoxmlEventKind.END:
            parents.pop()
            spoken = spoken and name != "rPh"
            if name == "si":
                yield "".join(parts)
                parts.clear()
        elif parents[-1] == "t" and not spoken:
            parts.append(name)


class _WorksheetReader:
    def __init__(
        self,
        package: OoxmlPackage,
        sheet: _Worksheet,
        strings: tuple[str, ...],
        formats: CellFormats,
        from_1904: bool,
    ) -> None:
        self._package = package
        self._path = sheet.path
        self._shared_strings = strings
        self._formats = formats
        self._is_1904_epoch = from_1904
        self._hyperlinks = self._read_hyperlinks()

    def iter_rows(self) -> Iterator[str]:
        row: list[str] = []
        number = 0
        cell = _Cell(0, "", 0)
        inside = ""
        for kind, name, attributes in iter_xml_events(self._package.iter_chunks(self._path)):
            if kind is OoxmlEventKind.TEXT:
                if inside == "f":
                    cell.formula = (cell.formula + name)[:_MAX_CELL_CHARS]
                elif inside:
                    cell.value = (cell.value + name)[:_MAX_CELL_CHARS]
            elif kind is OoxmlEventKind.END:
                inside = ""
                if name == "c":
                    self._add_cell(row, cell, number)
                elif name == "row" and any(row):
                    yield "\t".join(row)
            elif name == "row":
                row = []
                number = _parse_int(attributes.get("r"), number + 1)
                if number > MAX_ROWS:
                    yield f"[The rows after {MAX_ROWS} are left out.]"
                    return
            elif name == "c":
                column = _parse_column(attributes.get("r", ""), len(row))
                cell = _Cell(column, attributes.get("t", "n"), _parse_int(attributes.get("s"), 0))
            elif name in ("v", "f", "t"):
                inside = name

    def _add_cell(self, row: list[str], cell: _Cell, number: int) -> None:
        text = self._format_cell(cell).replace("\n", " ").replace("\t", " ")
        if link := self._hyperlinks.get((cell.column, number)):
            text = f"{text} ({link})" if text != link else text
        if not text:
            return
        row.extend([""] * (cell.column + 1 - len(row)))
        row[cell.column] = text

    def _format_cell(self, cell: _Cell) -> str:
        if not cell.value:
            return f"[Formula: {cell.formula}]" if cell.formula else ""
        match cell.cell_type:
            case "s":
                at = _parse_int(cell.value, -1)
                return self._shared_strings[at] if 0 <= at < len(self._shared_strings) else ""
            case "b":
                return "TRUE" if cell.value == "1" else "FALSE"
            case "e":
                return f"[Error: {cell.value}]"
            case "n":
                return self._formats.format_value(cell.value, cell.style_index, self._is_1904_epoch)
        return cell.value

    def _read_hyperlinks(self) -> dict[tuple[int, int], str]:
        """Addresses on the web by column and row; they stand behind the rows they belong to."""
        targets = _read_relationships(self._package, self._path)
        if not targets:
            return {}
        links: dict[tuple[int, int], str] = {}
        for kind, name, attributes in iter_xml_events(self._package.iter_chunks(self._path)):
            if kind is OoxmlEventKind.START and name == "hyperlink":
                cell_reference = attributes.get("ref", "")
                target = targets.get(attributes.get("id", ""), "")
                row = _parse_int(cell_reference.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0)
                if target:
                    links[_parse_column(cell_reference, 0), row] = target
        return links


def _parse_column(cell_reference: str, following: int) -> int:
    """`C7` is in column 2; a cell without a place comes after the one before it."""
    column = 0
    for letter in cell_reference:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
        if column > _MAX_COLUMNS:
            raise ToolError(f"it is damaged: there is no column {cell_reference[:10]}.")
    return column - 1 if column else following


def _parse_int(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else default


_BUILT_IN_DATE_FORMAT_IDS = frozenset(
    (*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59))
)
_FORMAT_LITERAL_RE = re.compile(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]', re.IGNORECASE)
_DATE_LETTERS_RE = re.compile(r"[ymdhs]", re.IGNORECASE)
_EPOCH_1900 = datetime(1899, 12, 30)
_EPOCH_1904 = datetime(1904, 1, 1)
_MAX_DATE_DAYS = 2_958_466
"""The end of the year 9999."""


class CellFormats(Struct, frozen=True):
    date_styles: frozenset[int] = frozenset()
    """Numbers of the styles that show a date or a time."""

    def format_value(self, value: str, style: int, from_1904: bool) -> str:
        if style not in self.date_styles:
            return value
        try:
            days = float(value)
        except ValueError:
            return value
        if not 0 <= days < _MAX_DATE_DAYS:
            return value
        seconds = round(days * 86_400)
        moment = (_EPOCH_1904 if from_1904 else _EPOCH_1900) + timedelta(seconds=seconds)
        if days < 1:
            return moment.strftime("%H:%M:%S")
        return moment.isoformat(" ") if seconds % 86_400 else moment.date().isoformat()


def read_cell_formats(chunks: Iterable[bytes]) -> CellFormats:
    """The styles of `xl/styles.xml`: which of them are dates."""
    own: dict[str, str] = {}
    dates: set[int] = set()
    count = 0
    inside = ""
    for kind, name, attributes in iter_xml_events(chunks):
        if kind is OoxmlEventKind.START and name == "numFmt":
            own[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            inside = name if kind is OoxmlEventKind.START else ""
        elif kind is OoxmlEventKind.START and name == "xf" and inside:
            if _is_date_format(attributes.get("numFmtId", "0"), own):
                dates.add(count)
            count += 1
    return CellFormats(frozenset(dates))


def _is_date_format(number: str, own: dict[str, str]) -> bool:
    if number in own:
        return _DATE_LETTERS_RE.search(_FORMAT_LITERAL_RE.sub("", own[number])) is not None
    return number.isdecimal() and len(number) < 4 and int(number) in _BUILT_IN_DATE_FORMAT_IDS
