"""Errors and endings of a task in the terms of the protocol: request errors, stop reasons."""

from __future__ import annotations

from acp.exceptions import RequestError
from acp.schema import StopReason
from pydantic import ValidationError

from joey.core.events import TaskAborted, TaskFailed, TaskFinished
from joey.errors import (
    ConfigError,
    FailureCode,
    ProviderFailureKind,
    TaskNotFoundError,
    UserError,
    WorkspaceError,
    decode_provider_failure,
)
from joey.presentation.phrases import describe_failure
from joey.presentation.text import sanitize, to_one_line

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
AUTH_REQUIRED = -32000
MAX_REPORTED_PROBLEMS = 10


def to_request_error(
    error: ValidationError | UserError, *, needs_key: bool = False
) -> RequestError:
    """Map an error to a request error; `needs_key`: none is found, so the user must set up joey
    first."""
    match error:
        case ValidationError():
            # Without the rejected value: it may be long or secret.
            found = error.errors(include_input=False, include_url=False, include_context=False)
            problems = [
                f"{'.'.join(map(str, each['loc'])) or 'params'}: {to_one_line(each['msg'], 200)}"
                for each in found[:MAX_REPORTED_PROBLEMS]
            ]
            return RequestError(INVALID_PARAMS, "; ".join(problems), {"errors": problems})
        case TaskNotFoundError():
            return RequestError(RESOURCE_NOT_FOUND, str(error))
        case WorkspaceError():
            return RequestError(INVALID_PARAMS, f"cwd: {error}")
        case ConfigError() if needs_key:
            return RequestError(AUTH_REQUIRED, str(error))
        case _:
            return RequestError(INTERNAL_ERROR, str(error))


_STOP_REASON_BY_FAILURE_CODE: dict[str, StopReason] = {
    FailureCode.TURN_LIMIT: "max_turn_requests",
    FailureCode.CALL_LIMIT: "max_turn_requests",
    FailureCode.TOKEN_LIMIT: "max_tokens",
    FailureCode.COST_LIMIT: "max_turn_requests",
    FailureCode.TIME_LIMIT: "max_turn_requests",
    FailureCode.REPEATED_FAILURES: "end_turn",
    FailureCode.RESUME_DECLINED: "end_turn",
    FailureCode.INVALID_RESULT: "end_turn",
}


def resolve_stop_reason(
    event: TaskFinished | TaskAborted | TaskFailed,
) -> StopReason | RequestError:
    """Map an outcome to a stop reason. An outcome without one is an error of the service or of
    joey."""
    match event:
        case TaskFinished():
            return "end_turn"
        case TaskAborted():
            return "cancelled"
        case TaskFailed(code=code) if code in _STOP_REASON_BY_FAILURE_CODE:
            return _STOP_REASON_BY_FAILURE_CODE[code]
        case TaskFailed(code=code, message=message):
            needs_key = decode_provider_failure(code) is ProviderFailureKind.AUTH
            number = AUTH_REQUIRED if needs_key else INTERNAL_ERROR
            text = f"{describe_failure(code)}: {sanitize(message)}"
            return RequestError(number, text, {"code": code})
