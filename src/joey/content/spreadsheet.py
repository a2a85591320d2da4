"""Text of an XLSX file: sheet by sheet, a line for each row, cells separated by tabs.

The formats of the cells tell which numbers are dates and times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from posixpath import join, normpath

from msgspec import Struct

from joey.content.ooxml import OoxmlEventKind, OoxmlPackage, events
from joey.errors import ToolError

MAX_ROWS = 50_000
_XL_DIRECTORY = "xl"
_WORKBOOK_PATH = f"{_XL_DIRECTORY}/workbook.xml"
_SHARED_STRINGS_PATH = f"{_XL_DIRECTORY}/sharedStrings.xml"
_STYLES_PATH = f"{_XL_DIRECTORY}/styles.xml"
_MAX_COLUMNS = 16_384
_MAX_CELL_CHARS = 32_767
"""Characters, as in Excel."""


class _Worksheet(Struct, frozen=True):
    name: str
    path: str


class _Cell(Struct):
    column: int
    kind: str
    style: int
    value: str = ""
    formula: str = ""


def lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is damaged, locked, or unpacks to too much."""
    package = OoxmlPackage(data)
    sheets, from_1904 = _workbook(package)
    strings = tuple(_strings(package)) if _SHARED_STRINGS_PATH in package else ()
    formats = (
        read_formats(package.chunks(_STYLES_PATH)) if _STYLES_PATH in package else CellFormats()
    )
    for number, sheet in enumerate(sheets):
        if number:
            yield ""
        yield f"--- Sheet: {sheet.name} ---"
        yield from _WorksheetReader(package, sheet, strings, formats, from_1904).rows()


def _workbook(package: OoxmlPackage) -> tuple[list[_Worksheet], bool]:
    """The sheets that a person would see, and whether days are counted from 1904."""
    targets = _relations(package, _WORKBOOK_PATH)
    sheets: list[_Worksheet] = []
    from_1904 = False
    for kind, name, attributes in events(package.chunks(_WORKBOOK_PATH)):
        if kind is not OoxmlEventKind.START:
            continue
        if name == "workbookPr":
            from_1904 = attributes.get("date1904") in ("1", "true")
        elif name == "sheet" and attributes.get("state", "visible") == "visible":
            target = targets.get(attributes.get("id", ""), "")
            sheets.append(_Worksheet(attributes.get("name", ""), _inside(_XL_DIRECTORY, target)))
    return sheets, from_1904


def _relations(package: OoxmlPackage, path: str) -> dict[str, str]:
    """Where the ids in a part of the document lead."""
    directory, _, name = path.rpartition("/")
    relations = f"{directory}/_rels/{name}.rels"
    if relations not in package:
        return {}
    return {
        attributes.get("Id", ""): attributes.get("Target", "")
        for kind, element, attributes in events(package.chunks(relations))
        if kind is OoxmlEventKind.START and element == "Relationship"
    }


def _inside(directory: str, target: str) -> str:
    return normpath(target.lstrip("/") if target.startswith("/") else join(directory, target))


def _strings(package: OoxmlPackage) -> Iterator[str]:
    """The texts that cells refer to by number; hints on pronunciation are none of them."""
    parts: list[str] = []
    parents = [""]
    spoken = False
    for kind, name, _ in events(package.chunks(_SHARED_STRINGS_PATH)):
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
        self._strings = strings
        self._formats = formats
        self._from_1904 = from_1904
        self._links = self._read_links()

    def rows(self) -> Iterator[str]:
        row: list[str] = []
        number = 0
        cell = _Cell(0, "", 0)
        inside = ""
        for kind, name, attributes in events(self._package.chunks(self._path)):
            if kind is OoxmlEventKind.TEXT:
                if inside == "f":
                    cell.formula = (cell.formula + name)[:_MAX_CELL_CHARS]
                elif inside:
                    cell.value = (cell.value + name)[:_MAX_CELL_CHARS]
            elif kind is OoxmlEventKind.END:
                inside = ""
                if name == "c":
                    self._put(row, cell, number)
                elif name == "row" and any(row):
                    yield "\t".join(row)
            elif name == "row":
                row = []
                number = _number(attributes.get("r"), number + 1)
                if number > MAX_ROWS:
                    yield f"[The rows after {MAX_ROWS} are left out.]"
                    return
            elif name == "c":
                column = _column(attributes.get("r", ""), len(row))
                cell = _Cell(column, attributes.get("t", "n"), _number(attributes.get("s"), 0))
            elif name in ("v", "f", "t"):
                inside = name

    def _put(self, row: list[str], cell: _Cell, number: int) -> None:
        text = self._shown(cell).replace("\n", " ").replace("\t", " ")
        if link := self._links.get((cell.column, number)):
            text = f"{text} ({link})" if text != link else text
        if not text:
            return
        row.extend([""] * (cell.column + 1 - len(row)))
        row[cell.column] = text

    def _shown(self, cell: _Cell) -> str:
        if not cell.value:
            return f"[Formula: {cell.formula}]" if cell.formula else ""
        match cell.kind:
            case "s":
                at = _number(cell.value, -1)
                return self._strings[at] if 0 <= at < len(self._strings) else ""
            case "b":
                return "TRUE" if cell.value == "1" else "FALSE"
            case "e":
                return f"[Error: {cell.value}]"
            case "n":
                return self._formats.show(cell.value, cell.style, self._from_1904)
        return cell.value

    def _read_links(self) -> dict[tuple[int, int], str]:
        """Addresses on the web by column and row; they stand behind the rows they belong to."""
        targets = _relations(self._package, self._path)
        if not targets:
            return {}
        links: dict[tuple[int, int], str] = {}
        for kind, name, attributes in events(self._package.chunks(self._path)):
            if kind is OoxmlEventKind.START and name == "hyperlink":
                place = attributes.get("ref", "")
                target = targets.get(attributes.get("id", ""), "")
                row = _number(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0)
                if target:
                    links[_column(place, 0), row] = target
        return links


def _column(place: str, following: int) -> int:
    """`C7` is in column 2; a cell without a place comes after the one before it."""
    column = 0
    for letter in place:
        if not "A" <= letter <= "Z":
            break
        column = column * 26 + ord(letter) - 64
        if column > _MAX_COLUMNS:
            raise ToolError(f"it is damaged: there is no column {place[:10]}.")
    return column - 1 if column else following


def _number(text: str | None, default: int) -> int:
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
    dates: frozenset[int] = frozenset()
    """Numbers of the styles that show a date or a time."""

    def show(self, value: str, style: int, from_1904: bool) -> str:
        if style not in self.dates:
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


def read_formats(chunks: Iterable[bytes]) -> CellFormats:
    """The styles of `xl/styles.xml`: which of them are dates."""
    own: dict[str, str] = {}
    dates: set[int] = set()
    count = 0
    inside = ""
    for kind, name, attributes in events(chunks):
        if kind is OoxmlEventKind.START and name == "numFmt":
            own[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            inside = name if kind is OoxmlEventKind.START else ""
        elif kind is OoxmlEventKind.START and name == "xf" and inside:
            if _is_date(attributes.get("numFmtId", "0"), own):
                dates.add(count)
            count += 1
    return CellFormats(frozenset(dates))


def _is_date(number: str, own: dict[str, str]) -> bool:
    if number in own:
        return _DATE_LETTERS_RE.search(_FORMAT_LITERAL_RE.sub("", own[number])) is not None
    return number.isdecimal() and len(number) < 4 and int(number) in _BUILT_IN_DATE_FORMAT_IDS
