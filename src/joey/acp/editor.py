"""The editor at the other end: its capabilities, requests to it, and files read through it.

`EditorFiles` gives the files of the workspace as the user sees them on the screen, saved or not.
The workspace's own checks decide first what may be read and written; they also handle everything
that is outside, protected or not text. A request to the editor names a file by its resolved path,
and only if that path still leads to the same place.
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
from pydantic import BaseModel, ValidationError

from acp import schema
from joey.acp.errors import INTERNAL_ERROR
from joey.core.edits.encodings import UTF_8, detect_encoding
from joey.core.path_access import ResolvedPath
from joey.errors import ToolError
from joey.ports.workspace import Files

SessionUpdate = (
    schema.AgentMessageChunk
    | schema.AgentPlanUpdate
    | schema.AgentThoughtChunk
    | schema.AvailableCommandsUpdate
    | schema.ConfigOptionUpdate
    | schema.CurrentModeUpdate
    | schema.SessionInfoUpdate
    | schema.ToolCallProgress
    | schema.ToolCallStart
    | schema.UsageUpdate
    | schema.UserMessageChunk
)


REQUEST_TIMEOUT_S = 10.0
"""For reading or writing a file."""

ResponseT = TypeVar("ResponseT", bound=BaseModel)


class Editor:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.capabilities = schema.ClientCapabilities()

    @property
    def can_read_files(self) -> bool:
        return bool(self.capabilities.fs and self.capabilities.fs.read_text_file)

    @property
    def can_write_files(self) -> bool:
        return bool(self.capabilities.fs and self.capabilities.fs.write_text_file)

    @property
    def has_display_terminals(self) -> bool:
        """Whether the editor creates terminals from the `_meta` of tool calls, as Zed does."""
        return (self.capabilities.field_meta or {}).get("terminal_output") is True

    async def send_update(self, session_id: str, update: SessionUpdate) -> None:
        """Raises ConnectionError."""
        notification = schema.SessionNotification(session_id=session_id, update=update)
        method = CLIENT_METHODS["session_update"]
        await self._connection.send_notification(method, to_json_dict(notification))

    async def request_permission(
        self,
        session_id: str,
        call: schema.ToolCallUpdate,
        options: Sequence[schema.PermissionOption],
    ) -> schema.RequestPermissionResponse:
        """Ask the editor for permission. Raises RequestError if it cannot ask or answers
        incorrectly, ConnectionError."""
        request = schema.RequestPermissionRequest(
            session_id=session_id, tool_call=call, options=list(options)
        )
        return await self._send_request(
            "session_request_permission", request, schema.RequestPermissionResponse
        )

    async def read_file(self, session_id: str, path: str) -> str:
        """Read the text as the user sees it. Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            request = schema.ReadTextFileRequest(session_id=session_id, path=path)
            response_type = schema.ReadTextFileResponse
            return (await self._send_request("fs_read_text_file", request, response_type)).content

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        """Raises RequestError, ConnectionError, TimeoutError."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            request = schema.WriteTextFileRequest(session_id=session_id, path=path, content=text)
            method = CLIENT_METHODS["fs_write_text_file"]
            await self._connection.send_request(method, to_json_dict(request))

    async def _send_request(
        self, name: str, params: BaseModel, response_type: type[ResponseT]
    ) -> ResponseT:
        response = await self._connection.send_request(CLIENT_METHODS[name], to_json_dict(params))
        try:
            return response_type.model_validate(response)
        except ValidationError as error:
            method = CLIENT_METHODS[name]
            raise RequestError(INTERNAL_ERROR, f"The answer to {method} cannot be read.") from error


def to_json_dict(model: BaseModel) -> dict[str, object]:
    """Encode the request for the wire, without fields that are not set."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


MAX_EDITOR_FILE_BYTES = 1024 * 1024
"""Larger files are read from disk: few people have them open."""

log = logging.getLogger(__name__)


class EditorFiles:
    def __init__(self, files: Files, editor: Editor, get_session_id: Callable[[], str]) -> None:
        self.root: Path = files.root
        self.resolve = files.resolve
        self.may_have_hidden_files = files.may_have_hidden_files
        self.stat = files.stat
        """As it is on disk: a version is known by its content wherever that is at hand."""
        self.stat_all = files.stat_all
        self._files = files
        self._editor = editor
        self._get_session_id = get_session_id
        self._last_read: tuple[Path, bytes] | None = None
        """What was read last, for whoever reads on."""

    async def read(self, path: ResolvedPath, limit: int | None = None, offset: int = 0) -> bytes:
        last_read, self._last_read = self._last_read, None
        if last_read is None or last_read[0] != path.path or not offset:
            file_stat = await self._files.stat(path)
            is_eligible = (
                self._editor.can_read_files
                and path.is_inside
                and not path.is_ignored
                and file_stat.is_file
                and file_stat.size <= MAX_EDITOR_FILE_BYTES
            )
            if not is_eligible:
                return await self._files.read(path, limit, offset)
            last_read = (path.path, await self._read_from_editor(path))
        data = last_read[1]
        if limit is not None and offset + limit < len(data):
            self._last_read = last_read
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def write(
        self, path: ResolvedPath, data: bytes, mode_source: ResolvedPath | None = None
    ) -> None:
        self._last_read = None
        text = _decode_plain_utf8(data)
        is_via_editor = self._editor.can_write_files and path.is_inside and not path.is_protected
        if not is_via_editor or text is None or mode_source is not None:
            await self._files.write(path, data, mode_source)
            return
        if self._files.resolve(str(path.path)).path != path.path:
            raise ToolError(f"{path.display_path} is now another file, so nothing was written.")
        try:
            await self._editor.write_file(self._get_session_id(), str(path.path), text)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not confirm that it wrote {path.display_path}. Read it again."
            ) from error
        except RequestError as error:
            log.info("the editor did not write %s: %s", path.path, error)
            await self._files.write(path, data, mode_source)

    async def remove(self, path: ResolvedPath) -> None:
        self._last_read = None
        await self._files.remove(path)

    async def _read_from_editor(self, path: ResolvedPath) -> bytes:
        disk = await self._files.read(path)
        encoding = detect_encoding(disk)
        if encoding is None:
            return disk
        try:
            text = await self._editor.read_file(self._get_session_id(), str(path.path))
        except (RequestError, TimeoutError, ConnectionError) as error:
            log.info("the editor did not read %s: %s", path.path, error)
            return disk
        saved = encoding.decode(disk)
        if _normalize_text(text) == _normalize_text(saved):
            return disk
        if "\r\n" in saved and "\r\n" not in text:
            text = text.replace("\n", "\r\n")
        try:
            return encoding.encode(text)
        except UnicodeEncodeError:
            return disk


def _normalize_text(text: str) -> str:
    """Normalize line endings and remove the byte order mark, which editors keep to themselves."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _decode_plain_utf8(data: bytes) -> str | None:
    """Decode UTF-8 text; None if an editor might write it back as different bytes."""
    if detect_encoding(data) != UTF_8:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_protocol_check: type[Files] = EditorFiles
