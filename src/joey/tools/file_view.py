"""Reading files for the model: lines, ranges, blocks, documents and images, within a budget.

The files of one call share a budget of text and one of images. The model gets the first lines of a
text, ranges of lines, or the block around one line. That block is found by indentation only, in any
language: it grows up and down in turn, as long as lines are indented at least as far as requested.
A blank line belongs to the lines above it.

`render_views` writes the views as sections in native tasks and as `<file>` elements in XML ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from msgspec import Struct, structs

from joey.core.messages import detect_image_type
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.path_access import ResolvedPath
from joey.core.text import number_lines
from joey.errors import ToolError
from joey.ports.content import Documents
from joey.ports.tool_context import ToolContext
from joey.tools.base import compute_text_budget, suggest_paths
from joey.tools.images import IMAGE_SUFFIXES, ImageBudget, encode_data_uri
from joey.tools.line_reader import (
    LINE_NUMBER_BYTES,
    BlockRequest,
    LineBatch,
    LineReader,
    find_block,
    make_file_source,
    make_text_source,
)
from joey.tools.list_code_definition_names import format_definitions, parse_definitions

LineRange = tuple[int, int]


class FileReadRequest(Struct, frozen=True):
    path: str
    ranges: tuple[LineRange, ...] = ()
    is_paged: bool = False
    """Asked for by offset and limit, so that is how it is told to read on."""
    block: BlockRequest | None = None
    """The lines around one, instead of ranges."""


class FileExcerpt(Struct, frozen=True):
    first_line: int
    last_line: int
    lines: tuple[str, ...]

    @property
    def numbered_text(self) -> str:
        return number_lines("\n".join(self.lines) + "\n", self.first_line)


class FileView(Struct, frozen=True):
    """One file of a call."""

    path: str
    excerpts: tuple[FileExcerpt, ...] = ()
    definitions: str | None = None
    """What the file defines, and where."""
    note: str | None = None
    binary_kind: str | None = None
    """The kind of a file that cannot be shown."""
    error: str | None = None
    image_data_uri: str | None = None
    is_empty: bool = False


_SNIFF_BYTES = 8192
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_EMPTY_FILE_HEADS = (b"", *_UTF_16_BOMS)
_MAX_UTF_16_BYTES = 8 * 1024 * 1024
_DOCUMENT_SIGNATURES = (b"%PDF-", b"PK\x03\x04")
"""How files begin that are of no use as text, even if they have no byte that betrays it."""
_CONTROL_BYTES = frozenset(range(0x20)) - frozenset(b"\t\n\v\f\r\x1b")


class FileViewer:
    """Reads the files of one call, which share a budget of text and one of images."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._text_viewer = TextViewer(ctx.model, ctx.protocol)
        self._image_budget = ImageBudget(ctx.settings)

    async def view(self, wanted: FileReadRequest, path: ResolvedPath) -> FileView:
        """View a file. Never fails: a problem with a file is in its entry."""
        try:
            return await self._view_file(wanted, path)
        except _NoRoomError as error:
            return FileView(wanted.path, note=str(error))
        except ToolError as error:
            return FileView(wanted.path, error=str(error))

    async def _view_file(self, wanted: FileReadRequest, path: ResolvedPath) -> FileView:
        kind = await self._ctx.files.stat(path)
        if not kind.exists:
            near = await suggest_paths(self._ctx, path)
            raise ToolError(f"File not found: {path.path}{near and f'.{near}'}")
        if kind.is_dir:
            raise ToolError(f"{wanted.path} is a directory, not a file: use list_files to see it.")
        if not kind.is_file:
            raise ToolError(
                f"{wanted.path} cannot be read: it is not a regular file but a device, a pipe, a"
                " socket, or a link that leads to itself."
            )
        reader = LineReader(make_file_source(self._ctx.files, path))
        head = await reader.peek(_SNIFF_BYTES)
        data = reader.full_content
        # A NUL byte, or more control characters than any text has.
        is_binary = b"\0" in head or sum(map(_CONTROL_BYTES.__contains__, head)) * 10 > len(head)
        is_utf_16 = head.startswith(_UTF_16_BOMS) and "\0" not in head.decode("utf-16", "ignore")
        documents = self._ctx.capabilities.documents
        if head in _EMPTY_FILE_HEADS:
            entry = FileView(wanted.path, note="File is empty", is_empty=True)
        elif documents is not None and documents.supports(path.path.name):
            is_text = not (is_binary or head.startswith(_DOCUMENT_SIGNATURES))
            entry = await self._view_document(wanted, path, documents, is_text, reader)
        elif is_utf_16:
            entry = await self._view_utf_16(wanted, path)
        elif is_binary:
            return await self._view_binary(wanted, path, kind.size, head)
        else:
            entry = await self._view_lines(wanted, path, reader)
        self._ctx.read_tracker.record_seen(path, kind.stamp, data)
        return entry

    async def _view_lines(
        self, wanted: FileReadRequest, path: ResolvedPath, reader: LineReader
    ) -> FileView:
        most = self._ctx.settings.max_read_file_line
        unused = [reader]

        def start() -> LineReader:
            return unused.pop() if unused else LineReader(make_file_source(self._ctx.files, path))

        entry = await self._text_viewer.view(wanted, start, most)
        is_limited = most >= 0 and not wanted.ranges and wanted.block is None
        if not is_limited or entry.note is None:
            return entry
        shown = entry.excerpts[-1].last_line if entry.excerpts else None
        return structs.replace(entry, definitions=await self._list_definitions(path, shown))

    async def _view_utf_16(self, wanted: FileReadRequest, path: ResolvedPath) -> FileView:
        """View UTF-16 text, as some editors on Windows write it."""
        data = await self._ctx.files.read(path, _MAX_UTF_16_BYTES + 1)
        if len(data) > _MAX_UTF_16_BYTES:
            raise ToolError(f"{wanted.path} is in UTF-16 and larger than 8 MB, so it is not read.")
        source = make_text_source(data.decode("utf-16", errors="replace"))
        most = self._ctx.settings.max_read_file_line
        return await self._text_viewer.view(wanted, lambda: LineReader(source), most)

    async def _list_definitions(self, path: ResolvedPath, shown: int | None) -> str | None:
        """List the definitions of a file, in the shown lines if there are any."""
        outlines = self._ctx.capabilities.outlines
        name = path.path.name
        if outlines is None or not outlines.supports(name):
            return None
        try:
            found = await parse_definitions(path, outlines, self._ctx.files)
        except ToolError:
            return None  # the lines are there, and code that cannot be parsed has no list
        wanted = [item for item in found if shown is None or item.start_line <= shown]
        text = format_definitions(name, wanted)
        return text if wanted and self._text_viewer.try_reserve(text) else None

    async def _view_document(
        self,
        wanted: FileReadRequest,
        path: ResolvedPath,
        documents: Documents,
        is_text: bool,
        reader: LineReader,
    ) -> FileView:
        try:
            text = await documents.extract_text(path)
        except ToolError as error:
            if not is_text:
                raise
            entry = await self._view_lines(wanted, path, reader)
            return _prepend_note(entry, f"This is the file as it stands. {error}")
        if not text.strip():
            return FileView(wanted.path, note="The document has no text")
        source = make_text_source(text)
        entry = await self._text_viewer.view(wanted, lambda: LineReader(source))
        if not is_text:
            return entry
        return _prepend_note(entry, "This is the text in the file, which itself has another form.")

    async def _view_binary(
        self, wanted: FileReadRequest, path: ResolvedPath, size: int, head: bytes
    ) -> FileView:
        suffix = PurePath(wanted.path).suffix.lower()
        if suffix not in IMAGE_SUFFIXES:
            return FileView(wanted.path, binary_kind=suffix.removeprefix(".") or "bin")
        media = detect_image_type(head)
        if media is None:
            return FileView(
                wanted.path, note=f"Image file ({suffix}) of a kind that cannot be shown"
            )
        if not self._ctx.model.supports_images:
            return FileView(wanted.path, note="Image file: this model cannot look at images")
        if refusal := self._image_budget.explain_refusal(size):
            return FileView(wanted.path, note=refusal)
        data = await self._ctx.files.read(path, size)
        self._image_budget.consume(size)
        note = f"Image file ({len(data) / 1024:.1f} KB)"
        return FileView(wanted.path, note=note, image_data_uri=encode_data_uri(media, data))


