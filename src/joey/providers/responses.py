"""OpenAI's `/responses`: its request bodies and its stream of events.

Nothing is stored at the service: reasoning is encrypted, and is sent back to the model that made it
in its original place, before the text or the calls that it led to. Ids of other items are not sent:
the service would look for the items that belong to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.core.tool_schema import simplify_schema
from joey.providers import errors
from joey.providers.conversation_encoder import encode_json as _encode_json
from joey.providers.errors import ServiceInfo
from joey.providers.openai_request import MessageConverter, OpenAiRequestBuilder
from joey.providers.services import (
    ENCRYPTED_CONTENT,
    ServiceRules,
    identify_responses_service,
)
from joey.providers.sse import ServerSentEvent
from joey.providers.sse_transport import StreamDecoder

_Wire = dict[str, Any]

_CALL_ID_PATTERN = ".{1,64}"
_OWN_KEYS = frozenset({"input", "instructions"})
"""Not for `extraBody`, besides those of chat completions."""
_PHASES = "phases"
"""The key of `extra_content` for the phases of a reply's texts, in their order."""


class ResponsesRequestBuilder(OpenAiRequestBuilder):
    def __init__(
        self, profile: Profile, model: ModelInfo, host: str, refused: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(profile, model, host, refused)
        self._extra_body = {k: v for k, v in self._extra_body.items() if k not in _OWN_KEYS}
        self._message_converter = _ItemConverter(
            identify_responses_service(profile.provider, host),
            self._model_id,
            ServiceRules(call_id_pattern=_CALL_ID_PATTERN),
            refused,
        )

    def build_body(self, request: ModelRequest) -> list[bytes]:
        items = self._conversation_encoder.encode_conversation(request.messages)
        parts = [
            _encode_json(self._build_parameters(request))[:-1],
            self._encode_system_once(request.system_prompt),
            b',"input":[',
            *items,
            b'],"stream":true',
        ]
        if request.tools:
            parts.append(self._encode_tools_once(request.tools))
            if self._may_send("tool_choice"):
                parts.append(b',"tool_choice":"auto"')
            if self._may_send("parallel_tool_calls"):
                parts.append(b',"parallel_tool_calls":true')
        parts.append(b"}")
        return parts

    def _build_parameters(self, request: ModelRequest) -> _Wire:
        profile, extra = self._profile, dict(self._extra_body)
        effort = extra.pop("reasoning_effort", profile.reasoning_effort)
        reasoning = {"effort": effort, "summary": "auto"}
        if verbosity := extra.pop("verbosity", None):
            extra = {"text": {"verbosity": verbosity}, **extra}
        parameters: _Wire = {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": self._leave_out_refused(reasoning) or None,
            "max_output_tokens": profile.max_tokens,
            "prompt_cache_key": request.task_id,
            "top_p": profile.top_p,
        }
        if self.model.supports_temperature:
            chosen = profile.temperature
            parameters["temperature"] = self.model.default_temperature if chosen is None else chosen
        return {"model": self._model_id, **self._leave_out_refused(parameters | extra)}

    def _leave_out_refused(self, values: _Wire) -> _Wire:
        return {
            name: value
            for name, value in values.items()
            if value is not None and name not in self._refused
        }

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        items = self._message_converter.convert(message, self.model)
        return b",".join(_encode_json(item) for item in items)

    def _encode_system(self, system: str) -> bytes:
        return b',"instructions":' + _encode_json(system)

    def _build_tool(self, tool: ToolSpec) -> _Wire:
        parameters, strict = tool.parameters, {"strict": tool.strict}
        if "strict" in self._refused:
            parameters, strict = simplify_schema(parameters), {}
        return {
            "type": "function",
            "name": tool.name,
            "description": tool.description[: self._rules.max_description_chars],
            "parameters": parameters,
            **strict,
        }


class _ItemConverter(MessageConverter):
    """Converts messages into items."""

    def __init__(
        self, service: str, model_id: str, rules: ServiceRules, refused: frozenset[str]
    ) -> None:
        super().__init__(service, model_id, rules, refused)
        unreadable = (name for name in refused if name.startswith(ENCRYPTED_CONTENT))
        self._unreadable_ids = frozenset(" ".join(unreadable).split())

    def convert(self, message: msg.Message, model: ModelInfo) -> list[_Wire]:
        if message.role == "assistant":
            return list(self._convert_reply_items(message))
        return [_convert_input(each) for each in super().convert(message, model)]

    def _convert_reply_items(self, message: msg.Message) -> Iterator[_Wire]:
        source = message.source
        is_own = source is UNSET or self._is_own(source)
        extra = source.extra_content if source is not UNSET and is_own else None
        phases = list(extra.get(_PHASES) or ()) if extra and "phase" not in self._refused else []
        reasoning: list[_Wire] = []
        """Sent only before something that it led to."""
        for block in msg.get_blocks(message):
            match block:
                case msg.UnsignedReasoningBlock() if (
                    is_own and block.encrypted_content and block.id not in self._unreadable_ids
                ):
                    reasoning.append(_convert_reasoning(block))
                    continue
                case msg.TextBlock() if block.text:
                    content = [{"type": "output_text", "text": block.text}]
                    item = {"type": "message", "role": "assistant", "content": content}
                    if phases and (phase := phases.pop(0) if len(phases) > 1 else phases[0]):
                        item["phase"] = phase
                case msg.ToolUseBlock():
                    item = {
                        "type": "function_call",
                        "call_id": self._convert_call_id(block.id),
                        "name": block.name,
                        "arguments": _encode_json(block.input).decode(),
                    }
                case _:
                    continue
            yield from reasoning
            reasoning = []
            yield item


def _convert_reasoning(block: msg.UnsignedReasoningBlock) -> _Wire:
    return {
        "type": "reasoning",
        **({"id": block.id} if block.id else {}),
        "summary": block.summary,
        "encrypted_content": block.encrypted_content,
    }


def _convert_input(message: _Wire) -> _Wire:
    """The item for a user's message, or for a result, of chat completions."""
    content = message["content"]
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    parts = [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        for part in content
    ]
    return {"type": "message", "role": "user", "content": parts}


class _Item(Struct):
    type: str = ""
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    content: list[Any] | None = None
    summary: list[Any] | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class _InputTokensDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ResponsesUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputTokensDetails | None = None
    cost: float | None = None


class _IncompleteDetails(Struct):
    code: str | None = msgspec.field(default=None, name="reason")


class _Response(Struct):
    id: str | None = None
    status: str | None = None
    output: list[_Item] | None = None
    usage: _ResponsesUsage | None = None
    incomplete_details: _IncompleteDetails | None = None
    error: Any = None


class _StreamEvent(Struct):
    type: str = ""
    output_index: int = 0
    delta: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    error: Any = None
    code: str | None = None
    message: str | None = None


class _EventType(Struct):
    type: str = ""


class _OpenItem(Struct):
    """An item between its start and its end."""

    index: int
    """Its place among all items."""
    has_content: bool = False


_decode_event = msgspec.json.Decoder(_StreamEvent).decode
_decode_response = msgspec.json.Decoder(_Response).decode
_decode_event_type = msgspec.json.Decoder(_EventType).decode
_HANDLED_EVENT_TYPES = frozenset(
    {
        "error",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.completed",
        "response.incomplete",
        "response.failed",
    }
)


class ResponsesStreamDecoder(StreamDecoder):
    def __init__(self, service: ServiceInfo) -> None:
        super().__init__(service)
        self._open_items: dict[int, _OpenItem] = {}
        """By the number that the service gives them."""
        self._item_types: list[str] = []
        self._phases: list[str | None] = []
        self._is_reasoning_open = False

    def feed(self, event: ServerSentEvent) -> Iterable[msg.Chunk]:
        if event.data == b"[DONE]":
            self.is_stream_finished = True
            return ()
        try:
            said = _decode_event(event.data)
            if not said.type:  # a whole response, from a server that does not stream
                return self._end_response(_decode_response(event.data))
        except msgspec.ValidationError as error:
            kind = self._read_event_type(event.data)
            if kind and kind not in _HANDLED_EVENT_TYPES:
                return ()
            raise self._build_malformed_error(f"an odd event {kind} ({error})") from error
        except errors.JSON_DECODE_ERRORS as error:
            raise self._build_malformed_error("an event that is not JSON") from error
        return self._handle_event(said)

    def _read_event_type(self, data: bytes) -> str:
        try:
            return _decode_event_type(data).type
        except errors.JSON_DECODE_ERRORS:
            return ""

    def _handle_event(self, said: _StreamEvent) -> Iterable[msg.Chunk]:
        match said.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._find_item(said.output_index, "message").has_content = True
                return (msg.TextChunk(said.delta),) if said.delta else ()
            case "response.function_call_arguments.delta":
                item = self._find_item(said.output_index, "function_call")
                item.has_content = item.has_content or bool(said.delta)
                return (msg.CallChunk(item.index, arguments=said.delta),) if said.delta else ()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._find_item(said.output_index, "reasoning").has_content = True
                self._is_reasoning_open = True
                return (msg.ReasoningChunk(said.delta),) if said.delta else ()
            case "response.reasoning_summary_part.added":
                return (msg.ReasoningChunk("\n\n"),) if self._is_reasoning_open else ()
            case "response.output_item.added" if said.item:
                return self._start_item(said.output_index, said.item)
            case "response.output_item.done" if said.item:
                return self._end_item(said.output_index, said.item)
            case "response.completed" | "response.incomplete" | "response.failed" if said.response:
                return self._end_response(said.response)
            case "error":
                error = said.error or {"code": said.code, "message": said.message}
                raise errors.build_stream_error(self._service, error)
            case _:
                return ()

    def _find_item(self, number: int, kind: str) -> _OpenItem:
        if number not in self._open_items:
            self._open_item(number, kind)
        return self._open_items[number]

    def _open_item(self, number: int, kind: str) -> _OpenItem:
        item = self._open_items[number] = _OpenItem(len(self._item_types))
        self._item_types.append(kind)
        return item

    def _start_item(self, number: int, item: _Item) -> list[msg.Chunk]:
        before = self._item_types[-1] if self._item_types else None
        opened = self._open_item(number, item.type)
        self._is_reasoning_open = self._is_reasoning_open and item.type == "reasoning"
        if item.type == "function_call":
            return [msg.CallChunk(opened.index, id=item.call_id or item.id, name=item.name)]
        if item.type == before == "message":
            # Two texts in a row are two paragraphs; nothing else keeps them apart.
            return [msg.TextChunk("\n")]
        return []

    def _end_item(self, number: int, item: _Item) -> list[msg.Chunk]:
        chunks = [] if number in self._open_items else self._start_item(number, item)
        opened = self._open_items.pop(number)
        text = "" if opened.has_content else _collect_text(item)
        is_whole = item.status != "incomplete"
        match item.type:
            case "function_call":
                if text:
                    chunks.append(msg.CallChunk(opened.index, arguments=text))
                if is_whole:
                    chunks.append(msg.CallEndChunk(opened.index))
            case "message":
                chunks += [msg.TextChunk(text)] if text else []
                self._phases.append(item.phase)
                if any(self._phases):
                    self.extra_content = {_PHASES: self._phases}
            case "reasoning":
                chunks += [msg.ReasoningChunk(text)] if text else []
                if is_whole and item.encrypted_content and item.id:
                    summary = tuple(item.summary or ())
                    kept = msg.ReasoningItem(item.id, item.encrypted_content, summary)
                    chunks.append(msg.ReasoningChunk(item=kept))
                    self._is_reasoning_open = False
        return chunks

    def _end_response(self, response: _Response) -> list[msg.Chunk]:
        if response.error or response.status == "failed":
            raise errors.build_stream_error(self._service, response.error or "")
        chunks: list[msg.Chunk] = []
        if not self._item_types:
            for number, item in enumerate(response.output or ()):
                chunks += self._end_item(number, item)
        cause = response.incomplete_details and response.incomplete_details.code
        if cause == "content_filter" and not self._item_types:
            message = "The content filter stopped the reply."
            raise errors.build_stream_error(self._service, {"code": cause, "message": message})
        if not cause:
            has_calls = "function_call" in self._item_types
            cause = "tool_calls" if has_calls else "stop"
            for opened in self._open_items.values():
                if self._item_types[opened.index] == "function_call":
                    chunks.append(msg.CallEndChunk(opened.index))
        if response.usage is not None:
            chunks.append(msg.UsageChunk(_convert_usage(response.usage)))
        chunks.append(msg.StopChunk(cause, response.id))
        self.is_answer_complete = self.is_stream_finished = True
        return chunks


def _collect_text(item: _Item) -> str:
    """Collect the content of a whole item, for servers that send no deltas."""
    if item.type == "function_call":
        arguments = item.arguments or ""
        return arguments if isinstance(arguments, str) else _encode_json(arguments).decode()
    parts = [part for part in (item.summary or item.content or ()) if isinstance(part, dict)]
    texts = [part.get("text") or part.get("refusal") for part in parts]
    separator = "\n\n" if item.type == "reasoning" else ""
    return separator.join(text for text in texts if isinstance(text, str))


def _convert_usage(usage: _ResponsesUsage) -> msg.Usage:
    details = usage.input_tokens_details or _InputTokensDetails()
    return msg.Usage(
        input=usage.input_tokens or 0,
        output=usage.output_tokens or 0,
        cache_writes=details.cache_write_tokens or 0,
        cache_reads=details.cached_tokens or 0,
        cost=usage.cost,
    )
