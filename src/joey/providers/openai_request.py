"""Bodies of requests to `/chat/completions`.

One message in joey may become several: results of calls are sent as separate messages before the
user's text. Fields that a service does not support (`services`) or has rejected (`refusals`) are
left out. Reasoning and other data that only one service can use are sent back to that service, and
signatures to the model that made them.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET, UnsetType

from joey.core import messages as msg
from joey.core.models import ModelInfo, ModelRequest, ToolSpec
from joey.core.prompts.environment import strip_environment_details
from joey.core.settings import Profile
from joey.core.tool_schema import simplify_schema
from joey.providers.catalog import find_provider_spec
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.conversation_encoder import encode_json as _encode_json
from joey.providers.services import (
    REASONING_WITH_TOOLS,
    THINKING_CHUNK,
    ServiceRules,
    adapt_rules,
    find_service_rules,
    identify_service,
)

_Wire = dict[str, Any]

_CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
_IMAGE_PLACEHOLDER = {"type": "text", "text": "[An image was here; this model takes no images.]"}
_BEFORE_IMAGES_TEXT = "Let me see the image."
"""Said by the assistant where images cannot follow a result."""
_DEFAULT_REASONING_FIELD = "reasoning_content"
_DUMMY_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Documented by Google for calls that another model has made."""
_UNSIGNED_MODELS_RE = re.compile(r"(?:.*/)?gemini-[12]\..*")
_DEVELOPER_ROLE_MODELS_RE = re.compile(r"(?:.*/)?o[134](?:-.*)?")
_OWN_KEYS = frozenset({"model", "messages", "stream", "tools"})
"""Not for `extraBody`: a request without them, or with others, is none of ours."""


class OpenAiRequestBuilder(RequestBuilder):
    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        host: str,
        refused: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(model, _is_user_message)
        self._profile = profile
        self._is_local = find_provider_spec(profile.provider).is_local
        self._refused = refused
        self._extra_body = {k: v for k, v in profile.extra_body.items() if k not in _OWN_KEYS}
        model_id = profile.model or model.id
        self._model_id = model_id
        self._uses_developer_role = _DEVELOPER_ROLE_MODELS_RE.fullmatch(model_id) is not None
        self._message_converter = MessageConverter(
            identify_service(profile.provider, host),
            model_id,
            adapt_rules(find_service_rules(profile.provider, host, model_id), refused),
            refused,
        )
        self._rules = self._message_converter.rules

    def build_body(self, request: ModelRequest) -> list[bytes]:
        messages = self._conversation_encoder.encode_conversation(request.messages)
        if system := self._encode_system_once(request.system_prompt):
            messages = [system, *([b",", *messages] if messages else [])]
        parts = [self._encode_body_prefix(), b',"messages":[', *messages, b'],"stream":true']
        if self._rules.takes_stream_options and self._may_send("stream_options"):
            parts.append(b',"stream_options":{"include_usage":true}')
        if (limit := self._choose_max_tokens(request)) and (
            name := self._choose_max_tokens_field()
        ):
            parts.append(b',"%s":%d' % (name.encode(), limit))
        if effort := self._choose_reasoning_effort(bool(request.tools)):
            parts.append(b',"reasoning_effort":' + _encode_json(effort))
        if request.tools:
            parts.append(self._encode_tools_once(request.tools))
            if self._may_send("tool_choice"):
                parts.append(b',"tool_choice":"auto"')
            if self._rules.takes_parallel_tool_calls and self._may_send("parallel_tool_calls"):
                parts.append(b',"parallel_tool_calls":true')
        parts.append(b"}")
        return parts

    def _may_send(self, name: str) -> bool:
        return name not in self._refused and name not in self._extra_body

    def _encode_body_prefix(self) -> bytes:
        profile = self._profile
        parameters: dict[str, Any] = {}
        if self.model.supports_temperature and not self._uses_developer_role:
            chosen = profile.temperature
            parameters["temperature"] = self.model.default_temperature if chosen is None else chosen
        parameters |= {
            "top_p": profile.top_p,
            "top_k": profile.top_k,
            "min_p": profile.min_p,
            "presence_penalty": profile.presence_penalty,
            "chat_template_kwargs": profile.chat_template_kwargs or None,
            **self._extra_body,
        }
        sent = {
            name: value
            for name, value in parameters.items()
            if value is not None and name not in self._refused
        }
        return _encode_json({"model": self._model_id, **sent})[:-1]

    def _choose_max_tokens(self, request: ModelRequest) -> int | None:
        if not self._is_local:
            return self._profile.max_tokens
        # Nothing else ends a reply that repeats itself.
        return min(filter(None, (self.model.max_output_tokens, request.max_output_tokens)))

    def _choose_max_tokens_field(self) -> str | None:
        fields = dict.fromkeys(
            (self._rules.max_tokens_field, "max_tokens", "max_completion_tokens")
        )
        return next((name for name in fields if self._may_send(name)), None)

    def _choose_reasoning_effort(self, with_tools: bool) -> str | None:
        if with_tools and REASONING_WITH_TOOLS in self._refused:
            return "none"
        effort = self._profile.reasoning_effort
        return effort if effort and self._may_send("reasoning_effort") else None

    def _encode_message(self, message: msg.Message, *, mark: bool) -> bytes:
        wire = self._message_converter.convert(message, self.model)
        if mark and "cache_control" not in self._refused and self._rules.takes_content_parts:
            _mark_last_text_for_cache(wire)
        return b",".join(_encode_json(item) for item in wire)

    def _encode_system(self, system: str) -> bytes:
        role, text = ("system", system)
        if self._uses_developer_role:
            role, text = ("developer", f"Formatting re-enabled\n{system}")
        content: Any = text
        takes_marks = "cache_control" not in self._refused and self._rules.takes_content_parts
        if self.model.supports_prompt_cache and takes_marks:
            content = [{"type": "text", "text": text, **_CACHE_CONTROL}]
        return _encode_json({"role": role, "content": content})

    def _build_tool(self, tool: ToolSpec) -> _Wire:
        description = tool.description[: self._rules.max_description_chars]
        function: _Wire = {"name": tool.name, "description": description}
        if self._rules.takes_strict_schemas:
            function |= {"parameters": tool.parameters, "strict": tool.strict}
        else:
            function["parameters"] = simplify_schema(
                tool.parameters,
                additional_properties=self._rules.takes_additional_properties,
                number_enums=self._rules.takes_number_enums,
            )
        return {"type": "function", "function": function}


