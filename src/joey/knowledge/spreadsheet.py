"""The text of an XLSX file: sheet by sheet, a line for each row, cells apart by tabs."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import join, normpath

from msgspec import Struct

from joey.errors import ToolError
from joey.knowledge.cell_formats import CellFormats, read_formats
from joey.knowledge.markup import Kind, events
from joey.knowledge.package import Package

LAST_ROW = 50_000
_FOLDER = "xl"
_WORKBOOK = f"{_FOLDER}/workbook.xml"
_STRINGS = f"{_FOLDER}/sharedStrings.xml"
_STYLES = f"{_FOLDER}/styles.xml"
_MOST_COLUMNS = 16_384
_LONGEST_CELL = 32_767
"""Characters, as in Excel."""


class _Sheet(Struct, frozen=True):
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
    package = Package(data)
    sheets, from_1904 = _workbook(package)
    strings = tuple(_strings(package)) if _STRINGS in package else ()
    formats = read_formats(package.chunks(_STYLES)) if _STYLES in package else CellFormats()
    for number, sheet in enumerate(sheets):
        if number:
            yield ""
        yield f"--- Sheet: {sheet.name} ---"
        yield from _SheetReader(package, sheet, strings, formats, from_1904).rows()


def _workbook(package: Package) -> tuple[list[_Sheet], bool]:
    """The sheets that a person would see, and whether days are counted from 1904."""
    targets = _relations(package, _WORKBOOK)
    sheets: list[_Sheet] = []
    from_1904 = False
    for kind, name, attributes in events(package.chunks(_WORKBOOK)):
        if kind is not Kind.START:
            continue
        if name == "workbookPr":
            from_1904 = attributes.get("date1904") in ("1", "true")
        elif name == "sheet" and attributes.get("state", "visible") == "visible":
            target = targets.get(attributes.get("id", ""), "")
            sheets.append(_Sheet(attributes.get("name", ""), _inside(_FOLDER, target)))
    return sheets, from_1904


def _relations(package: Package, path: str) -> dict[str, str]:
    """Where the ids in a part of the document lead."""
    folder, _, name = path.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in package:
        return {}
    return {
        attributes.get("Id", ""): attributes.get("Target", "")
        for kind, element, attributes in events(package.chunks(relations))
        if kind is Kind.START and element == "Relationship"
    }


def _inside(folder: str, target: str) -> str:
    return normpath(target.lstrip("/") if target.startswith("/") else join(folder, target))


def _strings(package: Package) -> Iterator[str]:
    """The texts that cells refer to by number; hints on pronunciation are none of them."""
    parts: list[str] = []
    parents = [""]
    spoken = False
    for kind, name, _ in events(package.chunks(_STRINGS)):
        if kind is Kind.START:
            parents.append(name)
            spoken = spoken or name == "rPh"
        elif kind is Kind.END:
            parents.pop()
            spoken = spoken and name != "rPh"
            if name == "si":
                yield "".join(parts)
                parts.clear()
        elif parents[-1] == "t" and not spoken:
            parts.append(name)


class _SheetReader:
    def __init__(
        self,
        package: Package,
        sheet: _Sheet,
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
            if kind is Kind.TEXT:
                if inside == "f":
                    cell.formula = (cell.formula + name)[:_LONGEST_CELL]
                elif inside:
                    cell.value = (cell.value + name)[:_LONGEST_CELL]
            elif kind is Kind.END:
                inside = ""
                if name == "c":
                    self._put(row, cell, number)
                elif name == "row" and any(row):
                    yield "\t".join(row)
            elif name == "row":
                row = []
                number = _number(attributes.get("r"), number + 1)
                if number > LAST_ROW:
                    yield f"[The rows after {LAST_ROW} are left out.]"
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
            if kind is Kind.START and name == "hyperlink":
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
        if column > _MOST_COLUMNS:
            raise ToolError(f"it is damaged: there is no column {place[:10]}.")
    return column - 1 if column else following


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else default
