"""The workspace: reading, writing, searching, listing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.core.file_memory import Stamp
from joey.core.places import Place, Reach


class Boundary(Protocol):
    """How far the file tools of a run reach."""

    roots: tuple[Path, ...]
    """The workspace and the directories added to it, resolved."""

    def reach(self, path: Path) -> Reach:
        """What may be done with a resolved path."""
        ...


class Files(Protocol):
    root: Path

    def resolve(self, path: str) -> Place: ...

    def hides_some(self) -> bool:
        """Whether there may be files that the model must not see, as it is at the moment."""
        ...

    async def read(self, place: Place, limit: int | None = None, offset: int = 0) -> bytes:
        """The bytes of a regular file from `offset` on, at most `limit` of them.

        Raises:
            ToolError: missing, a directory, special, or not readable; the text says which.
        """
        ...

    async def stat(self, place: Place) -> FileKind: ...

    async def stat_all(self, places: Sequence[Place]) -> Sequence[FileKind]:
        """What `stat` says of each; a file that cannot be looked at counts as missing."""
        ...

    async def write(self, place: Place, data: bytes, like: Place | None = None) -> None:
        """Replace the file atomically, keeping its mode; parents are made.

        A new file gets the mode of the file that it is `like`.
        """
        ...

    async def remove(self, place: Place) -> None:
        """Delete a regular file.

        Raises:
            ToolError: missing, a directory, special, or it may not be deleted.
        """
        ...


class FileKind(Struct, frozen=True):
    exists: bool
    is_file: bool = False
    is_dir: bool = False
    size: int = 0
    mtime_ns: int = 0

    @property
    def stamp(self) -> Stamp:
        """By which this version of the file is known again."""
        return Stamp(self.size, self.mtime_ns)


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


class Search(Protocol):
    async def grep(
        self, place: Place, regex: str, file_pattern: str | None, limit: int
    ) -> SearchResult:
        """Raises ToolError when the expression is not one."""
        ...

    async def list(self, place: Place, recursive: bool, limit: int) -> Listing: ...
