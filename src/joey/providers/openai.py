"""OpenAI's `/chat/completions`, spoken by most services and local servers: provider and stream.

The decoder of the stream tolerates the deviations of the many servers that speak this protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from joey.core import messages as msg
from joey.core.models import ModelInfo
from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError
from joey.ports.model import RefusalMemory
from joey.providers import errors
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.errors import ServiceInfo
from joey.providers.http_client import HttpClient
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.providers.services import (
    CHAT_COMPLETIONS,
    RESPONSES,
    THINKING_CHUNK,
    identify_responses_service,
)
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder, StreamingProvider

_CHAT_PATH = "/chat/completions"
_RESPONSES_PATH = "/responses"


class OpenAiProvider(StreamingProvider):
    api_protocol = "openai"
    _document_key = "choices"
    _uses_responses = False

    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        http: HttpClient,
        route: ModelRoute | None = None,
        refusal_memory: RefusalMemory | None = None,
    ) -> None:
        super().__init__(profile, model, http, route, refusal_memory)
        self._chat_url = self._url

    def _build_headers(self, profile: Profile) -> dict[str, str]:
        return {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}

    @property
    def _responses_url(self) -> str:
        return self._chat_url.removesuffix(_CHAT_PATH) + _RESPONSES_PATH

    @property
    def _service_id(self) -> str:
        if not self._uses_responses:
            return super()._service_id
        return identify_responses_service(self._service.provider_name, self._host)

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        self._uses_responses = self._should_use_responses(refused)
        if not self._uses_responses:
            self._url, self._document_key = self._chat_url, "choices"
            return OpenAiRequestBuilder(self._profile, self.model, self._host, refused)
        from joey.providers.responses import ResponsesRequestBuilder

        self._url = self._responses_url
        self._document_key = "output"
        return ResponsesRequestBuilder(self._profile, self.model, self._host, refused)

    def _should_use_responses(self, refused: frozenset[str]) -> bool:
        """Whether the model needs the Responses API. Only OpenAI and Azure serve its models with
        OpenAI's own features."""
        if RESPONSES in refused:
            return False
        is_other_service = super()._service_id.partition("@")[0] not in ("openai", "azure")
        return CHAT_COMPLETIONS in refused or (self.model.needs_responses and not is_other_service)

    def _make_decoder(self) -> StreamDecoder:
        if not self._uses_responses:
            return OpenAiStreamDecoder(self._service)
        from joey.providers.responses import ResponsesStreamDecoder

        return ResponsesStreamDecoder(self._service)

    def _find_refused_name(self, error: ProviderError, sent: bytes) -> str | None:
        from joey.providers import refusals

        status, text, known = error.status, error.response, self._refused
        if self._uses_responses:
            extra_names = self._profile.extra_body
            return refusals.find_refusal_of_responses(
                status, text, sent, extra_names, known
            ) or refusals.find_refused_images(status, text, sent, known)
        name = refusals.find_refusal_of_chat(status, text, known)
        return name or super()._find_refused_name(error, sent)


