"""Searching file contents with ripgrep, and the folder listing beside it: the `Search` port."""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.errors import ToolError
from joey.ports import Listing, Place, Search, SearchHit, SearchResult
from joey.workspace.file_pattern import FilePattern
from joey.workspace.files import LocalFiles, printable_name
from joey.workspace.listing import list_folder
from joey.workspace.ripgrep import RipgrepError, records

_SECONDS = 30
_CONTEXT = 1
_LINES_PER_HIT = 5
_LONGEST_LINE = 2_000

Line = tuple[int, str, bool]


class _Text(Struct, frozen=True):
    """ripgrep gives text as it is, and anything that is not UTF-8 in base64."""

    text: str | None = None
    bytes: str = ""

    def decode(self, errors: str) -> str:
        if self.text is not None:
            return self.text
        return base64.b64decode(self.bytes).decode(errors=errors)


class _Data(Struct, frozen=True):
    path: _Text = _Text()
    lines: _Text = _Text()
    line_number: int | None = None


class _Record(Struct, frozen=True):
    type: str
    data: _Data


_decoder = msgspec.json.Decoder(_Record)


class LocalSearch:
    """Searches what `files` can reach, and shows nothing that its `.rooignore` hides."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    async def grep(
        self, place: Place, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        arguments = ["--json", f"--context={_CONTEXT}", f"--regexp={regex}"]
        pattern = FilePattern(file_pattern) if file_pattern else None
        if pattern is not None:
            arguments += pattern.arguments
        hits = _Hits(limit)
        cut = False
        try:
            async with (
                asyncio.timeout(_SECONDS),
                aclosing(records(arguments, place.path, b"\n")) as lines,
            ):
                async for line in lines:
                    self._take(_decoder.decode(line), hits, place, pattern)
                    if hits.full:
                        break
        except TimeoutError:
            cut = True
        except RipgrepError as error:
            raise ToolError(f"ripgrep refused the search:\n{error}") from error
        found = hits.done()
        return SearchResult(found[:limit], truncated=cut or hits.full)

    async def list(self, place: Place, recursive: bool, limit: int) -> Listing:
        return await list_folder(self._files, place, recursive, limit)

    def _take(
        self, record: _Record, hits: _Hits, place: Place, pattern: FilePattern | None
    ) -> None:
        data = record.data
        if record.type == "begin":
            path = Path(data.path.decode("surrogateescape"))
            wanted = pattern is None or self._covers(pattern, path, place)
            hits.open(self._shown(path) if wanted else None)
        elif record.type in ("match", "context") and data.line_number is not None:
            text = data.lines.decode("replace")[:_LONGEST_LINE]
            hits.add((data.line_number, text, record.type == "match"))

    def _covers(self, pattern: FilePattern, path: Path, place: Place) -> bool:
        """Patterns may start at the folder that is searched, or at the workspace."""
        if path == place.path:
            return True
        below = path.relative_to(place.path).as_posix()
        if pattern.covers(below):
            return True
        relative = self._files.relative(path)
        return relative is not None and pattern.covers(relative)

    def _shown(self, path: Path) -> str | None:
        """How a file is named; None if it is hidden."""
        relative = self._files.relative(path)
        if relative is not None and self._files.rules.hides(relative):
            return None
        return printable_name(relative or str(path))


class _Hits:
    """Runs of adjacent lines, collected as ripgrep reports them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines_left = limit * _LINES_PER_HIT
        self._hits: list[SearchHit] = []
        self._path: str | None = None
        self._run: list[Line] = []

    @property
    def full(self) -> bool:
        """More hits, or more lines in them, than are wanted."""
        return len(self._hits) > self._limit or self._lines_left < 0

    def open(self, path: str | None) -> None:
        """The lines that follow are of this file; None for one that is not shown."""
        self._close_run()
        self._path = path

    def add(self, line: Line) -> None:
        if self._path is None:
            return
        if self._run and line[0] > self._run[-1][0] + 1:
            self._close_run()
        self._run.append(line)
        self._lines_left -= 1

    def done(self) -> tuple[SearchHit, ...]:
        self._close_run()
        return tuple(self._hits)

    def _close_run(self) -> None:
        if self._path is not None and self._run:
            self._hits.append(SearchHit(self._path, tuple(self._run)))
        self._run = []


_fits: type[Search] = LocalSearch
