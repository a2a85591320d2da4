"""Anthropic's `/v1/messages`: the provider, its request bodies, its stream of events.

The official service gets what its current documentation asks for: a Bearer key, the version of
October 2026 (which refuses a temperature) and eager tool input. Gateways and older servers get the
form supported since 2023. A profile decides with `legacy_headers`; without it, a base URL means the
older form.

The history is already nearly in the shape of a request. A cache mark goes on the last block of a
message, and that block ends its bytes: marking is a splice at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.core.tool_schema import simplify_schema
from joey.providers import errors
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.conversation_encoder import encode_json as _encode_json
from joey.providers.errors import ServiceInfo
from joey.providers.services import MISSING_REASONING, identify_service
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder, StreamingProvider

OFFICIAL_HOST = "api.anthropic.com"
API_VERSION = "2026-10-21"
LEGACY_API_VERSION = "2023-06-01"
LEGACY_BETA_HEADER = "prompt-caching-2024-07-31,fine-grained-tool-streaming-2025-05-14"


class AnthropicProvider(StreamingProvider):
    api_protocol = "anthropic"

    def _build_headers(self, profile: Profile) -> dict[str, str]:
        return build_headers(profile.api_key, legacy=should_use_legacy_api(profile))

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        legacy = should_use_legacy_api(self._profile)
        return AnthropicRequestBuilder(
            self._profile, self.model, host=self._host, legacy=legacy, refused=refused
        )

    def _make_decoder(self) -> StreamDecoder:
        return AnthropicStreamDecoder(self._service)


def should_use_legacy_api(profile: Profile) -> bool:
    if profile.legacy_headers is None:
        return profile.base_url is not None
    return profile.legacy_headers


def build_headers(key: str | None, *, legacy: bool) -> dict[str, str]:
    if legacy:
        headers = {"anthropic-version": LEGACY_API_VERSION, "anthropic-beta": LEGACY_BETA_HEADER}
        return headers | ({"x-api-key": key} if key else {})
    headers = {"anthropic-version": API_VERSION}
    return headers | ({"authorization": f"Bearer {key}"} if key else {})


IMAGE_PLACEHOLDER = msg.TextBlock("[An image was here; this model takes no images.]")

_CACHE_CONTROL_JSON = b'"cache_control":{"type":"ephemeral"}'
_THINKING = "thinking"
_THOUGHTS = (msg.ThinkingBlock, msg.RedactedThinkingBlock)
_MIN_THINKING_TOKENS = 1024
_MAX_THINKING_SHARE = 0.8
_MIN_ANSWER_TOKENS = 8192
_OWN_KEYS = frozenset({"model", "system", "messages", "tools", "tool_choice", "stream"})
"""Not for `extraBody`: a request without them, or with others, is none of ours."""


class _RequestMessage(Struct, frozen=True):
    role: str
    content: str | list[msg.Block]


class AnthropicRequestBuilder(RequestBuilder):
    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        *,
        legacy: bool,
        host: str = OFFICIAL_HOST,
        refused: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(model, lambda message: message.role == "user")
        self._is_legacy = legacy
        self._refused = refused
        self._service_id = identify_service(profile.provider, host)
        self._takes_unsigned_thinking = host != OFFICIAL_HOST and "signature" not in refused
        self._model_id = profile.model or model.id
        self._profile = profile

    def build_body(self, request: ModelRequest) -> list[bytes]:
        system = self._encode_system_once(request.system_prompt)
        messages = self._conversation_encoder.encode_conversation(request.messages)
        prefix = _encode_json(self._select_parameters(request.messages))[:-1]
        parts = [prefix, system, b',"messages":[', *messages, b"]"]
        if request.tools:
            parts.append(self._encode_tools_once(request.tools))
            if "tool_choice" not in self._refused:
                parts.append(b',"tool_choice":{"type":"auto"}')
        parts.append(b',"stream":true}')
        return parts

    def _select_parameters(self, messages: Sequence[msg.Message]) -> dict[str, Any]:
        """Select parameters: with a thinking budget, a last reply with calls must begin with
        thinking; a reply of another service does not."""
        parameters = self._collect_parameters()
        thinking = parameters.get("thinking")
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            last = self._get_last_reply(messages)
            has_calls = any(isinstance(block, msg.ToolUseBlock) for block in last)
            if has_calls and not isinstance(last[0], _THOUGHTS):
                parameters = {k: v for k, v in parameters.items() if k != "thinking"}
        return parameters

    def _collect_parameters(self) -> dict[str, Any]:
        """Collect the parameters of the profile and the model, limited to what the service
        accepts."""
        known = _build_parameters(self._profile, self.model, legacy=self._is_legacy)
        return {
            name: value
            for name, value in known.items()
            if name not in self._refused and value is not None
        }

    def _get_last_reply(self, messages: Sequence[msg.Message]) -> list[msg.Block]:
        replies = (message for message in reversed(messages) if message.role == "assistant")
        last = next(replies, None)
        return [] if last is None else self._list_sent_blocks(last)

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        data = self._encode_plain_message(message)
        if data and mark and "cache_control" not in self._refused:
            return data.removesuffix(b"}]}") + b"," + _CACHE_CONTROL_JSON + b"}]}"
        return data

    def _encode_plain_message(self, message: msg.Message) -> bytes:
        """Encode a message; empty if none of it may be sent. A user's text is always a list of
        blocks, which ends the bytes with `}]}`."""
        content = message.content
        if isinstance(content, str) and message.role == "assistant" and content.strip():
            return _encode_json(_RequestMessage(message.role, content))
        blocks = self._list_sent_blocks(message)
        return _encode_json(_RequestMessage(message.role, blocks)) if blocks else b""

    def _list_sent_blocks(self, message: msg.Message) -> list[msg.Block]:
        """List the blocks to send: empty text is rejected, as is thinking of another service or
        model."""
        source = message.source
        is_own = (
            "signature" not in self._refused
            if source is UNSET
            else source.service == self._service_id and source.model == self._model_id
        )
        sent: list[msg.Block] = []
        for block in msg.get_blocks(message):
            match block:
                case msg.TextBlock() if not block.text.strip():
                    pass
                case msg.ThinkingBlock() | msg.RedactedThinkingBlock() if not is_own:
                    pass
                case msg.UnsignedReasoningBlock():
                    if self._takes_unsigned_thinking and is_own and _came_as_thinking(source):
                        sent.append(msg.ThinkingBlock(block.text, ""))
                case msg.ToolUseBlock() if block.extra_content is not None:
                    sent.append(structs.replace(block, extra_content=None))
                case _:
                    sent.append(_replace_images(block, images=self.model.supports_images))
        has_calls = any(isinstance(block, msg.ToolUseBlock) for block in sent)
        if has_calls and MISSING_REASONING in self._refused and not isinstance(sent[0], _THOUGHTS):
            sent.insert(0, msg.ThinkingBlock("", ""))
        return sent

    def _encode_system(self, system: str) -> bytes:
        is_marked = self.model.supports_prompt_cache and "cache_control" not in self._refused
        mark = b"," + _CACHE_CONTROL_JSON if is_marked else b""
        return b',"system":[{"type":"text","text":' + _encode_json(system) + mark + b"}]"

    def _build_tool(self, tool: ToolSpec) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": simplify_schema(tool.parameters),
        }
        # Arguments as they are written: what the beta header does on old servers, which refuse
        # a field that they do not know.
        is_eager = not self._is_legacy and "eager_input_streaming" not in self._refused
        return spec | {"eager_input_streaming": True} if is_eager else spec


def _came_as_thinking(source: msg.ReplySource | UnsetType) -> bool:
    """Whether the reasoning came as blocks, not in the text of the reply."""
    return source is not UNSET and source.reasoning_field == _THINKING


def _replace_images(block: msg.Block, *, images: bool) -> msg.Block:
    if images:
        return block
    if isinstance(block, msg.ImageBlock):
        return IMAGE_PLACEHOLDER
    if isinstance(block, msg.ToolResultBlock) and not isinstance(block.content, str):
        parts = [_replace_images(part, images=False) for part in block.content]
        return structs.replace(block, content=parts)
    return block


def _build_parameters(profile: Profile, model: ModelInfo, *, legacy: bool) -> dict[str, Any]:
    """Build the parameters that do not depend on the conversation."""
    max_tokens = profile.max_tokens or model.max_output_tokens
    thinking: dict[str, Any] | None = None
    if profile.thinking_budget:
        if model.is_known and not model.supports_thinking:
            thinking = {"type": "adaptive"}
        else:
            budget, max_tokens = _compute_thinking_budget(profile, max_tokens)
            thinking = {"type": "enabled", "budget_tokens": budget}
    parameters: dict[str, Any] = {"model": profile.model or model.id, "max_tokens": max_tokens}
    if legacy and model.supports_temperature and thinking is None:
        chosen = profile.temperature
        if chosen is None and profile.top_p is None:  # the two are refused together
            chosen = model.default_temperature
        parameters["temperature"] = chosen
        parameters |= {"top_p": profile.top_p, "top_k": profile.top_k}
    if thinking is not None:
        parameters["thinking"] = thinking
    if profile.reasoning_effort:
        parameters["output_config"] = {"effort": profile.reasoning_effort}
    return parameters | {k: v for k, v in profile.extra_body.items() if k not in _OWN_KEYS}


def _compute_thinking_budget(profile: Profile, max_tokens: int) -> tuple[int, int]:
    """Compute a budget and a limit that leave room for the answer."""
    budget = max(_MIN_THINKING_TOKENS, profile.thinking_budget or 0)
    if profile.max_tokens is None:
        return budget, max(max_tokens, budget + _MIN_ANSWER_TOKENS)
    budget = max(_MIN_THINKING_TOKENS, min(budget, int(max_tokens * _MAX_THINKING_SHARE)))
    return budget, max(max_tokens, budget + 1)


class _BlockDelta(Struct):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _ContentBlock(Struct):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _AnthropicUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _MessageStart(Struct):
    id: str | None = None
    usage: _AnthropicUsage | None = None


class _StreamEvent(Struct):
    type: str | None = None
    index: int = 0
    delta: _BlockDelta | None = None
    content_block: _ContentBlock | None = None
    message: _MessageStart | None = None
    usage: _AnthropicUsage | None = None
    error: Any = None


_decode_event = msgspec.json.Decoder(_StreamEvent).decode
_KNOWN_EVENT_TYPES = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "error",
    }
)


class AnthropicStreamDecoder(StreamDecoder):
    def __init__(self, service: ServiceInfo) -> None:
        super().__init__(service)
        self._open_blocks: dict[int, _OpenBlock] = {}
        self._last_block_type: str | None = None
        self._response_id: str | None = None
        self._usage = _AnthropicUsage()

    def feed(self, event: ServerSentEvent) -> Iterable[msg.Chunk]:
        said = self._parse_event(event)
        if said is None:
            return ()
        match said.type:
            case "content_block_delta":
                return self._handle_delta(said.index, said.delta) if said.delta else ()
            case "content_block_start":
                return (
                    self._start_block(said.index, said.content_block) if said.content_block else ()
                )
            case "content_block_stop":
                return self._stop_block(said.index)
            case "message_start" if said.message:
                self._response_id = said.message.id
                return self._update_usage(said.message.usage)
            case "message_delta":
                chunks = self._update_usage(said.usage)
                if said.delta is not None and said.delta.stop_reason:
                    chunks.append(msg.StopChunk(said.delta.stop_reason, self._response_id))
                return chunks
            case "message_stop":
                self.is_answer_complete = self.is_stream_finished = True
                return ()
            case "error":
                raise errors.build_stream_error(self._service, said.error)
            case _:
                return ()

    def _parse_event(self, event: ServerSentEvent) -> _StreamEvent | None:
        """Parse an event; None for unknown ones: the service may add kinds at any time."""
        try:
            return _decode_event(event.data)
        except msgspec.ValidationError as error:
            kind = _read_event_type(event.data)
            if kind not in _KNOWN_EVENT_TYPES:
                return None
            raise self._build_malformed_error(f"an odd {kind} event") from error
        except errors.JSON_DECODE_ERRORS as error:
            if event.event == "ping":
                return None
            raise self._build_malformed_error("an event that is not JSON") from error

    def _handle_delta(self, index: int, delta: _BlockDelta) -> Iterable[msg.Chunk]:
        match delta.type:
            case "text_delta":
                return (msg.TextChunk(delta.text),) if delta.text else ()
            case "input_json_delta":
                if not delta.partial_json:
                    return ()
                if (block := self._open_blocks.get(index)) is not None:
                    block.input = None
                return (msg.CallChunk(index, arguments=delta.partial_json),)
            case "thinking_delta":
                self.reasoning_field = _THINKING
                return (msg.ReasoningChunk(delta.thinking),) if delta.thinking else ()
            case "signature_delta":
                if (block := self._open_blocks.get(index)) is not None:
                    block.signature += delta.signature or ""
                return ()
            case _:
                return ()

    def _start_block(self, index: int, block: _ContentBlock) -> Iterable[msg.Chunk]:
        before, self._last_block_type = self._last_block_type, block.type
        self._open_blocks[index] = _OpenBlock(block.type, block.signature or "", block.input)
        match block.type:
            case "text":
                # Two blocks of text in a row are two paragraphs; nothing else keeps them apart.
                text = ("\n" if before == "text" else "") + (block.text or "")
                return (msg.TextChunk(text),) if text else ()
            case "tool_use":
                return (msg.CallChunk(index, id=block.id, name=block.name),)
            case "thinking":
                return (msg.ReasoningChunk(block.thinking),) if block.thinking else ()
            case "redacted_thinking":
                return (msg.ReasoningChunk(redacted=block.data or ""),)
            case _:
                return ()

    def _stop_block(self, index: int) -> Iterable[msg.Chunk]:
        block = self._open_blocks.pop(index, None)
        if block is None:
            return ()
        if block.block_type == "thinking" and block.signature:
            return (msg.ReasoningChunk(signature=block.signature),)
        if block.block_type != "tool_use":
            return ()
        if block.input:  # some gateways give the whole input at the start, and no deltas
            whole = msgspec.json.encode(block.input).decode()
            return (msg.CallChunk(index, arguments=whole), msg.CallEndChunk(index))
        return (msg.CallEndChunk(index),)

    def _update_usage(self, usage: _AnthropicUsage | None) -> list[msg.Chunk]:
        """Update the usage. Each figure is a total so far; one that is left out keeps its value."""
        if usage is None:
            return []
        for name, value in structs.asdict(usage).items():
            if value is not None:
                setattr(self._usage, name, value)
        writes = self._usage.cache_creation_input_tokens or 0
        reads = self._usage.cache_read_input_tokens or 0
        total = msg.Usage(
            input=(self._usage.input_tokens or 0) + writes + reads,
            output=self._usage.output_tokens or 0,
            cache_writes=writes,
            cache_reads=reads,
        )
        return [msg.UsageChunk(total)]


def _read_event_type(data: bytes) -> str:
    try:
        body = msgspec.json.decode(data)
    except errors.JSON_DECODE_ERRORS:
        return "error"  # invalid JSON after another error: must not be ignored
    kind = body.get("type") if isinstance(body, dict) else None
    return kind if isinstance(kind, str) else ""


class _OpenBlock(Struct):
    """A content block between its start and its stop."""

    block_type: str | None
    signature: str
    input: Any
