"""The remote engine: tasks of a server, used like local ones, without gaps after a lost connection.

All sessions of an engine share one connection. A lost connection is restored automatically, and
each session continues after the last event it has received: nothing is missed or delivered twice.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import msgspec

from joey.client.connection import (
    CONNECTION_LOST,
    RECONNECT_TIMEOUT_S,
    RemoteError,
    ServerAddress,
    ServerConnection,
    resolve_server_address,
)
from joey.client.event_decoder import (
    END_EVENT_NAMES,
    EventDecoder,
    RowData,
    TaskMirror,
    is_transient_frame,
    replace_row_action,
)
from joey.client.session import Session
from joey.core.events import Event, TokenUsage
from joey.core.rewind import RewindPreview
from joey.core.settings import Limits
from joey.core.task_types import IDLE_STATES, Answer, Response
from joey.core.wire.commands import TaskInfo, decode_response_data
from joey.core.wire.frames import EventFrame

__all__ = ["RemoteEngine", "RemoteError", "RemoteSession", "TaskInfo"]


class RemoteEngine:
    """The tasks of one server. Open it with `RemoteEngine.connect`; close it, or use it as an async
    context manager."""

    def __init__(
        self,
        address: ServerAddress,
        reconnect_timeout_s: float,
        on_connection_change: Callable[[str], None] | None = None,
    ) -> None:
        self._sessions: dict[str, RemoteSession] = {}
        self._on_connection_change = on_connection_change
        self._is_disconnected = False
        self._connection = ServerConnection(address, self, reconnect_timeout_s)

    @classmethod
    async def connect(
        cls,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: float = RECONNECT_TIMEOUT_S,
        on_connection_change: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Connect to the server at `url`, by default this machine's. A lost connection is retried
        for `patience` seconds; `on_connection_change` is called when it is lost and restored.
        Raises RemoteError if no server answers or it rejects the token."""
        address = resolve_server_address(url, token, os.environ if env is None else env)
        engine = cls(address, patience, on_connection_change)
        await engine._connection.open()
        return engine

    @property
    def welcome(self) -> Mapping[str, Any]:
        """The server's description of itself: version, capabilities, workspace."""
        return self._connection.welcome

    async def start(
        self,
        text: str,
        *,
        images: Sequence[str] = (),
        configuration: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        mode: str | None = None,
        profile: str | None = None,
        limits: Limits | None = None,
    ) -> RemoteSession:
        """Start a task; `configuration` holds settings by their wire names. Raises RemoteError."""
        given = _drop_none(
            text=text,
            images=list(images) or None,
            configuration=configuration,
            workspace=workspace,
            mode=mode,
            profile=profile,
            limits=None if limits is None else msgspec.to_builtins(limits),
        )
        data = await self._connection.request("startNewTask", arguments=given)
        return await self.attach(data["taskId"])

    async def attach(self, task_id: str) -> RemoteSession:
        """Attach to a task of the server, running or at rest; the same task gives the same session.
        Raises RemoteError."""
        _check_task_id(task_id)
        session = self._sessions.get(task_id)
        if session is None:
            data = await self._connection.request("getMessages", task_id, retry=True)
            new_session = RemoteSession(
                self._connection, task_id, data["messages"], data["seq"], self.attach
            )
            session = self._sessions.setdefault(task_id, new_session)  # others may be faster
        if not session.is_following:
            await session.subscribe()
        return session

    async def resume(self, task_id: str, text: str | None = None) -> RemoteSession:
        """Resume a task with this message, or ask the user whether to continue. Raises
        RemoteError."""
        session = await self.attach(task_id)
        if text is not None:
            await session.send(text)
        else:
            await self._connection.request("resumeTask", task_id)
        return session

    async def fork(
        self, task_id: str, row_ts: int | None = None, *, keep: bool = True, text: str | None = None
    ) -> RemoteSession:
        """Start a task with the history of another, up to a row; it continues with `text`, else it
        rests. Raises RemoteError."""
        _check_task_id(task_id)
        given = _drop_none(messageTs=row_ts, keep=keep, text=text)
        data = await self._connection.request("forkTask", task_id, given)
        return await self.attach(data["taskId"])

    async def tasks(
        self, workspace: str | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[TaskInfo]:
        """List the server's tasks, the most recently changed first."""
        given = _drop_none(limit=limit, offset=offset, workspace=workspace)
        data = await self._connection.request("listTasks", arguments=given, retry=True)
        tasks: list[TaskInfo] = decode_response_data("listTasks", data).tasks
        return tasks

    async def command(self, name: str, task_id: str | None = None, **arguments: Any) -> Any:
        """Send any other command of the API and return the data of its response. Without a
        `task_id`, a command about a task acts on the current one. Raises RemoteError with the
        `code` of the API."""
        return await self._connection.request(name, task_id, arguments)

    def detach(self, session: RemoteSession) -> None:
        """Stop listening to a task, which continues."""
        self._sessions.pop(session.id, None)
        session.end_stream(None)

    async def close(self) -> None:
        """Disconnect from the server, whose tasks continue."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # What the connection says

    def handle(self, frame: EventFrame) -> None:
        if frame.event_name == "resync":
            behind_task_id = frame.payload.get("taskId") or frame.task_id
            for session in self._sessions.values():
                if behind_task_id in (None, session.id):
                    session.start_resync()
        elif frame.task_id in self._sessions:
            self._sessions[frame.task_id].handle(frame)

    def handle_connection_lost(self) -> None:
        self._is_disconnected = True
        self._report_connection_change("the connection is lost; trying again")
        for session in self._sessions.values():
            session.is_following = False

    async def handle_reconnected(self) -> None:
        if self._is_disconnected:
            self._is_disconnected = False
            self._report_connection_change("connected again")
        sessions = list(self._sessions.values())
        ends = await asyncio.gather(
            *(session.subscribe() for session in sessions), return_exceptions=True
        )
        for session, error in zip(sessions, ends, strict=True):
            if isinstance(error, RemoteError) and error.code != CONNECTION_LOST:
                session.end_stream(error)

    def _report_connection_change(self, text: str) -> None:
        if self._on_connection_change is not None:
            self._on_connection_change(text)

    def handle_connection_failed(self, error: RemoteError) -> None:
        for session in self._sessions.values():
            session.end_stream(error)


def _drop_none(**arguments: Any) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _check_task_id(task_id: object) -> None:
    """Check for a task id: without one, the server would act on its current task, which may be
    another client's."""
    if not isinstance(task_id, str) or not task_id:
        raise RemoteError(f"{task_id!r} is not a task id", "INVALID_PARAMETER")


MAX_UNREAD_FRAMES = 10_000
"""A reader that leaves more unread loses the passing ones."""
RECORDS_PER_REQUEST = 1000


class RemoteSession(TaskMirror):
    """One task of a server, created by the `RemoteEngine`."""

    def __init__(
        self,
        connection: ServerConnection,
        task_id: str,
        rows: Sequence[RowData],
        seq: int,
        attach: Callable[[str], Awaitable[RemoteSession]],
    ) -> None:
        super().__init__(rows, seq)
        self.id = task_id
        self._attach = attach
        self._connection = connection
        self._request = connection.request
        self._subscribers: set[_FrameSubscriber] = set()
        self._resync_jobs: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._error: RemoteError | None = None
        self.is_following = False
        """Frames are heard without a gap; otherwise they are on their way again."""
        self.task_info: TaskInfo | None = None
        """The task's entry in the server's list, when it was last asked for."""

    # What anybody may look at

    async def find_subtask(self, task_id: str) -> RemoteSession:
        """Find one of its subtasks, or any other task of the server. Raises RemoteError."""
        return await self._attach(task_id)

    async def messages(self) -> list[dict[str, Any]]:
        """Return the UI history as the server has it now."""
        data = await self._request("getMessages", self.id, retry=True)
        return list(data["messages"])

    async def frames(self, since: int | None = None) -> AsyncIterator[EventFrame]:
        """Iterate over the server's frames until the task comes to rest, by default from the
        beginning. Of transient ones (growing rows), only the latest is repeated."""
        async for frame, _ in self._iter_decoded_frames(since):
            yield frame

    async def events(self, since: int | None = None) -> AsyncIterator[Event]:
        """Iterate over the frames, decoded into the events of a local task."""
        async for _, events in self._iter_decoded_frames(since):
            for event in events:
                yield event

    async def watch(self, since: int | None = None) -> AsyncIterator[Event]:
        """Like `events`, but without an end: another client may continue a task that rests."""
        async for _, events in self._iter_decoded_frames(since, to_rest=False):
            for event in events:
                yield event

    async def _iter_decoded_frames(
        self, since: int | None, *, to_rest: bool = True
    ) -> AsyncIterator[tuple[EventFrame, list[Event]]]:
        if to_rest and since is not None and not self.is_running:
            data = await self._request("getEvents", self.id, {"since": since}, retry=True)
            if not data["events"]:
                return
        older, skipped = await self._fetch_older_frames(since)
        decoder = EventDecoder(() if older else self.initial_rows)
        with self._open_subscriber(older) as subscriber:
            while (frame := await subscriber.read_next()) is not None:
                events = decoder.feed(frame)
                if skipped and not is_transient_frame(frame):
                    skipped -= 1
                    continue
                yield frame, events
                ended = to_rest and frame.event_name in END_EVENT_NAMES
                if ended and not subscriber.has_unread_start():
                    return

    async def _fetch_older_frames(self, since: int | None) -> tuple[list[EventFrame], int]:
        """Fetch frames from before this session began, and how many of all frames `since`
        covers."""
        first, since = self.opened_at_seq, since or 0
        if since == first:
            return [], 0
        if since > first:
            return [], len(await self._fetch_frames(first, since))
        return await self._fetch_frames(0, first), len(await self._fetch_frames(0, since))

    async def _fetch_frames(self, since: int, until: int) -> list[EventFrame]:
        """Fetch the durable frames of these records, in pieces as large as the connection
        allows."""
        frames: list[EventFrame] = []
        seen_row_timestamps: set[int] = set()
        record_count = RECORDS_PER_REQUEST
        while since < until:
            end = min(until, since + record_count)
            try:
                data = await self._request("getEvents", self.id, {"since": since, "until": end})
            except RemoteError as error:
                await self._connection.wait_to_retry(error)
                record_count = max(1, record_count // 2)
                continue
            for frame in msgspec.convert(data["events"], list[EventFrame]):
                frames.append(_normalize_row_action(frame, seen_row_timestamps))
            since = end
        return frames

    @contextmanager
    def _open_subscriber(self, older: Sequence[EventFrame]) -> Iterator[_FrameSubscriber]:
        subscriber = _FrameSubscriber([*older, *self.durable_frames, *self.partial_frames.values()])
        if self._is_closed or self._connection.fatal_error is not None:
            subscriber.finish(self._error or self._connection.fatal_error)
        self._subscribers.add(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)

    # What anybody may do

    async def send(self, text: str, images: tuple[str, ...] = ()) -> None:
        given = _drop_none(message=text, images=list(images) or None)
        await self._request("sendMessage", self.id, given)

    async def answer(self, ask_ts: int, answer: Answer) -> bool:
        given = _drop_none(
            askTs=ask_ts,
            response=answer.response.value,
            text=answer.text or None,
            images=list(answer.images) or None,
            always=answer.always or None,
            scope=answer.scope,
            network=answer.network or None,
            hosts=answer.hosts or None,
            stop=answer.stop or None,
        )
        data = await self._request("respond", self.id, given)
        return bool(data["accepted"])

    async def approve(self, text: str = "") -> bool:
        """Answer yes to the open question; False if there is none."""
        ask = self.pending
        return ask is not None and await self.answer(ask.ts, Answer(Response.YES, text=text))

    async def reject(self, text: str = "") -> bool:
        """Answer no to the open question; False if there is none."""
        ask = self.pending
        return ask is not None and await self.answer(ask.ts, Answer(Response.NO, text=text))

    async def preview_rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False
    ) -> RewindPreview:
        where = {"messageTs": row_ts, "keep": keep, "files": files}
        return await self._request_history_change("rewindTask", where | {"preview": True})

    async def rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False, force: bool = False
    ) -> RewindPreview:
        """Rewind so that this row is the last one or, with `keep` false, the first one removed."""
        where = {"messageTs": row_ts, "keep": keep, "files": files}
        return await self._request_history_change("rewindTask", where | {"force": force})

    async def preview_undo(self) -> RewindPreview:
        return await self._request_history_change("undoRewind", {"preview": True})

    async def undo_rewind(self, *, force: bool = False) -> RewindPreview:
        return await self._request_history_change("undoRewind", {"force": force})

    async def edit(self, row_ts: int, text: str, images: tuple[str, ...] = ()) -> RewindPreview:
        """Replace the user's message at a row, or the nearest one before it."""
        arguments = {"messageTs": row_ts, "text": text, "images": list(images)}
        return await self._request_history_change("editMessage", arguments)

    async def _request_history_change(
        self, command: str, arguments: dict[str, Any]
    ) -> RewindPreview:
        data = await self._request(command, self.id, arguments)
        changes: RewindPreview = decode_response_data(command, data).changes
        return changes

    async def condense(self, instructions: str = "") -> None:
        """Condense the conversation: at once if the task rests, else before its next request.
        Returns when it has begun; a row reports the outcome. Raises RemoteError if there is nothing
        to condense."""
        await self._request("condenseTask", self.id, {"instructions": instructions})

    async def cancel(self) -> None:
        await self._request("cancelTask", self.id)

    # What the engine says

    async def subscribe(self) -> None:
        """Subscribe to everything after what was received already, and request the status. Raises
        RemoteError."""
        since = {"since": self.seq}
        await self._request("subscribe", self.id, since, then=self._handle_subscribed, retry=True)
        await self._request("getTask", self.id, then=self._handle_task_info, retry=True)

    def _handle_subscribed(self, data: Any) -> None:
        self.partial_frames.clear()  # unfinished rows are sent again
        self.is_following = True

    def _handle_task_info(self, data: Any) -> None:
        info: TaskInfo = decode_response_data("getTask", data).task
        self.task_info = info
        usage = TokenUsage(
            total_tokens_in=info.tokens_in,
            total_tokens_out=info.tokens_out,
            total_cache_writes=info.cache_writes,
            total_cache_reads=info.cache_reads,
            total_cost=info.total_cost,
            context_tokens=info.context_tokens or 0,
        )
        is_running = info.live and info.status not in IDLE_STATES
        self.pending_subtasks = info.waits_for
        self.update_status(info.ask.ts if info.ask else None, usage, is_running)

    def start_resync(self) -> None:
        """Fetch the frames that the server dropped because they were not read fast enough."""
        self.is_following = False
        job = asyncio.ensure_future(self.subscribe())
        self._resync_jobs.add(job)
        job.add_done_callback(self._handle_resync_done)

    def _handle_resync_done(self, job: asyncio.Task[None]) -> None:
        self._resync_jobs.discard(job)
        error = None if job.cancelled() else job.exception()
        if isinstance(error, RemoteError) and error.code != CONNECTION_LOST:
            self.end_stream(error)

    def handle(self, frame: EventFrame) -> None:
        if not self.is_following:
            return
        applied = self.apply_frame(frame)
        if applied is not None:
            for subscriber in self._subscribers:
                subscriber.enqueue(applied)
        if frame.event_name == "taskDeleted":
            self.end_stream(None)

    def end_stream(self, error: RemoteError | None) -> None:
        """End the streams of all subscribers."""
        self._is_closed, self._error = True, error
        for subscriber in self._subscribers:
            subscriber.finish(error)


