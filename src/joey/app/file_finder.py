"""The file finder: paths of a workspace that match typed text.

The list of names is kept in memory and refreshed in the background when it is a few seconds old. It
is searched in a thread, so typing never waits.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import accumulate, islice
from pathlib import Path
from threading import Event

from joey.errors import ToolError
from joey.workspace.files import LocalFiles
from joey.workspace.listing import every_name

log = logging.getLogger(__name__)

MAX_RESULTS = 50
_LISTING_MAX_AGE_S = 5.0
_MAX_RANKED_HITS = 500
"""Hits that are compared; those that lie deepest are not looked at."""
_MIN_HITS_WITHOUT_FUZZY = 10
"""With so many hits, names that only have the same letters are not wanted."""
_FUZZY_CHUNK_LINES = 5_000
"""Names that are looked at before another thread may go on."""


class FileFinder:
    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._names = PathIndex(())
        self._listed_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._stop = Event()

    async def find(self, typed: str) -> Sequence[str]:
        """Paths that fit, best first; folders end with `/`. Empty where nothing can be listed."""
        listing = self._listing
        if listing is None and time.monotonic() - self._listed_at > _LISTING_MAX_AGE_S:
            listing = self._listing = asyncio.create_task(self._list())
        if not self._listed_at and listing is not None:
            # Who stops waiting, because they typed on, does not stop the listing.
            await asyncio.shield(listing)
        return await asyncio.to_thread(self._find, self._names, typed)

    async def close(self) -> None:
        self._stop.set()
        if self._listing is not None:
            await asyncio.gather(self._listing, return_exceptions=True)

    def _find(self, names: PathIndex, typed: str) -> list[str]:
        """Without what `.rooignore` hides by now, or by rules that ripgrep reads otherwise."""
        hides = self._files.rules.hides
        return [
            path
            for path in names.find(typed)
            if not hides(path.rstrip("/"), is_dir=path.endswith("/"))
        ]

    async def _list(self) -> None:
        try:
            self._names = await asyncio.to_thread(self._all_names)
        except ToolError as error:
            log.info("no files are offered: %s", error)
        finally:
            self._listed_at = time.monotonic()
            self._listing = None

    def _all_names(self) -> PathIndex:
        paths = sorted(every_name(self._files, self._stop).entries)
        return self._names if paths == self._names.listed else PathIndex(paths)


class PathIndex:
    """All names of a workspace, with the folders in which they are, in small letters.

    They stand in two long texts, a line each, because nothing looks through so many names faster
    than a search for a word in a text.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.listed = paths
        directories = _collect_directories(paths)
        self._paths = sorted((*directories, *paths), key=_near_first)
        self._lows = [path.lower() for path in self._paths]
        self._whole = _LineSearcher(self._lows)
        self._last = _LineSearcher([_last_part(low) for low in self._lows])

    def find(self, typed: str, most: int = MAX_RESULTS) -> list[str]:
        """Names whose last part begins so come first, then those that have it somewhere, then
        those that have its letters in this order."""
        if not typed:
            return self._paths[:most]
        low = typed.lower()
        found: dict[int, None] = {}
        ways = (
            (most, self._beginning),
            (most, self._having),
            (_MIN_HITS_WITHOUT_FUZZY, self._spelling),
        )
        for enough, way in ways:
            if len(found) < enough:
                best = nsmallest(most, way(low), key=lambda number: self._rank(number, low))
                found.update(dict.fromkeys(best))
        return [self._paths[number] for number in islice(found, most)]

    def _beginning(self, low: str) -> Iterator[int]:
        return islice(self._last.finding(f"\n{low}"), _MAX_RANKED_HITS)

    def _having(self, low: str) -> Iterator[int]:
        return islice(self._whole.finding(low), _MAX_RANKED_HITS)

    def _spelling(self, low: str) -> Iterator[int]:
        return islice(self._whole.spelling(low), _MAX_RANKED_HITS)

    def _rank(self, number: int, low: str) -> tuple[bool, bool, int, str]:
        path = self._lows[number]
        last = _last_part(path)
        return last != low, low not in last, len(path), path


class _LineSearcher:
    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n".join(("", *lines, ""))
        ends = accumulate(len(line) + 1 for line in lines)
        self._starts = [0, *ends]
        """Where the line ends stand before each line."""

    def finding(self, word: str) -> Iterator[int]:
        """The numbers of the lines that have it, each once."""
        at = self._text.find(word)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            if number >= len(self._starts) - 1:
                return
            yield number
            at = self._text.find(word, self._starts[number + 1])

    def spelling(self, word: str) -> Iterator[int]:
        """The numbers of the lines that have its letters in this order."""
        letters = "".join(f"[^\n{re.escape(letter)}]*{re.escape(letter)}" for letter in word)
        pattern = re.compile(f"\n{letters}")
        for first in range(0, len(self._starts) - 1, _FUZZY_CHUNK_LINES):
            last = min(first + _FUZZY_CHUNK_LINES, len(self._starts) - 1)
            for hit in pattern.finditer(self._text, self._starts[first], self._starts[last]):
                yield bisect_right(self._starts, hit.start()) - 1


def _near_first(path: str) -> tuple[int, bool, str]:
    """What lies deep, and what is hidden, comes later."""
    return path.count("/", 0, -1), path.startswith("."), path


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _collect_directories(paths: Sequence[str]) -> set[str]:
    directories: set[str] = set()
    for path in paths:
        directory = path[: path.rfind("/") + 1]
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory[: directory.rfind("/", 0, -1) + 1]
    return directories


def open_file_offers(workspace: Path) -> FileFinder:
    """The files of a workspace, for those who type their names."""
    return FileFinder(LocalFiles(workspace))
