"""Looking at the git repository of the workspace, without letting it run anything.

A repository's configuration can name programs (a file-system monitor, filters, external diffs,
hooks, ways to fetch what is missing) and folders that are not its own. It may have come with the
folder, so every program is switched off here, nothing is fetched, submodules are not entered, and
only files of the workspace are told of that `.rooignore` does not hide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from joey.errors import ToolError
from joey.ports import Repository
from joey.workspace.files import printable_name
from joey.workspace.git import GitError, run_git

_MOST_LINES = 500
_LONGEST_LINE = 1000
_MOST_HIDDEN = 1000
"""Changed files that can be left out of one diff."""
_HARMLESS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.attributesFile": "/dev/null",
    "core.quotePath": "false",
    "diff.external": "",
    "diff.orderFile": "/dev/null",
    "diff.submodule": "short",
    "log.showSignature": "false",
    "status.submoduleSummary": "false",
    "safe.bareRepository": "explicit",
}
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--relative", "--ignore-submodules=dirty")
_STATUS = ("--short", "-z", "--ignore-submodules=dirty")
_HASH = re.compile(r"[0-9a-f]{4,40}")
_FORMAT = "Commit: %h (%H)%nAuthor: %an%nDate: %ad%n%nMessage: %s%n%n%b"

Hides = Callable[[str], bool]


class GitRepository:
    """`git` on the repository that `root` is in, if it is in one.

    `hides` says of a path, relative to the root, whether it is kept from the model.
    """

    def __init__(self, root: Path, hides: Hides = lambda path: False) -> None:
        self._root = root
        self._hides = hides

    async def changes(self) -> str:
        options = await self._options()
        files = [
            entry
            async for entry in self._status(options, "--no-branch")
        ]
        if not files:
            return "No changes in working directory"
        if await self._has_commits(options):
            diff = await self._diff(options, "diff", "HEAD")
        else:
            diff = "(there is no commit yet to compare with)"
        return _cut("\n".join(["Working directory changes:", "", *files, "", diff]).rstrip())

    async def commit(self, name: str) -> str:
        if not _HASH.fullmatch(name):
            raise ToolError(f"{name} is not the hash of a commit")
        options = await self._options()
        commit = f"{name}^{{commit}}"
        shown = ("show", "--stat", "--patch", f"--format={_FORMAT}")
        return _cut((await self._diff(options, *shown, commit)).rstrip())
