"""What a folder holds: its entries, or everything below it that is worth looking at.

A recursive listing is ripgrep's list of files, which knows gitignore, plus what ripgrep does not
report: empty folders, links, pipes and the like, and hidden folders, which are named but not
entered. When there is too much, what lies deep goes first.

Folders are opened without following a link, and what ripgrep lists is looked at again that way:
while it walks, a folder may become a link to anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import aclosing, suppress
from itertools import chain, groupby, islice
from pathlib import Path

from joey.core.regex import regex
from joey.errors import AbsentError, ToolError
from joey.ports import Listing, Place
from joey.workspace.descent import open_folder, scan
from joey.workspace.files import LocalFiles, is_too_wide, printable_name
from joey.workspace.obstacles import ObstacleError, unobstructed
from joey.workspace.ripgrep import RipgrepError, opened_by, records

log = logging.getLogger(__name__)

_SECONDS = 10
_MOST_FILES = 2_000
_MOST_FOLDERS = 1_000
_MOST_SEEN = 20_000
"""Entries of those folders, also ones that are not shown."""
_SKIPPED = frozenset(
    (
        *("node_modules", "__pycache__", "env", "venv", "dist", "out", "bundle", "vendor"),
        *("tmp", "temp", "deps", "pkg", "Pods", ".git"),
    )
)
_SKIPPED_PATHS = ("target/dependency", "build/dependencies")
_GLOBS = (
    *(f"--glob=!{name}/" for name in sorted(_SKIPPED)),
    *(f"--glob=!**/{path}/" for path in _SKIPPED_PATHS),
    "--glob=!.*/",
)
_DIGITS = regex(r"([0-9]+)")


async def list_folder(files: LocalFiles, place: Place, recursive: bool, limit: int) -> Listing:
    """The entries of a folder, at most `limit`, each folder followed by what is in it.

    Raises:
        ToolError: it is not a folder, or cannot be listed.
    """
    kind = await files.stat(place)
    if not kind.exists:
        raise AbsentError(f"Cannot list {place.shown}. It does not exist.")
    if not kind.is_dir:
        what = "a file: use read_file" if kind.is_file else "neither a file nor a folder"
        raise ToolError(f"Cannot list {place.shown}. It is {what}.")
    folder = _Folder(files, place)
    try:
        entries, cut = await asyncio.to_thread(folder.top_level)
        if recursive and is_too_wide(place.path):
            cut = True
        elif recursive:
            entries, cut = await folder.below(entries)
    except OSError as error:
        raise ToolError(f"Cannot list {place.shown}: {error.strerror or error}.") from error
    if len(entries) > limit:
        entries, cut = set(sorted(entries, key=_worth)[:limit]), True
    return Listing(tuple(map(printable_name, sorted(entries, key=_order))), truncated=cut)


class _Folder:
    """One folder that is being listed. Entries are relative to it; folders end with `/`."""

    def __init__(self, files: LocalFiles, place: Place) -> None:
        self._files = files
        self._place = place
        self._path = path = place.path
        relative = files.relative(path)
        self._from_root = "" if relative in (None, ".") else f"{relative}/"
        self._above_root = ""
        """Where the workspace begins in a folder that it is in."""
        if relative is None:
            below = files.root.relative_to(path) if files.root.is_relative_to(path) else None
            self._above_root = f"{below}/" if below is not None else "/"

    def top_level(self) -> tuple[set[str], bool]:
        """The folder's own entries, and whether there are more than one would read."""
        entries = {entry for entry, _ in islice(self._entries(""), _MOST_FILES + 1)}
        return entries, len(entries) > _MOST_FILES

    async def below(self, top_level: set[str]) -> tuple[set[str], bool]:
        listed: set[str] = set()
        cut = await self._find_files(listed)
        found = await asyncio.to_thread(lambda: set(self._confirmed(listed)))
        folders = {f"{parent}/" for path in found for parent in _parents(path)}
        if cut:
            return found | folders | top_level, True
        extra = await asyncio.to_thread(lambda: set(self._unreported(folders)))
        return found | folders | extra, False

    async def _find_files(self, found: set[str]) -> bool:
        """Add what ripgrep lists; True when it was stopped before the end."""
        name = self._path.name
        if name in _SKIPPED or name.startswith("."):
            return await self._run_ripgrep(found, "--no-ignore")
        try:
            return await self._run_ripgrep(found)
        except ObstacleError as error:
            log.warning("nothing counts as ignored in a listing of %s: %s", self._path, error)
            return await self._run_ripgrep(found, "--no-ignore")

    async def _run_ripgrep(self, found: set[str], *more: str) -> bool:
        """Raises ObstacleError."""
        arguments = ["--files", "--hidden", "--null", "--sort=path", *_GLOBS, *more]
        prefix = f"{self._path}/"
        try:
            async with (
                asyncio.timeout(_SECONDS),
                unobstructed(self._path, opened_by(arguments)),
                aclosing(records(arguments, self._path, b"\0")) as paths,
            ):
                async for raw in paths:
                    path = os.fsdecode(raw).removeprefix(prefix)
                    if not self._hides(path):
                        found.add(path)
                    if len(found) >= _MOST_FILES:
                        return True
        except TimeoutError:
            return True
        except RipgrepError as error:
            raise ToolError(f"ripgrep could not list the files:\n{error}") from error
        return False

    def _confirmed(self, paths: set[str]) -> Iterator[str]:
        """Those that really are files of this folder."""
        for folder, group in groupby(sorted(paths, key=_folder_of), key=_folder_of):
            with suppress(OSError), open_folder(self._path / folder) as descriptor:
                yield from (path for path in group if _is_file(path, descriptor))

    def _unreported(self, folders: set[str]) -> Iterator[str]:
        """Hidden and empty folders, links and special files beside the files that were found."""
        entries = chain.from_iterable(
            self._readable_entries(folder)
            for folder in islice(("", *sorted(folders)), _MOST_FOLDERS)
        )
        for entry, is_file in islice(entries, _MOST_SEEN):
            if not is_file and entry not in folders and self._is_shown(entry):
                yield entry

    def _is_shown(self, entry: str) -> bool:
        """Folders that ripgrep entered and found nothing in are left out, unless they are empty."""
        name = entry.removesuffix("/")
        hidden = name.rpartition("/")[2].startswith(".")
        return name == entry or hidden or _is_empty(self._path / name)

    def _readable_entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        # A folder that has gone or may not be read is no reason to show none of the others.
        with suppress(OSError):
            yield from self._entries(folder)

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """What a folder holds, and whether it is a regular file."""
        with scan(self._path / folder) as entries:
            for entry in entries:
                is_dir = entry.is_dir(follow_symlinks=False)
                name = f"{folder}{entry.name}"
                skipped = entry.name in _SKIPPED or name.endswith(_SKIPPED_PATHS)
                hidden = self._hides_link(name) if entry.is_symlink() else False
                if not (hidden or (is_dir and skipped) or self._hides(name, is_dir=is_dir)):
                    is_file = entry.is_file(follow_symlinks=False)
                    yield (f"{name}/" if is_dir else name), is_file

    def _hides(self, path: str, *, is_dir: bool = False) -> bool:
        if not self._files.shows(self._place, self._path / path):
            return True
        if not path.startswith(self._above_root):
            return False  # outside of the workspace
        inside = path.removeprefix(self._above_root)
        return self._files.rules.hides(f"{self._from_root}{inside}", is_dir=is_dir)

    def _hides_link(self, path: str) -> bool:
        """Another name of what is hidden is hidden too."""
        try:
            return self._files.resolve(str(self._path / path)).ignored
        except ToolError:  # it leads to a name that cannot be used
            return False


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _is_file(path: str, folder: int) -> bool:
    try:
        name = path.rpartition("/")[2]
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_empty(path: Path) -> bool:
    """A folder that cannot be looked into is as good as one."""
    try:
        with scan(path) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _worth(entry: str) -> tuple[int, bool, object]:
    """What is shallow first, folders before files."""
    return entry.rstrip("/").count("/"), not entry.endswith("/"), _order(entry)


def _order(entry: str) -> tuple[list[list[str | int]], str]:
    """Part by part, so that entries follow their folder; numbers by value, letters by name."""
    parts = [
        [int(piece) if at % 2 else piece.casefold() for at, piece in enumerate(_DIGITS.split(part))]
        for part in entry.rstrip("/").split("/")
    ]
    return parts, entry
