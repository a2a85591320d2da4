"""Office Open XML files: a zip archive with limits (encrypted ones are refused), XML as events.

Only needed files are unpacked. The sizes stated in the archive are not trusted: unpacked bytes are
counted. XML that declares types or entities is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from io import BytesIO
from typing import NoReturn
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from joey.errors import ToolError

MAX_UNPACKED_BYTES = 100 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
OLE_MAGIC = b"\xd0\xcf\x11\xe0"
"""The container of old Office files, and of new ones with a password."""


class OoxmlPackage:
    def __init__(self, data: bytes) -> None:
        if data.startswith(OLE_MAGIC):
            raise ToolError("it is encrypted with a password, or in the old format of Office.")
        try:
            self._archive = ZipFile(BytesIO(data))
        except (BadZipFile, ValueError, NotImplementedError) as error:
            raise ToolError(f"it is damaged: {error}.") from error
        self._remaining_bytes = MAX_UNPACKED_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._archive.NameToInfo

    def check_size(self) -> None:
        """Unpack and discard everything that a library might read. Raises ToolError like
        `iter_chunks`."""
        for name in self._archive.NameToInfo:
            if name.endswith((".xml", ".rels", ".bin")):
                for _ in self.iter_chunks(name):
                    pass

    def iter_chunks(self, name: str) -> Iterator[bytes]:
        """Iterate over the content of one file in chunks. Raises ToolError if it is missing, locked
        or damaged, or too much was unpacked."""
        if name not in self:
            raise ToolError(f"it is damaged: {name} is missing in it.")
        entry = self._archive.getinfo(name)
        # The other methods unpack without a limit, and no program uses them for documents.
        if entry.flag_bits & 1 or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ToolError("it is encrypted, or packed in a way that documents never are.")
        try:
            with self._archive.open(entry) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    self._remaining_bytes -= len(chunk)
                    if self._remaining_bytes < 0:
                        raise ToolError(
                            f"it unpacks to more than {MAX_UNPACKED_BYTES // 2**20} MB, so it was "
                            "not read."
                        )
                    yield chunk
        except (BadZipFile, zlib.error, EOFError) as error:
            raise ToolError(f"it is damaged: {error}.") from error


class OoxmlEventKind(Enum):
    START = "start"
    END = "end"
    TEXT = "text"


OoxmlEvent = tuple[OoxmlEventKind, str, dict[str, str]]
"""A name (or the text), and attributes; names are without their namespace."""


def iter_xml_events(chunks: Iterable[bytes]) -> Iterator[OoxmlEvent]:
    """Iterate over XML events. Raises ToolError if it is not well-formed, or declares types or
    entities."""
    pending: list[OoxmlEvent] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: pending.append(
        (
            OoxmlEventKind.START,
            _strip_namespace(name),
            {_strip_namespace(key): value for key, value in attributes.items()},
        )
    )
    parser.EndElementHandler = lambda name: pending.append(
        (OoxmlEventKind.END, _strip_namespace(name), {})
    )
    parser.CharacterDataHandler = lambda text: pending.append((OoxmlEventKind.TEXT, text, {}))
    parser.StartDoctypeDeclHandler = _reject_doctype
    try:
        for chunk in chunks:
            parser.Parse(chunk)
            yield from pending
            pending.clear()
        parser.Parse(b"", True)
        yield from pending
    except expat.ExpatError as error:
        raise ToolError(f"it is damaged: {error}.") from error


def _strip_namespace(name: str) -> str:
    return name.rpartition(" ")[2]


def _reject_doctype(*_: object) -> NoReturn:
    raise ToolError("it declares types or entities in its XML, which documents never do.")
