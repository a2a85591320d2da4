"""Why a turn ended, in the words of the protocol."""

from __future__ import annotations

from acp.exceptions import RequestError
from acp.schema import StopReason

from joey.core.events import TaskAborted, TaskFailed, TaskFinished
from joey.presentation.phrases import outcome
from joey.presentation.text import sanitise

AUTH_REQUIRED = -32000
INTERNAL = -32603

_LIMITS: dict[str, StopReason] = {
    "turns": "max_turn_requests",
    "calls": "max_turn_requests",
    "tokens": "max_tokens",
    "budget": "max_turn_requests",
    "time": "max_turn_requests",
    "mistakes": "end_turn",
    "declined": "end_turn",
    "schema": "end_turn",
}


def stop_of(event: TaskFinished | TaskAborted | TaskFailed) -> StopReason | RequestError:
    """What has no word is an error: the service failed, or joey did."""
    match event:
        case TaskFinished():
            return "end_turn"
        case TaskAborted():
            return "cancelled"
        case TaskFailed(code=code) if code in _LIMITS:
            return _LIMITS[code]
        case TaskFailed(code=code, message=message):
            number = AUTH_REQUIRED if code == "provider:auth" else INTERNAL
            text = f"{outcome(code)}: {sanitise(message)}"
            return RequestError(number, text, {"code": code})
