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
"""Behind them, each task keeps its own."""


class TaskTreeEvent(Struct, frozen=True):
    session: Session
    event: Event


@asynccontextmanager
async def follow_task_tree(
    session: Session, events: AsyncIterator[Event], *, from_start: bool = False
) -> AsyncIterator[AsyncIterator[TaskTreeEvent]]:
    """Iterate over the events of a task and its subtasks until the task's own `events` end. Set
    `from_start` if these are all events of the task: then they name every subtask. Otherwise some
    subtasks may have been started before."""
    listener = _TaskTreeListener(session, events, from_start=from_start)
    try:
        yield listener.iter_events()
    finally:
        await listener.close()


class _TaskTreeListener:
    def __init__(self, session: Session, events: AsyncIterator[Event], *, from_start: bool) -> None:
        self._event_queue: asyncio.Queue[TaskTreeEvent | None] = asyncio.Queue(MAX_UNREAD_EVENTS)
        self._subtask_jobs: set[asyncio.Task[None]] = set()
        self._followed_subtask_ids: set[str] = set()
        self._last_seq_by_subtask: dict[str, int] = {}
        """Subtasks that were followed before: how far."""
        self._root_job = asyncio.ensure_future(self._read_root_events(session, events, from_start))

    async def iter_events(self) -> AsyncIterator[TaskTreeEvent]:
        while (tree_event := await self._event_queue.get()) is not None:
            yield tree_event
        await self._root_job

    async def close(self) -> None:
        jobs = [self._root_job, *self._subtask_jobs]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _read_root_events(
        self, session: Session, events: AsyncIterator[Event], from_start: bool
    ) -> None:
        try:
            await self._read_events(session, events, from_start)
        except Exception:
            await self._event_queue.put(None)
            raise
        while self._subtask_jobs:  # they have ended too, but may have been discovered late
            await asyncio.wait(self._subtask_jobs)
        await self._event_queue.put(None)

    async def _read_events(
        self,
        session: Session,
        events: AsyncIterator[Event],
        from_start: bool,
        sent_ask: AskOpened | None = None,
    ) -> None:
        """Read the events of one task; `sent_ask` was passed on already."""
        spawned_ids: set[str] = set()
        if not from_start:
            self._follow_subtasks(session, session.pending_subtasks, spawned_ids)
        async for event in events:
            if isinstance(event, AskOpened) and sent_ask is not None and event.ts == sent_ask.ts:
                continue
            await self._event_queue.put(TaskTreeEvent(session, event))
            match event:
                case SubtaskSpawned(child_id=child_id):
                    spawned_ids.add(child_id)
                case TaskPaused(child_ids=child_ids):
                    self._follow_subtasks(session, child_ids, spawned_ids)

    def _follow_subtasks(
        self, parent: Session, child_ids: tuple[str, ...], spawned_ids: set[str]
    ) -> None:
        for child_id in child_ids:
            if child_id not in self._followed_subtask_ids:
                self._followed_subtask_ids.add(child_id)
                following = self._read_subtask_events(
                    parent, child_id, is_new=child_id in spawned_ids
                )
                job = asyncio.ensure_future(following)
                self._subtask_jobs.add(job)
                job.add_done_callback(self._subtask_jobs.discard)

    async def _read_subtask_events(self, parent: Session, child_id: str, *, is_new: bool) -> None:
        try:
            child = await parent.find_subtask(child_id)
            if child is None:
                return
            since = self._last_seq_by_subtask.get(child_id, 0 if is_new else child.opened_at_seq)
            sent_ask = child.pending if since else None
            if sent_ask is not None:
                await self._event_queue.put(TaskTreeEvent(child, sent_ask))
            await self._read_events(
                child, child.events(since), from_start=not since, sent_ask=sent_ask
            )
            self._last_seq_by_subtask[child_id] = child.seq
        except UserError:
            return  # the connection is lost, or the task was deleted: the parent reports it
        finally:
            self._followed_subtask_ids.discard(child_id)
