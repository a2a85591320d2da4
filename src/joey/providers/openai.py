"""OpenAI's `/chat/completions`, spoken by most services and local servers.

One of our messages may become several: results of calls travel in messages of their own, before
the text of the user. The decoder of the stream tolerates the deviations of the many servers that
speak this protocol.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.prompts.environment import strip_environment_details
from joey.core.settings import ModelRoute, Profile
from joey.providers import errors
from joey.providers.catalog import find_provider_spec
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.conversation_encoder import encode_json as _encode_json
from joey.providers.errors import ServiceInfo
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import parse_url
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder, StreamingProvider


class OpenAiProvider(StreamingProvider):
    api_protocol = "openai"
    _document_key = "choices"

    def __init__(
        self, profile: Profile, model: ModelInfo, http: HttpClient, route: ModelRoute | None = None
    ) -> None:
        headers = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        super().__init__(profile, model, http, route, headers)
        self._request_builder = OpenAiRequestBuilder(profile, model, parse_url(self._url).host)

    def stream(self, request: ModelRequest) -> AsyncGenerator[msg.Chunk, None]:
        body = self._request_builder.build_body(request)
        return self._stream(body, OpenAiStreamDecoder(self._service))


_CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
_IMAGE_PLACEHOLDER = {"type": "text", "text": "[An image was here; this model takes no images.]"}
_DEVELOPER_ROLE_MODELS_RE = re.compile(r"(?:.*/)?o[134](?:-.*)?")
_NO_REASONING_WITH_TOOLS_MODELS_RE = re.compile(r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)(?:[.-].*)?")
"""Models whose chat endpoint at OpenAI takes tools only with reasoning switched off."""


class OpenAiRequestBuilder(RequestBuilder):
    def __init__(self, profile: Profile, model: ModelInfo, host: str) -> None:
        super().__init__(model, _is_user_message)
        self._profile = profile
        self._host = host
        self._is_local = find_provider_spec(profile.provider).is_local
        self._model_id = profile.model or model.id
        self._uses_developer_role = _DEVELOPER_ROLE_MODELS_RE.fullmatch(self._model_id) is not None

    def build_body(self, request: ModelRequest) -> list[bytes]:
        messages = self._conversation_encoder.encode_conversation(request.messages)
        if system := self._encode_system_once(request.system_prompt):
            messages = [system, *([b",", *messages] if messages else [])]
        parts = [self._encode_body_prefix(), b',"messages":[', *messages, b'],"stream":true']
        if self._host != "x.ai" and not self._host.endswith(".x.ai"):
            parts.append(b',"stream_options":{"include_usage":true}')
        if self._is_local:  # nothing else ends a reply that repeats itself
            limits = (self.model.max_output_tokens, request.max_output_tokens)
            parts.append(b',"max_tokens":%d' % min(filter(None, limits)))
        elif self._profile.max_tokens:
            parts.append(b',"max_completion_tokens":%d' % self._profile.max_tokens)
        if effort := self._choose_reasoning_effort(bool(request.tools)):
            parts.append(b',"reasoning_effort":' + _encode_json(effort))
        if request.tools:
            parts += [
                self._encode_tools_once(request.tools),
                b',"tool_choice":"auto","parallel_tool_calls":true',
            ]
        parts.append(b"}")
        return parts

    def _encode_body_prefix(self) -> bytes:
        parameters: dict[str, Any] = {"model": self._model_id}
        if self.model.supports_temperature and not self._uses_developer_role:
            chosen = self._profile.temperature
            parameters["temperature"] = 0 if chosen is None else chosen
        return _encode_json(parameters)[:-1]

    def _choose_reasoning_effort(self, with_tools: bool) -> str | None:
        if self._profile.reasoning_effort:
            return self._profile.reasoning_effort
        if (
            with_tools
            and self._host == "api.openai.com"
            and _NO_REASONING_WITH_TOOLS_MODELS_RE.fullmatch(self._model_id)
        ):
            return "none"
        return None

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        wire = convert_message(message, self.model)
        if mark:
            _mark_last_text_for_cache(wire)
        return b",".join(_encode_json(item) for item in wire)

    def _encode_system(self, system: str) -> bytes:
        role, text = ("system", system)
        if self._uses_developer_role:
            role, text = ("developer", f"Formatting re-enabled\n{system}")
        content: Any = text
        if self.model.supports_prompt_cache:
            content = [{"type": "text", "text": text, **_CACHE_CONTROL}]
        return _encode_json({"role": role, "content": content})

    def _build_tool(self, tool: ToolSpec) -> dict[str, Any]:
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": tool.strict,
        }
        return {"type": "function", "function": function}


def convert_message(message: msg.Message, model: ModelInfo) -> list[dict[str, Any]]:
    """The messages on the wire for one of ours; none when nothing of it may be sent."""
    if message.role == "assistant":
        return _convert_assistant_message(message, model)
    content = message.content
    blocks = (msg.TextBlock(content),) if isinstance(content, str) else content
    results: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case msg.ToolResultBlock():
                results.append(_convert_tool_result(block))
                images += [
                    _convert_image(part, model)
                    for part in block.content
                    if isinstance(part, msg.ImageBlock)
                ]
            case msg.TextBlock() if block.text:
                parts.append({"type": "text", "text": block.text})
            case msg.ImageBlock():
                parts.append(_convert_image(block, model))
            case _:
                pass  # a user's message has no other blocks
    if parts or images:
        results.append({"role": "user", "content": images + parts})
    return results


def _is_user_message(message: msg.Message) -> bool:
    return message.role == "user"


def _convert_assistant_message(message: msg.Message, model: ModelInfo) -> list[dict[str, Any]]:
    content = message.content
    blocks = (msg.TextBlock(content),) if isinstance(content, str) else content
    text = "\n".join(block.text for block in blocks if isinstance(block, msg.TextBlock))
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": _encode_json(block.input).decode()},
        }
        for block in blocks
        if isinstance(block, msg.ToolUseBlock)
    ]
    if not text and not calls:
        return []
    wire: dict[str, Any] = {"role": "assistant", "content": text}
    if message.reasoning_content is not UNSET:
        wire["reasoning_content"] = message.reasoning_content
    elif model.preserve_reasoning:
        thoughts = [block.text for block in blocks if isinstance(block, msg.UnsignedReasoningBlock)]
        if any(thoughts):
            wire["reasoning_content"] = "\n".join(thoughts)
    if message.reasoning_details is not UNSET:
        wire["reasoning_details"] = message.reasoning_details
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _convert_tool_result(block: msg.ToolResultBlock) -> dict[str, Any]:
    text = block.content
    if not isinstance(text, str):
        texts = [part for part in text if isinstance(part, msg.TextBlock)]
        if block.content and not strip_environment_details(texts):
            texts.insert(0, msg.TextBlock("(The image follows in the next message.)"))
        text = "\n".join(part.text for part in texts)
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": text or "(empty)"}


def _convert_image(block: msg.ImageBlock, model: ModelInfo) -> dict[str, Any]:
    if not model.supports_images:
        return _IMAGE_PLACEHOLDER
    url = f"data:{block.source.media_type};base64,{block.source.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _mark_last_text_for_cache(wire: list[dict[str, Any]]) -> None:
    """Marks the last text part; a message of images alone gets one to carry the mark."""
    for item in reversed(wire):
        if item["role"] == "assistant":
            continue
        if isinstance(item["content"], str):
            item["content"] = [{"type": "text", "text": item["content"]}]
        parts = item["content"]
        for index in reversed(range(len(parts))):
            if parts[index]["type"] == "text":
                parts[index] = parts[index] | _CACHE_CONTROL
                return
        parts.append({"type": "text", "text": "...", **_CACHE_CONTROL})
        return


class _FunctionDelta(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None


class _ChoiceDelta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_ToolCallDelta] | None = None


class _StreamChoice(Struct):
    delta: _ChoiceDelta | None = None
    message: _ChoiceDelta | None = None
    """From servers that answer in one piece."""
    finish_reason: str | None = None


class _PromptTokensDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CostDetails(Struct):
    upstream_inference_cost: float | None = None


class _OpenAiUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptTokensDetails | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None
    cost_details: _CostDetails | None = None


class _StreamChunk(Struct):
    id: str | None = None
    choices: list[_StreamChoice] | None = None
    usage: _OpenAiUsage | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_StreamChunk).decode
_LENGTH_FINISH_REASON = "length"
"""The reason that leaves the last call unfinished."""


class OpenAiStreamDecoder(StreamDecoder):
    def __init__(self, service: ServiceInfo) -> None:
        super().__init__(service)
        self._call_indexer = _ToolCallIndexer()
        self._reasoning_merger = _ReasoningDetailsMerger()

    def feed(self, event: ServerSentEvent) -> Iterable[msg.Chunk]:
        if event.data == b"[DONE]":
            self.is_answer_complete = self.is_stream_finished = True
            return self._reasoning_merger.take_chunks()
        said = self._parse_chunk(event)
        if said.error:
            raise errors.build_stream_error(self._service, said.error)
        chunks: list[msg.Chunk] = []
        if said.choices:
            choice = said.choices[0]
            if (delta := choice.delta or choice.message) is not None:
                self._handle_delta(delta, chunks)
            if choice.finish_reason:
                self._handle_finish(choice.finish_reason, said.id, chunks)
        if said.usage is not None:
            chunks.append(msg.UsageChunk(_convert_usage(said.usage)))
        return chunks

    def _parse_chunk(self, event: ServerSentEvent) -> _StreamChunk:
        if event.event == "error":
            raise errors.build_stream_error(self._service, _parse_error_object(event.data))
        try:
            return _decode_chunk(event.data)
        except msgspec.ValidationError as error:
            raise self._build_malformed_error(f"an odd chunk ({error})") from error
        except errors.JSON_DECODE_ERRORS as error:
            raise self._build_malformed_error("a chunk that is not JSON") from error

    def _handle_delta(self, delta: _ChoiceDelta, chunks: list[msg.Chunk]) -> None:
        if details := delta.reasoning_details:
            self._reasoning_merger.add(details)
        thought = delta.reasoning_content or delta.reasoning
        if thought or (details and (thought := _join_text_parts(details))):
            chunks.append(msg.ReasoningChunk(thought))
        if content := delta.content:
            if not isinstance(content, str):
                content = "".join(
                    _join_text_parts([part]) for part in content if isinstance(part, dict)
                )
            if content:
                chunks.append(msg.TextChunk(content))
        for call in delta.tool_calls or ():
            chunks.append(self._call_indexer.convert_delta(call))

    def _handle_finish(self, reason: str, response_id: str | None, chunks: list[msg.Chunk]) -> None:
        self.is_answer_complete = True
        chunks += self._reasoning_merger.take_chunks()
        if reason != _LENGTH_FINISH_REASON:
            chunks += [msg.CallEndChunk(index) for index in self._call_indexer.take_open_indexes()]
        chunks.append(msg.StopChunk(reason, response_id))


class _ToolCallIndexer:
    """Which call a piece belongs to. Servers differ: most number their calls, some leave the
    number out, and some give all calls the number 0 and tell them apart by id."""

    def __init__(self) -> None:
        self._index_by_number: dict[int, int] = {}
        self._id_by_index: dict[int, str | None] = {}
        self._open_indexes: list[int] = []

    def convert_delta(self, call: _ToolCallDelta) -> msg.CallChunk:
        function = call.function or _FunctionDelta()
        index = self._resolve_index(call, function)
        if call.id:
            self._id_by_index[index] = call.id
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        return msg.CallChunk(
            index, id=call.id or None, name=function.name or None, arguments=arguments or None
        )

    def take_open_indexes(self) -> list[int]:
        ended, self._open_indexes = self._open_indexes, []
        return ended

    def _resolve_index(self, call: _ToolCallDelta, function: _FunctionDelta) -> int:
        number = call.index
        if number is None:
            is_known = not call.id or call.id in self._id_by_index.values()
            number = max(self._index_by_number, default=0) if is_known else len(self._id_by_index)
        index = self._index_by_number.get(number)
        begins_another = (
            index is not None
            and call.id
            and function.name
            and self._id_by_index.get(index) not in (None, call.id)
        )
        if index is None or begins_another:
            taken = self._id_by_index.keys()
            index = number if number not in taken else max(taken) + 1
            self._index_by_number[number] = index
            self._id_by_index.setdefault(index, None)
            self._open_indexes.append(index)
        return index


class _ReasoningDetailsMerger:
    """OpenRouter's reasoning items arrive in pieces and must go back whole."""

    def __init__(self) -> None:
        self._items: dict[tuple[Any, Any], dict[str, Any]] = {}

    def add(self, pieces: list[dict[str, Any]]) -> None:
        for piece in pieces:
            key = (str(piece.get("type")), str(piece.get("index", 0)))
            item = self._items.setdefault(key, {})
            for name, value in piece.items():
                if name in ("text", "summary", "data") and isinstance(value, str):
                    item[name] = item.get(name, "") + value
                elif value is not None or name not in item:
                    item[name] = value

    def take_chunks(self) -> list[msg.Chunk]:
        items = [
            item
            for item in self._items.values()
            if item.get("type") != "reasoning.encrypted" or item.get("data")
        ]
        self._items = {}
        return [msg.ReasoningChunk(details=tuple(items))] if items else []


def _join_text_parts(parts: list[dict[str, Any]]) -> str:
    """The readable text in a list of parts, of reasoning or of content."""
    texts = [part.get("text") or part.get("summary") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _convert_usage(usage: _OpenAiUsage) -> msg.Usage:
    details = usage.prompt_tokens_details or _PromptTokensDetails()
    cost = usage.cost
    if cost is not None and usage.cost_details is not None:
        cost += usage.cost_details.upstream_inference_cost or 0.0
    return msg.Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cache_writes=usage.cache_creation_input_tokens or details.cache_write_tokens or 0,
        cache_reads=usage.cache_read_input_tokens
        or details.cached_tokens
        or usage.prompt_cache_hit_tokens
        or 0,
        cost=cost,
    )


def _parse_error_object(data: bytes) -> Any:
    try:
        parsed = msgspec.json.decode(data)
    except errors.JSON_DECODE_ERRORS:
        return data.decode("utf-8", "replace")
    return parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
