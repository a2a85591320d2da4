"""Ports of the workspace and its machine: files, search, environment, git, checkpoints, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.core.file_state import FileChange, FileDiff, FileStamp, LeftFile, WorktreeMergeResult
from joey.core.path_access import PathAccess, ResolvedPath


class Boundary(Protocol):
    """The directories that the file tools of a run reach."""

    roots: tuple[Path, ...]
    """The workspace and the directories added to it, resolved."""

    def get_access(self, path: Path) -> PathAccess:
        """Return what may be done with a resolved path."""


class Files(Protocol):
    root: Path

    def resolve(self, path: str) -> ResolvedPath: ...

    def may_have_hidden_files(self) -> bool:
        """Whether there may currently be files that the model must not see."""

    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        """Read at most `limit` bytes of a regular file from `offset` on. Raises ToolError if it is
        missing, a directory, special, or not readable; the text says which."""

    async def stat(self, path: ResolvedPath) -> FileStat: ...

    async def stat_all(self, paths: Sequence[ResolvedPath]) -> Sequence[FileStat]:
        """Stat each file; unreadable ones count as missing."""

    async def write(
        self, path: ResolvedPath, data: bytes, mode_source: ResolvedPath | None = None
    ) -> None:
        """Replace the file atomically, keeping its mode; parents are created. A new file gets the
        mode of `mode_source`."""

    async def remove(self, path: ResolvedPath) -> None:
        """Delete a regular file. Raises ToolError if it is missing, a directory, special, or must
        not be deleted."""


class FileStat(Struct, frozen=True):
    exists: bool
    is_file: bool = False
    is_dir: bool = False
    size: int = 0
    mtime_ns: int = 0

    @property
    def stamp(self) -> FileStamp:
        """Identifies this version of the file."""
        return FileStamp(self.size, self.mtime_ns)


class SearchHit(Struct, frozen=True):
    path: str
    """Relative to the workspace, with `/`."""
    lines: tuple[tuple[int, str, bool], ...]
    """(number, text, matched) in order; one hit is one run of adjacent lines."""


class SearchResult(Struct, frozen=True):
    hits: tuple[SearchHit, ...]
    truncated: bool = False
    note: str = ""
    """What was left out, and why."""


class Listing(Struct, frozen=True):
    entries: tuple[str, ...]
    """Relative to the listed folder, folders end with `/`."""
    truncated: bool = False
    skipped: tuple[str, ...] = ()
    """Folders that were not entered, since git ignores them or packages are installed there."""


class LineMatches(Struct, frozen=True):
    match_count: int
    lines: tuple[tuple[int, str], ...]
    """The first matches, by line number, within the limit that was asked for."""
    skipped_count: int = 0
    """Matches before the offset that was asked for."""
    next_offset: int | None = None
    """Where the first match begins that was left out at the end."""


class Search(Protocol):
    async def grep(
        self, path: ResolvedPath, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        """Search files. Raises ToolError if the expression is invalid."""

    async def list_directory(self, path: ResolvedPath, recursive: bool, limit: int) -> Listing: ...

    async def find_files(self, path: ResolvedPath, file_pattern: str, limit: int) -> Listing:
        """Find files anywhere below a directory, by the patterns of `grep`; none that git ignores.
        Raises ToolError if the directory or the pattern is invalid."""

    async def search_lines(
        self, path: Path, regex: str, limit: int, offset: int = 0
    ) -> LineMatches:
        """Search joey's own file `path` for matching lines, ignoring case; at most `limit` bytes of
        those that begin at byte `offset` or later. An invalid expression is searched for literally.
        Raises ToolError if it takes too long."""


class Environment(Protocol):
    """What the model is told about the machine and the workspace."""

    def get_system_info(self) -> Mapping[str, str]:
        """Return `os`, `shell`, `home`, `workspace`."""

    def get_time_zone(self) -> str:
        """Return a time zone such as `Europe/Berlin, UTC+2:00`."""

    def prewarm_listing(self, limit: int) -> None:
        """Start a listing that will be needed once, soon."""

    async def list_workspace(self, limit: int) -> Listing: ...

    async def close(self) -> None:
        """Stop a listing that was not used."""


class Clock(Protocol):
    def now(self) -> int:
        """Return milliseconds since 1970."""

    async def sleep(self, seconds: float) -> None: ...


class Repository(Protocol):
    """Read-only access to a repository; runs nothing that its own configuration names."""

    async def show_changes(self) -> str:
        """Show the changes since the last commit. Raises ToolError if there is no git, no
        repository, or git failed; the text says which."""

    async def show_commit(self, name: str) -> str:
        """Show a commit with its message, statistics and diff. Raises ToolError."""

    async def show_status(self, limit: int) -> str:
        """Show the branch and at most `limit` changed files. Raises ToolError."""


class Checkpoints(Protocol):
    """Checkpoints of one workspace, shared by all tasks that work in it. Never touches the user's
    own repository."""

    def prewarm(self, task_id: str) -> None:
        """Save the files in the background for a task that is going to work, so that the checkpoint
        before its first change is ready."""

    async def save(self, task_id: str) -> str:
        """Save the current files and return the id of the checkpoint. The cost depends on the
        changes. The same files give the same id as the task's last one. Raises CheckpointError,
        which says why, and what to do."""

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        """List the differences between two checkpoints, or between one and the current files.
        Raises CheckpointError."""

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        """Return the differences with texts, limited in size. Raises CheckpointError."""

    async def build_patch(self, since: str) -> bytes:
        """Build the patch from a checkpoint to the current files, for `git apply`. Raises
        CheckpointError."""

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        """Restore the files and return what was changed. Idempotent.

        With `before`, nothing is done if a file that would be changed matches neither the earlier
        nor the restored state, because others have changed it.

        Raises CheckpointError if nothing, or only a part, was restored; the text says which.
        """

    async def list_unrestorable_files(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        """List those of these files that checkpoints do not include. Raises CheckpointError."""

    async def discard_task(self, task_id: str) -> None:
        """Discard the checkpoints of a deleted task."""

    async def close(self) -> None: ...


class Worktrees(Protocol):
    """Git worktrees of the workspace's repository, each named by its task. Every step may be
    repeated after an interruption."""

    def get_directory(self, name: str) -> Path:
        """Return its actual or future directory."""

    def get_branch(self, name: str) -> str: ...

    async def add(self, name: str) -> Path:
        """Create a worktree with the current files of the workspace, or return the existing one;
        return the directory in it to work in. Neither the user's index nor their files are touched.
        Raises ToolError."""

    async def merge(
        self, name: str, refusal: Callable[[str], str] | None = None
    ) -> WorktreeMergeResult:
        """Commit the changes in the worktree and merge them into the workspace's files if there is
        no conflict, not into the index or a commit. On a conflict, no file is changed, nor if
        `refusal` says why a path must not be changed. Raises ToolError."""

    async def remove(self, name: str) -> None:
        """Remove the worktree and its branch. Raises ToolError."""
