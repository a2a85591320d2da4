"""What one file looks like to the model: text with numbers, a picture, or a note."""

from __future__ import annotations

from pathlib import PurePath

from msgspec import structs

from joey.errors import ToolError
from joey.ports import Documents, FileKind, Place, ToolContext
from joey.tools.definition_list import definition_list, definitions_in
from joey.tools.images import SUFFIXES, ImageAllowance, data_uri, media_type
from joey.tools.line_reader import LineReader, file_source, text_source
from joey.tools.read_request import WantedFile
from joey.tools.read_result import Entry
from joey.tools.text_view import TextViewer

_SNIFFED = 8192
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_NOTHING = (b"", *_UTF_16)
_LARGEST_WIDE = 8 * 1024 * 1024
_DOCUMENTS = (b"%PDF-", b"PK\x03\x04")
"""How files begin that are of no use as text, even if they have no byte that betrays it."""
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\v\f\r\x1b")


class FileViewer:
    """Looks at the files of one call, which share a budget of text and one of images."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._text = TextViewer(ctx.model)
        self._images = ImageAllowance(ctx.settings)

    async def view(self, wanted: WantedFile, place: Place) -> Entry:
        """Never fails: what is wrong with a file is in its entry."""
        try:
            return await self._view(wanted, place)
        except ToolError as error:
            return Entry(wanted.path, error=str(error))

    async def _view(self, wanted: WantedFile, place: Place) -> Entry:
        kind = await self._ctx.files.stat(place)
        _check_readable(wanted, place, kind)
        reader = LineReader(file_source(self._ctx.files, place))
        head = await reader.head(_SNIFFED)
        data = reader.whole
        is_binary = _is_binary(head)
        documents = self._ctx.extras.documents
        if head in _NOTHING:
            entry = Entry(wanted.path, note="File is empty", is_empty=True)
        elif documents is not None and documents.supports(place.path.name):
            is_text = not (is_binary or head.startswith(_DOCUMENTS))
            entry = await self._document(wanted, place, documents, is_text, reader)
        elif _is_wide(head):
            entry = await self._wide(wanted, place)
        elif is_binary:
            return await self._binary(wanted, place, kind.size, head)
        else:
            entry = await self._lines(wanted, place, reader)
        self._ctx.memory.note(place, kind.stamp, data)
        return entry

    async def _lines(self, wanted: WantedFile, place: Place, reader: LineReader) -> Entry:
        most = self._ctx.settings.max_read_file_line
        unused = [reader]

        def start() -> LineReader:
            return unused.pop() if unused else LineReader(file_source(self._ctx.files, place))

        entry = await self._text.view(wanted, start, most)
        is_limited = most >= 0 and not wanted.ranges and wanted.block is None
        if not is_limited or entry.note is None:
            return entry
        shown = entry.passages[-1].last if entry.passages else None
        return structs.replace(entry, definitions=await self._definitions(place, shown))

    async def _wide(self, wanted: WantedFile, place: Place) -> Entry:
        """Text in UTF-16, as some editors of Windows write it."""
        data = await self._ctx.files.read(place, _LARGEST_WIDE + 1)
        if len(data) > _LARGEST_WIDE:
            raise ToolError(f"{wanted.path} is in UTF-16 and larger than 8 MB, so it is not read.")
        source = text_source(data.decode("utf-16", errors="replace"))
        most = self._ctx.settings.max_read_file_line
        return await self._text.view(wanted, lambda: LineReader(source), most)

    async def _definitions(self, place: Place, shown: int | None) -> str | None:
        """What the file defines, in the lines that are shown if there are any."""
        outlines = self._ctx.extras.outlines
        name = place.path.name
        if outlines is None or not outlines.supports(name):
            return None
        try:
            found = await definitions_in(place, outlines, self._ctx.files)
        except ToolError:
            return None  # the lines are there, and code that cannot be parsed has no list
        wanted = [item for item in found if shown is None or item.start <= shown]
        text = definition_list(name, wanted)
        return text if wanted and self._text.has_room_for(text) else None

    async def _document(
        self,
        wanted: WantedFile,
        place: Place,
        documents: Documents,
        is_text: bool,
        reader: LineReader,
    ) -> Entry:
        try:
            text = await documents.text(place)
        except ToolError as error:
            if not is_text:
                raise
            entry = await self._lines(wanted, place, reader)
            return _with_note(entry, f"This is the file as it stands. {error}")
        if not text.strip():
            return Entry(wanted.path, note="The document has no text")
        source = text_source(text)
        entry = await self._text.view(wanted, lambda: LineReader(source))
        if not is_text:
            return entry
        return _with_note(entry, "This is the text in the file, which itself has another form.")

    async def _binary(self, wanted: WantedFile, place: Place, size: int, head: bytes) -> Entry:
        suffix = PurePath(wanted.path).suffix.lower()
        if suffix not in SUFFIXES:
            return Entry(wanted.path, binary=suffix.removeprefix(".") or "bin")
        media = media_type(head)
        if media is None:
            return Entry(wanted.path, note=f"Image file ({suffix}) of a kind that cannot be shown")
        if not self._ctx.model.images:
            return Entry(wanted.path, note="Image file: this model cannot look at images")
        if refusal := self._images.refusal(size):
            return Entry(wanted.path, note=refusal)
        data = await self._ctx.files.read(place, size)
        self._images.take(size)
        note = f"Image file ({len(data) / 1024:.1f} KB)"
        return Entry(wanted.path, note=note, image=data_uri(media, data))


def _check_readable(wanted: WantedFile, place: Place, kind: FileKind) -> None:
    if not kind.exists:
        raise ToolError(f"File not found: {place.path}")
    if kind.is_dir:
        raise ToolError(f"{wanted.path} is a directory, not a file: use list_files to see it.")
    if not kind.is_file:
        raise ToolError(
            f"{wanted.path} cannot be read: it is not a regular file but a device, a pipe, a"
            " socket, or a link that leads to itself."
        )


def _with_note(entry: Entry, note: str) -> Entry:
    return structs.replace(entry, note=f"{note} {entry.note}" if entry.note else note)


def _is_wide(head: bytes) -> bool:
    """UTF-16 with its mark, in which no text has a NUL."""
    return head.startswith(_UTF_16) and "\0" not in head.decode("utf-16", errors="ignore")


def _is_binary(head: bytes) -> bool:
    """A NUL byte, or more control characters than any text has."""
    return b"\0" in head or sum(byte in _CONTROLS for byte in head) * 10 > len(head)
