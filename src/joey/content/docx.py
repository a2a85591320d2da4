"""Text of a DOCX file: a line for each paragraph, the cells of a table row on one line.

A module of its own because only a worker that reads a DOCX file loads it.
"""

from __future__ import annotations

from collections.abc import Iterator

from joey.content.ooxml_package import OoxmlEventKind, OoxmlPackage, iter_xml_events

_DOCUMENT_PATH = "word/document.xml"
_ELEMENT_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_FALLBACK_ELEMENT = "Fallback"
"""The same content once more, for programs that do not know the newer form."""


def extract_lines(data: bytes) -> Iterator[str]:
    """Raises ToolError when the file is damaged, locked, or unpacks to too much."""
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
    """What has been read of the paragraph and the row that are open."""

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