def _prepend_note(entry: FileView, note: str) -> FileView:
    return structs.replace(entry, note=f"{note} {entry.note}" if entry.note else note)


DEFAULT_MAX_LINES = -1
_MAX_LINES = 2_000
_MAX_LINE_CHARS = 2_000
_MAX_FILE_BYTES = 80_000
_MAX_UNRANGED_BYTES = 2 * _MAX_FILE_BYTES
"""Of all files of a call that are asked for without naming lines."""
_MAX_NAMED_LINES = 10
_MAX_SCANNED_LINES = 50_000
_MAX_SCANNED_BYTES = 8 * 1024 * 1024
"""Looked at to find the strings before the block around a line."""

ReaderFactory = Callable[[], LineReader]
"""Begins to read the text, at its beginning."""


class TextViewer:
    """Shows texts within the budget of one call."""

    def __init__(self, model: ModelInfo, protocol: ToolProtocol) -> None:
        self._range_parameter = "line_ranges" if protocol is ToolProtocol.NATIVE else "line_range"
        self._remaining_bytes = compute_text_budget(model)
        self._remaining_unranged_bytes = _MAX_UNRANGED_BYTES

    async def view(
        self, wanted: FileReadRequest, start: ReaderFactory, max_lines: int = DEFAULT_MAX_LINES
    ) -> FileView:
        """View a text as requested; by default `max_lines` lines. Raises ToolError if there are no
        such lines, or no budget is left for them."""
        if wanted.block is not None:
            return await self._view_block(wanted.path, wanted.block, start)
        if wanted.ranges:
            return await self._view_ranges(wanted, start)
        return await self._view_all(wanted, start(), max_lines)

    async def _view_all(
        self, wanted: FileReadRequest, reader: LineReader, max_lines: int
    ) -> FileView:
        limit = min(_MAX_FILE_BYTES, self._remaining_unranged_bytes, self._remaining_bytes)
        if limit < _MAX_LINE_CHARS and max_lines:
            raise _NoRoomError(self._range_parameter)
        max_lines = max_lines if max_lines >= 0 else _MAX_LINES
        lines = await reader.read_lines(max_lines, limit, _MAX_LINE_CHARS)
        self._remaining_bytes -= _compute_size(lines)
        self._remaining_unranged_bytes -= _compute_size(lines)
        notes: list[str] = []
        if lines.is_truncated or await reader.has_more():
            total = await reader.count_lines()
            whole = f"{total}" if total is not None else f"more than {reader.next_line}"
            if lines.is_last_line_truncated:
                notes.append(
                    f"Line {lines.first_line} is cut: it is longer than one call can show."
                )
            elif not lines.lines:
                notes.append(
                    f"Showing 0 of {whole} total lines; name the lines you need in"
                    f" {self._range_parameter}."
                )
            else:
                reached = f"{max_lines:,} lines"
                if lines.is_truncated:
                    per = "left in this call" if limit < _MAX_FILE_BYTES else "per file"
                    reached = f"about {limit:,} characters {per}"
                notes.append(
                    f"Showing lines 1-{lines.next_line - 1} of {whole} total lines (limit:"
                    f" {reached}). Read on with {self._range_parameter}, from line"
                    f" {lines.next_line}."
                )
        if lines.shortened_lines:
            shortened = _describe_shortened_lines(lines.shortened_lines)
            notes.append(f"{shortened}; {self._range_parameter} shows whole lines.")
        excerpts = (_build_excerpt(lines),) if lines.lines or not notes else ()
        return FileView(wanted.path, excerpts, note=" ".join(notes) or None)

    async def _view_ranges(self, wanted: FileReadRequest, start_over: ReaderFactory) -> FileView:
        found: dict[LineRange, LineBatch] = {}
        reader = start_over()
        for start, end in sorted(wanted.ranges):
            if again := found.get((start, end)):
                size = _compute_size(again)
                self._check_budget(size)
                self._remaining_bytes -= size
                continue
            if start < 1 or end < start:
                raise ToolError(
                    f"Invalid line range {start}-{end}: lines count from 1, and a range must not"
                    " end before it starts."
                )
            if start < reader.next_line:
                reader = start_over()
            if not await reader.skip_to(start):
                total = await reader.count_lines()
                raise ToolError(
                    f"Line range {start}-{end} begins after the end of the file, which has"
                    f" {total} lines."
                )
            self._check_budget()
            lines = await reader.read_lines(end - start + 1, self._remaining_bytes)
            self._remaining_bytes -= _compute_size(lines)
            found[start, end] = lines
        passages = tuple(_build_excerpt(found[span]) for span in wanted.ranges)
        return FileView(wanted.path, passages, note=await _build_range_note(wanted, found, reader))

    async def _view_block(self, path: str, block: BlockRequest, start: ReaderFactory) -> FileView:
        """View a block; as many lines before and after the anchor are considered as may be
        shown."""
        from joey.tools.multiline_strings import MultilineStringScanner

        self._check_budget()
        reader = start()
        anchor = block.anchor_line
        first = max(1, anchor - block.max_lines)
        strings = MultilineStringScanner(path)
        if strings.can_find_strings and first <= _MAX_SCANNED_LINES:
            for line in (await reader.read_lines(first - 1, _MAX_SCANNED_BYTES)).lines:
                strings.feed(line)
        found = await reader.skip_to(first)
        wide = await reader.read_lines(
            anchor - first + 1 + block.max_lines, self._remaining_bytes * 2
        )
        total = await reader.count_lines()
        if not found or (wide.next_line <= anchor and not wide.is_truncated):
            raise ToolError(f"anchor_line {anchor} is out of range (1-{total}).")
        lines = LineBatch(first, ())
        if wide.next_line > anchor:
            string_lines = {at for at, line in enumerate(wide.lines) if strings.feed(line)}
            top, bottom = find_block(wide.lines, anchor - first, block, string_lines)
            lines = _truncate_lines(
                LineBatch(first + top, wide.lines[top : bottom + 1]), self._remaining_bytes
            )
        if not lines.lines:
            raise ToolError(
                f"The lines around line {anchor} are too long to look at: name the lines you need"
                f" in {self._range_parameter}."
            )
        self._remaining_bytes -= _compute_size(lines)
        of = f"{total} lines" if total is not None else f"more than {reader.next_line} lines"
        note = f"The file has {of}."
        if lines.is_truncated or len(lines.lines) >= block.max_lines:
            note += (
                f" The block may continue: read on with {self._range_parameter}, from line"
                f" {lines.next_line}."
            )
        elif block.max_levels is None and len(lines.lines) == 1 and lines.lines[0][:1].isspace():
            note += " The block is this line alone: max_levels 1 reads what is around it."
        return FileView(path, (_build_excerpt(lines),), note=note)

    def try_reserve(self, text: str) -> bool:
        """Reserve budget for more text besides the lines; False if there is not enough."""
        size = len(text.encode(errors="replace"))
        if size > self._remaining_bytes:
            return False
        self._remaining_bytes -= size
        return True

    def _check_budget(self, size: int = 1) -> None:
        if self._remaining_bytes < size:
            raise _NoRoomError(self._range_parameter)


