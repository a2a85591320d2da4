"""git trees: taken from a directory, compared, merged, and written back to its files.

None of it touches the user's index, branches or stashes. Programs that a repository's configuration
could run during a merge are switched off too: a custom merge driver causes a conflict. When changes
are applied to files, each file is replaced in one step, and symlinks are never followed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from joey.errors import ToolError
from joey.system.files import FileFingerprint, build_fingerprint
from joey.workspace.git.process import Git, build_config_options, describe_failure
from joey.workspace.safe_open import (
    SYMLINK_MODE,
    lstat_at,
    open_directory,
    replace_tracked_file,
)

_MIN_GIT_VERSION = (2, 38)
"""The first git that merges without touching files."""
_GIT_TIMEOUT_S = 300
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_CONFLICT_CODE = 1
_QUIET_OPTIONS = build_config_options(
    {"core.safecrlf": "false", "advice.addEmbeddedRepo": "false", "gc.auto": "0"}
)
_JOEY_IDENTITY_VARIABLES = {
    **{f"GIT_{who}_NAME": "joey" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "joey@localhost" for who in ("AUTHOR", "COMMITTER")},
    "LC_ALL": "C",
}


class RepositoryPaths(Struct, frozen=True):
    """The paths of a repository's parts."""

    prefix: str
    """The folder that git is run in, as seen from the top."""
    common_directory: Path
    """What all worktrees share, and what is known of each."""
    index_path: Path
    relative_root: str
    """The way to the top."""


class TreeMergeResult(Struct, frozen=True):
    tree: str
    conflicts: tuple[bytes, ...] = ()


class GitTrees:
    """Tree operations on one repository, for the duration of one step."""

    def __init__(self, git: Git, paths: RepositoryPaths) -> None:
        self._git = git
        self.paths = paths

    @classmethod
    async def open_at(
        cls, root: Path, lock: int, environment: Mapping[str, str] | None = None
    ) -> GitTrees:
        """Open a repository; every git process holds `lock` for as long as it lives. Raises
        ToolError."""
        git = await Git.open_at(root, environment, pass_fds=(lock,))
        asked = ("--show-prefix", "--git-common-dir", "--git-path", "index", "--show-cdup")
        output = await git.run_text("rev-parse", "--path-format=absolute", *asked)
        prefix, common, index, up = (*output.split("\n"), "", "", "", "")[:4]
        return cls(git, RepositoryPaths(prefix, Path(common), Path(index), up or "."))

    async def check_version(self) -> None:
        """Check git's version. Raises ToolError if it cannot merge."""
        version = re.search(r"(\d+)\.(\d+)", await self._git.run_text("version"))
        if version is None or (int(version[1]), int(version[2])) < _MIN_GIT_VERSION:
            raise ToolError("worktrees need git 2.38 or newer")

    async def run_text(self, *arguments: str, index: Path | None = None) -> str:
        """Return git's answer on one line. Raises ToolError."""
        return (await self._run_bytes(*arguments, index=index)).decode(errors="replace").strip()

    async def resolve_revision(self, name: str) -> str | None:
        """Resolve a name to a commit or tree."""
        answer = await self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return answer.stdout.decode().strip() if answer.returncode == 0 else None

    async def stage_and_write_tree(self, index: Path | None = None) -> str:
        """Stage all files that are not ignored, and return their tree. Uses the directory's own
        index, or another one that is updated."""
        await self._run_bytes(*_QUIET_OPTIONS, "add", "--all", index=index)
        return await self.run_text("write-tree", index=index)

    @asynccontextmanager
    async def copy_index(self) -> AsyncIterator[Path]:
        """Copy the directory's index, which has the `stat` data of files; its time shows which of
        them may have changed since."""
        import tempfile  # imported late: slow to load

        with tempfile.TemporaryDirectory(prefix="joey-") as directory:
            copy = Path(directory, "index")
            if self.paths.index_path.exists():
                shutil.copy2(self.paths.index_path, copy)
            yield copy

    async def write_snapshot_tree(self) -> str:
        """Write the tree of the current files; the index is unchanged."""
        async with self.copy_index() as index:
            return await self.stage_and_write_tree(index)

    async def create_commit(self, tree: str, parents: Iterable[str], message: str) -> str:
        named = [part for parent in parents for part in ("-p", parent)]
        return await self.run_text("commit-tree", tree, *named, "-m", message)

    async def list_changes(self, before: str, after: str) -> list[TreeChange]:
        return parse_raw_diff(await self._run_bytes("diff-tree", *RAW_DIFF_OPTIONS, before, after))

    async def count_changed_lines(
        self, before: str, after: str
    ) -> list[tuple[bytes, int | None, int | None]]:
        """Count the added and removed lines of each changed file."""
        wanted = ("-r", "-z", "--numstat", "--no-renames", "--no-textconv", "--no-ext-diff")
        listed = await self._run_bytes("diff-tree", *wanted, before, after)
        found = []
        for line in filter(None, listed.split(b"\0")):
            added, removed, path = line.split(b"\t", 2)
            lines = (None, None) if added == b"-" else (int(added), int(removed))
            found.append((path, *lines))
        return found

    async def merge_commits(self, ours: str, theirs: str) -> TreeMergeResult:
        """Merge two commits with their common base. Raises ToolError."""
        wanted = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        drivers = await self._git.list_config_keys(r"^merge\..*\.driver$")
        for key in drivers:
            if "=" in key:
                raise ToolError(f"git is not run: its configuration names the driver {key!r}")
        # Programs that merge files are switched off.
        options = build_config_options(dict.fromkeys(drivers, "false"))
        answer = await self._git.run(
            *(*options, *wanted, ours, theirs),
            environment=_JOEY_IDENTITY_VARIABLES,
            max_output_bytes=_MAX_OUTPUT_BYTES,
            timeout_s=_GIT_TIMEOUT_S,
        )
        if answer.returncode not in (0, _CONFLICT_CODE):
            raise ToolError(describe_failure(answer))
        tree, *names = answer.stdout.split(b"\0")
        conflicts = tuple(dict.fromkeys(filter(None, names)))
        return TreeMergeResult(
            tree.decode().strip(), conflicts if answer.returncode == _CONFLICT_CODE else ()
        )

    async def export_files(self, tree: str, changes: Iterable[TreeChange], directory: Path) -> None:
        """Export the new files of a tree below a directory, in this system's format."""
        wanted = b"".join(change.path + b"\0" for change in changes if not change.is_deleted)
        if not wanted:
            return
        async with self.copy_index() as index:
            index.unlink(missing_ok=True)
            await self._run_bytes("read-tree", tree, index=index)
            # Paths are read as seen from where git is run.
            laid = ("-C", self.paths.relative_root, "checkout-index", "-f", "-z", "--stdin")
            await self._run_bytes(*laid, f"--prefix={directory}/", index=index, given=wanted)

    async def _run_bytes(
        self, *arguments: str, index: Path | None = None, given: bytes | None = None
    ) -> bytes:
        chosen = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        answer = await self._git.run(
            *arguments,
            stdin=given,
            environment={**_JOEY_IDENTITY_VARIABLES, **chosen},
            max_output_bytes=_MAX_OUTPUT_BYTES,
            timeout_s=_GIT_TIMEOUT_S,
        )
        if answer.is_truncated:
            raise ToolError("git's output is too large: too many files")
        if answer.returncode != 0:
            raise ToolError(describe_failure(answer))
        return answer.stdout