def _normalize_row_action(frame: EventFrame, seen_row_timestamps: set[int]) -> EventFrame:
    if frame.event_name == "taskRewound":
        seen_row_timestamps.difference_update(frame.payload["removed"])
    if frame.event_name != "message":
        return frame
    ts = frame.payload["message"]["ts"]
    is_known = ts in seen_row_timestamps
    seen_row_timestamps.add(ts)
    return replace_row_action(frame, is_known=is_known)


_protocol_check: type[Session] = RemoteSession


class _FrameSubscriber:
    """The frames that one subscriber has not read yet."""

    def __init__(self, frames: Sequence[EventFrame]) -> None:
        self._unread_frames = deque(frames)
        self._is_finished = False
        self._error: RemoteError | None = None
        self._has_news = asyncio.Event()

    def enqueue(self, frame: EventFrame) -> None:
        self._unread_frames.append(frame)
        if len(self._unread_frames) > MAX_UNREAD_FRAMES and is_transient_frame(frame):
            self._unread_frames = deque(
                frame for frame in self._unread_frames if not is_transient_frame(frame)
            )
        self._has_news.set()

    def finish(self, error: RemoteError | None) -> None:
        self._is_finished, self._error = True, error
        self._has_news.set()

    def has_unread_start(self) -> bool:
        """Whether an unread frame says that the task was started again."""
        return any(frame.event_name == "taskStarted" for frame in self._unread_frames)

    async def read_next(self) -> EventFrame | None:
        """Read the next frame. Raises RemoteError if the connection was given up."""
        while not self._unread_frames:
            if self._error is not None:
                raise self._error
            if self._is_finished:
                return None
            self._has_news.clear()
            await self._has_news.wait()
        return self._unread_frames.popleft()
