"""Roo's IPC protocol as bytes and values, without a socket.

A frame is one JSON object followed by a form feed, which JSON never contains unescaped. The object
is node-ipc's envelope around a message of Roo's: an `Ack` to a new client, a `TaskCommand` from a
client, or a `TaskEvent` to all of them. Clients validate what they get against closed schemas, so
an event that Roo does not know is not sent at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from joey.core.wire.frames import TaskId

FORM_FEED = b"\x0c"
MAX_FRAME_BYTES = 32 * 1024 * 1024
"""Images travel in frames."""


class FrameTooLargeError(Exception):
    """More data arrived than a frame may have."""


class IpcFrameParser:
    """Bytes in, frames out, for any split of the bytes."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the completed frames. Raises FrameTooLargeError."""
        *ends, rest = data.split(FORM_FEED)
        frames = []
        for end in ends:
            self._append_bytes(end)
            frames.append(bytes(self._buffer))
            self._buffer.clear()
        self._append_bytes(rest)
        return frames

    def _append_bytes(self, piece: bytes) -> None:
        self._buffer += piece
        if len(self._buffer) > self._max_bytes:
            raise FrameTooLargeError(f"a frame is larger than {self._max_bytes} bytes")


# Messages of clients -----------------------------------------------------------------------------


class _IpcCommand(Struct, frozen=True, tag_field="commandName"):
    pass


class NewTaskData(Struct, frozen=True, rename="camel"):
    text: str = ""
    configuration: dict[str, Any] = {}
    images: tuple[str, ...] = ()
    new_tab: bool = False


class MessageData(Struct, frozen=True):
    text: str = ""
    images: tuple[str, ...] = ()


class StartNewTask(_IpcCommand, frozen=True, tag="StartNewTask"):
    data: NewTaskData


class CancelTask(_IpcCommand, frozen=True, tag="CancelTask"):
    data: TaskId | UnsetType = UNSET
    """The task, as clients of January say it; April's mean the current one."""


class CloseTask(_IpcCommand, frozen=True, tag="CloseTask"):
    data: TaskId | UnsetType = UNSET


class ResumeTask(_IpcCommand, frozen=True, tag="ResumeTask"):
    data: TaskId


class SendMessage(_IpcCommand, frozen=True, tag="SendMessage"):
    data: MessageData


class GetCommands(_IpcCommand, frozen=True, tag="GetCommands"):
    pass


class GetModes(_IpcCommand, frozen=True, tag="GetModes"):
    pass


class GetModels(_IpcCommand, frozen=True, tag="GetModels"):
    pass


class DeleteQueuedMessage(_IpcCommand, frozen=True, tag="DeleteQueuedMessage"):
    data: str


IpcCommand = (
    StartNewTask
    | CancelTask
    | CloseTask
    | ResumeTask
    | SendMessage
    | GetCommands
    | GetModes
    | GetModels
    | DeleteQueuedMessage
)


class _ClientMessage(Struct, frozen=True, rename="camel"):
    type: Literal["TaskCommand"]
    origin: Literal["client"]
    client_id: str
    data: IpcCommand


class _Envelope(Struct, frozen=True):
    type: Literal["message"]
    data: _ClientMessage


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def decode_command(frame: bytes) -> IpcCommand:
    """Decode a command. Raises ValueError with the reason if it is invalid."""
    try:
        return _decode_envelope(frame).data.data
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


# Messages to clients
# ----------------------------------------------------------------------------------


def encode_ack(client_id: str, pid: int, ppid: int) -> bytes:
    """Encode the first frame for a client."""
    data = {"clientId": client_id, "pid": pid, "ppid": ppid}
    return _encode_envelope({"type": "Ack", "origin": "server", "data": data})


def encode_event(name: str, payload: tuple[Any, ...]) -> bytes:
    data = {"eventName": name, "payload": payload}
    return _encode_envelope({"type": "TaskEvent", "origin": "server", "data": data})


def _encode_envelope(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": "message", "data": message}) + FORM_FEED


_TASK_ID_ONLY_EVENTS = frozenset(
    {
        "taskAborted",
        "taskActive",
        "taskAskResponded",
        "taskCreated",
        "taskIdle",
        "taskInteractive",
        "taskPaused",
        "taskResumable",
        "taskStarted",
        "taskUnpaused",
    }
)
_ZERO_USAGE = {"totalTokensIn": 0, "totalTokensOut": 0, "totalCost": 0, "contextTokens": 0}
"""Numbers that Roo's schema insists on."""
_CUSTOM_TOOL = "custom_tool"
_ROO_TOOL_NAMES = frozenset(
    {
        "access_mcp_resource",
        "apply_diff",
        "apply_patch",
        "ask_followup_question",
        "attempt_completion",
        "codebase_search",
        _CUSTOM_TOOL,
        "edit",
        "edit_file",
        "execute_command",
        "generate_image",
        "list_files",
        "new_task",
        "read_command_output",
        "read_file",
        "run_slash_command",
        "search_and_replace",
        "search_files",
        "search_replace",
        "skill",
        "switch_mode",
        "update_todo_list",
        "use_mcp_tool",
        "write_to_file",
    }
)


def to_roo_events(
    name: str, task_id: str, payload: Mapping[str, Any]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Convert an event of the WebSocket API into Roo's events: names and tuples."""
    match name:
        case "message":
            return [(name, ({"taskId": task_id, **payload},))]
        case "taskCompleted":
            subtask = {"isSubtask": bool(payload.get("isSubtask"))}
            return [(name, (task_id, *_to_roo_usage(payload), subtask))]
        case "taskTokenUsageUpdated":
            return [(name, (task_id, *_to_roo_usage(payload)))]
        case "taskSpawned" | "taskDelegated" | "taskDelegationResumed":
            return [(name, (task_id, payload["childTaskId"]))]
        case "taskDelegationCompleted":
            return [(name, (task_id, payload["childTaskId"], payload["summary"]))]
        case "taskModeSwitched":
            return [(name, (task_id, payload["modeSlug"]))]
        case "queuedMessagesUpdated":
            return [(name, (task_id, payload["queue"]))]
        case "taskToolFailed":
            return [
                (name, (task_id, _to_roo_tool_name(payload["toolName"]), str(payload["error"])))
            ]
        case "taskFailed":
            # Roo has no other event for a run that ended without a result.
            return [("taskAborted", (task_id,))]
        case _ if name in _TASK_ID_ONLY_EVENTS:
            return [(name, (task_id,))]
        case _:
            return []


def _to_roo_usage(payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    tools: dict[str, dict[str, int]] = {}
    for name, tally in payload.get("toolUsage", {}).items():
        sums = tools.setdefault(_to_roo_tool_name(name), {"attempts": 0, "failures": 0})
        for what in sums:
            sums[what] += tally.get(what, 0)
    return _ZERO_USAGE | payload["usage"], tools


def _to_roo_tool_name(name: str) -> str:
    if name.startswith("mcp--"):
        return "use_mcp_tool"
    return name if name in _ROO_TOOL_NAMES else _CUSTOM_TOOL