class _FunctionDelta(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None
    extra_content: Any = None


class _ChoiceDelta(Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    extra_content: Any = None
    tool_calls: list[_ToolCallDelta] | None = None


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
    cached_tokens: int | None = None
    cost: float | None = None
    cost_details: _CostDetails | None = None


class _StreamChoice(Struct):
    delta: _ChoiceDelta | None = None
    message: _ChoiceDelta | None = None
    """From servers that answer in one piece."""
    finish_reason: str | None = None
    usage: _OpenAiUsage | None = None
    """Moonshot's, in the last chunk."""


class _StreamChunk(Struct):
    id: str | None = None
    choices: list[_StreamChoice] | None = None
    usage: _OpenAiUsage | None = None
    error: Any = None
    base_resp: Any = None


_decode_chunk = msgspec.json.Decoder(_StreamChunk).decode
_LENGTH_FINISH_REASON = "length"
"""The reason that leaves the last call unfinished."""
_FAILURE_FINISH_REASONS = ("error", "abort", "network_error", "insufficient_system_resource")
"""OpenRouter and vLLM, SGLang, Z.ai, DeepSeek: the service failed in the middle of a reply."""
_CALL_FILTER_PREFIX = "function_call_filter"
"""Gemini's: the model has written something that is no call."""


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
        if error := said.error or errors.find_minimax_error(said.base_resp):
            raise errors.build_stream_error(self._service, error)
        chunks: list[msg.Chunk] = []
        usage = said.usage
        if said.choices:
            choice = said.choices[0]
            usage = usage or choice.usage
            if (delta := choice.delta or choice.message) is not None:
                self._handle_delta(delta, chunks)
            if choice.finish_reason:
                self._handle_finish(choice.finish_reason, said.id, chunks)
        if usage is not None:
            chunks.append(msg.UsageChunk(_convert_usage(usage)))
        return chunks

    def _parse_chunk(self, event: ServerSentEvent) -> _StreamChunk:
        if event.event == "error":
            raise errors.build_stream_error(self._service, _parse_error_object(event.data))
        return self._decode(_decode_chunk, event.data, "chunk")

    def _handle_delta(self, delta: _ChoiceDelta, chunks: list[msg.Chunk]) -> None:
        if details := delta.reasoning_details:
            self._reasoning_merger.add(details)
        thought = delta.reasoning_content or delta.reasoning
        if thought and self.reasoning_field is None:
            self.reasoning_field = "reasoning_content" if delta.reasoning_content else "reasoning"
        if thought or (details and (thought := _join_text_parts(details))):
            chunks.append(msg.ReasoningChunk(thought))
        is_thought = self._handle_extra_content(delta.extra_content)
        if content := delta.content or delta.refusal:
            if not isinstance(content, str):
                content = self._handle_content_parts(content, chunks)
            if content:
                chunks.append(msg.ReasoningChunk(content) if is_thought else msg.TextChunk(content))
        for call in delta.tool_calls or ():
            chunks.append(self._call_indexer.convert_delta(call))

    def _handle_content_parts(self, parts: list[Any], chunks: list[msg.Chunk]) -> str:
        """Handle the text parts; Mistral's models return reasoning in separate parts."""
        texts: list[str] = []
        for part in parts:
            if not isinstance(part, dict):
                continue
            if isinstance(thoughts := part.get("thinking"), list):
                thoughts = [each for each in thoughts if isinstance(each, dict)]
                self.reasoning_field = THINKING_CHUNK
                chunks.append(msg.ReasoningChunk(_join_text_parts(thoughts)))
            else:
                texts.append(_join_text_parts([part]))
        return "".join(texts)

    def _handle_extra_content(self, extra: Any) -> bool:
        """Store Google's extra data about a text; return whether it marks reasoning."""
        match extra:
            case {"google": {"thought": True}}:
                return True
            case dict():
                self.extra_content = {**(self.extra_content or {}), **extra}
        return False

    def _handle_finish(
        self, finish_reason: str, response_id: str | None, chunks: list[msg.Chunk]
    ) -> None:
        if finish_reason in _FAILURE_FINISH_REASONS or finish_reason.startswith(
            _CALL_FILTER_PREFIX
        ):
            message = f"The reply was interrupted (finish reason `{finish_reason}`)."
            raise errors.build_stream_error(self._service, {"message": message})
        self.is_answer_complete = True
        chunks += self._reasoning_merger.take_chunks()
        if finish_reason != _LENGTH_FINISH_REASON:
            chunks += [msg.CallEndChunk(index) for index in self._call_indexer.take_open_indexes()]
        chunks.append(msg.StopChunk(finish_reason, response_id))


class _ToolCallIndexer:
    """Maps pieces to calls. Servers differ: most number their calls, some leave out the number, and
    some give all calls the number 0 and distinguish them by id."""

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
            index,
            id=call.id or None,
            name=function.name or None,
            arguments=arguments or None,
            extra_content=call.extra_content if isinstance(call.extra_content, dict) else None,
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
    """Merges OpenRouter's reasoning items, which arrive in pieces and must be sent back whole."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, pieces: list[dict[str, Any]]) -> None:
        for piece in pieces:
            kind, index = piece.get("type"), piece.get("index", 0)
            # Encrypted items of several calls may share an index; pieces of a text have no id.
            name = piece.get("id") if kind == "reasoning.encrypted" else None
            key = (str(kind), str(index), str(name))
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
    """Join the readable text in a list of parts, of reasoning or of content."""
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
        or usage.cached_tokens
        or 0,
        cost=cost,
    )


def _parse_error_object(data: bytes) -> Any:
    try:
        parsed = msgspec.json.decode(data)
    except errors.JSON_DECODE_ERRORS:
        return data.decode("utf-8", "replace")
    return parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