class _NoRoomError(ToolError):
    def __init__(self, range_parameter: str) -> None:
        super().__init__(
            "Not read: there is no room left for this file in one result. Read it in another call,"
            f" or name the lines you need in {range_parameter}."
        )


def _describe_shortened_lines(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:_MAX_NAMED_LINES]))
    more = f" and {len(numbers) - _MAX_NAMED_LINES} more" if numbers[_MAX_NAMED_LINES:] else ""
    subject = f"Line {named} is" if len(numbers) == 1 else f"Lines {named}{more} are"
    return f"{subject} cut at {_MAX_LINE_CHARS:,} characters"


def _compute_size(lines: LineBatch) -> int:
    """Compute the size in bytes, line numbers included."""
    return len("".join(lines.lines).encode(errors="replace")) + LINE_NUMBER_BYTES * len(lines.lines)


def _truncate_lines(lines: LineBatch, budget: int) -> LineBatch:
    """Truncate lines to those that fit."""
    while lines.lines and _compute_size(lines) > budget:
        lines = structs.replace(
            lines, lines=lines.lines[: len(lines.lines) // 2], is_truncated=True
        )
    return lines


async def _build_range_note(
    wanted: FileReadRequest, found: dict[LineRange, LineBatch], reader: LineReader
) -> str | None:
    cut = [lines for lines in found.values() if lines.is_truncated]
    note = ""
    if cut:
        lines = cut[0]
        note = (
            f" Line {lines.first_line} is cut: it is longer than one call can show."
            if lines.is_last_line_truncated
            else f" Not all lines fit into one call: read on from line {lines.next_line}."
        )
    elif wanted.is_paged and await reader.has_more():
        start, end = wanted.ranges[0]
        note = (
            f" Showing lines {start}-{end}; to read more, use offset={end + 1} and"
            f" limit={end - start + 1}."
        )
    total = await reader.count_lines()
    return (note if total is None else f"The file has {total} lines.{note}").strip() or None


def _build_excerpt(lines: LineBatch) -> FileExcerpt:
    return FileExcerpt(lines.first_line, lines.next_line - 1, lines.lines)


_DEFINITIONS_TAG = "list_code_definition_names"


def render_views(entries: Sequence[FileView], protocol: ToolProtocol) -> str:
    if protocol is ToolProtocol.NATIVE:
        return "\n\n---\n\n".join(map(_render_section, entries))
    return "\n".join(["<files>", *map(_render_element, entries), "</files>"])


def _render_section(entry: FileView) -> str:
    if entry.error is not None:
        return f"File: {entry.path}\nError: {entry.error}"
    parts = [
        f"Lines {part.first_line}-{part.last_line}:\n{part.numbered_text}"
        for part in entry.excerpts
    ]
    if entry.definitions is not None:
        parts.append(f"Code Definitions:\n{entry.definitions}\n")
    if entry.binary_kind is not None:
        parts.append(_format_binary_note(entry.binary_kind))
    if entry.note is not None:
        parts.append(f"Note: {entry.note}")
    return f"File: {entry.path}\n" + "\n".join(parts)


def _render_element(entry: FileView) -> str:
    path = f"<file><path>{entry.path}</path>"
    if entry.error is not None:
        return f"{path}<error>{entry.error}</error></file>"
    if entry.is_empty:
        return f"{path}\n<content/><notice>{entry.note}</notice>\n</file>"
    parts = [
        f'<content lines="{part.first_line}-{part.last_line}">\n{part.numbered_text}</content>'
        for part in entry.excerpts
    ]
    if entry.definitions is not None:
        parts.append(f"<{_DEFINITIONS_TAG}>\n{entry.definitions}\n</{_DEFINITIONS_TAG}>")
    notices = [_format_binary_note(entry.binary_kind)] if entry.binary_kind is not None else []
    notices += [entry.note] if entry.note is not None else []
    parts += [f"<notice>{notice}</notice>" for notice in notices]
    return "\n".join([path, *parts, "</file>"])


def _format_binary_note(kind: str) -> str:
    return f"Binary file ({kind}) - content not displayed"
