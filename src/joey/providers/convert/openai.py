"""Requests for `/chat/completions`, which everybody but Anthropic speaks.

A message of ours may become several: results of calls travel in messages of their own, before
the words of the user.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET

from joey.core.messages import (
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.providers.convert.transcript import Transcript

_encode = msgspec.json.Encoder().encode
_MARK = {"cache_control": {"type": "ephemeral"}}
_MARKED_MESSAGES = 2
_NO_IMAGES = {"type": "text", "text": "[An image was here; this model takes no images.]"}
_DEVELOPER_MODELS = re.compile(r"(?:.*/)?o[134](?:-.*)?")
_REASONS_WITHOUT_TOOLS = re.compile(r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)(?:[.-].*)?")
"""Models whose chat endpoint at OpenAI takes tools only with reasoning switched off."""


class OpenAiRequests:
    """Builds the bodies of requests to one model, and remembers what it encoded."""

    def __init__(self, profile: Profile, model: ModelInfo, host: str) -> None:
        self._profile = profile
        self._model = model
        self._host = host
        self._id = profile.model or model.id
        self._is_developer = _DEVELOPER_MODELS.fullmatch(self._id) is not None
        marks = _MARKED_MESSAGES if model.prompt_cache else 0
        self._transcript = Transcript(self._convert, marks, _has_words)
        self._system: tuple[str | None, bytes] = (None, b"")
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")

    def body(self, request: ModelRequest) -> list[bytes]:
        """In pieces, to be sent one after the other."""
        messages = self._transcript.pieces(request.messages)
        if request.system:
            messages = [
                self._encoded_system(request.system),
                *([b",", *messages] if messages else []),
            ]
        parts = [self._opening(), b',"messages":[', *messages, b'],"stream":true']
        if not _is_xai(self._host):
            parts.append(b',"stream_options":{"include_usage":true}')
        if self._profile.max_tokens:
            parts.append(b',"max_completion_tokens":%d' % self._profile.max_tokens)
        if effort := self._effort(bool(request.tools)):
            parts.append(b',"reasoning_effort":' + _encode(effort))
        if request.tools:
            parts += [
                self._encoded_tools(request.tools),
                b',"tool_choice":"auto","parallel_tool_calls":true',
            ]
        parts.append(b"}")
        return parts

    def _opening(self) -> bytes:
        parameters: dict[str, Any] = {"model": self._id}
        if self._model.temperature and not self._is_developer:
            chosen = self._profile.temperature
            parameters["temperature"] = 0 if chosen is None else chosen
        return _encode(parameters)[:-1]

    def _effort(self, with_tools: bool) -> str | None:
        if self._profile.reasoning_effort:
            return self._profile.reasoning_effort
        if (
            with_tools
            and self._host == "api.openai.com"
            and _REASONS_WITHOUT_TOOLS.fullmatch(self._id)
        ):
            return "none"
        return None

    def _convert(self, message: Message, *, mark: bool) -> bytes:
        wire = convert_message(message, self._model)
        if mark:
            _mark_last_text(wire)
        return b",".join(_encode(item) for item in wire)

    def _encoded_system(self, system: str) -> bytes:
        if system != self._system[0]:
            role, text = ("system", system)
            if self._is_developer:
                role, text = ("developer", f"Formatting re-enabled\n{system}")
            content: Any = text
            if self._model.prompt_cache:
                content = [{"type": "text", "text": text, **_MARK}]
            self._system = (system, _encode({"role": role, "content": content}))
        return self._system[1]

    def _encoded_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if tools is not self._tools[0]:
            self._tools = (tools, b',"tools":' + _encode([_tool(tool) for tool in tools]))
        return self._tools[1]


def convert_message(message: Message, model: ModelInfo) -> list[dict[str, Any]]:
    """The messages on the wire for one of ours; none when nothing of it may be sent."""
    if message.role == "assistant":
        return _assistant(message, model)
    content = message.content
    blocks = (TextBlock(content),) if isinstance(content, str) else content
    results: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case ToolResultBlock():
                results.append(_result(block))
                images += _images_in(block, model)
            case TextBlock() if block.text:
                parts.append({"type": "text", "text": block.text})
            case ImageBlock():
                parts.append(_image(block, model))
            case _:
                pass  # a user's message has no other blocks
    if parts or images:
        results.append({"role": "user", "content": images + parts})
    return results


def _has_words(message: Message) -> bool:
    """Whether it becomes a user's message on the wire, not only results of calls."""
    if message.role == "assistant":
        return False
    return isinstance(message.content, str) or not all(
        isinstance(block, ToolResultBlock) and isinstance(block.content, str)
        for block in message.content
    )


def _assistant(message: Message, model: ModelInfo) -> list[dict[str, Any]]:
    content = message.content
    blocks = (TextBlock(content),) if isinstance(content, str) else content
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    if not text and not calls:
        return []
    wire: dict[str, Any] = {"role": "assistant", "content": text}
    if message.reasoning_content is not UNSET:
        wire["reasoning_content"] = message.reasoning_content
    elif model.preserve_reasoning:
        thoughts = [block.text for block in blocks if isinstance(block, ReasoningBlock)]
        if any(thoughts):
            wire["reasoning_content"] = "\n".join(thoughts)
    if message.reasoning_details is not UNSET:
        wire["reasoning_details"] = message.reasoning_details
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _call(block: ToolUseBlock) -> dict[str, Any]:
    arguments = _encode(block.input).decode()
    function = {"name": block.name, "arguments": arguments}
    return {"id": block.id, "type": "function", "function": function}


def _result(block: ToolResultBlock) -> dict[str, Any]:
    text = block.content
    if not isinstance(text, str):
        text = "\n".join(part.text for part in text if isinstance(part, TextBlock))
        if not text and block.content:
            text = "(The image follows in the next message.)"
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": text or "(empty)"}


def _images_in(block: ToolResultBlock, model: ModelInfo) -> list[dict[str, Any]]:
    if isinstance(block.content, str):
        return []
    return [_image(part, model) for part in block.content if isinstance(part, ImageBlock)]


def _image(block: ImageBlock, model: ModelInfo) -> dict[str, Any]:
    if not model.images:
        return _NO_IMAGES
    url = f"data:{block.source.media_type};base64,{block.source.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _mark_last_text(wire: list[dict[str, Any]]) -> None:
    """Marks the last text part; a message of images alone gets one to carry the mark."""
    for item in reversed(wire):
        if item["role"] != "user":
            continue
        parts = item["content"]
        for place in reversed(range(len(parts))):
            if parts[place]["type"] == "text":
                parts[place] = parts[place] | _MARK
                return
        parts.append({"type": "text", "text": "...", **_MARK})
        return


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return {"type": "function", "function": function}


def _is_xai(host: str) -> bool:
    return host == "x.ai" or host.endswith(".x.ai")
