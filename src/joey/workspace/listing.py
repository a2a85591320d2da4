"""File listings made with ripgrep: of one directory, or of the whole workspace.

A recursive listing of a directory (`list_directory`) is ripgrep's list of files, which supports
gitignore, plus entries that it does not report: empty directories, symlinks, pipes, and hidden
directories, which are not entered. Other directories that are not entered are listed separately:
those that git ignores, and those with installed packages. If there are too many entries, the
deepest ones are dropped first. Directories are opened without following a symlink, and ripgrep's
files are checked again that way: meanwhile a directory may become a symlink to anywhere.

`list_indexable_files` and `list_all_files` list all files of the workspace, for the code index and
for completion. They block, and are called in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import chain, groupby, islice
from pathlib import Path
from threading import Event

from joey.core.path_access import ResolvedPath
from joey.core.protected_paths import PLACEHOLDER_MTIME_S, PLACEHOLDER_NAMES
from joey.core.text import compile_regex
from joey.errors import TargetNotFoundError, ToolError
from joey.ports.workspace import Listing
from joey.system.files import scan_directory
from joey.system.subprocess import run
from joey.workspace.files import LocalFiles, is_root_or_home, to_printable_name
from joey.workspace.ignore import IGNORE_FILE_NAME
from joey.workspace.pipes_and_devices import (
    FILES_OPENED_BY_RIPGREP,
    BlockingFileError,
    watch_for_blocking_files,
)
from joey.workspace.ripgrep import (
    RipgrepError,
    build_command,
    build_environment,
    describe_exit_code,
    get_opened_ignore_file_names,
    iter_records,
)
from joey.workspace.safe_open import lstat_at, open_directory

log = logging.getLogger(__name__)

_DIRECTORY_LISTING_TIMEOUT_S = 10
_MAX_LISTED_FILES = 2_000
_MAX_SCANNED_DIRECTORIES = 1_000
_MAX_SCANNED_ENTRIES = 20_000
"""Also ones that are not shown."""
_UNNAMED_DIRECTORIES = frozenset({".git", "__pycache__"})
_PACKAGE_DIRECTORY = "node_modules"
_VIRTUAL_ENVIRONMENTS = ("env", "venv")
_VIRTUAL_ENVIRONMENT_MARKER = "pyvenv.cfg"
_EXCLUDE_GLOB_OPTIONS = ("--glob=!__pycache__/", f"--glob=!{_PACKAGE_DIRECTORY}/", "--glob=!.*/")
_DIGITS_RE = compile_regex(r"([0-9]+)")


async def list_directory(
    files: LocalFiles, path: ResolvedPath, recursive: bool, limit: int
) -> Listing:
    """List the entries of a directory, at most `limit`, each directory followed by its entries.
    Raises ToolError if it is not a directory, or cannot be listed."""
    kind = await files.stat(path)
    if not kind.exists:
        raise TargetNotFoundError(f"Cannot list {path.display_path}. It does not exist.")
    if not kind.is_dir:
        description = "a file: use read_file" if kind.is_file else "neither a file nor a folder"
        raise ToolError(f"Cannot list {path.display_path}. It is {description}.")
    directory = _DirectoryLister(files, path)
    skipped: set[str] = set()
    try:
        entries, cut = await asyncio.to_thread(directory.list_top_level)
        if recursive and is_root_or_home(path.path):
            cut = True
        elif recursive:
            entries, skipped, cut = await directory.list_recursively(entries)
    except OSError as error:
        raise ToolError(f"Cannot list {path.display_path}: {error.strerror or error}.") from error
    if len(entries) > limit:  # shallow ones first, folders before files
        ranked = sorted(entries, key=_build_sort_key)
        ranked.sort(key=lambda entry: (entry.rstrip("/").count("/"), not entry.endswith("/")))
        entries, cut = set(ranked[:limit]), True
    return Listing(
        tuple(map(to_printable_name, sorted(entries, key=_build_sort_key))),
        truncated=cut,
        skipped=tuple(map(to_printable_name, sorted(skipped, key=_build_sort_key))),
    )


class _DirectoryLister:
    """The listing of one directory. Entries are relative to it; directories end with `/`."""

    def __init__(self, files: LocalFiles, resolved_path: ResolvedPath) -> None:
        self._files = files
        self._resolved_path = resolved_path
        self._path = path = resolved_path.path
        relative = files.to_relative(path)
        self._prefix_from_root = "" if relative in (None, ".") else f"{relative}/"
        self._workspace_prefix = ""
        """Where the workspace begins in a folder that it is in."""
        if relative is None:
            below = files.root.relative_to(path) if files.root.is_relative_to(path) else None
            self._workspace_prefix = f"{below}/" if below is not None else "/"

    def list_top_level(self) -> tuple[set[str], bool]:
        """List the directory's own entries, and whether there are too many to read."""
        entries = {entry for entry, _ in islice(self._iter_entries(""), _MAX_LISTED_FILES + 1)}
        return entries, len(entries) > _MAX_LISTED_FILES

    async def list_recursively(self, top_level: set[str]) -> tuple[set[str], set[str], bool]:
        """List all entries, the directories that were not entered, and whether there are more."""
        listed: set[str] = set()
        environments = await asyncio.to_thread(
            lambda: [
                f"--glob=!{name}/"
                for name in _VIRTUAL_ENVIRONMENTS
                if (self._path / name / _VIRTUAL_ENVIRONMENT_MARKER).exists()
            ]
        )
        name = self._path.name
        is_ignored = name == _PACKAGE_DIRECTORY or name.startswith(".")
        try:
            ignoring = ["--no-ignore"] if is_ignored else []
            cut = await self._run_ripgrep(listed, *environments, *ignoring)
            if not listed and self._prefix_from_root and not is_ignored:
                # The folder itself is ignored, but it was asked for by its name.
                cut = await self._run_ripgrep(listed, *environments, "--no-ignore")
        except BlockingFileError as error:
            log.warning("nothing counts as ignored in a listing of %s: %s", self._path, error)
            cut = await self._run_ripgrep(listed, *environments, "--no-ignore")
        found = await asyncio.to_thread(lambda: set(self._iter_confirmed_files(listed)))
        directories = {
            path[: at + 1] for path in found for at, char in enumerate(path) if char == "/"
        }
        if cut:
            return found | directories | top_level, set(), True
        extra, skipped = await asyncio.to_thread(self._collect_unreported_entries, directories)
        return found | directories | extra, skipped, False

    async def _run_ripgrep(self, found: set[str], *more: str) -> bool:
        """Add ripgrep's list; True if it was stopped before the end. Raises BlockingFileError."""
        arguments = ["--files", "--hidden", "--null", "--sort=path", *_EXCLUDE_GLOB_OPTIONS, *more]
        prefix = f"{self._path}/"
        try:
            async with (
                asyncio.timeout(_DIRECTORY_LISTING_TIMEOUT_S),
                watch_for_blocking_files(self._path, get_opened_ignore_file_names(arguments)),
                aclosing(iter_records(arguments, self._path, b"\0")) as paths,
            ):
                async for raw in paths:
                    path = os.fsdecode(raw).removeprefix(prefix)
                    if not self._is_hidden(path):
                        found.add(path)
                    if len(found) >= _MAX_LISTED_FILES:
                        return True
        except TimeoutError:
            return True
        except RipgrepError as error:
            raise ToolError(f"ripgrep could not list the files:\n{error}") from error
        return False

    def _iter_confirmed_files(self, paths: set[str]) -> Iterator[str]:
        """Iterate over the entries that really are files of this directory."""
        for directory, group in groupby(sorted(paths, key=_get_parent), key=_get_parent):
            with suppress(OSError), open_directory(self._path / directory) as descriptor:
                for path in group:
                    facts = lstat_at(path.rpartition("/")[2], descriptor)
                    if facts is not None and stat.S_ISREG(facts.st_mode):
                        yield path

    def _collect_unreported_entries(self, directories: set[str]) -> tuple[set[str], set[str]]:
        """Collect hidden and empty directories, links and special files; and the directories in
        which ripgrep found nothing, although they are not empty."""
        extra: set[str] = set()
        skipped: set[str] = set()
        entries = chain.from_iterable(
            self._iter_readable_entries(directory)
            for directory in islice(("", *sorted(directories)), _MAX_SCANNED_DIRECTORIES)
        )
        for entry, is_file in islice(entries, _MAX_SCANNED_ENTRIES):
            if is_file or entry in directories:
                continue
            name = entry.removesuffix("/")
            is_hidden = name.rpartition("/")[2].startswith(".")
            if name == entry or is_hidden or _is_empty_directory(self._path / name):
                extra.add(entry)
            else:
                skipped.add(entry)
        return extra, skipped

    def _iter_readable_entries(self, directory: str) -> Iterator[tuple[str, bool]]:
        # A folder that has gone or may not be read is no reason to show none of the others.
        with suppress(OSError):
            yield from self._iter_entries(directory)

    def _iter_entries(self, directory: str) -> Iterator[tuple[str, bool]]:
        """Iterate over the entries of a directory, and whether each is a regular file."""
        with scan_directory(self._path / directory) as entries:
            for entry in entries:
                is_dir = entry.is_dir(follow_symlinks=False)
                name = f"{directory}{entry.name}"
                skipped = entry.name in _UNNAMED_DIRECTORIES or _is_placeholder(entry)
                hidden = entry.is_symlink() and self._is_link_hidden(name)
                if not (hidden or (is_dir and skipped) or self._is_hidden(name, is_dir=is_dir)):
                    yield (f"{name}/" if is_dir else name), entry.is_file(follow_symlinks=False)

    def _is_hidden(self, path: str, *, is_dir: bool = False) -> bool:
        if not self._files.can_show(self._resolved_path, self._path / path):
            return True
        if not path.startswith(self._workspace_prefix):
            return False  # outside of the workspace
        inside = path.removeprefix(self._workspace_prefix)
        return self._files.ignore_rules.is_hidden(
            f"{self._prefix_from_root}{inside}", is_dir=is_dir
        )

    def _is_link_hidden(self, path: str) -> bool:
        """Whether a link is hidden, because its target is."""
        try:
            return self._files.resolve(str(self._path / path)).is_ignored
        except ToolError:  # it leads to a name that cannot be used
            return False


