"""OpenAI's Responses API: the events that a scripted turn is streamed as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from joey.testing import script

_CREATED_AT = 1_767_225_600
_RESPONSE_ID = "resp_scripted"
_ControlStep = script.Pause | script.Gate | script.Disconnect | script.Fail


def iter_responses_events(turn: script.Turn) -> Iterator[bytes | _ControlStep]:
    """Iterate over the events after the opening one, and the steps that are actions."""
    output: list[dict[str, Any]] = []
    for step in turn.steps:
        match step:
            case script.Say() | script.Think() | script.Call():
                yield from _iter_item_events(step, len(output), output)
            case script.Raw():
                yield step.content
            case script.Tokens() | script.Stop() | script.Redacted():
                continue
            case _:
                yield step
    yield _encode_event(
        "response.completed", response=_build_response(turn.tokens, "completed", output=output)
    )


def encode_created_event(model: str) -> bytes:
    response = _build_response(None, "in_progress", model=model)
    return _encode_event("response.created", response=response)


def count_replies(items: list[dict[str, Any]]) -> int:
    """Count the model's replies among the items of a request's `input`."""
    is_own = [
        item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")
        for item in items
    ]
    return sum(own and not before for before, own in zip([False, *is_own], is_own, strict=False))


def _iter_item_events(
    step: script.Say | script.Think | script.Call, index: int, output: list[dict[str, Any]]
) -> Iterator[bytes]:
    """Iterate over the events of one item with its deltas, and add it to `output`."""
    place: dict[str, Any] = {"output_index": index}
    item: dict[str, Any]
    part: dict[str, Any] | None
    match step:
        case script.Call():
            item = {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": step.id,
                "name": step.name,
                "status": "completed",
                "arguments": step.arguments,
            }
            empty, text, kind = {**item, "arguments": ""}, step.arguments, "function_call_arguments"
            part, ending = None, {"arguments": text}
        case script.Say():
            part = {"type": "output_text", "text": step.text, "annotations": []}
            item = {
                "type": "message",
                "id": f"msg_{index}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
            empty, text, kind = {**item, "content": []}, step.text, "output_text"
            place["content_index"], ending = 0, {"text": text}
        case script.Think():
            part = {"type": "summary_text", "text": step.text}
            item = {"type": "reasoning", "id": f"rs_{index}", "summary": [part]}
            empty, text, kind = {**item, "summary": []}, step.text, "reasoning_summary_text"
            place["summary_index"], ending = 0, {"text": text}
    place["item_id"] = item["id"]
    begun = {**empty, "status": "in_progress"}
    part_kind = "content_part" if kind == "output_text" else "reasoning_summary_part"
    yield _encode_event("response.output_item.added", output_index=index, item=begun)
    if part is not None:
        yield _encode_event(f"response.{part_kind}.added", **place, part={**part, "text": ""})
    for delta in script.split_text(text, step.chunk):
        yield _encode_event(f"response.{kind}.delta", **place, delta=delta)
    yield _encode_event(f"response.{kind}.done", **place, **ending)
    if part is not None:
        yield _encode_event(f"response.{part_kind}.done", **place, part=part)
    yield _encode_event("response.output_item.done", output_index=index, item=item)
    output.append(item)


def _build_response(tokens: script.Tokens | None, status: str, **fields: Any) -> dict[str, Any]:
    usage = None
    if tokens is not None:
        prompt = tokens.input + tokens.cache_writes + tokens.cache_reads
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": tokens.cache_reads},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + tokens.output,
        }
    return {
        "id": _RESPONSE_ID,
        "object": "response",
        "created_at": _CREATED_AT,
        "model": "scripted",
        "status": status,
        "output": [],
        "usage": usage,
        **fields,
    }


def _encode_event(kind: str, **fields: Any) -> bytes:
    body = msgspec.json.encode({"type": kind, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
