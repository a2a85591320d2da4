"""What comes of a subtask, for the task that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.events import TokenUsage
from joey.core.prompts import replies
from joey.engine.endings import Completed, Failed
from joey.errors import JoeyError, ToolError

if TYPE_CHECKING:
    from joey.engine.task import Task


class Returned(Struct, frozen=True):
    usage: TokenUsage = TokenUsage()
    result: str | None = None
    error: ToolError | None = None


def returned_by(member: Task | ToolError) -> Returned:
    if isinstance(member, ToolError):
        return Returned(error=member)
    usage = member.total_usage
    if member.recorder.facts.accepted:
        return Returned(usage, member.result or "")
    match member.error or member.ending:
        case Completed(result):
            return Returned(usage, result)
        case Failed(_, message):
            text = replies.subtask_failed(member.id, message)
        case JoeyError() as error:
            text = replies.subtask_failed(member.id, str(error))
        case _:
            text = replies.subtask_stopped(member.id)
    return Returned(usage, error=ToolError(text))