def _is_placeholder(entry: os.DirEntry[str]) -> bool:
    """Whether the sandbox of a running command has created it, and will remove it."""
    if entry.name not in PLACEHOLDER_NAMES:
        return False
    try:
        return int(entry.stat(follow_symlinks=False).st_mtime) == PLACEHOLDER_MTIME_S
    except FileNotFoundError:
        return True


def _get_parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_empty_directory(path: Path) -> bool:
    """Whether a directory is empty or unreadable."""
    try:
        with scan_directory(path) as entries:
            return next(entries, None) is None
    except OSError:
        return True


def _build_sort_key(entry: str) -> tuple[list[list[str | int]], str]:
    """Build a sort key part by part, so that entries follow their directory; numbers by value,
    letters by name."""
    parts = [
        [
            int(piece) if at % 2 else piece.casefold()
            for at, piece in enumerate(_DIGITS_RE.split(part))
        ]
        for part in entry.rstrip("/").split("/")
    ]
    return parts, entry


MAX_INDEXED_FILES = 50_000
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_WORKSPACE_LISTING_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.1
_UNINDEXED_GLOBS = (
    *("node_modules/", "bower_components/", "__pycache__/", "site-packages/", "venv/", "vendor/"),
    *("*.min.js", "*.min.css", "*.map", "*.lock", "*-lock.json", "*-lock.yaml", "*.svg"),
)
_RIPGREP_ARGUMENTS = ("--no-config", "--no-messages", "--no-require-git", "--files", "--null")
_INDEXABLE_FILE_OPTIONS = ("--max-filesize=1M", *(f"--glob=!{glob}" for glob in _UNINDEXED_GLOBS))
MAX_FILE_NAMES = 500_000
_ALL_FILE_OPTIONS = ("--hidden", "--glob=!.git/", "--glob=!.git")


