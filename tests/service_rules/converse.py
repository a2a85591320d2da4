"""Bedrock's Converse API, by the service model of AWS's own SDK: requests, events, frames."""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from joey.testing.script import Step, raw
from tests.service_rules.rules import Body

Calls = list[tuple[str, dict[str, Any]]]


@cache
def load_service_model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def build_path(model: str) -> str:
    """The path that the SDK would send a request for this model to."""
    operation = load_service_model().operation_model("ConverseStream")
    request = create_serializer("rest-json").serialize_to_request({"modelId": model}, operation)
    return str(request["url_path"])


def find_model_violations(body: Body, model: str) -> list[str]:
    """What the service model forbids: unknown or missing fields, wrong types and ranges."""
    shape = load_service_model().shape_for("ConverseStreamRequest")
    given = {"modelId": model, **body}
    report = ParamValidator().validate(given, shape).generate_report()
    return [*filter(None, report.splitlines()), *_find_bad_values(given, shape, "")]


def _find_bad_values(value: Any, shape: Shape, place: str) -> Iterator[str]:
    """What the SDK leaves to the service: enums, patterns, lengths, one member of a union."""
    if getattr(shape, "is_document_type", False):
        return
    if shape.type_name == "structure" and isinstance(value, dict):
        if shape.is_tagged_union and len(value) != 1:
            yield f"{place}: {sorted(value)} instead of one member"
        for name, inner in value.items():
            if name in shape.members:
                yield from _find_bad_values(inner, shape.members[name], f"{place}.{name}")
    elif shape.type_name == "list" and isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _find_bad_values(inner, shape.member, f"{place}[{number}]")
    elif isinstance(value, str):
        limits = shape.metadata
        if "enum" in limits and value not in limits["enum"]:
            yield f"{place}: {value!r} is none of {limits['enum']}"
        if "max" in limits and len(value) > limits["max"]:
            yield f"{place}: {value!r} is too long"
        if "pattern" in limits and not re.fullmatch(limits["pattern"], value):
            yield f"{place}: {value!r} does not match {limits['pattern']}"


def to_anthropic(body: Body) -> Body:
    """The request in Anthropic's spelling, for the rules that both have."""
    seen: Body = {**body.get("additionalModelRequestFields", {}), "messages": []}
    names = {"maxTokens": "max_tokens", "topP": "top_p"}
    for name, value in body.get("inferenceConfig", {}).items():
        seen[names.get(name, name)] = value
    for message in body["messages"]:
        blocks = [_to_block(b) for b in message["content"] if "cachePoint" not in b]
        seen["messages"].append({"role": message["role"], "content": blocks})
    return seen


def _to_block(block: dict[str, Any]) -> dict[str, Any]:
    ((kind, value),) = block.items()
    match kind:
        case "toolUse":
            call = {"id": value["toolUseId"], "name": value["name"], "input": value["input"]}
            return {"type": "tool_use", **call}
        case "toolResult":
            content = [_to_block(part) for part in value["content"]]
            return {"type": "tool_result", "tool_use_id": value["toolUseId"], "content": content}
        case "reasoningContent" if "reasoningText" in value:
            thought = value["reasoningText"]
            return {
                "type": "thinking",
                "thinking": thought["text"],
                "signature": thought["signature"],
            }
        case "reasoningContent":
            return {"type": "redacted_thinking", "data": value["redactedContent"]}
        case "image":
            return {"type": "image", "source": value["source"]}
    return {"type": "text", "text": value}


def write_reply(
    text: str, thought: str, signature: str, calls: Calls, ids: list[str]
) -> list[Step]:
    """The frames of a reply that thinks, speaks and makes calls."""
    return [raw(frame) for frame in iter_reply_frames(text, thought, signature, calls, ids)]


def iter_reply_frames(
    text: str, thought: str, signature: str, calls: Calls, ids: list[str]
) -> Iterator[bytes]:
    yield encode_event("messageStart", {"role": "assistant"})
    for piece in (thought[:9], thought[9:]):
        yield _encode_delta(0, {"reasoningContent": {"text": piece}})
    for piece in (signature[:3], signature[3:]):
        yield _encode_delta(0, {"reasoningContent": {"signature": piece}})
    yield encode_event("contentBlockStop", {"contentBlockIndex": 0})
    yield _encode_delta(1, {"text": text})
    yield encode_event("contentBlockStop", {"contentBlockIndex": 1})
    for index, ((name, given), id_) in enumerate(zip(calls, ids, strict=True), 2):
        start = {"toolUse": {"toolUseId": id_, "name": name}}
        yield encode_event("contentBlockStart", {"start": start, "contentBlockIndex": index})
        whole = json.dumps(given)
        for piece in (whole[:5], whole[5:]):
            yield _encode_delta(index, {"toolUse": {"input": piece}})
        yield encode_event("contentBlockStop", {"contentBlockIndex": index})
    yield encode_event("messageStop", {"stopReason": "tool_use" if calls else "end_turn"})
    usage = {"inputTokens": 90, "outputTokens": 7, "totalTokens": 127, "cacheReadInputTokens": 30}
    yield encode_event("metadata", {"usage": usage, "metrics": {"latencyMs": 5}})


def _encode_delta(index: int, delta: dict[str, Any]) -> bytes:
    return encode_event("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})


def encode_event(name: str, payload: dict[str, Any]) -> bytes:
    """A frame with an event of the stream, which the service model must know."""
    shape = load_service_model().shape_for("ConverseStreamOutput")
    report = ParamValidator().validate({name: payload}, shape).generate_report()
    assert not report, report
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    # Padding hides the length of what is said; the service adds it to every event.
    return encode_frame(headers, json.dumps({**payload, "p": "abcdef"}).encode())


def encode_exception(name: str, message: str) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json"}
    headers[":message-type"] = "exception"
    return encode_frame(headers, json.dumps({"message": message}).encode())


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """As AWS's event stream encoding has it: lengths and checksums around headers and payload."""
    fields = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value
        for name, value in ((name, value.encode()) for name, value in headers.items())
    )
    prelude = struct.pack("!II", 16 + len(fields) + len(payload), len(fields))
    data = prelude + struct.pack("!I", binascii.crc32(prelude)) + fields + payload
    return data + struct.pack("!I", binascii.crc32(data))
