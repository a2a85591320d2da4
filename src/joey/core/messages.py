"""Messages of the model API: content blocks, replies, stream chunks.

Messages have the shape of Roo's API history (Anthropic's, plus extras). Every provider yields a
streaming reply as chunks, in the order of its own stream, with `UsageChunk` and `StopChunk` at any
point and any number of times. Failures are raised as `ProviderError`, never yielded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field


class TextBlock(Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageSource(Struct, frozen=True):
    media_type: str
    data: str
    """Base64."""
    type: Literal["base64"] = "base64"


class ImageBlock(Struct, frozen=True, tag_field="type", tag="image"):
    source: ImageSource


class ThinkingBlock(Struct, frozen=True, tag_field="type", tag="thinking"):
    """Anthropic's signed thinking; must be sent back unchanged."""

    thinking: str
    signature: str


class RedactedThinkingBlock(Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    data: str


class UnsignedReasoningBlock(
    Struct, frozen=True, omit_defaults=True, tag_field="type", tag="reasoning"
):
    """Unsigned reasoning, kept for the record; sent back only if a provider expects it."""

    text: str = ""
    summary: tuple[Any, ...] = ()
    encrypted_content: str | None = None
    id: str | None = None


class ToolUseBlock(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]
    extra_content: dict[str, Any] | None = None
    """The service's own data about the call (Gemini's thought signature)."""


class ToolResultBlock(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock] = ""
    is_error: bool = False


UserBlock = TextBlock | ImageBlock
Block = (
    TextBlock
    | ImageBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | UnsignedReasoningBlock
    | ToolUseBlock
    | ToolResultBlock
)


class ReplySource(Struct, frozen=True, omit_defaults=True):
    """The service and the model that made a reply, and data that only they can use."""

    service: str
    """A provider's name; with the host where that is not the provider's own."""
    model: str
    reasoning_field: str | None = None
    """The field in which plain reasoning came, and goes back."""
    extra_content: dict[str, Any] | None = None
    """The service's own data about the reply as a whole."""


class Message(Struct, frozen=True, eq=False, weakref=True, omit_defaults=True):
    """One row of the API history.

    Compared by identity: a message never changes once rendered, so a serializer may cache its bytes
    for as long as the message lives.
    """

    role: Literal["user", "assistant"]
    content: str | tuple[Block, ...]
    ts: int | UnsetType = UNSET
    id: str | UnsetType = UNSET
    """The provider's id of the response (assistant messages)."""
    reasoning_details: tuple[Any, ...] | UnsetType = UNSET
    """OpenRouter's reasoning items, sent back as they came."""
    reasoning_content: str | UnsetType = UNSET
    """Reasoning that DeepSeek and Z.ai want back next to their tool calls."""
    source: ReplySource | UnsetType = UNSET
    """Of a reply: who made it. Unknown for replies that were recorded without it."""
    is_summary: bool = field(default=False, name="isSummary")
    condense_id: str | UnsetType = field(default=UNSET, name="condenseId")
    condense_parent: str | UnsetType = field(default=UNSET, name="condenseParent")
    """The summary that hides the message."""
    is_truncation_marker: bool = field(default=False, name="isTruncationMarker")
    truncation_id: str | UnsetType = field(default=UNSET, name="truncationId")
    truncation_parent: str | UnsetType = field(default=UNSET, name="truncationParent")
    """The marker that hides the message."""
    max_text_chars: int | UnsetType = field(default=UNSET, name="shownLength")
    """The model is shown texts of this message cut to so many characters."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one request. `input` counts all prompt tokens, cached ones included."""

    input: int = 0
    output: int = 0
    cache_writes: int = 0
    cache_reads: int = 0
    cost: float | None = None
    """US dollars, where the provider states it or the catalogue knows the price."""


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """A call as the model made it, in either protocol."""

    id: str
    """Unique within the task."""
    name: str
    """The name the model used; aliases are resolved by the registry."""
    input: dict[str, Any] = {}
    """Typed JSON from native calls; strings (or nested dicts) from XML."""
    problem: str | None = None
    """Why the call cannot be executed (malformed or cut off); it gets an error result."""
    repairs: tuple[str, ...] = ()
    """How it differed from what the model should have written (`lenient_json.Repair`)."""
    extra_content: dict[str, Any] | None = None
    """The service's own data about the call, to be sent back as they came."""


class TextPart(Struct, frozen=True, tag="text"):
    text: str


class ReasoningItem(Struct, frozen=True, omit_defaults=True):
    """Reasoning of the Responses API as received; its position among the other items matters."""

    id: str
    encrypted_content: str
    summary: tuple[Any, ...] = ()


class ReasoningPart(Struct, frozen=True, omit_defaults=True, tag="reasoning"):
    text: str
    signature: str | None = None
    redacted: str | None = None
    """Opaque data of a redacted thinking block (then `text` is empty)."""
    details: tuple[Any, ...] = ()
    """The provider's own reasoning items, to be sent back as they came."""
    item: ReasoningItem | None = None


class CallPart(Struct, frozen=True, tag="call"):
    call: ToolCall


Part = TextPart | ReasoningPart | CallPart


class UnusableCall(Struct, frozen=True):
    """Part of a reply's text that was meant as a call, and why it is not one."""

    problem: str
    unknown_tool: str | None = None
    """The name that was called, if there is no such tool."""
    tool: str | None = None
    """The tool that was meant, if there is one."""


class Reply(Struct, frozen=True, omit_defaults=True):
    """One reply of the model, complete or interrupted, in stream order."""

    parts: tuple[Part, ...] = ()
    raw: str | None = None
    """XML protocol: the assistant's text exactly as it came, tags and all."""
    usage: Usage | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    unusable_call: UnusableCall | None = None
    source: ReplySource | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part.call for part in self.parts if isinstance(part, CallPart))

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def is_empty(self) -> bool:
        """Whether it has no content: such a reply is requested again."""
        return not any(isinstance(part, CallPart) or part.text.strip() for part in self.parts)


