"""Lines of a file: read by number, or as the block around one of them.

A file may grow while it is read: it ends where it gave less than it was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import pairwise

from msgspec import Struct

from joey.core.path_access import ResolvedPath
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.workspace import Files

MAX_SKIP_BYTES = 4 * 1024**3
"""Read to find the line behind them: seconds, where a hole would take hours."""

_FIRST_CHUNK_BYTES = 256 * 1024
"""Most files end in it; a read of this size is not worth a thread."""
_CHUNK_BYTES = 1024 * 1024
_MAX_COUNTED_BYTES = 256 * 1024 * 1024
SHORTENED_LINE_SUFFIX = " [truncated...]"
LINE_NUMBER_BYTES = 8
"""About what the number in front of a line costs."""


ByteSource = Callable[[int, int], Awaitable[bytes]]
"""Gives at most so many bytes, from an offset on."""


def make_file_source(files: Files, path: ResolvedPath) -> ByteSource:
    return lambda limit, offset: files.read(path, limit, offset)


def make_text_source(text: str) -> ByteSource:
    data = text.encode(errors="replace")

    async def read(limit: int, offset: int) -> bytes:
        return data[offset : offset + limit]

    return read


class LineBatch(Struct, frozen=True):
    first_line: int
    lines: tuple[str, ...]
    is_truncated: bool = False
    """The budget ended before the lines did; what was left out begins at `next_line`."""
    is_last_line_truncated: bool = False
    """The budget ended inside the last line, which is longer than all of it."""
    shortened_lines: tuple[int, ...] = ()
    """Numbers of lines of which only the beginning is here."""

    @property
    def next_line(self) -> int:
        return self.first_line + len(self.lines)


class LineReader:
    """Moves forward through one file. A line ends at `\\n`; a `\\r` before it is dropped. A NUL
    inside of a text is shown as what it is not, since not every service takes one."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._buffer = b""
        self._offset = 0
        self._is_at_end = False
        self.next_line = 1
        """The number of the next line."""

    async def peek(self, size: int) -> bytes:
        """Return the beginning of the file, to detect its type; only before anything was read."""
        await self._fill_buffer()
        return self._buffer[:size]

    @property
    def full_content(self) -> bytes | None:
        """Return the whole file if one read was enough for it; only before any line was read."""
        return self._buffer if self._is_at_end and len(self._buffer) == self._offset else None

    async def skip_to(self, line: int) -> bool:
        """Skip to a line; False if the file ends before it. Raises ToolError if it is too far
        away."""
        while True:
            ends = self._buffer.count(b"\n")
            if self.next_line + ends >= line:
                self._buffer = self._buffer.split(b"\n", line - self.next_line)[-1]
                self.next_line = line
                return await self.has_more()
            if self._is_at_end:
                return False
            if self._offset >= MAX_SKIP_BYTES:
                raise ToolError(
                    f"Line {line} is not within the first {MAX_SKIP_BYTES / 2**30:g} GB of the "
                    f"file, and no more is read. A command such as `sed -n {line}p` can show it."
                )
            self.next_line += ends
            self._buffer = self._buffer[-1:].replace(b"\n", b"")
            await self._fill_buffer()

    async def read_lines(
        self, count: int, budget: int, max_line_chars: int | None = None
    ) -> LineBatch:
        """Read the next lines, at most `count` and about `budget` bytes; each shortened to
        `max_line_chars`."""
        first = self.next_line
        taken: list[str] = []
        shortened: list[int] = []
        start = 0
        line_bytes = budget if max_line_chars is None else 4 * (max_line_chars + 1)
        while len(taken) < count:
            end = self._buffer.find(b"\n", start)
            if end < 0 and not self._is_at_end and len(self._buffer) - start <= line_bytes:
                self._buffer = self._buffer[start:]
                start = 0
                await self._fill_buffer()
                continue
            stop = end if end >= 0 else len(self._buffer)
            if end < 0 and stop <= start:
                break
            if max_line_chars is not None:
                stop = min(stop, start + line_bytes)
            line = self._buffer[start:stop].removesuffix(b"\r")
            text = line.decode(errors="replace").replace("\0", "\ufffd")
            if max_line_chars is not None and len(text) > max_line_chars:
                text = f"{text[:max_line_chars]}{SHORTENED_LINE_SUFFIX}"
                shortened.append(self.next_line)
            if self.next_line == 1:
                text = text.removeprefix("\ufeff")
            room = budget - LINE_NUMBER_BYTES
            budget = room - (len(text) if text.isascii() else len(text.encode()))
            if budget < 0:
                if taken:
                    break
                return LineBatch(
                    first,
                    (text.encode()[: max(0, room)].decode(errors="ignore"),),
                    is_truncated=True,
                    is_last_line_truncated=True,
                )
            taken.append(text)
            self.next_line += 1
            start = end + 1
            if end < 0:
                self._buffer, start = self._buffer[stop:], 0
                await self._skip_rest_of_line()
        self._buffer = self._buffer[start:]
        return LineBatch(
            first, tuple(taken), is_truncated=budget < 0, shortened_lines=tuple(shortened)
        )

    async def _skip_rest_of_line(self) -> None:
        """Skip to the end of a line that exceeds the buffer, or as far as allowed."""
        while not self._is_at_end and b"\n" not in self._buffer:
            if self._offset >= _MAX_COUNTED_BYTES:
                self._is_at_end = True
            self._buffer = b""
            await self._fill_buffer()
        self._buffer = self._buffer.partition(b"\n")[2]

    async def has_more(self) -> bool:
        while not self._buffer and not self._is_at_end:
            await self._fill_buffer()
        return bool(self._buffer)

    async def count_lines(self) -> int | None:
        """Count the lines of the file by reading to its end; None if that would take too long."""
        last = b""
        while True:
            self.next_line += self._buffer.count(b"\n")
            last = self._buffer[-1:] or last
            self._buffer = b""
            if self._is_at_end:
                return self.next_line - (last in (b"", b"\n"))
            if self._offset >= _MAX_COUNTED_BYTES:
                return None
            await self._fill_buffer()

    async def _fill_buffer(self) -> None:
        size = _CHUNK_BYTES if self._offset else _FIRST_CHUNK_BYTES
        chunk = await self._source(size, self._offset)
        self._offset += len(chunk)
        self._is_at_end = len(chunk) < size
        self._buffer += chunk