class _ListingError(Exception):
    """Why there is no list."""


def list_indexable_files(files: LocalFiles, stop: Event | None = None) -> Listing:
    """List files that neither git ignores nor `.rooignore` hides, relative to the root, unordered;
    without hidden, large, generated or installed ones, links, or names that cannot be displayed.
    Blocks while it walks the tree, unless `stop` is set. Raises ToolError if there is no ripgrep,
    the workspace is the home of many projects, or it or `.rooignore` cannot be read."""
    return _list_files(files, _INDEXABLE_FILE_OPTIONS, MAX_INDEXED_FILES, stop or Event())


def list_all_files(files: LocalFiles, stop: Event | None = None) -> Listing:
    """Like `list_indexable_files`, but with hidden, large and generated files: all that a user may
    mention. Raises ToolError."""
    return _list_files(files, _ALL_FILE_OPTIONS, MAX_FILE_NAMES, stop or Event())


def _list_files(files: LocalFiles, chosen: Sequence[str], max_files: int, stop: Event) -> Listing:
    if is_root_or_home(files.root):
        raise ToolError(f"{files.root} is too wide to be indexed. Use search_files.")
    # What stands behind the last separator is nothing, or half a path.
    try:
        *paths, _ = os.fsdecode(asyncio.run(_print_files(files, chosen, stop))).split("\0")
    except (OSError, _ListingError) as error:
        raise ToolError(
            f"The files of {files.root} cannot be listed: {error} Use search_files."
        ) from error
    if rules_error := files.ignore_rules.error:
        raise ToolError(f"The files of {files.root} cannot be listed: {rules_error}")
    visible = files.ignore_rules.filter_visible(paths)
    found = [path for path in visible if path.isprintable() or to_printable_name(path) == path]
    cut = len(found) > max_files
    return Listing(tuple(sorted(found)[:max_files] if cut else found), truncated=cut)


