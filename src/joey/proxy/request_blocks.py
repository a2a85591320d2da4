"""Requests of the three model APIs, decoded into blocks: tools, then system, then messages.

Blocks are in the order in which services cache them. Two blocks are equal if a service treats them
as the same: a text is the same alone or as the only part of a list, and neither cache marks nor
item ids, which clients may create anew in each run, are part of it. The text of a block is its
plain text, or its canonical JSON (sorted keys, no white space) for tools and for messages that are
more than one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.providers.errors import JSON_DECODE_ERRORS

_encode_canonical = msgspec.json.Encoder(order="sorted").encode
_CACHE_MARK = "cache_control"
_SYSTEM_ROLES = ("system", "developer")
_TEXT_TYPES = ("text", "input_text", "output_text")
DEFAULT_TTL_S = 5 * 60
LONG_TTL_S = 60 * 60
_EXTENDED_TTL_S = 24 * 60 * 60


class ModelApi(StrEnum):
    MESSAGES = "messages"
    CHAT = "chat"
    RESPONSES = "responses"


class BlockKind(StrEnum):
    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGE = "message"


class PromptBlock(Struct, frozen=True, dict=True):
    kind: BlockKind
    role: str
    text: str
    is_plain: bool
    """True if `text` is plain text rather than JSON."""
    labels: str = ""
    """The other fields of a plain message, such as a call id, as canonical JSON."""
    reply_marks: frozenset[str] = frozenset()
    """For a model's message, the marks that identify the reply it came from (see `reply_marks`)."""

    @property
    def size(self) -> int:
        return len(self.text.encode("utf-8", "replace"))

    @cached_property
    def digest(self) -> bytes:
        content = f"{self.kind}\0{self.role}\0{self.is_plain:d}\0{self.labels}\0{self.text}"
        return sha256(content.encode("utf-8", "replace")).digest()[:16]


class ToolDefinition(Struct, frozen=True):
    name: str
    parameters: dict[str, Any]
    """Its JSON schema; empty where the request has none."""


class ModelRequestBody(Struct, frozen=True):
    """The part of a request that the analysis needs."""

    api: ModelApi
    body: dict[str, Any]
    blocks: tuple[PromptBlock, ...]
    tools: tuple[ToolDefinition, ...]
    cache_ttl_s: int | None
    """How long a service keeps the marked prefix; None if nothing is marked and it must be."""

    @property
    def model(self) -> str:
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    @property
    def is_streamed(self) -> bool:
        return self.body.get("stream") is True

    @property
    def messages(self) -> tuple[PromptBlock, ...]:
        return tuple(block for block in self.blocks if block.kind is BlockKind.MESSAGE)

    @property
    def system_texts(self) -> tuple[str, ...]:
        return tuple(block.text for block in self.blocks if block.kind is BlockKind.SYSTEM)

    @property
    def system_prompt(self) -> str:
        return "\n".join(self.system_texts)

    @property
    def continued_reply(self) -> str:
        """The mark of the reply that the service itself inserts before these messages."""
        previous = self.body.get("previous_response_id")
        return f"response {previous}" if isinstance(previous, str) else ""

    @property
    def first_user_text(self) -> str:
        """The user's first message, without text that clients add around it."""
        for block in self.messages:
            if block.role == "user" and (texts := list_texts(block)):
                return texts[0]
        return ""


def find_model_api(path: str) -> ModelApi | None:
    """Find the API by the target of a request; None for requests that are not conversations."""
    endpoint = path.partition("?")[0].rstrip("/")
    if endpoint.endswith("/messages"):
        return ModelApi.MESSAGES
    if endpoint.endswith("/chat/completions"):
        return ModelApi.CHAT
    return ModelApi.RESPONSES if endpoint.endswith("/responses") else None


def decode_request(path: str, body: bytes) -> ModelRequestBody | None:
    """Decode a request; None if it is not one to a model, or its body cannot be read."""
    api = find_model_api(path)
    if api is None:
        return None
    try:
        parsed = msgspec.json.decode(body)
    except JSON_DECODE_ERRORS:
        return None
    key = "input" if api is ModelApi.RESPONSES else "messages"
    if not isinstance(parsed, dict) or key not in parsed:
        return None
    listed = parsed.get("tools")
    specs = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    definitions = map(_read_tool, specs)
    return ModelRequestBody(
        api=api,
        body=parsed,
        blocks=tuple(_iter_blocks(api, parsed, specs)),
        tools=tuple(each for each in definitions if each is not None),
        cache_ttl_s=_find_cache_ttl(api, parsed, has_marks=_CACHE_MARK.encode() in body),
    )


def list_texts(block: PromptBlock) -> list[str]:
    """List the texts in a block, in order."""
    if block.is_plain:
        return [block.text]
    message = msgspec.json.decode(block.text)
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts: list[str] = []
    for part in parts:
        match part:
            case {"type": "tool_result", "content": str(text)}:
                texts.append(text)
            case {"type": "tool_result", "content": list(inner)}:
                texts += [each["text"] for each in inner if _is_text_part(each)]
            case _ if _is_text_part(part):
                texts.append(part["text"])
    if isinstance(message, dict) and isinstance(output := message.get("output"), str):
        texts.append(output)
    return texts


def reply_marks(text: str, call_ids: list[str]) -> frozenset[str]:
    """Return values that identify a reply in its response and in later requests: the ids of its
    calls, and its text without white space, which clients trim."""
    marks = {f"call {each}" for each in call_ids if each}
    if bare := "".join(text.split()):
        marks.add(f"text {len(bare)} {sha256(bare.encode('utf-8', 'replace')).hexdigest()[:24]}")
    return frozenset(marks)


