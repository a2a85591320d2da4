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
    find_server,
)
from joey.client.event_decoder import (
    END_EVENT_NAMES,
    EventDecoder,
    RowData,
    TaskMirror,
    is_passing,
    renamed,
)
from joey.client.session import Session
from joey.core.events import AskOpened, Event, TokenUsage
from joey.core.rewind import RewindPreview
from joey.core.settings import Limits
from joey.core.task import IDLE_STATES, Answer, Response
from joey.core.wire.commands import TaskInfo, decode_data
from joey.core.wire.frames import EventFrame

__all__ = ["RemoteEngine", "RemoteError", "RemoteSession", "TaskInfo"]


class RemoteEngine:
    """The tasks of one server. Open with `RemoteEngine.connect`; close it, or use it as an
    async context manager."""

    def __init__(
        self, address: ServerAddress, patience: float, notice: Callable[[str], None] | None = None
    ) -> None:
        self._sessions: dict[str, RemoteSession] = {}
        self._notice = notice
        self._is_lost = False
        self._connection = ServerConnection(address, self, patience)

    @classmethod
    async def connect(
        cls,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: float = RECONNECT_TIMEOUT_S,
        notice: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """The server at `url` (this machine's, by default). A lost connection is tried again for
        `patience` seconds; `notice` is told of the loss and of the return.

        Raises:
            RemoteError: nobody is there, or the token is not theirs.
        """
        address = find_server(url, token, os.environ if env is None else env)
        engine = cls(address, patience, notice)
        await engine._connection.open()
        return engine

    @property
    def welcome(self) -> Mapping[str, Any]:
        """What the server said of itself: version, capabilities, workspace."""
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
        """A new task, already at work; `configuration` holds settings by their names on the wire.

        Raises:
            RemoteError
        """
        wanted = {
            "text": text,
            "images": list(images) or None,
            "configuration": configuration,
            "workspace": workspace,
            "mode": mode,
            "profile": profile,
            "limits": None if limits is None else msgspec.to_builtins(limits),
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        data = await self._connection.request("startNewTask", arguments=given)
        return await self.attach(data["taskId"])

    async def attach(self, task_id: str) -> RemoteSession:
        """A task of the server, live or at rest; the same session for the same task.

        Raises:
            RemoteError
        """
        _check_id(task_id)
        session = self._sessions.get(task_id)
        if session is None:
            data = await self._connection.look("getMessages", task_id)
            made = RemoteSession(
                self._connection, task_id, data["messages"], data["seq"], self.attach
            )
            session = self._sessions.setdefault(task_id, made)  # others may have come first
        if not session.is_following:
            await session.follow()
        return session

    async def resume(self, task_id: str, text: str | None = None) -> RemoteSession:
        """A task at work again: with these words, else asking whether to go on."""
        session = await self.attach(task_id)
        if text is not None:
            await session.send(text)
        else:
            await self._connection.request("resumeTask", task_id)
        return session

    async def fork(
        self, task_id: str, row_ts: int | None = None, *, keep: bool = True, text: str | None = None
    ) -> RemoteSession:
        """A new task with the history of another, up to a row; it goes on with `text`, else it
        rests.

        Raises:
            RemoteError
        """
        _check_id(task_id)
        wanted = {"messageTs": row_ts, "keep": keep, "text": text}
        given = {name: value for name, value in wanted.items() if value is not None}
        data = await self._connection.request("forkTask", task_id, given)
        return await self.attach(data["taskId"])

    async def tasks(
        self, workspace: str | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[TaskInfo]:
        """The server's tasks, the most recently changed first."""
        arguments: dict[str, Any] = {"limit": limit, "offset": offset}
        if workspace is not None:
            arguments["workspace"] = workspace
        data = await self._connection.look("listTasks", arguments=arguments)
        tasks: list[TaskInfo] = decode_data("listTasks", data).tasks
        return tasks

    async def command(self, name: str, task_id: str | None = None, **arguments: Any) -> Any:
        """Any other command of the API: the data of its response. Without a `task_id`, a command
        about a task acts on the current one.

        Raises:
            RemoteError: with the `code` of the API.
        """
        return await self._connection.request(name, task_id, arguments)

    def leave(self, session: RemoteSession) -> None:
        """Listen to a task no longer; it goes on."""
        self._sessions.pop(session.id, None)
        session.break_off(None)

    async def close(self) -> None:
        """Leave the server; its tasks go on."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # What the connection says

    def handle(self, frame: EventFrame) -> None:
        if frame.event_name == "resync":
            behind = frame.payload.get("taskId") or frame.task_id
            for session in self._sessions.values():
                if behind in (None, session.id):
                    session.fall_behind()
        elif frame.task_id in self._sessions:
            self._sessions[frame.task_id].handle(frame)

    def lost(self) -> None:
        self._is_lost = True
        self._report_connection_change("the connection is lost; trying again")
        for session in self._sessions.values():
            session.is_following = False

    async def restored(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._report_connection_change("connected again")
        sessions = list(self._sessions.values())
        ends = await asyncio.gather(
            *(session.follow() for session in sessions), return_exceptions=True
        )
        for session, error in zip(sessions, ends, strict=True):
            if isinstance(error, RemoteError) and error.code != CONNECTION_LOST:
                session.break_off(error)

    def _report_connection_change(self, text: str) -> None:
        if self._notice is not None:
            self._notice(text)

    def gave_up(self, error: RemoteError) -> None:
        for session in self._sessions.values():
            session.break_off(error)


def _check_id(task_id: object) -> None:
    """Without an id the server would act on its current task, which may be anybody's."""
    if not isinstance(task_id, str) or not task_id:
        raise RemoteError(f"{task_id!r} is no task id", "INVALID_PARAMETER")


MAX_UNREAD_FRAMES = 10_000
"""Frames that a slow reader may leave unread before it loses the passing ones."""
RECORDS_PER_REQUEST = 1000
_TASK_STARTED_EVENT = "taskStarted"


class RemoteSession:
    """One task of a server. Made by the `RemoteEngine`."""

    def __init__(
        self,
        connection: ServerConnection,
        task_id: str,
        rows: Sequence[RowData],
        seq: int,
        attach: Callable[[str], Awaitable[RemoteSession]],
    ) -> None:
        self._attach = attach
        self._connection = connection
        self._request = connection.request
        self._look = connection.look
        self._id = task_id
        self._state = TaskMirror(rows, seq)
        self._ears: set[_FrameSubscriber] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._error: RemoteError | None = None
        self.is_following = False
        """Frames are heard without a gap; otherwise they are on their way again."""
        self.info: TaskInfo | None = None
        """The task's entry in the server's list, when it was last asked for."""

    # What anybody may look at

    @property
    def id(self) -> str:
        return self._id

    @property
    def pending(self) -> AskOpened | None:
        return self._state.pending

    @property
    def usage(self) -> TokenUsage:
        return self._state.usage

    @property
    def rows(self) -> Sequence[dict[str, Any]]:
        return [dict(row) for row in self._state.rows]

    @property
    def running(self) -> bool:
        """The task works, or waits for an answer."""
        return self._state.runs

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The subtasks that it waits for."""
        return self._state.waits_for

    async def child(self, task_id: str) -> RemoteSession:
        """One of its subtasks, or any other task of the server.

        Raises:
            RemoteError
        """
        return await self._attach(task_id)

    @property
    def seq(self) -> int:
        """The last record that was heard of."""
        return self._state.seq

    @property
    def first(self) -> int:
        """The last record that `first_rows` include: `watch(session.first)` goes on from them."""
        return self._state.first

    @property
    def first_rows(self) -> Sequence[RowData]:
        """The rows as they were when this session began."""
        return self._state.first_rows

    async def messages(self) -> list[dict[str, Any]]:
        """The UI history as the server has it now."""
        data = await self._look("getMessages", self._id)
        return list(data["messages"])

    async def frames(self, since: int | None = None) -> AsyncIterator[EventFrame]:
        """Frames as the server sends them, until the task comes to rest; by default from its
        beginning. Of passing ones (rows that grow) only the latest is told again."""
        async for frame, _ in self._iter_decoded_frames(since):
            yield frame

    async def events(self, since: int | None = None) -> AsyncIterator[Event]:
        """The frames, read back as the events of a task in this process."""
        async for _, events in self._iter_decoded_frames(since):
            for event in events:
                yield event

    async def watch(self, since: int | None = None) -> AsyncIterator[Event]:
        """As `events`, but without end: a task that rests may be set to work by anybody."""
        async for _, events in self._iter_decoded_frames(since, to_rest=False):
            for event in events:
                yield event

    async def _iter_decoded_frames(
        self, since: int | None, *, to_rest: bool = True
    ) -> AsyncIterator[tuple[EventFrame, list[Event]]]:
        rests = to_rest and since is not None and not self.running
        if rests and not await self._has_more(since or 0):
            return
        older, skipped = await self._older(since)
        reader = EventDecoder(() if older else self._state.first_rows)
        with self._listening(older) as ear:
            while (frame := await ear.next()) is not None:
                events = reader.feed(frame)
                if skipped and not is_passing(frame):
                    skipped -= 1
                    continue
                yield frame, events
                ended = to_rest and frame.event_name in END_EVENT_NAMES
                if ended and not ear.has_unread(_TASK_STARTED_EVENT):
                    return

    async def _older(self, since: int | None) -> tuple[list[EventFrame], int]:
        """Frames from before this session began, and how many of all frames `since` covers."""
        first, since = self._state.first, since or 0
        if since == first:
            return [], 0
        if since > first:
            return [], len(await self._events(first, since))
        return await self._events(0, first), len(await self._events(0, since))

    async def _has_more(self, since: int) -> bool:
        return bool((await self._look("getEvents", self._id, {"since": since}))["events"])

    async def _events(self, since: int, until: int) -> list[EventFrame]:
        """The lasting frames of these records, in pieces as large as the line can carry."""
        frames: list[EventFrame] = []
        met: set[int] = set()
        piece = RECORDS_PER_REQUEST
        while since < until:
            end = min(until, since + piece)
            try:
                data = await self._request("getEvents", self._id, {"since": since, "until": end})
            except RemoteError as error:
                await self._connection.recover(error)
                piece = max(1, piece // 2)
                continue
            for frame in msgspec.convert(data["events"], list[EventFrame]):
                frames.append(_once_created(frame, met))
            since = end
        return frames

    @contextmanager
    def _listening(self, older: Sequence[EventFrame]) -> Iterator[_FrameSubscriber]:
        ear = _FrameSubscriber([*older, *self._state.frames, *self._state.growing.values()])
        if self._is_over or self._connection.error is not None:
            ear.finish(self._error or self._connection.error)
        self._ears.add(ear)
        try:
            yield ear
        finally:
            self._ears.discard(ear)

    # What anybody may do

    async def send(self, text: str, images: tuple[str, ...] = ()) -> None:
        arguments: dict[str, Any] = {"message": text}
        if images:
            arguments["images"] = list(images)
        await self._request("sendMessage", self._id, arguments)

    async def answer(self, ask_ts: int, answer: Answer) -> bool:
        arguments: dict[str, Any] = {"askTs": ask_ts, "response": answer.response.value}
        if answer.text:
            arguments["text"] = answer.text
        if answer.images:
            arguments["images"] = list(answer.images)
        if answer.always:
            arguments["always"] = True
        data = await self._request("respond", self._id, arguments)
        return bool(data["accepted"])

    async def approve(self, text: str = "") -> bool:
        """Say yes to the open question."""
        return await self._respond(Response.YES, text)

    async def reject(self, text: str = "") -> bool:
        """Say no to the open question."""
        return await self._respond(Response.NO, text)

    async def _respond(self, response: Response, text: str) -> bool:
        if self.pending is None:
            return False
        return await self.answer(self.pending.ts, Answer(response, text=text))

    async def preview_rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False
    ) -> RewindPreview:
        where = {"messageTs": row_ts, "keep": keep, "files": files}
        return await self._revise("rewindTask", where | {"preview": True})

    async def rewind(
        self, row_ts: int, *, keep: bool = True, files: bool = False, force: bool = False
    ) -> RewindPreview:
        """Go back so that this row is the last one, or (`keep` false) the first one gone."""
        where = {"messageTs": row_ts, "keep": keep, "files": files}
        return await self._revise("rewindTask", where | {"force": force})

    async def preview_undo(self) -> RewindPreview:
        return await self._revise("undoRewind", {"preview": True})

    async def undo_rewind(self, *, force: bool = False) -> RewindPreview:
        return await self._revise("undoRewind", {"force": force})

    async def edit(self, row_ts: int, text: str, images: tuple[str, ...] = ()) -> RewindPreview:
        """Say this in place of the person's words at a row, or the nearest before it."""
        arguments = {"messageTs": row_ts, "text": text, "images": list(images)}
        return await self._revise("editMessage", arguments)

    async def _revise(self, command: str, arguments: dict[str, Any]) -> RewindPreview:
        data = await self._request(command, self._id, arguments)
        changes: RewindPreview = decode_data(command, data).changes
        return changes

    async def condense(self, instructions: str = "") -> None:
        """Have the conversation summed up: at once when the task rests, else before its next
        request. Returns when it is begun; a row tells how it went.

        Raises:
            RemoteError: there is nothing to condense.
        """
        await self._request("condenseTask", self._id, {"instructions": instructions})

    async def cancel(self) -> None:
        await self._request("cancelTask", self._id)

    # What the engine says

    async def follow(self) -> None:
        """Hear everything after what was heard already, and ask how the task stands.

        Raises:
            RemoteError
        """
        since = {"since": self._state.seq}
        await self._look("subscribe", self._id, since, then=self._rejoin)
        await self._look("getTask", self._id, then=self._settle)

    def _rejoin(self, data: Any) -> None:
        self._state.rejoin()
        self.is_following = True

    def _settle(self, data: Any) -> None:
        info: TaskInfo = decode_data("getTask", data).task
        self.info = info
        usage = TokenUsage(
            total_tokens_in=info.tokens_in,
            total_tokens_out=info.tokens_out,
            total_cache_writes=info.cache_writes,
            total_cache_reads=info.cache_reads,
            total_cost=info.total_cost,
            context_tokens=info.context_tokens or 0,
        )
        runs = info.live and info.status not in IDLE_STATES
        self._state.waits_for = info.waits_for
        self._state.settle(info.ask.ts if info.ask else None, usage, runs)

    def fall_behind(self) -> None:
        """The server left frames out because they were not read fast enough."""
        self.is_following = False
        job = asyncio.ensure_future(self.follow())
        self._jobs.add(job)
        job.add_done_callback(self._caught_up)

    def _caught_up(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        error = None if job.cancelled() else job.exception()
        if isinstance(error, RemoteError) and error.code != CONNECTION_LOST:
            self.break_off(error)

    def handle(self, frame: EventFrame) -> None:
        if not self.is_following:
            return
        applied = self._state.take(frame)
        if applied is not None:
            for ear in self._ears:
                ear.offer(applied)
        if frame.event_name == "taskDeleted":
            self.break_off(None)

    def break_off(self, error: RemoteError | None) -> None:
        """Nothing more will be heard."""
        self._is_over, self._error = True, error
        for ear in self._ears:
            ear.finish(error)


def _once_created(frame: EventFrame, met: set[int]) -> EventFrame:
    if frame.event_name == "taskRewound":
        met.difference_update(frame.payload["removed"])
    if frame.event_name != "message":
        return frame
    ts = frame.payload["message"]["ts"]
    known = ts in met
    met.add(ts)
    return renamed(frame, known=known)


_fits: type[Session] = RemoteSession


class _FrameSubscriber:
    """The frames that one reader has not read yet."""

    def __init__(self, frames: Sequence[EventFrame]) -> None:
        self._unread = deque(frames)
        self._finished = False
        self._error: RemoteError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def offer(self, frame: EventFrame) -> None:
        self._unread.append(frame)
        if len(self._unread) > MAX_UNREAD_FRAMES and is_passing(frame):
            self._unread = deque(frame for frame in self._unread if not is_passing(frame))
        self._wake()

    def finish(self, error: RemoteError | None) -> None:
        self._finished, self._error = True, error
        self._wake()

    def has_unread(self, name: str) -> bool:
        """A frame with this name is among those that were not read yet."""
        return any(frame.event_name == name for frame in self._unread)

    async def next(self) -> EventFrame | None:
        """Raises RemoteError: the connection was given up."""
        while not self._unread:
            if self._error is not None:
                raise self._error
            if self._finished:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._unread.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
