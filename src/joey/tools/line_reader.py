"""Lines of a file: read by number, or as the block around one of them.

A file may grow while it is read: it ends where it gave less than it was asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from joey.errors import ToolError
from joey.ports import Files, ResolvedPath

MAX_SKIP_BYTES = 4 * 1024**3
"""Bytes in front of a line that are read to find it: seconds, where a hole would take hours."""

_FIRST_CHUNK_BYTES = 256 * 1024
"""Most files end in it; a read of this size is not worth a thread."""
_CHUNK_BYTES = 1024 * 1024
_MAX_COUNTED_BYTES = 256 * 1024 * 1024
LINE_NUMBER_BYTES = 8
"""About what the number in front of a line costs."""


ByteSource = Callable[[int, int], Awaitable[bytes]]
"""Gives at most so many bytes, from an offset on."""


def file_source(files: Files, place: ResolvedPath) -> ByteSource:
    return lambda limit, offset: files.read(place, limit, offset)


def text_source(text: str) -> ByteSource:
    data = text.encode(errors="replace")

    async def read(limit: int, offset: int) -> bytes:
        return data[offset : offset + limit]

    return read


class LineBatch(Struct, frozen=True):
    first: int
    lines: tuple[str, ...]
    cut: bool = False
    """The budget ended before the lines did; what was left out begins at `next`."""
    inside_line: bool = False
    """The budget ended inside the last line, which is longer than all of it."""

    @property
    def next(self) -> int:
        return self.first + len(self.lines)


class LineReader:
    """Moves forward through one file. A line ends at `\\n`; a `\\r` before it is dropped.

    A NUL inside of a text is shown as what it is not, since not every service takes one.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._pending = b""
        self._offset = 0
        self._at_end = False
        self.line = 1
        """The number of the next line."""

    async def head(self, size: int) -> bytes:
        """The beginning of the file, to see what it is; only before anything was read."""
        await self._fill()
        return self._pending[:size]

    @property
    def whole(self) -> bytes | None:
        """The whole file if one read was enough for it; only before any line was taken."""
        return self._pending if self._at_end and len(self._pending) == self._offset else None

    async def skip_to(self, line: int) -> bool:
        """Go on to a line; False when the file ends before it.

        Raises:
            ToolError: it is too far away.
        """
        while True:
            ends = self._pending.count(b"\n")
            if self.line + ends >= line:
                self._pending = self._pending.split(b"\n", line - self.line)[-1]
                self.line = line
                return await self.has_more()
            if self._at_end:
                return False
            if self._offset >= MAX_SKIP_BYTES:
                raise ToolError(
                    f"Line {line} is not within the first {MAX_SKIP_BYTES / 2**30:g} GB of the "
                    "file,"
                    f" and no more is read. A command such as `sed -n {line}p` can show it."
                )
            self.line += ends
            self._pending = self._pending[-1:].replace(b"\n", b"")
            await self._fill()

    async def take(self, count: int, budget: int) -> LineBatch:
        """The next lines, at most `count` and at most about `budget` bytes."""
        first = self.line
        taken: list[str] = []
        start = 0
        while len(taken) < count:
            end = self._pending.find(b"\n", start)
            if end < 0 and not self._at_end and len(self._pending) - start <= budget:
                self._pending = self._pending[start:]
                start = 0
                await self._fill()
                continue
            stop = end if end >= 0 else len(self._pending)
            if end < 0 and stop <= start:
                break
            text = self._decode(self._pending[start:stop])
            room = budget - LINE_NUMBER_BYTES
            budget = room - _bytes_of(text)
            if budget < 0:
                if taken:
                    break
                return LineBatch(first, (_beginning(text, room),), cut=True, inside_line=True)
            taken.append(text)
            self.line += 1
            start = stop + 1
        self._pending = self._pending[start:]
        return LineBatch(first, tuple(taken), cut=budget < 0)

    async def has_more(self) -> bool:
        while not self._pending and not self._at_end:
            await self._fill()
        return bool(self._pending)

    async def count_lines(self) -> int | None:
        """How many lines the file has, read to its end; None when that would take too long."""
        last = b""
        while True:
            self.line += self._pending.count(b"\n")
            last = self._pending[-1:] or last
            self._pending = b""
            if self._at_end:
                return self.line - (last in (b"", b"\n"))
            if self._offset >= _MAX_COUNTED_BYTES:
                return None
            await self._fill()

    async def _fill(self) -> None:
        size = _CHUNK_BYTES if self._offset else _FIRST_CHUNK_BYTES
        chunk = await self._source(size, self._offset)
        self._offset += len(chunk)
        self._at_end = len(chunk) < size
        self._pending += chunk

    def _decode(self, line: bytes) -> str:
        text = line.removesuffix(b"\r").decode(errors="replace").replace("\0", "\ufffd")
        return text.removeprefix("\ufeff") if self.line == 1 else text


