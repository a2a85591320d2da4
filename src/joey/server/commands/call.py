"""A command call: its arguments, and the errors a handler may raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from joey.core.wire.frames import ErrorCode
from joey.server.feed import ReplaySource

Arguments = TypeVar("Arguments")
ReplayScheduler = Callable[[str, ReplaySource, int], None]
"""After the response, tell this task from an earlier frame on, named by its index."""


class CommandCall(Struct, Generic[Arguments], frozen=True):
    task_id: str | None
    arguments: Arguments
    schedule_replay: ReplayScheduler | None = None
    """None where the sender gets no events of single tasks."""


AnyCall = CommandCall[Any]


class CommandError(Exception):
    """An error for the client; the command had no effect."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def make_argument_error(argument: str, problem: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_PARAMETER, f"`{argument}`: {problem}")


def make_not_found_error(task_id: str) -> CommandError:
    return CommandError(ErrorCode.TASK_NOT_FOUND, f"Task with ID '{task_id}' not found")


def make_execution_error(message: str) -> CommandError:
    return CommandError(ErrorCode.EXECUTION_ERROR, message)