SUBMODULE_MODE, _ABSENT_MODE = "160000", "000000"
RAW_DIFF_OPTIONS = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")

FileSignatures = Mapping[bytes, FileFingerprint]


class TreeChange(Struct, frozen=True):
    """One changed file, before and after, as git stores it."""

    path: bytes
    """From the top of the repository."""
    old_mode: str
    new_mode: str
    old_blob: str = ""
    new_blob: str = ""

    @property
    def is_new(self) -> bool:
        return self.old_mode == _ABSENT_MODE

    @property
    def is_deleted(self) -> bool:
        return self.new_mode == _ABSENT_MODE

    @property
    def kind(self) -> Literal["added", "changed", "removed"]:
        return "added" if self.is_new else "removed" if self.is_deleted else "changed"


def parse_raw_diff(listed: bytes) -> list[TreeChange]:
    """Parse the output of `git diff-tree` with `RAW_DIFF_OPTIONS`."""
    fields = listed.split(b"\0")
    return [
        TreeChange(path, *facts.decode().removeprefix(":").split(" ")[:4])
        for facts, path in zip(fields[0::2], fields[1::2], strict=False)
    ]


class ConcurrentChangeError(Exception):
    """Another process wrote to a file just now."""


def read_file_signatures(top: Path, changes: Iterable[TreeChange]) -> FileSignatures:
    """Read the signatures of files before they are changed."""
    return {change.path: _read_file_signature(top / os.fsdecode(change.path)) for change in changes}


def apply_changes(
    top: Path, changes: Sequence[TreeChange], new_files: Path, expected_signatures: FileSignatures
) -> None:
    """Change the files of `top`; `made` has the new ones under their paths. Raises
    ConcurrentChangeError if one has changed (earlier ones are done by then), OSError."""
    for change in sorted(changes, key=lambda change: not change.is_deleted):
        relative = os.fsdecode(change.path)
        place = top / relative
        _check_no_symlinks(top, place)
        # A link that is put there from here on is an error, and not a way out.
        try:
            with open_directory(place.parent, create=not change.is_deleted) as directory:
                before = lstat_at(place.name, directory)
                if before is None or not stat.S_ISDIR(before.st_mode):
                    seen = None if before is None else build_fingerprint(before)
                    if seen != expected_signatures[change.path]:
                        raise ConcurrentChangeError(relative)
                if not change.is_deleted:
                    if before is not None and stat.S_ISDIR(before.st_mode):
                        # Its files are gone by now, or it is not ours to remove.
                        os.rmdir(place.name, dir_fd=directory)
                    made, mode = new_files / relative, change.new_mode
                    is_symlink = mode == SYMLINK_MODE
                    data = os.fsencode(made.readlink()) if is_symlink else made.read_bytes()
                    replace_tracked_file(directory, place.name, mode, data, before)
                elif before is not None:
                    os.unlink(place.name, dir_fd=directory)
        except FileNotFoundError as error:
            if not change.is_deleted or expected_signatures[change.path] is not None:
                raise ConcurrentChangeError(relative) from error
        if change.is_deleted:
            _remove_empty_parents(top, place.parent)


def _read_file_signature(place: Path) -> FileFingerprint:
    try:
        return build_fingerprint(place.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_no_symlinks(top: Path, place: Path) -> None:
    for directory in place.parents:
        if directory == top:
            return
        if directory.is_symlink():
            raise OSError(f"{directory} is a link")


def _remove_empty_parents(top: Path, directory: Path) -> None:
    """Remove a directory and its parents, as long as they are empty."""
    with suppress(OSError):  # others are still in it
        while directory != top:
            with open_directory(directory.parent) as above:
                os.rmdir(directory.name, dir_fd=above)
            directory = directory.parent
