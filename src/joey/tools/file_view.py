"""What one file looks like to the model: text with numbers, a picture, or a note."""

from __future__ import annotations

from pathlib import PurePath

from joey.core.models import ModelInfo
from joey.errors import ToolError
from joey.ports import Place, ToolContext
from joey.tools.images import SUFFIXES, ImageAllowance, data_uri, media_type
from joey.tools.line_reader import LineReader, Lines
from joey.tools.read_request import Range, WantedFile
from joey.tools.read_result import Entry, Passage

_SNIFFED = 8192
_LEAST_BUDGET = 16 * 1024
_MOST_BUDGET = 1024 * 1024
_BYTES_PER_TOKEN = 3
_WITHOUT_END = 2**62
_CONTROLS = frozenset(range(0x20)) - frozenset(b"\t\n\v\f\r\x1b")


class FileViewer:
    """Looks at the files of one call, which share a budget of text and one of images."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._left = text_budget(ctx.model)
        self._images = ImageAllowance(ctx.settings)

    async def view(self, wanted: WantedFile, place: Place) -> Entry:
        """Never fails: what is wrong with a file is in its entry."""
        try:
            return await self._view(wanted, place)
        except ToolError as error:
            return Entry(wanted.path, error=str(error))

    async def _view(self, wanted: WantedFile, place: Place) -> Entry:
        kind = await self._ctx.files.stat(place)
        if not kind.exists:
            raise ToolError(f"File not found: {place.path}")
        if kind.is_dir:
            raise ToolError(f"{wanted.path} is a directory, not a file: use list_files to see it.")
        reader = LineReader(self._ctx.files, place)
        head = await reader.head(_SNIFFED)
        if not head:
            return Entry(wanted.path, note="File is empty", is_empty=True)
        if _is_binary(head):
            return await self._binary(wanted, place, kind.size, head)
        if wanted.ranges:
            return await self._ranges(wanted, place)
        return await self._whole(wanted, reader)

    async def _whole(self, wanted: WantedFile, reader: LineReader) -> Entry:
        most = self._ctx.settings.max_read_file_line
        lines = await self._take(reader, most if most >= 0 else _WITHOUT_END)
        if not lines.cut and not await reader.has_more():
            return Entry(wanted.path, (_passage(lines),))
        total = await reader.count_lines()
        whole = f"{total}" if total is not None else f"more than {reader.line}"
        if lines.inside_line:
            note = f"Line {lines.first} is cut: it is longer than one call can show."
        elif not lines.lines:
            note = f"Showing 0 of {whole} total lines; name the lines you need in line_ranges."
        else:
            note = (
                f"Showing lines 1-{lines.next - 1} of {whole} total lines. Read on with"
                f" line_ranges, from line {lines.next}."
            )
        return Entry(wanted.path, (_passage(lines),) if lines.lines else (), note)

    async def _ranges(self, wanted: WantedFile, place: Place) -> Entry:
        found: dict[Range, Lines] = {}
        reader = LineReader(self._ctx.files, place)
        for start, end in sorted(set(wanted.ranges)):
            if start < 1 or end < start:
                raise ToolError(
                    f"Invalid line range {start}-{end}: lines count from 1, and a range must not"
                    " end before it starts."
                )
            if start < reader.line:
                reader = LineReader(self._ctx.files, place)
            if not await reader.skip_to(start):
                total = await reader.count_lines()
                raise ToolError(
                    f"Line range {start}-{end} begins after the end of the file, which has"
                    f" {total} lines."
                )
            found[start, end] = await self._take(reader, end - start + 1)
        passages = tuple(_passage(found[span], span[1]) for span in wanted.ranges)
        return Entry(wanted.path, passages, await self._range_note(wanted, found, reader))

    async def _range_note(
        self, wanted: WantedFile, found: dict[Range, Lines], reader: LineReader
    ) -> str | None:
        cut = [lines for lines in found.values() if lines.cut]
        if cut:
            lines = cut[0]
            if lines.inside_line:
                return f"Line {lines.first} is cut: it is longer than one call can show."
            return f"Not all lines fit into one call: read on from line {lines.next}."
        if wanted.pages and await reader.has_more():
            start, end = wanted.ranges[0]
            return (
                f"Showing lines {start}-{end}; the file goes on. To read more, use"
                f" offset={end + 1} and limit={end - start + 1}."
            )
        return None

    async def _take(self, reader: LineReader, count: int) -> Lines:
        if self._left <= 0 and count > 0:
            raise ToolError(
                "There is no room left for this file in one result: read it in another call, or"
                " name the lines you need in line_ranges."
            )
        lines = await reader.take(count, self._left)
        self._left -= sum(len(line) + 8 for line in lines.lines)
        return lines

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


def text_budget(model: ModelInfo) -> int:
    """Bytes of text that one call may return: three fifths of the window beside the answer."""
    tokens = (model.context_window - model.max_output) * 3 // 5
    return max(_LEAST_BUDGET, min(_MOST_BUDGET, tokens * _BYTES_PER_TOKEN))


def _passage(lines: Lines, last: int | None = None) -> Passage:
    """`last` is the end that was asked for; it stays the label when the file is shorter."""
    shown = lines.next - 1 if last is None or lines.cut else last
    return Passage(lines.first, shown, lines.lines)


def _is_binary(head: bytes) -> bool:
    """A NUL byte, or more control characters than any text has."""
    return b"\0" in head or sum(byte in _CONTROLS for byte in head) * 10 > len(head)
