"""A call of the model on its way: placed in a row, made ready, or refused."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from joey.core.messages import ToolCall
from joey.core.permissions.policy import Beyond
from joey.core.task import Answer
from joey.errors import ToolError
from joey.ports import ToolContext
from joey.tools.base import Prepared, Tool

AnyTool = Tool[Any, Any]


class PlacedCall(Struct, frozen=True):
    call: ToolCall
    row_ts: int


class Ready(Struct, frozen=True):
    """A call that may run."""

    tool: AnyTool
    prepared: Prepared
    context: ToolContext
    answer: Answer | None
    """The person's, when one was asked."""
    rule: str | None = None
    """What allowed it, when nobody was asked."""


class Rejected(Struct, frozen=True):
    """The person said no, or nobody was there to say yes."""

    answer: Answer
    beyond: tuple[Beyond, ...] = ()
    """The settings that would allow it, where it lies beyond the boundary of the run."""


class RepeatedError(ToolError):
    """The same call again and again; carries the person's advice."""

    def __init__(self, message: str, images: tuple[str, ...]) -> None:
        super().__init__(message)
        self.images = images
