"""Tasks of a server, used like tasks of this process.

All sessions of an engine share one connection. When it is lost it comes back by itself, and each
session goes on after the last thing it heard: nothing is missed and nothing is told twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from joey.client.address import Address, find_server
from joey.client.connection import LOST, PATIENCE, Connection, RemoteError
from joey.client.remote_session import RemoteSession
from joey.core.settings import Limits
from joey.core.wire.commands import TaskInfo, decode_data
from joey.core.wire.frames import EventFrame

__all__ = ["RemoteEngine", "RemoteError", "RemoteSession", "TaskInfo"]


class RemoteEngine:
    """The tasks of one server. Open with `RemoteEngine.connect`; close it, or use it as an
    async context manager."""

    def __init__(
        self, address: Address, patience: float, notice: Callable[[str], None] | None = None
    ) -> None:
        self._sessions: dict[str, RemoteSession] = {}
        self._notice = notice
        self._is_lost = False
        self._connection = Connection(address, self, patience)

    @classmethod
    async def connect(
        cls,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: float = PATIENCE,
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

    def hear(self, frame: EventFrame) -> None:
        if frame.event_name == "resync":
            behind = frame.payload.get("taskId") or frame.task_id
            for session in self._sessions.values():
                if behind in (None, session.id):
                    session.fall_behind()
        elif frame.task_id in self._sessions:
            self._sessions[frame.task_id].hear(frame)

    def lost(self) -> None:
        self._is_lost = True
        self._tell("the connection is lost; trying again")
        for session in self._sessions.values():
            session.is_following = False

    async def restored(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._tell("connected again")
        sessions = list(self._sessions.values())
        ends = await asyncio.gather(
            *(session.follow() for session in sessions), return_exceptions=True
        )
        for session, error in zip(sessions, ends, strict=True):
            if isinstance(error, RemoteError) and error.code != LOST:
                session.break_off(error)

    def _tell(self, text: str) -> None:
        if self._notice is not None:
            self._notice(text)

    def gave_up(self, error: RemoteError) -> None:
        for session in self._sessions.values():
            session.break_off(error)


def _check_id(task_id: object) -> None:
    """Without an id the server would act on its current task, which may be anybody's."""
    if not isinstance(task_id, str) or not task_id:
        raise RemoteError(f"{task_id!r} is no task id", "INVALID_PARAMETER")
