"""The git repository that the workspace is in."""

from __future__ import annotations

from typing import Protocol


class Repository(Protocol):
    """Looks only; runs nothing that the repository's own configuration names."""

    async def changes(self) -> str:
        """What differs from the last commit.

        Raises:
            ToolError: no git, no repository, or git failed; the text says which.
        """
        ...

    async def commit(self, name: str) -> str:
        """A commit with its message, statistics and diff. Raises ToolError."""
        ...

    async def status(self, limit: int) -> str:
        """The branch and at most `limit` changed files. Raises ToolError."""
        ...
