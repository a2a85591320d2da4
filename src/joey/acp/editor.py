"""The editor at the other end: what it can do, and what it is told and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import CLIENT_METHODS
from acp.schema import (
    ClientCapabilities,
    CreateTerminalRequest,
    CreateTerminalResponse,
    PermissionOption,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    ToolCallUpdate,
    WriteTextFileRequest,
)
from pydantic import BaseModel, ValidationError

from joey.acp.chunks import Update

PATIENCE = 10.0
"""Seconds that the editor has to read or write a file, or to open a terminal."""

T = TypeVar("T", bound=BaseModel)


class Editor:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.can = ClientCapabilities()

    @property
    def reads_files(self) -> bool:
        return bool(self.can.fs and self.can.fs.read_text_file)

    @property
    def writes_files(self) -> bool:
        return bool(self.can.fs and self.can.fs.write_text_file)

    async def tell(self, session_id: str, update: Update) -> None:
        """Raises ConnectionError."""
        told = SessionNotification(session_id=session_id, update=update)
        method = CLIENT_METHODS["session_update"]
        await self._connection.send_notification(method, as_json(told))

    async def ask(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> RequestPermissionResponse:
        """Wait for the person, however long that takes.

        Raises:
            RequestError: the editor does not ask, or its answer cannot be read.
            ConnectionError
        """
        asked = RequestPermissionRequest(
            session_id=session_id, tool_call=call, options=list(options)
        )
        return await self._request("session_request_permission", asked, RequestPermissionResponse)

    async def read(self, session_id: str, path: str) -> str:
        """The text of a file as the person sees it.

        Raises:
            RequestError, ConnectionError, TimeoutError
        """
        async with asyncio.timeout(PATIENCE):
            wanted = ReadTextFileRequest(session_id=session_id, path=path)
            return (await self._request("fs_read_text_file", wanted, ReadTextFileResponse)).content

    async def write(self, session_id: str, path: str, text: str) -> None:
        """Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            wanted = WriteTextFileRequest(session_id=session_id, path=path, content=text)
            method = CLIENT_METHODS["fs_write_text_file"]
            await self._connection.send_request(method, as_json(wanted))

    async def open_terminal(
        self, session_id: str, command: str, arguments: list[str], cwd: str
    ) -> str:
        """Start a program where the person sees it; the name of its terminal.

        Raises:
            RequestError, ConnectionError, TimeoutError
        """
        async with asyncio.timeout(PATIENCE):
            wanted = CreateTerminalRequest(
                session_id=session_id, command=command, args=arguments, cwd=cwd
            )
            opened = await self._request("terminal_create", wanted, CreateTerminalResponse)
            return opened.terminal_id

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            wanted = ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal_id)
            method = CLIENT_METHODS["terminal_release"]
            await self._connection.send_request(method, as_json(wanted))

    async def _request(self, name: str, params: BaseModel, answer: type[T]) -> T:
        answered = await self._connection.send_request(CLIENT_METHODS[name], as_json(params))
        try:
            return answer.model_validate(answered)
        except ValidationError as error:
            method = CLIENT_METHODS[name]
            raise RequestError(-32603, f"The answer to {method} cannot be read.") from error


def as_json(model: BaseModel) -> dict[str, object]:
    """As it goes over the wire: what is not said is left out."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
