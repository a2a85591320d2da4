"""Ollama's own `/api/chat`: the only wire on which a request says how large the window must be.

A server that does not answer as Ollama does, such as a proxy, is spoken to like the other ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ServedModel
from joey.core.settings import Profile
from joey.providers import errors
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.conversation_encoder import encode_json as _encode_json
from joey.providers.errors import ServiceInfo
from joey.providers.local_server import LocalServerProvider
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.providers.server_advice import OLLAMA_RESTART_ADVICE, SMALLEST_WINDOW
from joey.providers.sse import EventReader, NdjsonReader, ServerSentEvent
from joey.providers.sse_transport import StreamDecoder

_KEEP_ALIVE = "30m"
"""How long the model stays loaded: users take longer to answer than the server's five minutes."""
_SHRINK_DIVISOR = 4
_OPTIONS = ("temperature", "top_p", "top_k", "min_p", "presence_penalty")


class OllamaProvider(LocalServerProvider):
    _has_own_wire = False
    _max_window: int | None = None
    """Requested at most, after the server ran out of memory."""

    @property
    def window_advice(self) -> str:
        if self._kind == "ollama" and not self._has_own_wire:
            return OLLAMA_RESTART_ADVICE
        return super().window_advice

    def _apply(self, served: ServedModel) -> None:
        super()._apply(served)
        if self._max_window is not None:
            self._set_model(self.model.limit_window(self._max_window))
        is_ollama = self._kind == "ollama" and served.max_context_window is not None
        if is_ollama and not self._has_own_wire:
            self._has_own_wire = True
            self._request_builder = None
            self._document_key = "message"
            self._url = f"{self._root_url}/api/chat"

    def shrink_window(self) -> bool:
        window = self.model.context_window
        if not self._has_own_wire or self._max_window is not None or window <= SMALLEST_WINDOW:
            return False
        self._max_window = max(SMALLEST_WINDOW, window // _SHRINK_DIVISOR)
        self._set_model(self.model.limit_window(self._max_window))
        return True

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        if not self._has_own_wire:
            return super()._make_request_builder(refused)
        return OllamaRequestBuilder(self._server_profile, self.model, self._host, refused)

    def _make_decoder(self) -> StreamDecoder:
        return OllamaStreamDecoder(self._service) if self._has_own_wire else super()._make_decoder()

    def _make_reader(self) -> EventReader:
        return NdjsonReader() if self._has_own_wire else super()._make_reader()


class OllamaRequestBuilder(OpenAiRequestBuilder):
    """Builds on OpenAI's messages, which differ in a few fields."""

    def __init__(
        self, profile: Profile, model: ModelInfo, host: str, refused: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(profile, model, host, refused)
        self._tool_names: dict[str, str] = {}
        """Of the calls so far, by their ids: results name the tool."""

    def build_body(self, request: ModelRequest) -> list[bytes]:
        messages = self._conversation_encoder.encode_conversation(request.messages)
        if system := self._encode_system_once(request.system_prompt):
            messages = [system, *([b",", *messages] if messages else [])]
        parts = [self._encode_body_prefix(), b',"messages":[', *messages, b'],"stream":true']
        parts.append(b',"options":' + _encode_json(self._build_options(request)))
        if request.tools:
            parts.append(self._encode_tools_once(request.tools))
        parts.append(b"}")
        return parts

    def _encode_body_prefix(self) -> bytes:
        extra = {key: value for key, value in self._extra_body.items() if key != "options"}
        return _encode_json({"model": self._model_id, "keep_alive": _KEEP_ALIVE, **extra})[:-1]

    def _build_options(self, request: ModelRequest) -> dict[str, Any]:
        given = {name: getattr(self._profile, name) for name in _OPTIONS}
        if given["temperature"] is None and self.model.supports_temperature:
            given["temperature"] = self.model.default_temperature
        options = {name: value for name, value in given.items() if value is not None}
        options |= {
            "num_ctx": self.model.context_window,
            "num_predict": self._choose_max_tokens(request),
        }
        extra = self._extra_body.get("options")
        return options | (extra if isinstance(extra, dict) else {})

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        wire = self._message_converter.convert(message, self.model)
        return b",".join(_encode_json(self._convert(item)) for item in wire)

    def _convert(self, item: dict[str, Any]) -> dict[str, Any]:
        own: dict[str, Any] = {"role": item["role"]}
        content = item["content"]
        if isinstance(content, str):
            own["content"] = content
        else:
            own["content"] = "\n".join(part["text"] for part in content if "text" in part)
            urls = [part["image_url"]["url"] for part in content if "image_url" in part]
            own |= {"images": [url.partition(",")[2] for url in urls]} if urls else {}
        if thoughts := item.get("reasoning_content") or item.get("reasoning"):
            own["thinking"] = thoughts
        if calls := item.get("tool_calls"):
            own["tool_calls"] = [self._convert_call(call) for call in calls]
        if call_id := item.get("tool_call_id"):
            own["tool_name"] = self._tool_names.get(call_id, "")
        return own

    def _convert_call(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        self._tool_names[call["id"]] = function["name"]
        arguments = msgspec.json.decode(function["arguments"])
        return {"function": {"name": function["name"], "arguments": arguments}}


class _Function(Struct):
    name: str | None = None
    arguments: dict[str, Any] | str | None = None


class _Call(Struct):
    function: _Function


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode


class OllamaStreamDecoder(StreamDecoder):
    def __init__(self, service: ServiceInfo) -> None:
        super().__init__(service)
        self._call_count = 0

    def feed(self, event: ServerSentEvent) -> Iterable[msg.Chunk]:
        line = self._decode(_decode_line, event.data, "line")
        if line.error:
            raise errors.build_stream_error(self._service, line.error)
        chunks: list[msg.Chunk] = []
        if line.message is not None:
            self._handle_message(line.message, chunks)
        if line.done:
            self.is_answer_complete = self.is_stream_finished = True
            if line.prompt_eval_count is not None or line.eval_count is not None:
                usage = msg.Usage(input=line.prompt_eval_count or 0, output=line.eval_count or 0)
                chunks.append(msg.UsageChunk(usage))
            chunks.append(msg.StopChunk(line.done_reason or "stop"))
        return chunks

    def _handle_message(self, message: _Message, chunks: list[msg.Chunk]) -> None:
        if message.thinking:
            self.reasoning_field = "reasoning_content"
            chunks.append(msg.ReasoningChunk(message.thinking))
        if message.content:
            chunks.append(msg.TextChunk(message.content))
        for call in message.tool_calls or ():  # always whole
            arguments = call.function.arguments
            if not isinstance(arguments, str):
                arguments = _encode_json(arguments or {}).decode()
            chunks.append(
                msg.CallChunk(self._call_count, name=call.function.name, arguments=arguments)
            )
            chunks.append(msg.CallEndChunk(self._call_count))
            self._call_count += 1
