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
from joey.workspace.listing import list_all_files

log = logging.getLogger(__name__)

MAX_RESULTS = 50
_LISTING_MAX_AGE_S = 5.0
_MAX_RANKED_HITS = 500
"""Those that lie deepest are not looked at."""
_MIN_HITS_WITHOUT_FUZZY = 10
"""With so many hits, names that only have the same letters are not wanted."""
_FUZZY_CHUNK_LINES = 5_000
"""Names that are looked at before another thread may go on."""


class FileFinder:
    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._path_index = PathIndex(())
        self._listed_at = 0.0
        self._listing_task: asyncio.Task[None] | None = None
        self._stop_event = Event()

    async def find(self, typed: str) -> Sequence[str]:
        """Find matching paths, best first; directories end with `/`. Empty if nothing can be
        listed."""
        listing = self._listing_task
        if listing is None and time.monotonic() - self._listed_at > _LISTING_MAX_AGE_S:
            listing = self._listing_task = asyncio.create_task(self._refresh_index())
        if not self._listed_at and listing is not None:
            # A caller that stops waiting, because of more typing, does not stop the listing.
            await asyncio.shield(listing)
        return await asyncio.to_thread(self._find_visible, self._path_index, typed)

    async def close(self) -> None:
        self._stop_event.set()
        if self._listing_task is not None:
            await asyncio.gather(self._listing_task, return_exceptions=True)

    def _find_visible(self, names: PathIndex, typed: str) -> list[str]:
        """Drop paths that `.rooignore` hides by now, or that ripgrep's rules treat differently."""
        hides = self._files.ignore_rules.is_hidden
        return [
            path
            for path in names.find(typed)
            if not hides(path.rstrip("/"), is_dir=path.endswith("/"))
        ]

    async def _refresh_index(self) -> None:
        try:
            self._path_index = await asyncio.to_thread(self._build_index)
        except ToolError as error:
            log.info("no files are offered: %s", error)
        finally:
            self._listed_at = time.monotonic()
            self._listing_task = None

    def _build_index(self) -> PathIndex:
        paths = sorted(list_all_files(self._files, self._stop_event).entries)
        return self._path_index if paths == self._path_index.listed_paths else PathIndex(paths)


class PathIndex:
    """All names of a workspace and the directories they are in, in lower case.

    They are kept in two long strings, one name per line, because searching one string is the
    fastest way to look through that many names.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.listed_paths = paths
        directories = _collect_directories(paths)
        self._paths = sorted((*directories, *paths), key=_build_sort_key)
        self._lower_paths = [path.lower() for path in self._paths]
        self._path_searcher = _LineSearcher(self._lower_paths)
        self._name_searcher = _LineSearcher([_get_basename(low) for low in self._lower_paths])

    def find(self, typed: str, limit: int = MAX_RESULTS) -> list[str]:
        """Find names whose last part starts with the text, then those that contain it, then those
        that contain its letters in this order."""
        if not typed:
            return self._paths[:limit]
        low = typed.lower()
        found: dict[int, None] = {}
        strategies = (
            (limit, self._name_searcher.iter_substring_lines(f"\n{low}")),
            (limit, self._path_searcher.iter_substring_lines(low)),
            (_MIN_HITS_WITHOUT_FUZZY, self._path_searcher.iter_fuzzy_lines(low)),
        )
        for max_hits, matches in strategies:
            if len(found) < max_hits:
                ranked = islice(matches, _MAX_RANKED_HITS)
                best = nsmallest(limit, ranked, key=lambda number: self._rank_match(number, low))
                found.update(dict.fromkeys(best))
        return [self._paths[number] for number in islice(found, limit)]

    def _rank_match(self, number: int, low: str) -> tuple[bool, bool, int, str]:
        path = self._lower_paths[number]
        last = _get_basename(path)
        return last != low, low not in last, len(path), path


class _LineSearcher:
    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n".join(("", *lines, ""))
        ends = accumulate(len(line) + 1 for line in lines)
        self._line_starts = [0, *ends]
        """Where the line ends stand before each line."""

    def iter_substring_lines(self, word: str) -> Iterator[int]:
        """Iterate over the numbers of the lines that contain the text, each once."""
        at = self._text.find(word)
        while at >= 0:
            number = bisect_right(self._line_starts, at) - 1
            if number >= len(self._line_starts) - 1:
                return
            yield number
            at = self._text.find(word, self._line_starts[number + 1])

    def iter_fuzzy_lines(self, word: str) -> Iterator[int]:
        """Iterate over the numbers of the lines that contain the letters in this order."""
        letters = "".join(f"[^\n{re.escape(letter)}]*{re.escape(letter)}" for letter in word)
        pattern = re.compile(f"\n{letters}")
        for first in range(0, len(self._line_starts) - 1, _FUZZY_CHUNK_LINES):
            last = min(first + _FUZZY_CHUNK_LINES, len(self._line_starts) - 1)
            for hit in pattern.finditer(
                self._text, self._line_starts[first], self._line_starts[last]
            ):
                yield bisect_right(self._line_starts, hit.start()) - 1


def _build_sort_key(path: str) -> tuple[int, bool, str]:
    """Build a sort key that puts deep and hidden paths last."""
    return path.count("/", 0, -1), path.startswith("."), path


def _get_basename(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _collect_directories(paths: Sequence[str]) -> set[str]:
    directories: set[str] = set()
    for path in paths:
        directory = path[: path.rfind("/") + 1]
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory[: directory.rfind("/", 0, -1) + 1]
    return directories


def open_file_finder(workspace: Path) -> FileFinder:
    """Open the file finder of a workspace, for completion while a user types."""
    return FileFinder(LocalFiles(workspace))