class MessageConverter:
    """Converts messages for one model at one service."""

    def __init__(
        self,
        service: str,
        model_id: str,
        rules: ServiceRules,
        refused: frozenset[str] = frozenset(),
    ) -> None:
        self.rules = rules
        self._service = service
        self._model_id = model_id
        self._refused = refused
        self._call_id_re = re.compile(rules.call_id_pattern or ".*", re.DOTALL)

    def convert(self, message: msg.Message, model: ModelInfo) -> list[_Wire]:
        """Convert a message into those on the wire; none if none of it may be sent."""
        if message.role == "assistant":
            return self._convert_reply(message, wants_reasoning=model.preserve_reasoning)
        results: list[_Wire] = []
        images: list[_Wire] = []
        parts: list[_Wire] = []
        for block in msg.get_blocks(message):
            match block:
                case msg.ToolResultBlock():
                    results.append(self._convert_tool_result(block))
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
        if results and not self.rules.takes_user_after_tool:
            return _merge_into_last_result(results, images + parts)
        if parts or images:
            results.append({"role": "user", "content": self._join_texts(images + parts)})
        return results

    def _join_texts(self, parts: list[_Wire]) -> list[_Wire] | str:
        if self.rules.takes_content_parts or any(part["type"] != "text" for part in parts):
            return parts
        return "\n\n".join(part["text"] for part in parts)

    def _convert_reply(self, message: msg.Message, *, wants_reasoning: bool) -> list[_Wire]:
        blocks = msg.get_blocks(message)
        text = "\n".join(block.text for block in blocks if isinstance(block, msg.TextBlock))
        calls = [
            self._convert_call(block, message.source)
            for block in blocks
            if isinstance(block, msg.ToolUseBlock)
        ]
        if self._needs_dummy_signatures(calls):
            calls = [{**call, "extra_content": _DUMMY_SIGNATURE} for call in calls]
        if not text and not calls:
            return []
        wire: _Wire = {"role": "assistant", "content": text}
        if calls:
            wire["tool_calls"] = calls
        self._add_reasoning(wire, message, wants_reasoning)
        source = message.source
        if self.rules.takes_extra_content and source is not UNSET and self._is_own(source):
            wire |= {"extra_content": source.extra_content} if source.extra_content else {}
        if calls and not self.rules.takes_text_with_calls:
            wire["content"] = ""
        return [wire]

    def _convert_call(self, block: msg.ToolUseBlock, source: msg.ReplySource | UnsetType) -> _Wire:
        function = {"name": block.name, "arguments": _encode_json(block.input).decode()}
        wire: _Wire = {
            "id": self._convert_call_id(block.id),
            "type": "function",
            "function": function,
        }
        is_known_as_own = source is UNSET or self._is_own(source)
        if block.extra_content is not None and self.rules.takes_extra_content and is_known_as_own:
            wire["extra_content"] = block.extra_content
        return wire

    def _needs_dummy_signatures(self, calls: list[_Wire]) -> bool:
        """Whether no call is signed: they are another model's, or were written in a text."""
        return (
            self.rules.has_thought_signatures
            and not any("extra_content" in call for call in calls)
            and not _UNSIGNED_MODELS_RE.fullmatch(self._model_id)
        )

    def _is_own(self, source: msg.ReplySource) -> bool:
        """Whether a reply is from this model: signed or encrypted data is for it only."""
        return source.service == self._service and source.model == self._model_id

    def _add_reasoning(self, wire: _Wire, message: msg.Message, is_wanted: bool) -> None:
        source, rules = message.source, self.rules
        if (
            message.reasoning_details is not UNSET
            and rules.takes_reasoning_details
            and (source is UNSET or self._is_own(source))
        ):
            wire["reasoning_details"] = message.reasoning_details
            if message.reasoning_content is UNSET:
                return
        field = rules.reasoning_field or _DEFAULT_REASONING_FIELD
        if rules.reasoning_field is None and source is not UNSET and source.reasoning_field:
            field = source.reasoning_field
        is_refused = field != THINKING_CHUNK and field in self._refused
        if not rules.takes_reasoning or is_refused:
            return
        text = self._collect_reasoning(message, is_wanted and rules.is_reasoning_shared)
        if text and rules.has_thought_tags and source is not UNSET and not source.reasoning_field:
            thought = text.strip("\n")
            wire["content"] = f"<think>\n{thought}\n</think>\n\n{wire['content']}"
        elif text and field == THINKING_CHUNK:
            chunk = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            said = [{"type": "text", "text": wire["content"]}] if wire["content"] else []
            wire["content"] = [chunk, *said]
        elif text or (wire.get("tool_calls") and rules.missing_reasoning is not None):
            wire[field] = text or rules.missing_reasoning

    def _collect_reasoning(self, message: msg.Message, is_wanted: bool) -> str:
        """Collect the plain reasoning of a reply that this service accepts."""
        source, rules = message.source, self.rules
        if source is UNSET:
            may_send = message.reasoning_content is not UNSET and rules.is_reasoning_shared
        elif source.service == self._service:
            may_send = rules.is_reasoning_shared or self._is_own(source)
        else:
            may_send = False
        if not may_send and not is_wanted and rules.missing_reasoning is None:
            return ""
        if message.reasoning_content is not UNSET:
            return message.reasoning_content
        return "".join(
            block.text
            for block in msg.get_blocks(message)
            if isinstance(block, msg.UnsignedReasoningBlock)
        )

    def _convert_call_id(self, call_id: str) -> str:
        """Return the id, or one derived from it that the service accepts."""
        if self._call_id_re.fullmatch(call_id):
            return call_id
        from hashlib import sha256

        return sha256(call_id.encode()).hexdigest()[:9]

    def _convert_tool_result(self, block: msg.ToolResultBlock) -> _Wire:
        text = block.content
        if not isinstance(text, str):
            texts = [part for part in text if isinstance(part, msg.TextBlock)]
            if block.content and not strip_environment_details(texts):
                texts.insert(0, msg.TextBlock("(The image follows in the next message.)"))
            text = "\n".join(part.text for part in texts)
        call_id = self._convert_call_id(block.tool_use_id)
        return {"role": "tool", "tool_call_id": call_id, "content": text or "(empty)"}


def _convert_image(block: msg.ImageBlock, model: ModelInfo) -> _Wire:
    if not model.supports_images:
        return _IMAGE_PLACEHOLDER
    url = f"data:{block.source.media_type};base64,{block.source.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _is_user_message(message: msg.Message) -> bool:
    return message.role == "user"


def _merge_into_last_result(results: list[_Wire], parts: list[_Wire]) -> list[_Wire]:
    """Append the user's text to the last result; images cannot be there, so a message of the
    assistant separates them from it."""
    texts = [part["text"] for part in parts if part["type"] == "text"]
    images = [part for part in parts if part["type"] != "text"]
    results[-1]["content"] = "\n\n".join((results[-1]["content"], *texts))
    if images:
        results.append({"role": "assistant", "content": _BEFORE_IMAGES_TEXT})
        results.append({"role": "user", "content": images})
    return results


def _mark_last_text_for_cache(wire: list[_Wire]) -> None:
    """Mark the last text part; a message with only images gets one for the mark."""
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
