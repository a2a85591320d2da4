"""OpenAI's Responses API: the rules of its reference, and its streams event by event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from joey.testing.script import Raw, Step, raw
from tests.service_rules.rules import Body, Issued, Rule, Violation, Wire
from tests.service_rules.services import Calls, Reply, Service, fail_openai

PARAMETERS = frozenset(
    {
        "model",
        "instructions",
        "input",
        "stream",
        "store",
        "include",
        "reasoning",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "prompt_cache_key",
        "text",
        "service_tier",
        "truncation",
        "metadata",
    }
)
ITEM_FIELDS = {
    "message": {"type", "role", "content", "phase"},
    "reasoning": {"type", "id", "summary", "encrypted_content"},
    "function_call": {"type", "call_id", "name", "arguments"},
    "function_call_output": {"type", "call_id", "output"},
}
REQUIRED_FIELDS = {kind: fields - {"phase"} for kind, fields in ITEM_FIELDS.items()}
PART_FIELDS = {
    "input_text": {"type", "text"},
    "input_image": {"type", "image_url", "detail"},
    "output_text": {"type", "text"},
}
PARTS_BY_ROLE = {"user": ("input_text", "input_image"), "assistant": ("output_text",)}
TOOL_FIELDS = {"type", "name", "description", "parameters", "strict"}


def items(body: Body, kind: str) -> Iterator[tuple[int, Wire]]:
    for place, item in enumerate(body["input"]):
        if item.get("type") == kind:
            yield place, item


def first(body: Body, kind: str) -> Wire:
    return next(items(body, kind))[1]


# Parameters ---------------------------------------------------------------------------------


def _check_parameters(body: Body, issued: Issued) -> Iterator[Violation]:
    for name in body.keys() - PARAMETERS:
        if name in ("temperature", "top_p"):
            yield Violation(f"Unsupported parameter: '{name}' is not supported with this model.")
        else:
            yield Violation("", (name,), body[name], "unknown")
    for name, value in (body.get("reasoning") or {}).items():
        if name not in ("effort", "summary"):
            yield Violation("", ("reasoning", name), value, "unknown")
    if body.get("store") is not False or body.get("include") != ["reasoning.encrypted_content"]:
        yield Violation("this organization keeps no data: store must be false", ("store",))
    if not isinstance(body.get("instructions"), str) or body.get("stream") is not True:
        yield Violation("Missing required parameter", ("instructions",))


def _check_tools(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, tool in enumerate(body.get("tools") or ()):
        for name in tool.keys() - TOOL_FIELDS:
            yield Violation("", ("tools", place, name), tool[name], "unknown")
        if missing := TOOL_FIELDS - tool.keys():
            yield Violation(f"Missing required parameter: 'tools[{place}].{min(missing)}'.")
        elif tool["strict"]:
            yield from _check_strict(tool["parameters"], f"function '{tool['name']}'")


def _check_strict(schema: Any, where: str) -> Iterator[Violation]:
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties") or {}
    if properties or schema.get("type") == "object":
        if missing := properties.keys() - {*schema.get("required", ())}:
            yield Violation(
                f"Invalid schema for {where}: In context=(), 'required' is required to be supplied"
                " and to be an array including every key in properties. Missing"
                f" '{min(missing)}'."
            )
        if schema.get("additionalProperties") is not False:
            yield Violation(
                f"Invalid schema for {where}: 'additionalProperties' is required to be supplied and"
                " to be false."
            )
    for part in (*properties.values(), schema.get("items"), *schema.get("anyOf", ())):
        yield from _check_strict(part, where)


# Items --------------------------------------------------------------------------------------


def _check_items(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, item in enumerate(body["input"]):
        kind = item.get("type")
        if kind not in ITEM_FIELDS:
            yield Violation(f"Invalid value: '{kind}'.", ("input", place))
            continue
        for name in item.keys() - ITEM_FIELDS[kind]:
            yield Violation("", ("input", place, name), item[name], "unknown")
        if missing := REQUIRED_FIELDS[kind] - item.keys():
            yield Violation(f"Missing required parameter: 'input[{place}].{min(missing)}'.")
        if kind == "message":
            yield from _check_parts(item, place)
        if len(item.get("call_id", "x")) not in range(1, 65):
            yield Violation(f"Invalid 'input[{place}].call_id': string too long.")
        if kind == "function_call_output" and not item["output"]:
            yield Violation(f"Invalid 'input[{place}].output': empty")


def _check_parts(item: Wire, place: int) -> Iterator[Violation]:
    if not item["content"] or ("phase" in item and item["role"] != "assistant"):
        yield Violation(f"Invalid 'input[{place}]'.")
    for number, part in enumerate(item["content"]):
        if part["type"] not in PARTS_BY_ROLE[item["role"]]:
            yield Violation(
                f"Invalid value: '{part['type']}'. Supported values are:"
                f" {PARTS_BY_ROLE[item['role']]}.",
                ("input", place, "content", number),
            )
        for name in part.keys() - PART_FIELDS.get(part["type"], set()):
            yield Violation("", ("input", place, "content", number, name), "", "unknown")
        if part["type"] == "input_image" and not part["image_url"].startswith("data:image/"):
            yield Violation(f"Invalid 'input[{place}].content[{number}].image_url'.")


def _check_pairs(body: Body, issued: Issued) -> Iterator[Violation]:
    waiting: list[str] = []
    is_answered = True
    for place, item in enumerate(body["input"]):
        kind, name = item.get("type"), item.get("call_id")
        if kind == "function_call":
            if not is_answered:
                yield Violation(f"No tool output found for function call {waiting[0]}.")
                return
            waiting.append(name)
        elif kind == "function_call_output":
            if name not in waiting:
                yield Violation(
                    f"No tool call found for function call output with call_id {name}.",
                    ("input", place),
                )
                return
            waiting.remove(name)
            is_answered = not waiting
        elif waiting and (kind != "reasoning" or not is_answered):
            yield Violation(f"No tool output found for function call {waiting[0]}.")
            return
    if waiting:
        yield Violation(f"No tool output found for function call {waiting[0]}.")
    if body["input"][-1].get("role") == "assistant":
        yield Violation("the last item must be the user's or a result")


def _check_reasoning(body: Body, issued: Issued) -> Iterator[Violation]:
    given = [item for reply in issued.replies.values() for item in reply["items"]]
    for place, item in items(body, "reasoning"):
        after = body["input"][place + 1] if place + 1 < len(body["input"]) else {}
        if item not in given:
            yield Violation(
                f"The encrypted content {item['encrypted_content'][:4]}... could not be verified.",
                code="invalid_encrypted_content",
            )
        elif after.get("type") not in ("reasoning", "function_call") and (
            after.get("role") != "assistant"
        ):
            yield Violation(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required"
                " following item."
            )


def _check_echo(body: Body, issued: Issued) -> Iterator[Violation]:
    """Every reply comes back whole, in its order."""
    normal = [_normalize(item) for item in body["input"]]
    calls = {item.get("call_id") for item in normal if item.get("type") == "function_call"}
    for reply in issued.replies.values():
        given = [_normalize(item) for item in reply["items"]]
        if not calls.intersection(item.get("call_id") for item in given):
            continue
        if not any(normal[start : start + len(given)] == given for start in range(len(normal))):
            yield Violation(f"a reply was changed: {given!r} is not in {normal!r}")


def _normalize(item: Wire) -> Wire:
    if item.get("type") != "function_call":
        return item
    return {**item, "arguments": json.loads(item["arguments"])}


def _remove(body: Body, kind: str) -> None:
    body["input"].remove(first(body, kind))


def _plant_foreign(body: Body) -> None:
    first(body, "reasoning")["encrypted_content"] = "gAAAforeign"


def _swap_reasoning(body: Body) -> None:
    place = next(items(body, "reasoning"))[0]
    body["input"].insert(0, body["input"].pop(place))


RULES = (
    Rule("parameters", _check_parameters, lambda body: body.update(reasoning_effort="low")),
    Rule("stateless", _check_parameters, lambda body: body.update(store=True)),
    Rule("encrypted", _check_parameters, lambda body: body.pop("include")),
    Rule("sampling", _check_parameters, lambda body: body.update(temperature=0)),
    Rule("tools", _check_tools, lambda body: body["tools"][0].pop("strict")),
    Rule(
        "strict schemas",
        _check_tools,
        lambda body: body["tools"][0]["parameters"].update(required=[]),
    ),
    Rule("item types", _check_items, lambda body: first(body, "function_call").pop("type")),
    Rule("item fields", _check_items, lambda body: first(body, "function_call").update(id="fc_1")),
    Rule(
        "parts",
        _check_items,
        lambda body: first(body, "message")["content"][0].update(type="text"),
    ),
    Rule("results", _check_pairs, lambda body: _remove(body, "function_call_output")),
    Rule("calls", _check_pairs, lambda body: _remove(body, "function_call")),
    Rule("foreign reasoning", _check_reasoning, _plant_foreign),
    Rule("following item", _check_reasoning, _swap_reasoning),
    Rule("reasoning", _check_echo, lambda body: _remove(body, "reasoning")),
    Rule(
        "phases",
        _check_echo,
        lambda body: [item.pop("phase", None) for _, item in items(body, "message")],
    ),
)


# Replies ------------------------------------------------------------------------------------


class ResponsesService(Service, frozen=True, kw_only=True):
    raw_paths: tuple[str, ...] = ("/responses",)

    def write_reply(self, number: int, calls: Calls) -> Reply:
        thought = f"**Step {number}**\n\nI have to do {number} things."
        output: list[Wire] = [make_reasoning(number * 10, thought)]
        for index, (name, arguments) in enumerate(calls):
            if index == 0:
                output.append(make_message(number, f"Step {number}.", phase="commentary"))
            else:
                output.append(make_reasoning(number * 10 + index, ""))
            call_id = self.id_format.format(number * 10 + index, self.name)
            output.append(make_call(call_id, name, json.dumps(arguments)))
        calls_made = [{"id": item["call_id"]} for item in output if "call_id" in item]
        sent_back = [make_input(item) for item in output]
        steps: tuple[Step, ...] = (write_stream(number, output),)
        return Reply(steps, {"tool_calls": calls_made, "items": sent_back})


def make_input(item: Wire) -> Wire:
    """The item as it goes back."""
    if item["type"] == "message":
        parts = [{"type": "output_text", "text": part["text"]} for part in item["content"]]
        item = {**item, "content": parts}
    return {name: item[name] for name in item if name in ITEM_FIELDS[item["type"]]}


def make_reasoning(number: int, thought: str) -> Wire:
    return {
        "id": f"rs_{number:08}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": thought}] if thought else [],
        "encrypted_content": f"gAAAAAB{number:08}-_=\u00e4==",
    }


def make_message(number: int, text: str, phase: str) -> Wire:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{number:08}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
        "phase": phase,
    }


def make_call(call_id: str, name: str, arguments: str) -> Wire:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


USAGE = {
    "input_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 100},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 1230,
}


def write_stream(number: int, output: list[Wire], end: str = "completed", **fields: Any) -> Raw:
    """The events of a response, in the order and with the fields of the reference."""
    events = list(iter_events(number, output, end, **fields))
    return raw("".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events))


def iter_events(
    number: int, output: list[Wire], end: str = "completed", **fields: Any
) -> Iterator[Wire]:
    response: Wire = {"id": f"resp_{number}", "object": "response", "error": None, "output": []}
    started = {**response, "status": "in_progress", "usage": None, "incomplete_details": None}
    ended = {**started, "status": end, "output": output, "usage": USAGE, **fields}
    bodies = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
        *(event for place, item in enumerate(output) for event in _iter_item_events(place, item)),
        {"type": f"response.{end}", "response": ended},
    ]
    for sequence_number, body in enumerate(bodies):
        yield {**body, "sequence_number": sequence_number}


def _iter_item_events(place: int, item: Wire) -> Iterator[Wire]:
    where = {"output_index": place, "item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            begun: Wire = {"summary": [], "encrypted_content": "gAAAunfinished"}
            deltas = list(_iter_summary_events(where, item))
        case "message":
            begun = {"content": [], "status": "in_progress"}
            deltas = list(_iter_text_events(where, item))
        case _:
            begun = {"arguments": "", "status": "in_progress"}
            kind = "response.function_call_arguments"
            deltas = [
                {"type": f"{kind}.delta", **where, "delta": piece}
                for piece in _split(item["arguments"])
            ]
            deltas.append({"type": f"{kind}.done", **where, "arguments": item["arguments"]})
    yield {"type": "response.output_item.added", "output_index": place, "item": {**item, **begun}}
    yield from deltas
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _iter_summary_events(where: Wire, item: Wire) -> Iterator[Wire]:
    kind = "response.reasoning_summary"
    for index, part in enumerate(item["summary"]):
        at = {**where, "summary_index": index}
        yield {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}}
        for piece in _split(part["text"]):
            yield {"type": f"{kind}_text.delta", **at, "delta": piece}
        yield {"type": f"{kind}_text.done", **at, "text": part["text"]}
        yield {"type": f"{kind}_part.done", **at, "part": part}


def _iter_text_events(where: Wire, item: Wire) -> Iterator[Wire]:
    for index, part in enumerate(item["content"]):
        at = {**where, "content_index": index}
        name = "refusal" if part["type"] == "refusal" else "text"
        kind = "response.refusal" if name == "refusal" else "response.output_text"
        yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
        for piece in _split(part[name]):
            yield {"type": f"{kind}.delta", **at, "delta": piece}
        yield {"type": f"{kind}.done", **at, name: part[name]}
        yield {"type": "response.content_part.done", **at, "part": part}


def _split(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


RESPONSES = ResponsesService(
    name="openai",
    model="gpt-6.1-sol",
    rules=RULES,
    fail=fail_openai,
    id_format="call_{0:024}",
)
