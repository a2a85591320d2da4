"""Every file of a workspace that is worth knowing, for those who read them all."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from joey.errors import ToolError
from joey.ports import Listing
from joey.workspace.files import LocalFiles, is_too_wide, printable_name
from joey.workspace.ignore import NAME
from joey.workspace.obstacles import OPENED_BY_RIPGREP, PATIENCE, find_obstacle
from joey.workspace.ripgrep import command, died_of, surroundings

MOST_FILES = 50_000
_MOST_BYTES = 64 * 1024 * 1024
_SECONDS = 60.0
_CHUNK = 64 * 1024
_POLL = 100
"""Milliseconds."""
_FOLDERS = ("node_modules", "bower_components", "__pycache__", "site-packages", "venv", "vendor")
_GENERATED = ("*.min.js", "*.min.css", "*.map", "*.lock", "*-lock.json", "*-lock.yaml", "*.svg")
_ARGUMENTS = ("--no-config", "--no-messages", "--no-require-git", "--files", "--null")
_WORTH_READING = (
    "--max-filesize=1M",
    *(f"--glob=!{name}/" for name in _FOLDERS),
    *(f"--glob=!{name}" for name in _GENERATED),
)
MOST_NAMES = 500_000
_WORTH_NAMING = ("--hidden", "--glob=!.git/", "--glob=!.git")


class _UnlistedError(Exception):
    """Why there is no list."""


def every_file(files: LocalFiles, stop: Event | None = None) -> Listing:
    """Files that neither git ignores nor `.rooignore` hides, relative to the root, in no order.

    Hidden files, links, files of more than a megabyte, what others have generated or installed,
    and names that cannot be shown as they are, are left out. Rules may change later: who shows a
    file asks `Files.resolve`. Blocks for as long as walking the tree takes, unless `stop` is set.

    Raises:
        ToolError: there is no ripgrep, the workspace is no project but the home of many, it
            cannot be walked, or `.rooignore` cannot be used.
    """
    return _listed(files, _WORTH_READING, MOST_FILES, stop or Event())


def every_name(files: LocalFiles, stop: Event | None = None) -> Listing:
    """As `every_file`, with hidden, large and generated files: all that a person may point at.

    Raises:
        ToolError
    """
    return _listed(files, _WORTH_NAMING, MOST_NAMES, stop or Event())


def _listed(files: LocalFiles, chosen: Sequence[str], most: int, stop: Event) -> Listing:
    if is_too_wide(files.root):
        raise ToolError(f"{files.root} is too wide to be indexed. Use search_files.")
    # What stands behind the last separator is nothing, or half a path.
    try:
        *paths, _ = os.fsdecode(_printed(files, chosen, stop)).split("\0")
    except (OSError, _UnlistedError) as error:
        raise ToolError(
            f"The files of {files.root} cannot be listed: {error} Use search_files."
        ) from error
    if trouble := files.rules.trouble:
        raise ToolError(f"The files of {files.root} cannot be listed: {trouble}")
    visible = files.rules.visible(paths)
    found = [path for path in visible if path.isprintable() or printable_name(path) == path]
    cut = len(found) > most
    return Listing(tuple(sorted(found)[:most] if cut else found), truncated=cut)


def _printed(files: LocalFiles, chosen: Sequence[str], stop: Event) -> bytes:
    """ripgrep's list. It need not walk what is hidden, where it reads the rules as git does; the
    root of the rules is where it is started."""
    hidden = [f"--ignore-file={NAME}"] if files.rules.hide_as_in_ripgrep() else []
    with subprocess.Popen(
        command([*_ARGUMENTS, *chosen, *hidden]),
        cwd=files.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=surroundings(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            printed = _read(process.stdout.fileno(), files.root, stop)
            # Half a list would look as if the other files had been deleted.
            if len(printed) < _MOST_BYTES and (code := process.wait()) < 0:
                raise _UnlistedError(f"ripgrep cannot be used: {died_of(code)}")
            return printed
        finally:
            process.kill()


def _read(pipe: int, root: Path, stop: Event) -> bytes:
    """All that comes; who waits for a file that is a pipe would wait for ever."""
    begun = time.monotonic()
    is_looked_for = False
    ready = select.poll()
    ready.register(pipe)
    printed = bytearray()
    while len(printed) < _MOST_BYTES:
        if stop.is_set():
            raise _UnlistedError("it was stopped.")
        if time.monotonic() > begun + _SECONDS:
            raise _UnlistedError(f"it takes longer than {_SECONDS:g} s.")
        if not is_looked_for and time.monotonic() > begun + PATIENCE:
            is_looked_for = True
            if (obstacle := find_obstacle(root, OPENED_BY_RIPGREP, stop)) is not None:
                raise _UnlistedError(f"{str(obstacle)!r} is no regular file. Delete or rename it.")
        if ready.poll(_POLL):
            chunk = os.read(pipe, _CHUNK)
            if not chunk:
                break
            printed += chunk
    return bytes(printed)
