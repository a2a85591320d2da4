"""Amazon Bedrock's Converse API: request bodies and the events of its stream.

Its blocks are Anthropic's in another spelling, and so are its rules for thinking: thinking is sent
back to the model that made it, with its signatures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.core.tool_schema import simplify_schema
from joey.providers import errors
from joey.providers.anthropic import AnthropicRequestBuilder
from joey.providers.conversation_encoder import encode_json
from joey.providers.errors import ServiceInfo
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder

_CACHE_POINT = {"cachePoint": {"type": "default"}}
_INFERENCE_NAMES = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP"}
_REQUEST_NAMES = frozenset(
    {"guardrailConfig", "outputConfig", "performanceConfig", "requestMetadata", "serviceTier"}
)
"""Names in `extraBody` that are Converse's own; others are the model's."""


class ConverseRequestBuilder(AnthropicRequestBuilder):
    def __init__(
        self, profile: Profile, model: ModelInfo, host: str, refused: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(profile, model, legacy=True, host=host, refused=refused)

    def _collect_parameters(self) -> dict[str, Any]:
        parameters = super()._collect_parameters()
        parameters.pop("model", None)  # it is part of the address
        if effort := parameters.pop("output_config", None):
            parameters["outputConfig"] = effort
        return parameters

    def build_body(self, request: ModelRequest) -> list[bytes]:
        messages = self._conversation_encoder.encode_conversation(request.messages)
        system = self._encode_system_once(request.system_prompt)
        parts = [b'{"messages":[', *messages, b"]", system]
        if request.tools:
            parts.append(self._encode_tools_once(request.tools))
        inference, own, extra = {}, {}, {}
        for name, value in self._select_parameters(request.messages).items():
            if name in _INFERENCE_NAMES:
                inference[_INFERENCE_NAMES[name]] = value
            elif name in _REQUEST_NAMES:
                own[name] = value
            else:
                extra[name] = value
        fields = {"inferenceConfig": inference, **own}
        if extra:
            fields["additionalModelRequestFields"] = extra
        return [*parts, b"," + encode_json(fields)[1:]]

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        blocks = [_convert_block(block) for block in self._list_sent_blocks(message)]
        if not blocks:
            return b""
        if mark and "cache_control" not in self._refused:
            blocks.append(_CACHE_POINT)
        return encode_json({"role": message.role, "content": blocks})

    def _encode_system(self, system: str) -> bytes:
        is_marked = self.model.supports_prompt_cache and "cache_control" not in self._refused
        blocks = [{"text": system}, _CACHE_POINT] if is_marked else [{"text": system}]
        return b',"system":' + encode_json(blocks)

    def _encode_tools_once(self, tools: tuple[ToolSpec, ...]) -> bytes:
        return b',"toolConfig":{' + super()._encode_tools_once(tools)[1:] + b"}"

    def _build_tool(self, tool: ToolSpec) -> dict[str, Any]:
        schema = {"json": simplify_schema(tool.parameters)}
        spec = {"name": tool.name, "description": tool.description, "inputSchema": schema}
        return {"toolSpec": spec}


def _convert_block(block: msg.Block) -> dict[str, Any]:
    match block:
        case msg.ThinkingBlock():
            thought = {"text": block.thinking, "signature": block.signature}
            return {"reasoningContent": {"reasoningText": thought}}
        case msg.RedactedThinkingBlock():
            return {"reasoningContent": {"redactedContent": block.data}}
        case msg.ToolUseBlock():
            return {"toolUse": {"toolUseId": block.id, "name": block.name, "input": block.input}}
        case msg.ToolResultBlock():
            parts = block.content
            if isinstance(parts, str):
                parts = [msg.TextBlock(parts)]
            content = [
                _convert_block(part)
                for part in parts
                if not isinstance(part, msg.TextBlock) or part.text.strip()
            ]
            return {"toolResult": {"toolUseId": block.tool_use_id, "content": content}}
        case msg.ImageBlock(source):
            kind = source.media_type.rpartition("/")[2]
            return {"image": {"format": kind, "source": {"bytes": source.data}}}
        case _:
            return {"text": block.text}


class _ToolUse(Struct, rename="camel"):
    tool_use_id: str | None = None
    name: str | None = None
    input: str | None = None


class _Reasoning(Struct, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _BlockPart(Struct, rename="camel"):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None


class _TokenUsage(Struct, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_write_input_tokens: int = 0


class _ConverseEvent(Struct, rename="camel"):
    content_block_index: int = 0
    start: _BlockPart | None = None
    delta: _BlockPart | None = None
    stop_reason: str | None = None
    usage: _TokenUsage | None = None


_decode_event = msgspec.json.Decoder(_ConverseEvent).decode


class ConverseStreamDecoder(StreamDecoder):
    EXCEPTION = "exception"

    def __init__(self, service: ServiceInfo) -> None:
        super().__init__(service)
        self._open_calls: set[int] = set()
        self._signatures: dict[int, str] = {}

    def feed(self, event: ServerSentEvent) -> Iterable[msg.Chunk]:
        if event.event == self.EXCEPTION:
            raise errors.build_stream_error(self._service, msgspec.json.decode(event.data))
        try:
            said = _decode_event(event.data)
        except errors.JSON_DECODE_ERRORS as error:
            raise self._build_malformed_error(f"an odd {event.event} event") from error
        index = said.content_block_index
        match event.event:
            case "contentBlockStart" if said.start and (call := said.start.tool_use):
                self._open_calls.add(index)
                return (msg.CallChunk(index, id=call.tool_use_id, name=call.name),)
            case "contentBlockDelta" if said.delta:
                return self._handle_delta(index, said.delta)
            case "contentBlockStop":
                return self._stop_block(index)
            case "messageStop":
                self.is_answer_complete = True
                return (msg.StopChunk(said.stop_reason or "end_turn", None),)
            case "metadata" if said.usage:
                self.is_stream_finished = self.is_answer_complete
                return (_convert_usage(said.usage),)
            case _:
                return ()

    def _handle_delta(self, index: int, delta: _BlockPart) -> Iterable[msg.Chunk]:
        if delta.text:
            return (msg.TextChunk(delta.text),)
        if delta.tool_use is not None and delta.tool_use.input:
            return (msg.CallChunk(index, arguments=delta.tool_use.input),)
        thought = delta.reasoning_content or _Reasoning()
        if thought.signature:
            self._signatures[index] = self._signatures.get(index, "") + thought.signature
        if thought.redacted_content:
            return (msg.ReasoningChunk(redacted=thought.redacted_content),)
        return (msg.ReasoningChunk(thought.text),) if thought.text else ()

    def _stop_block(self, index: int) -> Iterable[msg.Chunk]:
        if index in self._open_calls:
            self._open_calls.discard(index)
            return (msg.CallEndChunk(index),)
        signature = self._signatures.pop(index, "")
        return (msg.ReasoningChunk(signature=signature),) if signature else ()


def _convert_usage(usage: _TokenUsage) -> msg.UsageChunk:
    writes, reads = usage.cache_write_input_tokens, usage.cache_read_input_tokens
    total = usage.input_tokens + writes + reads
    return msg.UsageChunk(msg.Usage(total, usage.output_tokens, writes, reads))