async def _print_files(files: LocalFiles, chosen: Sequence[str], stop: Event) -> bytes:
    """Print ripgrep's list. It skips hidden files if it reads the rules as git does; it is started
    in the root of the rules."""
    is_compatible = files.ignore_rules.is_ripgrep_compatible()
    hidden = [f"--ignore-file={IGNORE_FILE_NAME}"] if is_compatible else []
    stopping = asyncio.create_task(_cancel_when_set(stop, asyncio.current_task()))
    try:
        async with watch_for_blocking_files(files.root, FILES_OPENED_BY_RIPGREP):
            done = await run(
                build_command([*_RIPGREP_ARGUMENTS, *chosen, *hidden]),
                cwd=files.root,
                env=build_environment(),
                timeout_s=_WORKSPACE_LISTING_TIMEOUT_S,
                max_printed_bytes=_MAX_OUTPUT_BYTES,
            )
    except asyncio.CancelledError:
        raise _ListingError("it was stopped.") from None
    except TimeoutError:
        raise _ListingError(f"it takes longer than {_WORKSPACE_LISTING_TIMEOUT_S:g} s.") from None
    except BlockingFileError as error:
        shown = repr(str(error.path))
        raise _ListingError(f"{shown} is no regular file. Delete or rename it.") from error
    finally:
        stopping.cancel()
    # Half a list would look as if the other files had been deleted.
    if done.returncode < 0 and not done.is_flood:
        raise _ListingError(f"ripgrep cannot be used: {describe_exit_code(done.returncode)}")
    return done.stdout


async def _cancel_when_set(stop: Event, task: asyncio.Task[bytes] | None) -> None:
    while not stop.is_set():  # noqa: ASYNC110 (another thread sets it)
        await asyncio.sleep(_POLL_INTERVAL_S)
    if task is not None:
        task.cancel()