MAX_BLOCK_LINES = 2_000
_TAB_WIDTH = 4
_INDENT_WIDTHS = range(2, 9)
_HEADER_PREFIXES = ("#", "//", "/*", "*", "--", "@")
_COMMENT_PREFIXES = ("#", "//", "/*", "--")
_CLOSING_RE = compile_regex(r"[)\]}]|(?:end|fi|done|esac)\b")
_MAX_DEFINITION_CHARS = 500
_DEFINITION_RE = compile_regex(
    r"(?:[\w<>()\[\],.*&:]+\s+){0,8}?"
    r"(?:def|class|function|func|fn|fun|sub|impl|struct|enum|interface|trait|module|record)\b"
    r"|(?:export\s+)?(?:const|let|var)\s+\w+[^=]*=.*(?:=>|\bfunction\b)"
    r"|(?!(?:if|for|while|switch|catch|else|do|try|with|return|until|using|lock)\b)"
    r"[\w.<>\[\]*&:~ ,]*\w\s*\([^;]*\{$"
)
"""The first line of a function, a method or a class, in most languages."""
_OPENING_SUFFIXES = (":", "{", "(", "[")
_OPENING_LINES = ("{", "where")
"""Lines that begin what the line above them announces."""


class BlockRequest(Struct, frozen=True, kw_only=True):
    """The requested block around a line."""

    anchor_line: int
    max_levels: int | None = None
    """How many levels of indentation to go out; None goes out to the innermost function or class, 0
    to the margin."""
    max_lines: int = MAX_BLOCK_LINES
    include_siblings: bool = False
    """Also what else stands at the outermost level."""
    include_header: bool = True
    """Also comments and decorators above the line that opens the block."""


class _ScanDirection(Struct):
    """One of the two directions, and how far it has got."""

    index: int
    step: int
    is_at_edge: bool = False
    """A line of the outermost level was taken: the one that opens the block, or closes it."""
    is_done: bool = False


