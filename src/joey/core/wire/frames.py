"""Frames of the WebSocket API: JSON text to checked values and back.

There are three kinds: a client's *command*, the server's *response* to it, and *events*. For any
input `parse_frame` returns a value: a command with checked arguments, the token of an `auth` frame,
or the error to send to the client. It never raises for input from the network.

`seq` of an event says how far its reader has got: everything up to and including that record of the
task's journal has been sent. Of the frames of one record, only the last has its number, and the
others have the number before it. So a reader that is disconnected between them and asks for
everything after the last `seq` it saw misses none.

`record` and `part` identify an event within its task, and increase from one event to the next. An
event has the same ones each time it is sent, so a reader that asks for everything after them gets
none twice. The parts of transient events continue the count of the record before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from joey.core.text import split_validation_error
from joey.core.wire.commands import COMMANDS, CommandSpec, TaskNeed

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 1024 * 1024
MAX_NESTING_DEPTH = 64
MAX_ID_CHARS = 256


class ErrorCode(StrEnum):
    SERVER_ERROR = "SERVER_ERROR"
    INVALID_COMMAND = "INVALID_COMMAND"
    INVALID_PARAMETER = "INVALID_PARAMETER"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    API_NOT_READY = "API_NOT_READY"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    PERMISSION_DENIED = "PERMISSION_DENIED"


# Frames ---------------------------------------------------------------------------------------


class ErrorInfo(Struct, frozen=True):
    code: ErrorCode
    message: str


class ResponseFrame(
    Struct, frozen=True, rename="camel", omit_defaults=True, tag="response", kw_only=True
):
    status: Literal["success", "error"]
    request_id: str
    command_name: str
    data: Any = None
    error: ErrorInfo | None = None


class EventFrame(
    Struct, frozen=True, rename="camel", omit_defaults=True, tag="event", kw_only=True
):
    event_name: str
    task_id: str | None = None
    payload: Any
    seq: int
    record: int | UnsetType = UNSET
    """With `part`, its identity; not given to events that are of no journal."""
    part: int | UnsetType = UNSET


TaskId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
"""With `UnsetType` where it may be left out: `null` is refused like an empty id."""


class CommandFrame(
    Struct, frozen=True, rename="camel", omit_defaults=True, tag="command", kw_only=True
):
    command_name: str
    request_id: str
    task_id: TaskId | UnsetType = UNSET
    arguments: dict[str, Any] | None = None


class TaskArgument(Struct, frozen=True, rename="camel"):
    """A task id given among the arguments instead of in the frame."""

    task_id: TaskId | UnsetType = UNSET


class AuthFrame(Struct, frozen=True, tag="auth"):
    token: str


# Parsed frames of a client --------------------------------------------------------


class ParsedCommand(Struct, frozen=True):
    spec: CommandSpec
    request_id: str
    task_id: str | None
    """Without `task_`, from the frame or its arguments; None means the current task."""
    arguments: Any
    """Of the type that `spec.arguments_type` names."""


class WireError(Struct, frozen=True):
    """The problem of a frame, as reported to the client."""

    code: ErrorCode
    message: str
    request_id: str = ""
    command_name: str = ""

    @property
    def response(self) -> ResponseFrame:
        return build_failure(self.request_id, self.command_name, self.code, self.message)


def build_success(request_id: str, command_name: str, data: Any) -> ResponseFrame:
    return ResponseFrame(
        status="success", request_id=request_id, command_name=command_name, data=data
    )


def build_failure(
    request_id: str, command_name: str, code: ErrorCode, message: str
) -> ResponseFrame:
    return ResponseFrame(
        status="error",
        request_id=request_id,
        command_name=command_name,
        error=ErrorInfo(code, message),
    )


# Parsing --------------------------------------------------------------------------------------

_ClientFrame = CommandFrame | AuthFrame
_ECHOED_KEYS = ("requestId", "commandName")
_DEPTH_PROBLEM = f"The frame is nested deeper than {MAX_NESTING_DEPTH} levels."


def parse_frame(data: str | bytes) -> ParsedCommand | AuthFrame | WireError:
    """Parse a client's frame, or return its problem."""
    if len(data) > MAX_FRAME_BYTES:
        return WireError(
            ErrorCode.INVALID_PARAMETER, f"A frame holds {MAX_FRAME_BYTES} bytes at most."
        )
    try:
        value = decode_json(data, verbatim=_ECHOED_KEYS)
    except RecursionError:
        return WireError(ErrorCode.INVALID_PARAMETER, _DEPTH_PROBLEM)
    except (msgspec.DecodeError, UnicodeError) as error:
        return WireError(ErrorCode.INVALID_COMMAND, f"The frame is not JSON: {error}.")
    if not isinstance(value, dict):
        return WireError(ErrorCode.INVALID_COMMAND, "A frame is a JSON object with a `type`.")
    echoed = (value.get(key) for key in _ECHOED_KEYS)
    request_id, name = (text if isinstance(text, str) else "" for text in echoed)
    if _is_deeper_than(value, MAX_NESTING_DEPTH):
        return WireError(ErrorCode.INVALID_PARAMETER, _DEPTH_PROBLEM, request_id, name)
    if value.get("type") not in ("command", "auth"):
        return WireError(
            ErrorCode.INVALID_COMMAND,
            "Clients send frames whose `type` is `command` or `auth`.",
            request_id,
            name,
        )
    return _parse_client_frame(value, request_id, name)


