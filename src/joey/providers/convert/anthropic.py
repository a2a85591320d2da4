"""Requests for Anthropic's `/v1/messages`.

The history is nearly in this shape already. A cache mark goes on the last block of a message, and
that block ends its bytes: marking is a splice at the end.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core.messages import (
    Block,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
)
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.providers.convert.transcript import Transcript

NO_IMAGES = TextBlock("[An image was here; this model takes no images.]")

_encode = msgspec.json.Encoder().encode
_MARK = b'"cache_control":{"type":"ephemeral"}'
_MARKED_MESSAGES = 2
_MIN_THINKING = 1024
_THINKING_SHARE = 0.8
_ROOM_AFTER_THINKING = 8192


class _WireMessage(Struct, frozen=True):
    role: str
    content: str | list[Block]


class AnthropicRequests:
    """Builds the bodies of requests to one model, and remembers what it encoded."""

    def __init__(self, profile: Profile, model: ModelInfo, *, legacy: bool) -> None:
        self._model = model
        self._legacy = legacy
        self._opening = _encode(_parameters(profile, model, legacy=legacy))[:-1]
        marks = _MARKED_MESSAGES if model.prompt_cache else 0
        self._transcript = Transcript(self._encoded, marks, _is_users)
        self._system: tuple[str, bytes] = ("", b"")
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def body(self, request: ModelRequest) -> list[bytes]:
        """In pieces, to be sent one after the other."""
        system = self._encoded_system(request.system)
        messages = self._transcript.pieces(request.messages)
        parts = [self._opening, system, b',"messages":[', *messages, b"]"]
        if request.tools:
            parts += [self._encoded_tools(request.tools), b',"tool_choice":{"type":"auto"}']
        parts.append(b',"stream":true}')
        return parts

    def _encoded(self, message: Message, *, mark: bool) -> bytes:
        data = encode_message(message, images=self._model.images)
        return data.removesuffix(b"}]}") + b"," + _MARK + b"}]}" if data and mark else data

    def _encoded_system(self, system: str) -> bytes:
        if system != self._system[0]:
            mark = b"," + _MARK if self._model.prompt_cache else b""
            text = _encode(system)
            block = b',"system":[{"type":"text","text":' + text + mark + b"}]"
            self._system = (system, block)
        return self._system[1]

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if tools is not self._tools[0]:
            specs = [_tool(tool, eager=not self._legacy) for tool in tools]
            self._tools = (tools, b',"tools":' + _encode(specs))
        return self._tools[1]


def _is_users(message: Message) -> bool:
    return message.role == "user"


def encode_message(message: Message, *, images: bool = True) -> bytes:
    """The message as the wire wants it, or nothing when nothing of it may be sent.

    Users' words are always a list of blocks, which ends the bytes with `}]}`.
    """
    content = message.content
    if isinstance(content, str):
        if not content.strip():
            return b""
        if message.role == "assistant":
            return _encode(_WireMessage(message.role, content))
        content = (TextBlock(content),)
    blocks = [_fitting(block, images=images) for block in content if _is_sent(block)]
    return _encode(_WireMessage(message.role, blocks)) if blocks else b""


def _is_sent(block: Block) -> bool:
    """The service refuses empty text, and knows nothing of unsigned reasoning."""
    match block:
        case TextBlock():
            return bool(block.text.strip())
        case ReasoningBlock():
            return False
        case _:
            return True


def _fitting(block: Block, *, images: bool) -> Block:
    if images:
        return block
    if isinstance(block, ImageBlock):
        return NO_IMAGES
    if isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
        content = [NO_IMAGES if isinstance(part, ImageBlock) else part for part in block.content]
        return structs.replace(block, content=content)
    return block


def _tool(tool: ToolSpec, *, eager: bool) -> dict[str, Any]:
    """`eager` asks for arguments as they are written: what the beta header does on old servers,
    which in turn refuse a field that they do not know."""
    spec: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
    return spec | {"eager_input_streaming": True} if eager else spec


def _parameters(profile: Profile, model: ModelInfo, *, legacy: bool) -> dict[str, Any]:
    """What stays the same from request to request."""
    max_tokens = profile.max_tokens or model.max_output
    thinking: dict[str, Any] | None = None
    if profile.thinking_budget:
        if model.known and not model.thinking:
            thinking = {"type": "adaptive"}
        else:
            budget, max_tokens = _thinking_room(profile, max_tokens)
            thinking = {"type": "enabled", "budget_tokens": budget}
    parameters: dict[str, Any] = {"model": profile.model or model.id, "max_tokens": max_tokens}
    if legacy and model.temperature and thinking is None:
        parameters["temperature"] = 0 if profile.temperature is None else profile.temperature
    if thinking is not None:
        parameters["thinking"] = thinking
    if profile.reasoning_effort:
        parameters["output_config"] = {"effort": profile.reasoning_effort}
    return parameters


def _thinking_room(profile: Profile, max_tokens: int) -> tuple[int, int]:
    """A budget and a limit that leave room for the answer itself."""
    budget = max(_MIN_THINKING, profile.thinking_budget or 0)
    if profile.max_tokens is None:
        return budget, max(max_tokens, budget + _ROOM_AFTER_THINKING)
    budget = max(_MIN_THINKING, min(budget, int(max_tokens * _THINKING_SHARE)))
    return budget, max(max_tokens, budget + 1)
