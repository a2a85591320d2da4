"""Results of a server as the model gets them: text, and pictures."""

from __future__ import annotations

from collections.abc import Iterable

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

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


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
    blobs = [part for part in result.contents if isinstance(part, BlobResourceContents)]
    images = tuple(
        _data_uri(blob.mime_type, blob.blob) for blob in blobs if blob.mime_type in _PICTURES
    )
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
        case ImageContent(mime_type=kind) if kind not in _PICTURES:
            return f"[an image of type {kind}, which cannot be passed on]"
    return ""


def _pictures(content: Iterable[ContentBlock]) -> Iterable[str]:
    for block in content:
        match block:
            case ImageContent(mime_type=kind, data=data) if kind in _PICTURES:
                yield _data_uri(kind, data)


def _data_uri(kind: str | None, data: str) -> str:
    return f"data:{kind};base64,{data}"


def _json(model: BaseModel, left_out: set[str]) -> bytes:
    text = model.model_dump_json(by_alias=True, exclude_none=True, exclude=left_out)
    return text.encode()


def _pretty(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()
