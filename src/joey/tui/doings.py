"""What a task is at, in a word or two for the status line."""

from __future__ import annotations

from joey.core.events import (
    Countdown,
    Event,
    RequestStarted,
    RowOpened,
    TaskPaused,
    TaskStarted,
    ToolAnnounced,
    ToolFinished,
)
from joey.presentation.phrases import COMMAND_TOOL, waiting
from joey.presentation.text import one_line

RUNNING = "running the command"


def doing_of(event: Event) -> str | None:
    """None when the event changes nothing about it."""
    match event:
        case TaskStarted() | ToolFinished():
            return "working"
        case RequestStarted():
            return "thinking"
        case RowOpened(say="reasoning"):
            return "thinking"
        case RowOpened(tool=str(tool)):
            return f"preparing {one_line(tool, 30)}"
        case RowOpened():
            return "writing"
        case ToolAnnounced(tool=tool):
            return RUNNING if tool == COMMAND_TOOL else one_line(tool, 30)
        case Countdown():
            return waiting(event)
        case TaskPaused():
            return "waiting for subtasks"
        case _:
            return None
