"""Finding tasks among very many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from joey.ports.tasks import TaskMetadata

HIGHLIGHT = ("\x02", "\x03")
"""Around each found word of a snippet."""

Progress = Callable[[int, int], None]
"""Told how many tasks of how many have been read into the index."""


class TaskQuery(Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; what is None does not matter."""

    words: str | None = None
    """All of them occur: words, "phrases in quotes", beginn* of words."""
    workspace: str | None = None
    status: str | None = None
    """As people are shown it: a task that no process has open is not `running`."""
    since: int | None = None
    """Changed at or after this time, in milliseconds since 1970."""
    limit: int = 20


class FoundTask(Struct, frozen=True):
    task: TaskMetadata
    short_id: str
    """The beginning of its id that means this task and no other."""
    snippet: str = ""
    """Some words of the conversation, those that were searched within `HIGHLIGHT`."""


class TaskPage(Struct, frozen=True):
    found: tuple[FoundTask, ...]
    """The most recently changed first."""
    total: int
    """How many there are in all."""


class TaskIndex(Protocol):
    """Raises StoreError; every answer is brought up to date first."""

    @property
    def notices(self) -> Sequence[str]:
        """What the person should be told: one line each."""
        ...

    def find(self, query: TaskQuery, *, refresh: bool = False) -> TaskPage:
        """One page. With `refresh` every folder is looked at, however recently that was done.

        Of `words` without a letter or a digit nothing is found.
        """
        ...

    def starting(self, start: str) -> Sequence[TaskMetadata]:
        """Tasks whose id begins like this."""
        ...

    def family(self, task_id: str) -> Sequence[TaskMetadata]:
        """The subtasks of a task and theirs, the latest first."""
        ...

    def short_id(self, task_id: str) -> str:
        """The beginning of an id that means this task and no other."""
        ...

    def close(self) -> None: ...
