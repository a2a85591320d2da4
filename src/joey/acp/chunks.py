"""Words of the person, as updates."""

from __future__ import annotations

from collections.abc import Iterator

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ImageContentBlock,
    SessionInfoUpdate,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from joey.presentation.text import sanitise

Update = (
    AgentMessageChunk
    | AgentPlanUpdate
    | AgentThoughtChunk
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | CurrentModeUpdate
    | SessionInfoUpdate
    | ToolCallProgress
    | ToolCallStart
    | UsageUpdate
    | UserMessageChunk
)


def user_chunks(ts: int, text: str, images: tuple[str, ...] = ()) -> Iterator[Update]:
    """`images` are data URIs."""
    if text:
        block = TextContentBlock(type="text", text=sanitise(text))
        yield UserMessageChunk(
            session_update="user_message_chunk", content=block, message_id=str(ts)
        )
    for uri in images:
        head, _, data = uri.partition(",")
        media = head.removeprefix("data:").partition(";")[0]
        picture = ImageContentBlock(type="image", mime_type=media, data=data)
        yield UserMessageChunk(
            session_update="user_message_chunk", content=picture, message_id=str(ts)
        )
