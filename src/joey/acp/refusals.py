"""Errors in the words of the protocol: what was wrong, where, and what to do."""

from __future__ import annotations

from acp.exceptions import RequestError
from pydantic import ValidationError

from joey.acp.stops import AUTH_REQUIRED, INTERNAL
from joey.errors import ConfigError, TaskNotFoundError, UserError, WorkspaceError
from joey.presentation.text import one_line

INVALID_PARAMS = -32602
NOT_FOUND = -32002
MOST_TOLD = 10


def in_words(error: ValidationError | UserError, *, needs_key: bool = False) -> RequestError:
    """`needs_key`: none is found, so that the person has to set joey up first."""
    match error:
        case ValidationError():
            return _of_params(error)
        case TaskNotFoundError():
            return RequestError(NOT_FOUND, str(error))
        case WorkspaceError():
            return RequestError(INVALID_PARAMS, f"cwd: {error}")
        case ConfigError() if needs_key:
            return RequestError(AUTH_REQUIRED, str(error))
        case _:
            return RequestError(INTERNAL, str(error))


def _of_params(error: ValidationError) -> RequestError:
    """Without what was sent: it may be long, and it may be secret."""
    problems = [
        f"{'.'.join(map(str, each['loc'])) or 'params'}: {one_line(each['msg'], 200)}"
        for each in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    return RequestError(
        INVALID_PARAMS, "; ".join(problems[:MOST_TOLD]), {"errors": problems[:MOST_TOLD]}
    )
