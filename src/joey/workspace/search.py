"""Searching file contents with ripgrep, and the folder listing beside it: the `Search` port.

ripgrep is asked twice at most. Left to itself it uses all processors, and what it finds is put in
order here. Only when that is far more than will be shown, it is stopped and asked again, in the
order of paths: that takes one processor, but is over as soon as enough was found.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from joey.errors import AbsentError, ToolError
from joey.ports import Listing, Place, Search, SearchHit, SearchResult
from joey.workspace.file_pattern import FilePattern
from joey.workspace.files import LocalFiles, printable_name
from joey.workspace.hits import Found, HitReader, first_hits
from joey.workspace.listing import list_folder
from joey.workspace.obstacles import ObstacleError, unobstructed
from joey.workspace.ripgrep import OutOfMemoryError, RipgrepError, opened_by, records
from joey.workspace.witness import confirms

_SECONDS = 30
_CONTEXT = 1
_LINES_PER_HIT = 5
_SLACK = 10
"""How many times more than is shown may be found before ripgrep is asked again."""
_SEARCHED_AT_LEAST = "64M"
_SNIFFED = 8192
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class _Question(Struct, frozen=True):
    place: Place
    is_file: bool
    arguments: tuple[str, ...]
    pattern: FilePattern | None
    lines: int
    """As many as may be shown."""


class LocalSearch:
    """Searches what `files` can reach, and shows nothing that its `.rooignore` hides."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    async def grep(
        self, place: Place, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        self._check_rules(place)
        kind = await self._files.stat(place)
        if not kind.exists:
            raise AbsentError(f"Cannot search {place.shown}: it does not exist.")
        if not (kind.is_dir or kind.is_file):
            raise ToolError(f"Cannot search {place.shown}: it is neither a file nor a folder.")
        pattern = FilePattern(file_pattern) if file_pattern else None
        lines = limit * _LINES_PER_HIT
        question = _Question(
            place,
            kind.is_file,
            (
                *(f"--context={_CONTEXT}", f"--max-count={lines + 1}", f"--regexp={regex}"),
                *(pattern.arguments if pattern is not None else ()),
            ),
            pattern,
            lines,
        )
        try:
            try:
                return await self._answer(question, limit)
            except OutOfMemoryError as error:
                return await self._answer_without_large_files(question, limit, error)
            except ObstacleError as error:
                return await self._answer_without_rules(question, limit, error)
        except RipgrepError as error:
            raise ToolError(f"ripgrep refused the search:\n{error}") from error

    async def list(self, place: Place, recursive: bool, limit: int) -> Listing:
        self._check_rules(place)
        return await list_folder(self._files, place, recursive, limit)

    def _check_rules(self, place: Place) -> None:
        """Where all is hidden, "nothing found" would be no answer."""
        if place.inside and (trouble := self._files.rules.trouble):
            raise ToolError(f"Cannot look into {place.shown}: {trouble}")

    async def _answer(self, question: _Question, limit: int) -> SearchResult:
        reader = self._reader(question, question.lines * _SLACK)
        cut = not await self._read(question, reader)
        if reader.full:
            ordered = self._reader(question, question.lines)
            if await self._read(question, ordered, "--sort=path"):
                reader = ordered
        found = reader.done()
        if question.is_file and not found and await self._is_binary(question.place):
            raise ToolError(
                f"{question.place.shown} is a binary file, which is not searched. A command such as"
                " `grep -a` can look into it."
            )
        more = len(found) > limit or sum(len(each.lines) for each in found) > question.lines
        hits = await asyncio.to_thread(_confirmed, found[:limit])
        return SearchResult(first_hits(hits, question.lines), truncated=cut or reader.full or more)

    async def _answer_without_large_files(
        self, question: _Question, limit: int, error: OutOfMemoryError
    ) -> SearchResult:
        """ripgrep holds a line as a whole; one without end must not spoil the other files."""
        if question.is_file:
            raise ToolError(
                f"Cannot search {question.place.shown}: it has a line that is too long. A command"
                " such as `grep -o` can look for a part of it."
            ) from error
        arguments = (*question.arguments, f"--max-filesize={_SEARCHED_AT_LEAST}")
        result = await self._answer(
            _Question(question.place, False, arguments, question.pattern, question.lines), limit
        )
        note = (
            f"Files of more than {_SEARCHED_AT_LEAST}B were not searched: one of them has a line"
            " that is too long."
        )
        return SearchResult(result.hits, result.truncated, note)

    async def _answer_without_rules(
        self, question: _Question, limit: int, error: ObstacleError
    ) -> SearchResult:
        arguments = (*question.arguments, "--no-ignore")
        result = await self._answer(replace(question, arguments=arguments), limit)
        shown = printable_name(str(error.path))
        note = f"Ignored files were searched too, since {shown} is no regular file."
        return SearchResult(result.hits, result.truncated, note)

    async def _is_binary(self, place: Place) -> bool:
        head = await self._files.read(place, _SNIFFED)
        return b"\0" in head and not head.startswith(_UTF_16)

    def _reader(self, question: _Question, most_lines: int) -> HitReader:
        return HitReader(lambda path: self._shown(question, path), most_lines)

    async def _read(self, question: _Question, reader: HitReader, *more: str) -> bool:
        """Until there is no more, or enough; False when the time was up before."""
        arguments = [*reader.arguments, *question.arguments, *more]
        try:
            async with (
                asyncio.timeout(_SECONDS),
                unobstructed(question.place.path, opened_by(arguments)),
                aclosing(records(arguments, question.place.path, b"\n")) as lines,
            ):
                async for line in lines:
                    reader.feed(line)
                    if reader.full:
                        break
        except TimeoutError:
            return False
        return True

    def _shown(self, question: _Question, raw: bytes) -> str | None:
        """How a file is named; None if it is hidden or not meant."""
        path = os.fsdecode(raw)
        relative = _below(path, self._files.root)
        if question.pattern is not None and not _covers(question, path, relative):
            return None
        if relative is not None and self._files.rules.hides(relative):
            return None
        if not self._files.shows(question.place, Path(path)):
            return None
        return printable_name(relative or path)


def _confirmed(found: Sequence[Found]) -> list[SearchHit]:
    return [each.hit for each in found if confirms(each.path, each.pieces)]


def _covers(question: _Question, path: str, relative: str | None) -> bool:
    """Patterns may start at the folder that is searched, or at the workspace."""
    assert question.pattern is not None
    below = _below(path, question.place.path)
    if below is None:
        return path == str(question.place.path)
    if question.pattern.covers(below):
        return True
    return relative is not None and question.pattern.covers(relative)


def _below(path: str, folder: Path) -> str | None:
    """What comes after the folder; ripgrep's paths are plain, and making a `Path` of each slow."""
    start = f"{folder}".rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


_fits: type[Search] = LocalSearch
