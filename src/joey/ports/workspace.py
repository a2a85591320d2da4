"""Ports of the workspace and its machine: files, search, environment, git, checkpoints, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.core.file_state import FileChange, FileDiff, FileStamp, LeftFile, WorktreeMergeResult
from joey.core.path_access import PathAccess, ResolvedPath


class Boundary(Protocol):
    """How far the file tools of a run reach."""

    roots: tuple[Path, ...]
    """The workspace and the directories added to it, resolved."""

    def get_access(self, path: Path) -> PathAccess:
        """What may be done with a resolved path."""


class Files(Protocol):
    root: Path

    def resolve(self, path: str) -> ResolvedPath: ...

    def may_have_hidden_files(self) -> bool:
        """Whether there may be files that the model must not see, as it is at the moment."""

    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        """The bytes of a regular file from `offset` on, at most `limit` of them. Raises ToolError:
        missing, a directory, special, or not readable; the text says which."""

    async def stat(self, path: ResolvedPath) -> FileStat: ...

    async def stat_all(self, paths: Sequence[ResolvedPath]) -> Sequence[FileStat]:
        """What `stat` says of each; a file that cannot be looked at counts as missing."""

    async def write(
        self, path: ResolvedPath, data: bytes, mode_source: ResolvedPath | None = None
    ) -> None:
        """Replace the file atomically, keeping its mode; parents are made. A new file gets the mode
        of the file that it is `mode_source`."""

    async def remove(self, path: ResolvedPath) -> None:
        """Delete a regular file. Raises ToolError: missing, a directory, special, or it may not be
        deleted."""


class FileStat(Struct, frozen=True):
    exists: bool
    is_file: bool = False
    is_dir: bool = False
    size: int = 0
    mtime_ns: int = 0

    @property
    def stamp(self) -> FileStamp:
        """By which this version of the file is known again."""
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


class Search(Protocol):
    async def grep(
        self, path: ResolvedPath, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        """Raises ToolError when the expression is not one."""

    async def list_directory(self, path: ResolvedPath, recursive: bool, limit: int) -> Listing: ...

    async def find_files(self, path: ResolvedPath, file_pattern: str, limit: int) -> Listing:
        """Files anywhere below a folder, by the pattern that `grep` takes; none that git ignores.
        Raises ToolError: the folder or the pattern cannot be used."""

    async def search_lines(self, path: Path, regex: str, limit: int) -> LineMatches:
        """Lines of joey's own file `path` that match, without regard to case; at most `limit` bytes
        of them. An invalid expression is searched for literally. Raises ToolError when it takes
        too long."""


class Environment(Protocol):
    """What is told to the model about the machine and the workspace."""

    def get_system_info(self) -> Mapping[str, str]:
        """`os`, `shell`, `home`, `workspace`."""

    def get_time_zone(self) -> str:
        """`Europe/Berlin, UTC+2:00`."""

    def prewarm_listing(self, limit: int) -> None:
        """It will be asked for soon, once: the time until then can be used."""

    async def list_workspace(self, limit: int) -> Listing: ...

    async def close(self) -> None:
        """End a listing that nobody has asked for."""


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since 1970."""

    async def sleep(self, seconds: float) -> None: ...


class Repository(Protocol):
    """Looks only; runs nothing that the repository's own configuration names."""

    async def show_changes(self) -> str:
        """What differs from the last commit. Raises ToolError: no git, no repository, or git
        failed; the text says which."""

    async def show_commit(self, name: str) -> str:
        """A commit with its message, statistics and diff. Raises ToolError."""

    async def show_status(self, limit: int) -> str:
        """The branch and at most `limit` changed files. Raises ToolError."""


class Checkpoints(Protocol):
    """Of one workspace, shared by all tasks that work in it. Never touches the user's own
    repository."""

    def prewarm(self, task_id: str) -> None:
        """Soon, and in the background, keep the files of a task that is going to work: what is
        saved before its first change will then be there already."""

    async def save(self, task_id: str) -> str:
        """Keep the files as they are now; the id of the checkpoint. Costs what has changed. The
        same files give the same id as the task's last one. Raises CheckpointError: the text says
        why, and what to do."""

    async def list_changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        """What differs between two checkpoints, or between one and the files as they are now.
        Raises CheckpointError."""

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        """The same with texts, bounded in size. Raises CheckpointError."""

    async def build_patch(self, since: str) -> bytes:
        """What differs between a checkpoint and the files as they are now, for `git apply`. Raises
        CheckpointError."""

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        """Make the files as they were; what was changed to get there. May be done twice.

        With `before`, nothing is done when a file that would be changed is neither as it was then
        nor as it shall be: somebody else is at work.

        Raises CheckpointError: nothing, or only a part, was restored; the text says which."""

    async def list_unrestorable_files(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        """Which of these files are not kept. Raises CheckpointError."""

    async def discard_task(self, task_id: str) -> None:
        """The task is deleted: what only its checkpoints hold may go."""

    async def close(self) -> None: ...


class Worktrees(Protocol):
    """Git worktrees of the repository that the workspace is in, each named by its task. Every step
    may be done again after it was broken off anywhere."""

    def get_directory(self, name: str) -> Path:
        """Where it is, or would be."""

    def get_branch(self, name: str) -> str: ...

    async def add(self, name: str) -> Path:
        """A worktree with the files of the workspace as they are now, or the one that is there; the
        folder in it to work in. Neither the user's index nor their files are touched. Raises
        ToolError."""

    async def merge(
        self, name: str, refusal: Callable[[str], str] | None = None
    ) -> WorktreeMergeResult:
        """Commit what was done there, and bring it into the workspace if it fits: into the files,
        not into the index or a commit. If it does not fit, no file is touched; nor if `refusal`
        says of a path in the workspace why it may not be changed. Raises ToolError."""

    async def remove(self, name: str) -> None:
        """The worktree and its branch. Raises ToolError."""