def _bytes_of(text: str) -> int:
    """What it takes to send; more than on disk where something is not UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _beginning(text: str, size: int) -> str:
    return text.encode()[: max(0, size)].decode(errors="ignore")


MAX_BLOCK_LINES = 2_000
_TAB_WIDTH = 4
_HEADER_PREFIXES = ("#", "//", "/*", "*", "--", "@")
_CLOSING_PREFIXES = (")", "]", "}", "end")


class BlockRequest(Struct, frozen=True, kw_only=True):
    """What is wanted around a line."""

    anchor_line: int
    max_levels: int = 0
    """How many levels of indentation to go out; 0 goes out to the margin."""
    max_lines: int = MAX_BLOCK_LINES
    include_siblings: bool = False
    """Also what else stands at the outermost level."""
    include_header: bool = True
    """Also comments and decorators above the line that opens the block."""


class _ScanDirection(Struct):
    """One of the two directions, and how far it has come."""

    at: int
    step: int
    at_edge: bool = False
    """A line of the outermost level was taken: the one that opens the block, or closes it."""
    done: bool = False


def block_around(lines: Sequence[str], anchor: int, wanted: BlockRequest) -> tuple[int, int]:
    """The first and the last index of the block that has `lines[anchor]` in it."""
    levels = _levels(lines)
    least = max(0, levels[anchor] - wanted.max_levels) if wanted.max_levels else 0
    opens = levels[anchor] == least and not lines[anchor].lstrip().startswith(_CLOSING_PREFIXES)
    up, down = _ScanDirection(anchor - 1, -1, at_edge=opens), _ScanDirection(anchor + 1, 1)
    taken = 1
    while taken < wanted.max_lines and not (up.done and down.done):
        for side in (up, down):
            if side.done or taken >= wanted.max_lines:
                continue
            side.done = not _takes(side, lines, levels, least, wanted)
            if not side.done:
                side.at += side.step
                taken += 1
    first, last = up.at + 1, down.at - 1
    while first < anchor and not lines[first].strip():
        first += 1
    while last > anchor and not lines[last].strip():
        last -= 1
    return first, last


def _takes(
    side: _ScanDirection,
    lines: Sequence[str],
    levels: Sequence[int],
    least: int,
    wanted: BlockRequest,
) -> bool:
    """Whether the next line in this direction belongs to the block."""
    if not 0 <= side.at < len(lines) or levels[side.at] < least:
        return False
    if wanted.include_siblings:
        return True
    line, is_outermost = lines[side.at].lstrip(), levels[side.at] == least
    if side.at_edge:
        is_above = side.step < 0 and wanted.include_header
        return is_above and is_outermost and line.startswith(_HEADER_PREFIXES)
    side.at_edge = is_outermost and bool(line)
    return True


def _levels(lines: Sequence[str]) -> list[int]:
    levels: list[int] = []
    for line in lines:
        text = line.lstrip(" \t")
        if text.strip():
            indent = line[: len(line) - len(text)]
            levels.append((indent.count(" ") + indent.count("\t") * _TAB_WIDTH) // _TAB_WIDTH)
        else:
            levels.append(levels[-1] if levels else 0)
    return levels
