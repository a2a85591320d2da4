"""Places where subtasks work beside each other without seeing each other's changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from joey.core.merges import Merge


class Worktrees(Protocol):
    """Git worktrees of the repository that the workspace is in, each named by its task. Every step
    may be done again after it was broken off anywhere."""

    def folder(self, name: str) -> Path:
        """Where it is, or would be."""
        ...

    def branch(self, name: str) -> str: ...

    async def add(self, name: str) -> Path:
        """A worktree with the files of the workspace as they are now, or the one that is there;
        the folder in it to work in. Neither the user's index nor their files are touched.

        Raises ToolError."""
        ...

    async def merge(self, name: str, refusal: Callable[[str], str] | None = None) -> Merge:
        """Commit what was done there, and bring it into the workspace if it fits: into the files,
        not into the index or a commit. If it does not fit, no file is touched; nor if `refusal`
        says of a path in the workspace why it may not be changed.

        Raises ToolError."""
        ...

    async def remove(self, name: str) -> None:
        """The worktree and its branch. Raises ToolError."""
        ...
