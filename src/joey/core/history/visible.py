"""The visible part of a history in which summaries and markers hide messages.

Hidden messages keep their place in the history and name the summary or marker that hides them. If a
rewind has removed that, they are visible again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, structs

from joey.core.messages import Block, Message, TextBlock, ToolResultBlock, get_blocks

_TRUNCATION_NOTE = "\n[... {left_out} characters left out to fit the model's context window ...]\n"


def build_request_messages(messages: Sequence[Message]) -> list[Message]:
    """Build the messages of a request, with adjacent ones of the same side joined."""
    shown: list[Message] = []
    for place in find_visible_indices(messages):
        append_visible(shown, messages[place])
    return shown


def find_visible_indices(messages: Sequence[Message]) -> list[int]:
    """Find the indices of messages that no summary or marker hides."""
    hiding = {
        name
        for message in messages
        for name in (message.condense_id, message.truncation_id)
        if isinstance(name, str)
    }
    return [
        place
        for place, message in enumerate(messages)
        if hiding.isdisjoint((message.condense_parent, message.truncation_parent))
    ]


def append_visible(shown: list[Message], message: Message) -> None:
    """Append a visible message to those before it."""
    if isinstance(message.max_text_chars, int):
        message = truncate_message(message, message.max_text_chars)
    if shown and shown[-1].role == message.role:
        shown[-1] = merge_messages(shown[-1], message)
    else:
        shown.append(message)


def truncate_message(message: Message, max_chars: int) -> Message:
    """Return the message with its long texts cut in the middle; the same object if none is long."""
    content = message.content
    if isinstance(content, str):
        cut: str | tuple[Block, ...] = truncate_middle(content, max_chars)
    else:
        cut = tuple(_truncate_block(block, max_chars) for block in content)
    return message if cut == content else structs.replace(message, content=cut)


def _truncate_block(block: Block, max_chars: int) -> Block:
    match block:
        case TextBlock(text=text) if len(text) > max_chars:
            return TextBlock(truncate_middle(text, max_chars))
        case ToolResultBlock(content=str(text)) if len(text) > max_chars:
            return structs.replace(block, content=truncate_middle(text, max_chars))
        case _:
            return block


def truncate_middle(text: str, max_chars: int) -> str:
    """Return the beginning and the end of a text longer than the limit."""
    left_out = len(text) - max_chars
    if left_out <= 0:
        return text
    head = max_chars // 2
    return (
        text[:head]
        + _TRUNCATION_NOTE.format(left_out=left_out)
        + text[len(text) - (max_chars - head) :]
    )


def merge_messages(first: Message, second: Message) -> Message:
    details = (*(first.reasoning_details or ()), *(second.reasoning_details or ()))
    return structs.replace(
        first,
        content=(*get_blocks(first), *get_blocks(second)),
        ts=second.ts or first.ts,
        id=first.id or second.id,
        reasoning_details=details or UNSET,
        reasoning_content=first.reasoning_content or second.reasoning_content,
        source=first.source if first.source == second.source else UNSET,
    )
