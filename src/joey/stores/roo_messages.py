"""Roo's API messages as ours: what the model was shown, in the same order and meaning.

Roo marks messages as hidden (condensed or truncated away) instead of removing them, and mends
calls and results only when it sends them. Here both are done once, so that the history that is
adopted can be sent as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import UNSET, structs

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


def convert_messages(rows: list[Any], deleted: range = range(0)) -> list[Message]:
    """The messages that the model would see, neighbours of the same role joined into one.

    `deleted` are the places of messages that Cline has taken out of sight.
    """
    if deleted:
        rows = [row for place, row in enumerate(rows) if place not in deleted]
    joined: list[Message] = []
    for message in filter(None, map(_message, _visible(rows))):
        if joined and joined[-1].role == message.role:
            joined[-1] = _join(joined[-1], message)
        else:
            joined.append(message)
    return joined


def _visible(rows: list[Any]) -> Iterator[dict[str, Any]]:
    """The rows that no summary and no truncation marker hides."""
    messages = [row for row in rows if isinstance(row, dict)]
    if len(messages) < len(rows):
        _log.warning("%s entries of the history are no messages", len(rows) - len(messages))
    hiding = {
        name
        for flag, key in (("isSummary", "condenseId"), ("isTruncationMarker", "truncationId"))
        for row in messages
        if flag in row and row[flag] and isinstance(name := row.get(key), str)
    }
    if not hiding:
        yield from messages
        return
    for row in messages:
        parents = (row.get("condenseParent"), row.get("truncationParent"))
        if not any(isinstance(parent, str) and parent in hiding for parent in parents):
            yield row


def _message(row: dict[str, Any]) -> Message | None:
    role, content = row.get("role"), row.get("content")
    if role not in ("user", "assistant"):
        _log.warning("a message with the role %r was left out", role)
        return None
    if not isinstance(content, str):
        blocks = content if isinstance(content, list) else []
        content = tuple(filter(None, map(_block, blocks)))
    if not content or (isinstance(content, str) and not content.strip()):
        return None
    details, plain = row.get("reasoning_details"), row.get("reasoning_content")
    identity, ts = row.get("id"), whole_number(row.get("ts"))
    return Message(
        role=role,
        content=content,
        ts=UNSET if ts is None else ts,
        id=identity if isinstance(identity, str) else UNSET,
        reasoning_details=tuple(details) if isinstance(details, list) and details else UNSET,
        reasoning_content=plain if isinstance(plain, str) and plain else UNSET,
    )


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


def _join(first: Message, second: Message) -> Message:
    stamps = [stamp for stamp in (first.ts, second.ts) if isinstance(stamp, int)]
    return structs.replace(
        first,
        content=(*blocks_of(first), *blocks_of(second)),
        ts=max(stamps) if stamps else UNSET,
        id=first.id or second.id,
        reasoning_details=(*(first.reasoning_details or ()), *(second.reasoning_details or ()))
        or UNSET,
        reasoning_content=first.reasoning_content or second.reasoning_content,
    )


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
