"""Every file of a workspace that is worth knowing, for those who read them all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from joey.errors import ToolError
from joey.ports import Listing
from joey.workspace.files import LocalFiles, printable_name
from joey.workspace.ignore import NAME
from joey.workspace.ripgrep import ripgrep

MOST_FILES = 50_000
_MOST_BYTES = 64 * 1024 * 1024
_FOLDERS = ("node_modules", "bower_components", "__pycache__", "site-packages", "venv", "vendor")
_GENERATED = ("*.min.js", "*.min.css", "*.map", "*.lock", "*-lock.json", "*-lock.yaml", "*.svg")
_ARGUMENTS = (
    *("--no-config", "--no-messages", "--no-require-git"),
    *("--files", "--null", "--max-filesize=1M"),
    *(f"--glob=!{name}/" for name in _FOLDERS),
    *(f"--glob=!{name}" for name in _GENERATED),
)


def every_file(files: LocalFiles) -> Listing:
    """Files that neither git ignores nor `.rooignore` hides, relative to the root, in no order.

    Hidden files, links, files of more than a megabyte, what others have generated or installed,
    and names that cannot be shown as they are, are left out. `.rooignore` is left to ripgrep,
    which is quick, but has gitignore's word count for more: who shows a file asks
    `Files.resolve`. Blocks for as long as walking the tree takes.

    Raises:
        ToolError: there is no ripgrep, or the workspace is no project but the home of many.
    """
    if files.root in (Path(files.root.anchor), Path.home()):
        raise ToolError(f"{files.root} is too wide to be indexed. Use search_files.")
    # What stands behind the last separator is nothing, or half a path.
    *paths, _ = os.fsdecode(_printed(files.root)).split("\0")
    found = [path for path in paths if path.isprintable() or printable_name(path) == path]
    cut = len(found) > MOST_FILES
    return Listing(tuple(sorted(found)[:MOST_FILES] if cut else found), truncated=cut)


def _printed(root: Path) -> bytes:
    """ripgrep's list. It takes rules of the file that it is given to begin where it stands."""
    with subprocess.Popen(
        [ripgrep(), *_ARGUMENTS, f"--ignore-file={NAME}"],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            return process.stdout.read(_MOST_BYTES)
        finally:
            process.kill()
