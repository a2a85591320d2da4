"""The session protocol: a task as every front end uses it, in this process or on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from joey.core.events import AskOpened, Event, TokenUsage
from joey.core.history.ui import Row
from joey.core.rewind import RewindPreview
from joey.core.task_types import Answer


class Session(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def pending(self) -> AskOpened | None:
        """The open question, if any."""

    @property
    def is_running(self) -> bool:
        """Whether it works, or waits for an answer or for its subtasks."""

    @property
    def seq(self) -> int:
        """The number of the last event."""

    @property
    def opened_at_seq(self) -> int:
        """The number of the last event from before this session."""

    @property
    def pending_subtasks(self) -> tuple[str, ...]:
        """The subtasks that it waits for."""

    @property
    def usage(self) -> TokenUsage: ...

    @property
    def rows(self) -> Sequence[Row | dict[str, Any]]: ...

    def events(self, since: int | None = None) -> AsyncIterator[Event]:
        """Iterate over events until the task comes to rest, by default from the beginning."""

    async def send(self, text: str, images: tuple[str, ...] = ()) -> None: ...

    async def answer(self, ask_ts: int, answer: Answer) -> bool: ...

    async def preview_rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False
    ) -> RewindPreview: ...

    async def rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False, force: bool = False
    ) -> RewindPreview:
        """Rewind so that this row is the last one or, with `keep` false, the first one removed."""

    async def preview_undo(self) -> RewindPreview: ...

    async def undo_rewind(self, *, force: bool = False) -> RewindPreview: ...

    async def edit(self, row_ts: int, text: str, images: tuple[str, ...] = ()) -> RewindPreview:
        """Replace the user's message at a row, or the nearest one before it."""

    async def find_subtask(self, task_id: str) -> Session | None:
        """Find one of its subtasks; None if it is no longer available."""

    async def cancel(self) -> None: ...
