"""How a task's tool calls travel: as structured calls, or as XML in the text (decision D8)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from joey.core.messages import Message, ToolUseBlock


class ToolProtocol(StrEnum):
    NATIVE = "native"
    XML = "xml"


def detect_protocol(history: Iterable[Message]) -> ToolProtocol | None:
    """The protocol that a history written by somebody else speaks, or None if it does not say."""
    for message in reversed(list(history)):
        if message.role != "assistant" or isinstance(message.content, str):
            continue
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                return ToolProtocol.NATIVE if block.id else ToolProtocol.XML
    return None


def choose_protocol(
    *, locked: ToolProtocol | None, detected: ToolProtocol | None, model_has_native_tools: bool
) -> ToolProtocol:
    """Locked by the task, else seen in its history, else what the model can do, else native."""
    if locked is not None:
        return locked
    if detected is not None:
        return detected
    return ToolProtocol.NATIVE if model_has_native_tools else ToolProtocol.XML
