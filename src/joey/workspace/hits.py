"""ripgrep's lines as hits.

Its JSON is not used: that has a whole line for every match and an entry for each occurrence in
it, so one line of a hundred megabytes becomes gigabytes. As text, lines come cut to a length.
What stands between path, numbers and text is a mark that nobody can guess, so neither names nor
contents can look like the end of something.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from msgspec import Struct

from joey.ports import SearchHit
from joey.workspace.witness import Piece

LONGEST_LINE = 2_000
_MOST_KEPT = 4 * LONGEST_LINE
_CUT = b" [... omitted end of long line]"
_WARNING = b": WARNING: "
_MOST_UNREAD = 4096
"""As many line breaks as a path can have."""


class Line(Struct, frozen=True):
    number: int
    start: int
    """Where it begins in the file."""
    text: bytes
    matched: bool


class Found(Struct, frozen=True):
    """A run of adjacent lines, as ripgrep tells it."""

    path: bytes
    shown: str
    lines: tuple[Line, ...]

    @property
    def pieces(self) -> list[Piece]:
        return [(line.start, line.text) for line in self.lines]

    @property
    def hit(self) -> SearchHit:
        lines = ((line.number, _decoded(line.text), line.matched) for line in self.lines)
        return SearchHit(self.shown, tuple(lines))


class HitReader:
    """Collects runs of adjacent lines, and forgets those of files that `show` has no name for."""

    def __init__(self, show: Callable[[bytes], str | None], most_lines: int) -> None:
        self._show = show
        self._mark = f"\x1f{secrets.token_hex(8)}"
        self._separator = self._mark.encode()
        self._lines_left = most_lines
        self._found: list[Found] = []
        self._path = b""
        self._shown: str | None = None
        self._run: list[Line] = []
        self._unread: list[bytes] = []

    @property
    def arguments(self) -> list[str]:
        """How ripgrep must print."""
        return [
            *("--no-heading", "--with-filename", "--line-number", "--byte-offset"),
            "--no-context-separator",
            f"--field-match-separator={self._mark}:",
            f"--field-context-separator={self._mark}-",
            *(f"--max-columns={LONGEST_LINE}", "--max-columns-preview"),
        ]

    @property
    def full(self) -> bool:
        return self._lines_left < 0

    def feed(self, line: bytes) -> None:
        parts = line.split(self._separator, 3)
        if len(parts) < 4:
            # Part of a name that has line breaks, or a word about a binary file.
            if len(self._unread) < _MOST_UNREAD:
                self._unread.append(line)
            return
        path, number, start, text = parts
        if self._unread:
            path = self._whole_path(path)
        if path != self._path:
            self._open(path)
        if self._shown is not None:
            self._add(Line(int(number[1:]), int(start[1:]), _kept(text[1:]), text[:1] == b":"))

    def done(self) -> list[Found]:
        """All hits, in the order of their paths, name by name."""
        self._close_run()
        self._found.sort(key=lambda found: (found.path.split(b"/"), found.lines[0].number))
        return self._found

    def _whole_path(self, end: bytes) -> bytes:
        path = b"\n".join([*self._unread, end])
        self._unread.clear()
        if self._path and path.startswith(self._path + _WARNING):
            return path[len(self._path) :].partition(b"\n")[2]
        return path

    def _open(self, path: bytes) -> None:
        self._close_run()
        self._path = path
        self._shown = self._show(path)

    def _add(self, line: Line) -> None:
        if self._run and line.number > self._run[-1].number + 1:
            self._close_run()
        self._run.append(line)
        self._lines_left -= 1

    def _close_run(self) -> None:
        if self._shown is not None and self._run:
            self._found.append(Found(self._path, self._shown, tuple(self._run)))
        self._run = []


def _kept(text: bytes) -> bytes:
    """A line, or as much of it as can be shown."""
    return (text.removesuffix(_CUT) if len(text) > LONGEST_LINE else text)[:_MOST_KEPT]


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")[:LONGEST_LINE]


def first_hits(hits: list[SearchHit], lines: int) -> tuple[SearchHit, ...]:
    """Not more lines in all of them together than are wanted."""
    kept: list[SearchHit] = []
    for hit in hits:
        if lines <= 0:
            break
        kept.append(hit if len(hit.lines) <= lines else SearchHit(hit.path, hit.lines[:lines]))
        lines -= len(hit.lines)
    return tuple(kept)
