"""The events of a task and its subtasks, merged into one stream.

Every task of the tree is read all the time, so that no event is missed while the reader handles
another one: a subtask may be over before the reader gets to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from joey.client.session import Session
from joey.core.events import AskOpened, Event, SubtaskSpawned, TaskPaused
from joey.errors import UserError

MAX_UNREAD_EVENTS = 1000
"""Events that the reader may leave unread; behind them, each task keeps its own."""


class TaskTreeEvent(Struct, frozen=True):
    teller: Session
    event: Event


@asynccontextmanager
async def family(
    session: Session, events: AsyncIterator[Event], *, whole: bool = False
) -> AsyncIterator[AsyncIterator[TaskTreeEvent]]:
    """All that a task and its subtasks tell, as it comes, until the task's own `events` end.

    When they are not the `whole` story, subtasks may be at work of which they do not tell.
    """
    listening = _TaskTreeListener()
    listening.begin(session, events, whole=whole)
    try:
        yield listening.iter_events()
    finally:
        await listening.close()


class _TaskTreeListener:
    def __init__(self) -> None:
        self._event_queue: asyncio.Queue[TaskTreeEvent | None] = asyncio.Queue(MAX_UNREAD_EVENTS)
        self._root: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._followed: set[str] = set()
        self._last_seq_by_subtask: dict[str, int] = {}
        """Subtasks that were followed before: how far."""

    def begin(self, session: Session, events: AsyncIterator[Event], *, whole: bool) -> None:
        self._root = asyncio.ensure_future(self._listen_to_root(session, events, whole))

    async def iter_events(self) -> AsyncIterator[TaskTreeEvent]:
        while (tree_event := await self._event_queue.get()) is not None:
            yield tree_event
        assert self._root is not None
        await self._root

    async def close(self) -> None:
        jobs = [job for job in (self._root, *self._jobs) if job is not None]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _listen_to_root(
        self, session: Session, events: AsyncIterator[Event], whole: bool
    ) -> None:
        try:
            await self._listen(session, events, whole)
        except Exception:
            await self._event_queue.put(None)
            raise
        while self._jobs:  # they are over too, but may have been heard of late
            await asyncio.wait(self._jobs)
        await self._event_queue.put(None)

    async def _listen(
        self,
        session: Session,
        events: AsyncIterator[Event],
        whole: bool,
        asked: AskOpened | None = None,
    ) -> None:
        """`asked` was told already."""
        fresh: set[str] = set()
        if not whole:
            self._follow(session, session.waits_for, fresh)
        async for event in events:
            if isinstance(event, AskOpened) and asked is not None and event.ts == asked.ts:
                continue
            await self._event_queue.put(TaskTreeEvent(session, event))
            match event:
                case SubtaskSpawned(child_id=child_id):
                    fresh.add(child_id)
                case TaskPaused(child_ids=child_ids):
                    self._follow(session, child_ids, fresh)

    def _follow(self, parent: Session, child_ids: tuple[str, ...], fresh: set[str]) -> None:
        for child_id in child_ids:
            if child_id not in self._followed:
                self._followed.add(child_id)
                following = self._listen_to_child(parent, child_id, is_new=child_id in fresh)
                job = asyncio.ensure_future(following)
                self._jobs.add(job)
                job.add_done_callback(self._jobs.discard)

    async def _listen_to_child(self, parent: Session, child_id: str, *, is_new: bool) -> None:
        try:
            child = await parent.child(child_id)
            if child is None:
                return
            since = self._last_seq_by_subtask.get(child_id, 0 if is_new else child.first)
            asked = child.pending if since else None
            if asked is not None:
                await self._event_queue.put(TaskTreeEvent(child, asked))
            await self._listen(child, child.events(since), whole=not since, asked=asked)
            self._last_seq_by_subtask[child_id] = child.seq
        except UserError:
            return  # the connection is lost, or the task was deleted: the parent tells of it
        finally:
            self._followed.discard(child_id)
