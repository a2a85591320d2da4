"""Results of a server as the model gets them: text, and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator

import msgspec
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from joey.core.mcp import McpAnswer

_LONGEST_START = 12
_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n", b""),
    "image/jpeg": (b"\xff\xd8\xff", b""),
    "image/gif": (b"GIF8", b""),
    "image/webp": (b"RIFF", b"WEBP"),
}
"""How pictures begin that models take, and what stands at the eighth byte."""


def answer_of_call(result: CallToolResult) -> McpAnswer:
    images = tuple(_pictures(result.content))
    text = "\n\n".join(filter(None, map(_text, result.content)))
    if not text and not images and result.structured_content is not None:
        text = _pretty(msgspec.json.encode(result.structured_content))
    if not text:
        text = f"[{len(images)} image(s) received]" if images else "(No response)"
    if result.is_error:
        text = f"Error:\n{text}"
    return McpAnswer(text, images, bool(result.is_error))


def answer_of_reading(result: ReadResourceResult) -> McpAnswer:
    texts = [part.text for part in result.contents if isinstance(part, TextResourceContents)]
    blobs = [part.blob for part in result.contents if isinstance(part, BlobResourceContents)]
    images = tuple(filter(None, map(_picture, blobs)))
    text = "\n\n".join(filter(None, texts))
    if not text and images:
        text = f"[{len(images)} image(s) received]"
    return McpAnswer(text or "(Empty response)", images)


def _text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case EmbeddedResource(resource=resource):
            return _pretty(_json(resource, {"blob"}))
        case ResourceLink():
            return _pretty(_json(block, {"icons"}))
        case AudioContent(mime_type=kind):
            return f"[audio of type {kind}, which cannot be passed on]"
        case ImageContent(mime_type=kind, data=data) if _picture(data) is None:
            return f"[an image of type {kind}, which cannot be passed on]"
    return ""


def _pictures(content: Iterable[ContentBlock]) -> Iterator[str]:
    for block in content:
        if isinstance(block, ImageContent) and (picture := _picture(block.data)) is not None:
            yield picture


def _picture(data: str) -> str | None:
    """As a data URI, by what it is and not by what it is said to be.

    One that a model's service does not take would make every later request of the task fail.
    """
    try:
        start = base64.b64decode(data, validate=True)[:_LONGEST_START]
    except (binascii.Error, ValueError):
        return None
    for kind, (first, eighth) in _STARTS.items():
        if start.startswith(first) and start[8:].startswith(eighth):
            return f"data:{kind};base64,{data}"
    return None


def _json(model: BaseModel, left_out: set[str]) -> bytes:
    text = model.model_dump_json(by_alias=True, exclude_none=True, exclude=left_out)
    return text.encode()


def _pretty(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()
