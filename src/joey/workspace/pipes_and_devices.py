"""Pipes and devices that make git and ripgrep wait forever.

Both open the files with ignore rules, and git some more, without checking their type: a pipe
without a writer blocks them. Searching for one takes as long as they do, so it is only done when
they take long.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import Event

BLOCKING_CHECK_DELAY_S = 1.0
"""So long a program may take before anybody wonders why."""
FILES_OPENED_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules", ".mailmap"))
FILES_OPENED_BY_RIPGREP = frozenset((".gitignore", ".ignore", ".rgignore", ".rooignore"))
_FILES_ALWAYS_OPENED_BY_GIT = frozenset((".gitignore", ".gitattributes"))
_GIT_DIRECTORY = ".git"
"""All that is in it may be opened."""


class BlockingFileError(Exception):
    """A program waits for a file that it should not open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is no regular file, but something to wait for")


@asynccontextmanager
async def watch_for_blocking_files(directory: Path, opened: frozenset[str]) -> AsyncIterator[None]:
    """Watch for the duration of a program that opens files of these names. Raises BlockingFileError
    if it takes long, and there is a file that it may wait for."""
    if not opened:
        yield
        return
    loop = asyncio.get_running_loop()
    limit, stop = asyncio.timeout(None), Event()
    found: list[Path] = []
    looks: list[asyncio.Task[None]] = []

    async def look() -> None:
        obstacle = await asyncio.to_thread(find_blocking_file, directory, opened, stop)
        if obstacle is not None and not stop.is_set():
            found.append(obstacle)
            limit.reschedule(loop.time())

    timer = loop.call_later(BLOCKING_CHECK_DELAY_S, lambda: looks.append(loop.create_task(look())))
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if found and limit.expired():
            raise BlockingFileError(found[0]) from error
        raise
    finally:
        stop.set()
        timer.cancel()
        await asyncio.gather(*looks)


def find_blocking_file(directory: Path, opened: frozenset[str], stop: Event) -> Path | None:
    """Find a blocking file in a directory, or directly in a parent, where ripgrep looks too. The
    time depends on the number of files, unless `stop` is set."""
    above = (path / name for path in directory.parents for name in sorted(opened))
    for path in chain(above, _iter_irregular_opened_files(directory, opened, stop)):
        try:
            facts = path.stat()
        except OSError:
            continue
        # What a link leads to may well be /dev/null.
        if stat.S_ISFIFO(facts.st_mode) or (
            is_pipe_or_device(facts.st_mode) and not path.is_symlink()
        ):
            return path
    return None


def can_block_git(path: bytes, mode: int) -> bool:
    """Whether a file, seen without following links, can block git."""
    return (
        is_pipe_or_device(mode)
        and os.fsdecode(path.rpartition(b"/")[2]) in _FILES_ALWAYS_OPENED_BY_GIT
    )


def is_pipe_or_device(mode: int) -> bool:
    """Whether it is a pipe or device; not a socket, which cannot be opened."""
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _iter_irregular_opened_files(
    directory: Path, opened: frozenset[str], stop: Event
) -> Iterator[Path]:
    """Iterate over files that are not regular; shallow ones first."""
    pending = deque([(directory, False)])
    while pending and not stop.is_set():
        here, is_inside = pending.popleft()
        with (
            suppress(OSError),
            os.scandir(here) as entries,
        ):  # unreadable for them too
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), is_inside or entry.name == _GIT_DIRECTORY))
                    continue
                is_opened = is_inside or entry.name in opened
                if is_opened and not entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