def decode_json(data: str | bytes, *, verbatim: Collection[str] = ()) -> Any:
    """Decode JSON in which lone surrogates, as JavaScript escapes them, become question marks,
    except in the fields that `verbatim` names. Raises msgspec.DecodeError, UnicodeError,
    RecursionError."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        try:
            original = json.loads(data)
        except ValueError:
            raise error from None
    text = json.dumps(original, ensure_ascii=False)
    value = msgspec.json.decode(text.encode(errors="replace"))
    if isinstance(value, dict):
        value |= {name: original[name] for name in verbatim if name in value}
    return value


def _parse_client_frame(
    value: dict[str, Any], request_id: str, name: str
) -> ParsedCommand | AuthFrame | WireError:
    try:
        frame = msgspec.convert(value, _ClientFrame)
    except msgspec.ValidationError as error:
        return WireError(
            ErrorCode.INVALID_PARAMETER, _format_validation_error(error), request_id, name
        )
    if isinstance(frame, AuthFrame):
        return frame
    kind = COMMANDS.get(name)
    if kind is None:
        return WireError(
            ErrorCode.INVALID_COMMAND, f"There is no command '{name[:100]}'.", request_id, name
        )
    return _parse_command(frame, kind)


def _parse_command(frame: CommandFrame, kind: CommandSpec) -> ParsedCommand | WireError:
    given = frame.arguments or {}
    named = [frame.task_id]
    try:
        if kind.task_need is not TaskNeed.NONE:
            named.append(msgspec.convert(given, TaskArgument).task_id)
        arguments = msgspec.convert(given, kind.arguments_type)
    except msgspec.ValidationError as error:
        return _build_parameter_error(frame, _format_validation_error(error, "arguments."))
    ids = {each.removeprefix("task_") for each in named if each is not UNSET}
    if "" in ids:
        return _build_parameter_error(
            frame, "`taskId` is only a prefix: an id must follow `task_`."
        )
    if len(ids) > 1:
        return _build_parameter_error(
            frame, "`taskId` and `arguments.taskId` name different tasks."
        )
    if kind.task_need is TaskNeed.NAMED and not ids:
        return _build_parameter_error(frame, "`taskId` is missing: this command is about one task.")
    task_id = next(iter(ids), None) if kind.task_need is not TaskNeed.NONE else None
    return ParsedCommand(kind, frame.request_id, task_id, arguments)


def _build_parameter_error(frame: CommandFrame, message: str) -> WireError:
    return WireError(ErrorCode.INVALID_PARAMETER, message, frame.request_id, frame.command_name)


def _format_validation_error(error: msgspec.ValidationError, within: str = "") -> str:
    """Format msgspec's error with the place first: `arguments.text`: Expected `str`, got `int`."""
    path, problem = split_validation_error(error)
    if missing := re.search(r"missing required field `(.+?)`", problem):
        return f"`{within}{path}{'.' if path else ''}{missing[1]}` is missing."
    return f"`{within}{path}`: {problem}."


def _is_deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


# Writing --------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder()


def encode_frame(frame: ResponseFrame | EventFrame) -> bytes:
    try:
        return _encoder.encode(frame)
    except UnicodeEncodeError:  # echoes a lone surrogate, which must be escaped
        return json.dumps(msgspec.to_builtins(frame)).encode()