def encode_canonical(value: Any) -> str:
    return _encode_canonical(value).decode()


def _iter_blocks(
    api: ModelApi, body: dict[str, Any], tools: list[dict[str, Any]]
) -> Iterator[PromptBlock]:
    for tool in tools:
        yield PromptBlock(BlockKind.TOOLS, "", encode_canonical(_strip_marks(tool)), False)
    yield from _iter_system_field(
        body.get("instructions" if api is ModelApi.RESPONSES else "system")
    )
    listed = body.get("input" if api is ModelApi.RESPONSES else "messages")
    if isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    is_leading = True
    for message in listed if isinstance(listed, list) else ():
        if not isinstance(message, dict):
            continue
        block = _build_message_block(_encode_canonical(message))
        is_leading = is_leading and block.role in _SYSTEM_ROLES
        yield structs.replace(block, kind=BlockKind.SYSTEM) if is_leading else block


def _iter_system_field(system: Any) -> Iterator[PromptBlock]:
    parts = [system] if isinstance(system, str) else system
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            yield PromptBlock(BlockKind.SYSTEM, "system", part, True)
        elif _is_text_part(part) and _strip_marks(part).keys() == {"type", "text"}:
            yield PromptBlock(BlockKind.SYSTEM, "system", part["text"], True)
        else:
            yield PromptBlock(
                BlockKind.SYSTEM, "system", encode_canonical(_strip_marks(part)), False
            )


@lru_cache(maxsize=4096)
def _build_message_block(encoded: bytes) -> PromptBlock:
    """Build a block, cached because each request of a conversation repeats earlier messages."""
    message = msgspec.json.decode(encoded)
    if _CACHE_MARK.encode() in encoded:
        message = _strip_marks(message)
    if message.get("type") != "item_reference":
        message.pop("id", None)
    role = message.get("role") or _ROLE_BY_ITEM.get(str(message.get("type")), "user")
    role = role if isinstance(role, str) else ""
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and _is_text_part(content[0]):
        (part,) = content
        content = part["text"] if part.keys() <= {"type", "text", "annotations"} else content
    marks = _collect_reply_marks(message) if role == "assistant" else frozenset[str]()
    labels = message.keys() - {"role", "content"}
    if isinstance(content, str) and labels <= _LABEL_FIELDS:
        label_values = {name: message[name] for name in labels if name != "type"}
        labels_json = encode_canonical(label_values) if label_values else ""
        return PromptBlock(BlockKind.MESSAGE, role, content, True, labels_json, marks)
    return PromptBlock(BlockKind.MESSAGE, role, encode_canonical(message), False, reply_marks=marks)


_LABEL_FIELDS = frozenset({"type", "name", "status", "tool_call_id"})
"""Fields that identify a message rather than being content."""
_ROLE_BY_ITEM = {
    "function_call": "assistant",
    "custom_tool_call": "assistant",
    "local_shell_call": "assistant",
    "reasoning": "assistant",
    "function_call_output": "tool",
    "custom_tool_call_output": "tool",
}


def _collect_reply_marks(message: dict[str, Any]) -> frozenset[str]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if _is_text_part(part)]
    call_ids = [str(part.get("id")) for part in parts if _has_type(part, "tool_use")]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            call_ids.append(str(call.get("id") or ""))
    if isinstance(call_id := message.get("call_id"), str):
        call_ids.append(call_id)
    text = content if isinstance(content, str) else "".join(texts)
    return reply_marks(text, call_ids)


def _read_tool(spec: dict[str, Any]) -> ToolDefinition | None:
    function = spec.get("function") if isinstance(spec.get("function"), dict) else spec
    assert isinstance(function, dict)
    name = function.get("name") or spec.get("type")
    schema = function.get("parameters") or function.get("input_schema")
    if not isinstance(name, str):
        return None
    return ToolDefinition(name, schema if isinstance(schema, dict) else {})


def _find_cache_ttl(api: ModelApi, body: dict[str, Any], *, has_marks: bool) -> int | None:
    ttls = [mark.get("ttl") for mark in _iter_marks(body)] if has_marks else []
    if not ttls and api is not ModelApi.MESSAGES:
        is_extended = body.get("prompt_cache_retention") == "24h"
        return _EXTENDED_TTL_S if is_extended else DEFAULT_TTL_S
    if not ttls:
        return None
    return LONG_TTL_S if "1h" in ttls else DEFAULT_TTL_S


def _iter_marks(value: Any) -> Iterator[dict[str, Any]]:
    match value:
        case dict():
            if isinstance(mark := value.get(_CACHE_MARK), dict):
                yield mark
            for inner in value.values():
                yield from _iter_marks(inner)
        case list():
            for inner in value:
                yield from _iter_marks(inner)


def _strip_marks(value: Any) -> Any:
    """Remove cache marks from a value. Arguments of calls are unchanged: a model may use any
    name."""
    match value:
        case dict():
            return {
                key: inner if key in ("input", "arguments") else _strip_marks(inner)
                for key, inner in value.items()
                if key != _CACHE_MARK
            }
        case list():
            return [_strip_marks(inner) for inner in value]
        case _:
            return value


def _is_text_part(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") in _TEXT_TYPES
        and isinstance(part.get("text"), str)
    )


def _has_type(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind
