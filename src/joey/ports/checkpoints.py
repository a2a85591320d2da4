"""The files of the workspace as they were at earlier moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from joey.core.file_changes import FileChange, FileDiff, LeftFile


class Checkpoints(Protocol):
    """Of one workspace, shared by all tasks that work in it. Never touches the user's own
    repository."""

    def begin(self, task_id: str) -> None:
        """Soon, and in the background, keep the files of a task that is going to work: what is
        saved before its first change will then be there already."""
        ...

    async def save(self, task_id: str) -> str:
        """Keep the files as they are now; the id of the checkpoint.

        Costs what has changed. The same files give the same id as the task's last one.

        Raises:
            CheckpointError: the text says why, and what to do.
        """
        ...

    async def changes(self, since: str, until: str | None = None) -> Sequence[FileChange]:
        """What differs between two checkpoints, or between one and the files as they are now.

        Raises CheckpointError."""
        ...

    async def diff(self, since: str, until: str | None = None) -> Sequence[FileDiff]:
        """The same with texts, bounded in size. Raises CheckpointError."""
        ...

    async def restore(self, to: str, before: str | None = None) -> Sequence[FileChange]:
        """Make the files as they were; what was changed to get there. May be done twice.

        With `before`, nothing is done when a file that would be changed is neither as it was then
        nor as it shall be: somebody else is at work.

        Raises CheckpointError: nothing, or only a part, was restored; the text says which."""
        ...

    async def left(self, paths: Sequence[str]) -> Sequence[LeftFile]:
        """Which of these files are not kept. Raises CheckpointError."""
        ...

    async def forget(self, task_id: str) -> None:
        """The task is deleted: what only its checkpoints hold may go."""
        ...

    async def close(self) -> None: ...
