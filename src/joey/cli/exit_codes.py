"""Exit codes of `joey`: one table for outcomes of tasks and for errors."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from joey.errors import (
    ConfigError,
    FailureCode,
    ProviderError,
    ProviderFailureKind,
    UserError,
    WorkspaceError,
    decode_provider_failure,
)

if TYPE_CHECKING:
    from joey.engine.outcomes import Ending


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NEEDS_USER = 3
    """The model gave up, or something had to be refused because nobody was there to allow it."""
    TURN_LIMIT = 53
    """The limit of turns or of tool calls."""
    BUDGET_LIMIT = 55
    """The limit of money, of tokens or of time."""
    TRY_AGAIN = 75
    CONFIGURATION = 78
    HANGUP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


class UsageError(UserError):
    """The command line is invalid."""


_FAILURE_EXIT_CODES: dict[str, ExitCode] = {
    FailureCode.REPEATED_FAILURES: ExitCode.NEEDS_USER,
    FailureCode.RESUME_DECLINED: ExitCode.NEEDS_USER,
    FailureCode.INVALID_RESULT: ExitCode.NEEDS_USER,
    FailureCode.WINDOW_TOO_SMALL: ExitCode.CONFIGURATION,
    FailureCode.TURN_LIMIT: ExitCode.TURN_LIMIT,
    FailureCode.CALL_LIMIT: ExitCode.TURN_LIMIT,
    FailureCode.COST_LIMIT: ExitCode.BUDGET_LIMIT,
    FailureCode.TOKEN_LIMIT: ExitCode.BUDGET_LIMIT,
    FailureCode.TIME_LIMIT: ExitCode.BUDGET_LIMIT,
}
_PROVIDER_FAILURE_EXIT_CODES = {
    ProviderFailureKind.AUTH: ExitCode.CONFIGURATION,
    ProviderFailureKind.NOT_FOUND: ExitCode.CONFIGURATION,
    ProviderFailureKind.TOOLS_REFUSED: ExitCode.CONFIGURATION,
    ProviderFailureKind.OUT_OF_MEMORY: ExitCode.CONFIGURATION,
    ProviderFailureKind.QUOTA: ExitCode.CONFIGURATION,
    ProviderFailureKind.RATE_LIMIT: ExitCode.TRY_AGAIN,
    ProviderFailureKind.OVERLOAD: ExitCode.TRY_AGAIN,
    ProviderFailureKind.NETWORK: ExitCode.TRY_AGAIN,
    ProviderFailureKind.MALFORMED_STREAM: ExitCode.TRY_AGAIN,
    ProviderFailureKind.EMPTY_REPLY: ExitCode.TRY_AGAIN,
}


def outcome_to_exit_code(ending: Ending, *, refused: bool = False) -> ExitCode:
    """Return the exit code of a completed run; `refused`: something would have needed a user."""
    from joey.engine.outcomes import Aborted, Completed, Failed

    match ending:
        case Completed():
            return ExitCode.NEEDS_USER if refused else ExitCode.DONE
        case Aborted():
            return ExitCode.INTERRUPTED
        case Failed(code):
            if (failure := decode_provider_failure(code)) is not None:
                return _PROVIDER_FAILURE_EXIT_CODES.get(failure, ExitCode.FAILED)
            return _FAILURE_EXIT_CODES.get(code, ExitCode.FAILED)


def error_to_exit_code(error: BaseException) -> ExitCode:
    """Return the exit code of a run that failed to start or complete."""
    match error:
        case UsageError() | WorkspaceError():
            return ExitCode.USAGE
        case ConfigError():
            return ExitCode.CONFIGURATION
        case ProviderError(failure=failure):
            return _PROVIDER_FAILURE_EXIT_CODES.get(failure, ExitCode.FAILED)
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case _:
            return ExitCode.FAILED
