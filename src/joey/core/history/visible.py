"""The visible part of a history in which summaries and markers hide messages.

Hidden messages keep their place in the history and name the summary or marker that hides them. If
that is gone because it was rewound away, they are visible again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, structs

from joey.core.messages import Block, Message, TextBlock, ToolResultBlock, blocks_of

_TRUNCATION_NOTE = "\n[... {left_out} characters left out to fit the model's context window ...]\n"


def effective(messages: Sequence[Message]) -> list[Message]:
    """The messages that a request carries, neighbours from one side joined."""
    shown: list[Message] = []
    for place in visible_places(messages):
        show(shown, messages[place])
    return shown


def visible_places(messages: Sequence[Message]) -> list[int]:
    """Where the messages stand that no summary and no marker hides."""
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


def show(shown: list[Message], message: Message) -> None:
    """Add a visible message to those before it."""
    if isinstance(message.shown_length, int):
        message = shortened(message, message.shown_length)
    if shown and shown[-1].role == message.role:
        shown[-1] = joined(shown[-1], message)
    else:
        shown.append(message)


def shortened(message: Message, longest: int) -> Message:
    """The message with its long texts cut in their middle; itself when none is long."""
    content = message.content
    if isinstance(content, str):
        cut: str | tuple[Block, ...] = cut_text(content, longest)
    else:
        cut = tuple(_shorter(block, longest) for block in content)
        if all(new is old for new, old in zip(cut, content, strict=True)):
            return message
    return message if cut == content else structs.replace(message, content=cut)


def _shorter(block: Block, longest: int) -> Block:
    match block:
        case TextBlock(text=text) if len(text) > longest:
            return TextBlock(cut_text(text, longest))
        case ToolResultBlock(content=str(text)) if len(text) > longest:
            return structs.replace(block, content=cut_text(text, longest))
        case _:
            return block


def cut_text(text: str, longest: int) -> str:
    """The beginning and the end of a text that is longer than that."""
    left_out = len(text) - longest
    if left_out <= 0:
        return text
    head = longest // 2
    return (
        text[:head]
        + _TRUNCATION_NOTE.format(left_out=left_out)
        + text[len(text) - (longest - head) :]
    )


def joined(first: Message, second: Message) -> Message:
    details = (*(first.reasoning_details or ()), *(second.reasoning_details or ()))
    return structs.replace(
        first,
        content=(*blocks_of(first), *blocks_of(second)),
        ts=second.ts or first.ts,
        id=first.id or second.id,
        reasoning_details=details or UNSET,
        reasoning_content=first.reasoning_content or second.reasoning_content,
    )
