"""Roo's API messages as ours, in the same order and meaning.

Roo marks messages as hidden (condensed or truncated away) instead of removing them, and so do we:
they come back when what hides them is rewound away. Calls and results are mended when they are
shown (see `core.history.mending`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType, structs

from joey.core.messages import (
    Block,
    ImageBlock,
    ImageSource,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
)
from joey.stores.roo_files import whole_number

_log = logging.getLogger(__name__)
_TAGS = frozenset(
    {"isSummary", "condenseParent", "isTruncationMarker", "truncationParent", "shownLength"}
)
_FOREIGN: dict[str, frozenset[type]] = {
    "user": frozenset({ThinkingBlock, RedactedThinkingBlock, ReasoningBlock}),
    "assistant": frozenset({ImageBlock}),
}
"""Only people send pictures, and only models think."""


def convert_messages(rows: list[Any], deleted: range = range(0)) -> list[Message]:
    """All that was said, hidden or not.

    `deleted` are the places of messages that Cline has taken out of sight for good.
    """
    kept = [row for place, row in enumerate(rows) if place not in deleted] if deleted else rows
    found = [row for row in kept if isinstance(row, dict)]
    if len(found) < len(kept):
        _log.warning("%s entries of the history are no messages", len(kept) - len(found))
    return _hidden_by_later([message for message in map(_message, found) if message is not None])


def _hidden_by_later(messages: list[Message]) -> list[Message]:
    """What hides a message always comes after it; anything else that a tag names hides nothing.

    So the end of a history is always visible, whatever the file says.
    """
    if not any(message.condense_parent or message.truncation_parent for message in messages):
        return messages
    later: set[str] = set()
    for place in reversed(range(len(messages))):
        message = messages[place]
        parents = (message.condense_parent, message.truncation_parent)
        if any(isinstance(parent, str) and parent not in later for parent in parents):
            condensed, truncated = (p if p in later else UNSET for p in parents)
            messages[place] = structs.replace(
                message, condense_parent=condensed, truncation_parent=truncated
            )
        later.update(n for n in (message.condense_id, message.truncation_id) if n)
    return messages


def _message(row: dict[str, Any]) -> Message | None:
    role, content = row.get("role"), row.get("content")
    if role not in ("user", "assistant"):
        _log.warning("a message with the role %r was left out", role)
        return None
    if not isinstance(content, str):
        blocks = content if isinstance(content, list) else []
        content = tuple(filter(None, map(_block, blocks)))
        if not _FOREIGN[role].isdisjoint(map(type, content)):
            content = tuple(_fitting(role, content))
    if not content or (isinstance(content, str) and not content.strip()):
        return None
    details, plain = row.get("reasoning_details"), row.get("reasoning_content")
    identity, ts = row.get("id"), whole_number(row.get("ts"))
    message = Message(
        role=role,
        content=content,
        ts=UNSET if ts is None else ts,
        id=identity if isinstance(identity, str) else UNSET,
        reasoning_details=tuple(details) if isinstance(details, list) and details else UNSET,
        reasoning_content=plain if isinstance(plain, str) and plain else UNSET,
    )
    return message if _TAGS.isdisjoint(row) else _tagged(message, row)


def _tagged(message: Message, row: dict[str, Any]) -> Message:
    """The message with what it hides, and what it is hidden by."""
    return structs.replace(
        message,
        is_summary=bool(row.get("isSummary")),
        condense_id=_name(row, "condenseId") if row.get("isSummary") else UNSET,
        condense_parent=_name(row, "condenseParent"),
        is_truncation_marker=bool(row.get("isTruncationMarker")),
        truncation_id=_name(row, "truncationId") if row.get("isTruncationMarker") else UNSET,
        truncation_parent=_name(row, "truncationParent"),
        shown_length=whole_number(row.get("shownLength")) or UNSET,
    )


def _name(row: dict[str, Any], key: str) -> str | UnsetType:
    value = row.get(key)
    return value if isinstance(value, str) and value else UNSET


def _fitting(role: str, blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if type(block) not in _FOREIGN[role]:
            yield block
        elif role == "assistant":
            yield TextBlock("[image]")
        else:
            _log.warning("a thought among the words of a person was left out")


def _block(raw: Any) -> Block | None:
    if not isinstance(raw, dict):
        return _text({"text": raw})
    kind = raw.get("type")
    if isinstance(kind, str) and (made := _KINDS.get(kind)) is not None:
        return made(raw)
    if (block := _text(raw)) is None and not isinstance(raw.get("text"), str):
        _log.warning("a block of the kind %r was left out", kind)
    return block


def _text(raw: dict[str, Any]) -> TextBlock | None:
    text = raw.get("text")
    return TextBlock(text) if isinstance(text, str) and text.strip() else None


def _thinking(raw: dict[str, Any]) -> Block | None:
    text, signature = raw.get("thinking"), raw.get("signature")
    if not isinstance(text, str):
        return _text(raw)
    if isinstance(signature, str) and signature:
        return ThinkingBlock(thinking=text, signature=signature)
    return ReasoningBlock(text=text)


def _redacted(raw: dict[str, Any]) -> Block | None:
    data = raw.get("data")
    return RedactedThinkingBlock(data) if isinstance(data, str) else _text(raw)


def _tool_use(raw: dict[str, Any]) -> Block | None:
    name, given = raw.get("name"), raw.get("input")
    if not isinstance(name, str):
        return _text(raw)
    arguments = given if isinstance(given, dict) else {}
    return ToolUseBlock(id=str(raw.get("id") or ""), name=name, input=arguments)


def _tool_result(raw: dict[str, Any]) -> Block:
    return ToolResultBlock(
        tool_use_id=str(raw.get("tool_use_id") or ""),
        content=_result_content(raw.get("content")),
        is_error=raw.get("is_error") is True,
    )


def _image(raw: dict[str, Any]) -> ImageBlock | TextBlock | None:
    match raw.get("source"):
        case {"media_type": str(media_type), "data": str(data)}:
            return ImageBlock(ImageSource(media_type=media_type, data=data))
        case {"url": str(url)}:
            return TextBlock(f"[image: {url}]")
    _log.warning("an image without data was left out")
    return None


def _reasoning(raw: dict[str, Any]) -> ReasoningBlock:
    text, summary = raw.get("text"), raw.get("summary")
    encrypted, identity = raw.get("encrypted_content"), raw.get("id")
    return ReasoningBlock(
        text=text if isinstance(text, str) else "",
        summary=tuple(summary) if isinstance(summary, list) else (),
        encrypted_content=encrypted if isinstance(encrypted, str) else None,
        id=identity if isinstance(identity, str) else None,
    )


def _result_content(raw: Any) -> str | list[TextBlock | ImageBlock]:
    if isinstance(raw, str):
        return raw
    blocks = map(_block, raw) if isinstance(raw, list) else ()
    return [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]


def texts(messages: Iterable[Message], role: str) -> Iterator[str]:
    """Every text that one side said, in order."""
    for message in messages:
        if message.role == role:
            for block in blocks_of(message):
                if isinstance(block, TextBlock):
                    yield block.text


_KINDS: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "text": _text,
    "image": _image,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "reasoning": _reasoning,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    # Means something to the model that signed it and to nobody else.
    "thoughtSignature": lambda raw: None,
}