def find_block(
    lines: Sequence[str],
    anchor: int,
    wanted: BlockRequest,
    string_lines: Collection[int] = frozenset(),
) -> tuple[int, int]:
    """Find the first and the last index of the block with `lines[anchor]`. `string_lines` are the
    indices of lines that begin inside a string: they belong to the line where it begins."""
    lines = ["" if index in string_lines else line for index, line in enumerate(lines)]
    levels = [
        level + (index in string_lines) for index, level in enumerate(_compute_indent_levels(lines))
    ]
    if wanted.max_levels is None:
        while anchor < len(lines) - 1 and lines[anchor].lstrip().startswith(_HEADER_PREFIXES):
            anchor += 1  # a decorator or a comment belongs to the lines below it
        least = _find_definition_level(lines, levels, anchor)
    else:
        least = max(0, levels[anchor] - wanted.max_levels) if wanted.max_levels else 0
    opens = levels[anchor] == least and not _continues_block(lines[anchor])
    up, down = _ScanDirection(anchor - 1, -1, is_at_edge=opens), _ScanDirection(anchor + 1, 1)
    taken = 1
    while taken < wanted.max_lines and not (up.is_done and down.is_done):
        for side in (up, down):
            if side.is_done or taken >= wanted.max_lines:
                continue
            side.is_done = not _should_take_line(side, lines, levels, least, wanted)
            if not side.is_done:
                side.index += side.step
                taken += 1
    first, last = up.index + 1, down.index - 1
    blank = {index for index, line in enumerate(lines) if not line.strip()} - set(string_lines)
    while first < anchor and first in blank:
        first += 1
    while last > anchor and last in blank:
        last -= 1
    return first, last


def _find_definition_level(lines: Sequence[str], levels: Sequence[int], anchor: int) -> int:
    """Find the level of the innermost function or class around a line; 0 if there is none."""
    level = levels[anchor] + 1
    for index in range(anchor, -1, -1):
        line = lines[index].strip()[:_MAX_DEFINITION_CHARS]
        if levels[index] < level and line and not _continues_block(line):
            level = levels[index]
            if _DEFINITION_RE.match(line):
                return level
    return 0


def _should_take_line(
    side: _ScanDirection,
    lines: Sequence[str],
    levels: Sequence[int],
    least: int,
    wanted: BlockRequest,
) -> bool:
    """Whether the next line in this direction belongs to the block."""
    if not 0 <= side.index < len(lines) or levels[side.index] < least:
        return False
    if wanted.include_siblings:
        return True
    line, is_outermost = lines[side.index].lstrip(), levels[side.index] == least
    if side.is_at_edge:
        is_above = side.step < 0 and wanted.include_header
        return is_above and is_outermost and line.startswith(_HEADER_PREFIXES)
    if not (is_outermost and line):
        return True
    if side.step < 0:  # a signature of several lines ends with `) -> None:`
        side.is_at_edge = not _continues_block(line)
        return True
    side.is_at_edge = not line.rstrip().endswith(_OPENING_SUFFIXES)
    return _continues_block(line)


def _continues_block(line: str) -> bool:
    """Whether a line of the outermost level belongs to the block that is above it."""
    return _CLOSING_RE.match(line.strip()) is not None or line.strip() in _OPENING_LINES


def _compute_indent_levels(lines: Sequence[str]) -> list[int]:
    """Compute the level of each line, by the most frequent step; blank lines have that of the line
    above. Comments and blank lines before deeper code belong to it."""
    columns: list[int] = []
    for line in lines:
        text = line.lstrip(" \t")
        if text.strip():
            indent = line[: len(line) - len(text)]
            columns.append(indent.count(" ") + indent.count("\t") * _TAB_WIDTH)
        else:
            columns.append(columns[-1] if columns else 0)
    for index in range(len(lines) - 2, -1, -1):
        if not lines[index].strip() or lines[index].lstrip().startswith(_COMMENT_PREFIXES):
            columns[index] = max(columns[index], columns[index + 1])
    steps = Counter(below - above for above, below in pairwise(columns))
    width = max(_INDENT_WIDTHS, key=lambda step: (steps[step], step == _TAB_WIDTH))
    return [column // width for column in columns]
