"""States of files as values: versions the model has seen, changes, merges.

The versions keep the model from overwriting changes that it has not seen. A version is identified
by its bytes if available, else by size and time. Reporting a change to the model does not count as
seeing it: until it reads the file again, the version that it knows is the old one.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field, structs

from joey.core.path_access import ResolvedPath

_MAX_REMEMBERED_FILES = 2_000
"""The ones seen longest ago are forgotten first."""


class FileStamp(NamedTuple):
    """Identifies a version of a file without reading it."""

    size: int
    mtime_ns: int


class _SeenVersion(Struct, frozen=True):
    resolved_path: ResolvedPath
    stamp: FileStamp
    digest: bytes | None
    reported_stamp: FileStamp | None = None
    """The version of which the model was told that it is another one."""


class ReadTracker:
    """Tracks the files that the model of one task has seen."""

    def __init__(self) -> None:
        self._seen_versions: dict[Path, _SeenVersion] = {}
        self.has_command_run = False
        """Since files were last compared: the model's own command may have deleted some."""

    def record_seen(self, path: ResolvedPath, stamp: FileStamp, data: bytes | None = None) -> None:
        """Record that the model has read or written this version, which has exactly these bytes."""
        digest = None if data is None else _compute_digest(data)
        self._seen_versions.pop(path.path, None)
        self._seen_versions[path.path] = _SeenVersion(path, stamp, digest)
        if len(self._seen_versions) > _MAX_REMEMBERED_FILES:
            del self._seen_versions[next(iter(self._seen_versions))]

    def record_change_reported(self, path: ResolvedPath, stamp: FileStamp) -> None:
        """Record that the model knows of another version, but not its content."""
        if seen := self._seen_versions.get(path.path):
            self._seen_versions[path.path] = structs.replace(seen, reported_stamp=stamp)

    def discard(self, path: ResolvedPath) -> None:
        self._seen_versions.pop(path.path, None)

    def clear(self) -> None:
        """Forget everything: the model no longer has it in its context."""
        self._seen_versions.clear()

    def is_stale(self, path: ResolvedPath, stamp: FileStamp, data: bytes) -> bool:
        """Whether the model has seen this file, and the file has changed since."""
        seen = self._seen_versions.get(path.path)
        if seen is None:
            return False
        return stamp != seen.stamp if seen.digest is None else _compute_digest(data) != seen.digest

    def list_recent_paths(self, limit: int) -> tuple[ResolvedPath, ...]:
        """List the files that the model has seen last, the latest first."""
        latest = islice(reversed(self._seen_versions.values()), limit)
        return tuple(seen.resolved_path for seen in latest)

    def may_have_changed(self, path: ResolvedPath, stamp: FileStamp) -> bool:
        """Whether the file may differ from the version that the model has seen or knows about."""
        seen = self._seen_versions.get(path.path)
        return seen is not None and stamp not in (seen.stamp, seen.reported_stamp)

    def may_have_same_bytes(self, path: ResolvedPath, stamp: FileStamp) -> bool:
        """Whether only the bytes can show a change: the file was written again."""
        seen = self._seen_versions.get(path.path)
        return seen is not None and seen.digest is not None and seen.stamp.size == stamp.size


def _compute_digest(data: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(data, digest_size=16).digest()


class FileChange(Struct, frozen=True):
    """How one file differs between two points in time."""

    path: str
    """Relative to the workspace, with `/`."""
    kind: Literal["added", "changed", "removed"]


class LeftFile(Struct, frozen=True):
    """A file that a task has changed but no checkpoint includes: it stays as it is."""

    path: str
    """Relative to the workspace, with `/`; absolute when it is outside."""
    reason: Literal["ignored", "outside", "large"] = field(name="why")
    """`large`: or not to be read."""


class FileDiff(Struct, frozen=True, rename="camel"):
    """A changed file with both of its texts; None if there was no file, or not a text file."""

    path: str
    kind: Literal["added", "changed", "removed"]
    text_before: str | None = field(name="before")
    text_after: str | None = field(name="after")


class FileDiffStat(Struct, frozen=True):
    path: str
    """As seen from the workspace."""
    added_line_count: int | None
    """Lines; None for what has none."""
    removed_line_count: int | None


class WorktreeMergeResult(Struct, frozen=True, kw_only=True):
    changed_files: tuple[FileDiffStat, ...]
    directory: str
    branch: str
    conflicts: tuple[str, ...] = ()
    """Files that were changed on both sides in ways that do not fit together."""
    error: str = ""
    """Why it was not brought over, where that is not a conflict."""
    is_partial: bool = False
    """Some files were written before it turned out that not all can be."""

    @property
    def is_clean(self) -> bool:
        return not self.conflicts and not self.error