def get_blocks(message: Message) -> tuple[Block, ...]:
    content = message.content
    return (TextBlock(content),) if isinstance(content, str) else content


def sanitize_tool_name(name: str) -> str:
    """Turn a tool's name into one that every service accepts; the model may have invented it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def build_image_block(data_uri: str) -> ImageBlock:
    """Build the block for an image, given as ``data:image/png;base64,…``."""
    header, _, data = data_uri.partition(",")
    media_type = header.removeprefix("data:").partition(";")[0] or "image/png"
    return ImageBlock(ImageSource(media_type=media_type, data=data))


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks, so that any file or connection can carry the
    text."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def extract_text(blocks: str | tuple[Block, ...] | list[TextBlock | ImageBlock]) -> str:
    """Return the text in a message's content, blocks joined by newlines."""
    if isinstance(blocks, str):
        return blocks
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


class TextChunk(Struct, frozen=True, tag="text"):
    text: str


class ReasoningChunk(Struct, frozen=True, omit_defaults=True, tag="reasoning"):
    text: str = ""
    signature: str | None = None
    """Seals the reasoning so far (Anthropic)."""
    redacted: str | None = None
    details: tuple[Any, ...] = ()
    """Provider items to keep beside the text (OpenRouter's `reasoning_details`)."""
    item: ReasoningItem | None = None
    """Ends the reasoning so far, which is part of this item."""


class CallChunk(Struct, frozen=True, omit_defaults=True, tag="tool_call_partial"):
    """A piece of a call: `arguments` is a delta. Any field may arrive late or never."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    extra_content: dict[str, Any] | None = None


class CallEndChunk(Struct, frozen=True, tag="tool_call_end"):
    """No more arguments follow for this index, says the provider."""

    index: int


class UsageChunk(Struct, frozen=True, tag="usage"):
    """Totals so far; each chunk replaces the one before."""

    usage: Usage


class StopChunk(Struct, frozen=True, omit_defaults=True, tag="stop"):
    reason: str | None = None
    """As the provider words it: `end_turn`, `tool_use`, `max_tokens`, `stop`, `length`…"""
    response_id: str | None = None


class SourceChunk(Struct, frozen=True, tag="source"):
    """The origin of the reply, as far as it is known; each chunk replaces the one before."""

    source: ReplySource


Chunk = TextChunk | ReasoningChunk | CallChunk | CallEndChunk | UsageChunk | StopChunk | SourceChunk


def merge_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Merge adjacent pieces of the same text or call that arrived together.

    If there is an error, the chunks before it come first.
    """
    last: object = None
    pieces: list[str] = []
    try:
        for chunk in chunks:
            this, piece = _get_merge_key_and_text(chunk)
            if pieces and this != last:
                yield _build_merged_chunk(last, pieces)
                pieces = []
            if this is None:
                yield chunk
            else:
                pieces.append(piece)
            last = this
    except Exception:
        if pieces:
            yield _build_merged_chunk(last, pieces)
        raise
    if pieces:
        yield _build_merged_chunk(last, pieces)


def _get_merge_key_and_text(chunk: Chunk) -> tuple[object, str]:
    """Return what a chunk is a piece of, and the piece; None if it is not only a piece."""
    match chunk:
        case CallChunk(index, None, None, str(arguments), None) if arguments:
            return index, arguments
        case TextChunk(text):
            return TextChunk, text
        case ReasoningChunk(text, None, None, (), None):
            return ReasoningChunk, text
        case _:
            return None, ""


def _build_merged_chunk(merge_key: object, pieces: list[str]) -> Chunk:
    text = "".join(pieces)
    if isinstance(merge_key, int):
        return CallChunk(merge_key, arguments=text)
    return TextChunk(text) if merge_key is TextChunk else ReasoningChunk(text)


_IMAGE_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def detect_image_type(data: bytes) -> str | None:
    """Detect the media type of an image that models accept, by its first 12 bytes; None for others.
    A file that only has the name of an image would make every later request of the task fail."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGE_SIGNATURES.items() if data.startswith(start)), None)
