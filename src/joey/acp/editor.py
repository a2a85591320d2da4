"""The editor at the other end: its capabilities, requests to it, and files read through it.

`EditorFiles` gives the files of the workspace as the user has them on the screen, saved or not.
What may be read and written has been decided before by the workspace's own checks, which also
handle everything outside, protected, or not text. A request to the editor names a file by its
resolved path, and only if that still leads to the same place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import CLIENT_METHODS
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ClientCapabilities,
    ConfigOptionUpdate,
    CreateTerminalRequest,
    CreateTerminalResponse,
    CurrentModeUpdate,
    PermissionOption,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionInfoUpdate,
    SessionNotification,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
    UserMessageChunk,
    WriteTextFileRequest,
)
from pydantic import BaseModel, ValidationError

from joey.core.edits.encodings import UTF_8, encoding_of
from joey.errors import ToolError
from joey.ports import Files, FileStat, ResolvedPath

SessionUpdate = (
    AgentMessageChunk
    | AgentPlanUpdate
    | AgentThoughtChunk
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | CurrentModeUpdate
    | SessionInfoUpdate
    | ToolCallProgress
    | ToolCallStart
    | UsageUpdate
    | UserMessageChunk
)


REQUEST_TIMEOUT_S = 10.0
"""Seconds that the editor has to read or write a file, or to open a terminal."""

ResponseT = TypeVar("ResponseT", bound=BaseModel)


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

    async def send_update(self, session_id: str, update: SessionUpdate) -> None:
        """Raises ConnectionError."""
        notification = SessionNotification(session_id=session_id, update=update)
        method = CLIENT_METHODS["session_update"]
        await self._connection.send_notification(method, as_json(notification))

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
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            wanted = ReadTextFileRequest(session_id=session_id, path=path)
            return (await self._request("fs_read_text_file", wanted, ReadTextFileResponse)).content

    async def write(self, session_id: str, path: str, text: str) -> None:
        """Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
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
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            wanted = CreateTerminalRequest(
                session_id=session_id, command=command, args=arguments, cwd=cwd
            )
            opened = await self._request("terminal_create", wanted, CreateTerminalResponse)
            return opened.terminal_id

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        """Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            wanted = ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal_id)
            method = CLIENT_METHODS["terminal_release"]
            await self._connection.send_request(method, as_json(wanted))

    async def _request(self, name: str, params: BaseModel, answer: type[ResponseT]) -> ResponseT:
        answered = await self._connection.send_request(CLIENT_METHODS[name], as_json(params))
        try:
            return answer.model_validate(answered)
        except ValidationError as error:
            method = CLIENT_METHODS[name]
            raise RequestError(-32603, f"The answer to {method} cannot be read.") from error


def as_json(model: BaseModel) -> dict[str, object]:
    """As it goes over the wire: what is not said is left out."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


MAX_EDITOR_FILE_BYTES = 1024 * 1024
"""Larger files are read from disk: few people have them open."""

log = logging.getLogger(__name__)


class EditorFiles:
    def __init__(self, files: Files, editor: Editor, session_id: Callable[[], str]) -> None:
        self.root: Path = files.root
        self._files = files
        self._editor = editor
        self._session_id = session_id
        self._looked: tuple[Path, bytes] | None = None
        """What was read last, for whoever reads on."""

    def resolve(self, path: str) -> ResolvedPath:
        return self._files.resolve(path)

    def hides_some(self) -> bool:
        return self._files.hides_some()

    async def stat(self, place: ResolvedPath) -> FileStat:
        """As it is on disk: a version is known by its content wherever that is at hand."""
        return await self._files.stat(place)

    async def stat_all(self, places: Sequence[ResolvedPath]) -> Sequence[FileStat]:
        return await self._files.stat_all(places)

    async def read(self, place: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        looked, self._looked = self._looked, None
        if looked is None or looked[0] != place.path or not offset:
            if not self._is_shared(place, await self._files.stat(place)):
                return await self._files.read(place, limit, offset)
            looked = (place.path, await self._seen(place))
        data = looked[1]
        if limit is not None and offset + limit < len(data):
            self._looked = looked
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def write(
        self, place: ResolvedPath, data: bytes, like: ResolvedPath | None = None
    ) -> None:
        self._looked = None
        text = _plain_text(data)
        through = self._editor.writes_files and place.inside and not place.protected
        if not through or text is None or like is not None:
            await self._files.write(place, data, like)
            return
        if self._files.resolve(str(place.path)).path != place.path:
            raise ToolError(f"{place.shown} leads elsewhere by now, so nothing was written.")
        try:
            await self._editor.write(self._session_id(), str(place.path), text)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not say whether it has written {place.shown}. Read it again."
            ) from error
        except RequestError as error:
            log.info("the editor did not write %s: %s", place.path, error)
            await self._files.write(place, data, like)

    async def remove(self, place: ResolvedPath) -> None:
        self._looked = None
        await self._files.remove(place)

    def _is_shared(self, place: ResolvedPath, kind: FileStat) -> bool:
        """The editor may be asked about this file."""
        mine = (
            place.inside
            and not place.ignored
            and kind.is_file
            and kind.size <= MAX_EDITOR_FILE_BYTES
        )
        return mine and self._editor.reads_files

    async def _seen(self, place: ResolvedPath) -> bytes:
        disk = await self._files.read(place)
        encoding = encoding_of(disk)
        if encoding is None:
            return disk
        try:
            text = await self._editor.read(self._session_id(), str(place.path))
        except (RequestError, TimeoutError, ConnectionError) as error:
            log.info("the editor did not read %s: %s", place.path, error)
            return disk
        saved = encoding.decode(disk)
        if _unified(text) == _unified(saved):
            return disk
        if "\r\n" in saved and "\r\n" not in text:
            text = text.replace("\n", "\r\n")
        try:
            return encoding.encode(text)
        except UnicodeEncodeError:
            return disk


def _unified(text: str) -> str:
    """Editors keep line ends and the mark at the beginning to themselves."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _plain_text(data: bytes) -> str | None:
    """None for what an editor might write as other bytes."""
    if encoding_of(data) != UTF_8:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_fits: type[Files] = EditorFiles
