"""ripgrep's lines as hits.

Its JSON is not used: that has a whole line for every match and an entry for each occurrence in
it, so one line of a hundred megabytes becomes gigabytes. As text, lines come cut to a length.
What stands between path, number and text is a mark that nobody can guess, so neither names nor
contents can look like the end of something.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from joey.ports import SearchHit

LONGEST_LINE = 2_000
_CUT = b" [... omitted end of long line]"
_WARNING = b": WARNING: "
_MOST_UNREAD = 4096
"""As many line breaks as a path can have."""

Line = tuple[int, str, bool]


class HitReader:
    """Collects runs of adjacent lines, and forgets those of files that `show` has no name for."""

    def __init__(self, show: Callable[[bytes], str | None], most_lines: int) -> None:
        self._show = show
        self._mark = f"\x1f{secrets.token_hex(8)}"
        self._separator = self._mark.encode()
        self._lines_left = most_lines
        self._hits: list[tuple[bytes, SearchHit]] = []
        self._path = b""
        self._shown: str | None = None
        self._run: list[Line] = []
        self._unread: list[bytes] = []

    @property
    def arguments(self) -> list[str]:
        """How ripgrep must print."""
        return [
            *("--no-heading", "--with-filename", "--line-number", "--no-context-separator"),
            f"--field-match-separator={self._mark}:",
            f"--field-context-separator={self._mark}-",
            *(f"--max-columns={LONGEST_LINE}", "--max-columns-preview"),
        ]

    @property
    def full(self) -> bool:
        return self._lines_left < 0

    def feed(self, line: bytes) -> None:
        parts = line.split(self._separator, 2)
        if len(parts) < 3:
            # Part of a name that has line breaks, or a word about a binary file.
            if len(self._unread) < _MOST_UNREAD:
                self._unread.append(line)
            return
        path, number, text = parts
        if self._unread:
            path = self._whole_path(path)
        if path != self._path:
            self._open(path)
        if self._shown is not None:
            self._add((int(number[1:]), _decoded(text[1:]), text[:1] == b":"))

    def done(self) -> list[SearchHit]:
        """All hits, in the order of their paths, name by name."""
        self._close_run()
        self._hits.sort(key=lambda hit: (hit[0].split(b"/"), hit[1].lines[0][0]))
        return [hit for _, hit in self._hits]

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
        if self._run and line[0] > self._run[-1][0] + 1:
            self._close_run()
        self._run.append(line)
        self._lines_left -= 1

    def _close_run(self) -> None:
        if self._shown is not None and self._run:
            self._hits.append((self._path, SearchHit(self._shown, tuple(self._run))))
        self._run = []


def _decoded(text: bytes) -> str:
    if len(text) > LONGEST_LINE:
        text = text.removesuffix(_CUT)
    return text.decode(errors="replace")[:LONGEST_LINE]


def first_hits(hits: list[SearchHit], limit: int, lines: int) -> tuple[SearchHit, ...]:
    """As many as are wanted, and not more lines in all of them together."""
    kept: list[SearchHit] = []
    for hit in hits[:limit]:
        if lines <= 0:
            break
        kept.append(hit if len(hit.lines) <= lines else SearchHit(hit.path, hit.lines[:lines]))
        lines -= len(hit.lines)
    return tuple(kept)
