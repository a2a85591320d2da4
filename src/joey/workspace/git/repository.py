"""The workspace's git repository as the model is told about it: changes, commits, status.

Only files of the workspace are reported, and none that `.rooignore` hides. Submodules are named,
not entered: they have a configuration of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.workspace import Repository
from joey.workspace.files import LocalFiles, to_printable_name
from joey.workspace.git.process import Git, find_repository_root

_MAX_LINES = 500
_MAX_LINE_CHARS = 1000
_MAX_HIDDEN_FILES = 1000
"""Changed files that can be left out of one diff."""
_IGNORE_SUBMODULES_OPTION = "--ignore-submodules=dirty"
_DIFF_OPTIONS = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--relative"),
    _IGNORE_SUBMODULES_OPTION,
)
_COMMIT_HASH_RE = compile_regex(r"[0-9a-f]{4,40}")
_COMMIT_FORMAT = "Commit: %h (%H)%nAuthor: %an%nDate: %ad%n%nMessage: %s%n%n%b"


class GitRepository:
    """The repository that contains `root`, if any."""

    def __init__(self, root: Path) -> None:
        self._workspace = root
        self._files = LocalFiles(root)

    async def show_changes(self) -> str:
        git = await Git.open_at(self._workspace)
        _, files = await self._read_status(git)
        if not files:
            return "No changes in working directory"
        head = await git.run("rev-parse", "--verify", "--quiet", "HEAD")
        if head.returncode == 0:
            diff = await self._build_patch(git, ("diff", "HEAD"))
        else:
            diff = "(there is no commit yet to compare with)"
        return _truncate_text(
            "\n".join(["Working directory changes:", "", *files, "", diff]).rstrip()
        )

    async def show_commit(self, name: str) -> str:
        if not _COMMIT_HASH_RE.fullmatch(name):
            raise ToolError(f"{name} is not the hash of a commit")
        git = await Git.open_at(self._workspace)
        shown = ("show", f"{name}^{{commit}}", f"--format={_COMMIT_FORMAT}")
        return _truncate_text((await self._build_patch(git, shown, "--stat")).rstrip())

    async def show_status(self, limit: int) -> str:
        if find_repository_root(self._workspace) is None:
            raise ToolError("the workspace is not a git repository")
        branch, files = await self._read_status(await Git.open_at(self._workspace))
        more = [f"... {len(files) - limit} more files"] if len(files) > limit else []
        return "\n".join([branch, *files[:limit], *more])

    async def _read_status(self, git: Git) -> tuple[str, list[str]]:
        """Read the branch, and the changed files as in `git status --short`."""
        wanted = ("--short", "--branch", "-z", _IGNORE_SUBMODULES_OPTION)
        prefix, status = await asyncio.gather(
            git.run_text("rev-parse", "--show-prefix"), git.run_text("status", *wanted, "--", ".")
        )
        branch, *entries = status.split("\0")
        changed = list(_parse_status_entries(entries, prefix.rstrip("\n")))
        hidden = await self._find_hidden(path for _, paths in changed for path in paths)
        files = [
            f"{state} {' -> '.join(map(to_printable_name, paths))}"
            for state, paths in changed
            if hidden.isdisjoint(paths)
        ]
        return branch, files

    async def _build_patch(self, git: Git, command: tuple[str, ...], *options: str) -> str:
        """Build a diff without hidden files."""
        names = await git.run_text(
            *command, "--format=", *_DIFF_OPTIONS, "--no-renames", "--name-only", "-z"
        )
        hidden = await self._find_hidden(filter(None, names.split("\0")))
        if len(hidden) > _MAX_HIDDEN_FILES:
            raise ToolError(f"more than {_MAX_HIDDEN_FILES} of the changed files are hidden")
        others = [f":(exclude,literal){name}" for name in sorted(hidden)]
        return await git.run_text(*command, *_DIFF_OPTIONS, *options, "--patch", "--", ".", *others)

    async def _find_hidden(self, paths: Iterable[str]) -> frozenset[str]:
        """Find those of the paths that `.rooignore` hides from the model."""
        return await asyncio.to_thread(lambda: frozenset(filter(self._is_hidden, paths)))

    def _is_hidden(self, path: str) -> bool:
        try:
            return self._files.resolve(path).is_ignored
        except ToolError:
            return True


def _parse_status_entries(entries: list[str], prefix: str) -> Iterator[tuple[str, list[str]]]:
    """The state of each changed file and its path, after the one it was moved from."""
    remaining = iter(entries)
    for entry in filter(None, remaining):
        state, path = entry[:2], entry[3:]
        paths = [next(remaining, ""), path] if {"R", "C"} & set(state) else [path]
        yield state, [path.removeprefix(prefix) for path in paths]


def _truncate_text(text: str) -> str:
    lines = [
        line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]} [...]"
        for line in text.split("\n")
    ]
    if len(lines) <= _MAX_LINES:
        return "\n".join(lines)
    head, tail = _MAX_LINES // 5, _MAX_LINES * 4 // 5
    left_out = len(lines) - head - tail
    return "\n".join([*lines[:head], f"[...{left_out} lines omitted...]", *lines[-tail:]])


_protocol_check: type[Repository] = GitRepository
