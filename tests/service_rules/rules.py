"""Rules of model services, each a check on a request body and a way to break it.

A check returns the violations that the service would report. What it needs to know of the replies
that the service has given is in `Issued`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, field

Body = dict[str, Any]
Wire = dict[str, Any]
"""A message as it is sent."""


class Violation(Struct, frozen=True):
    message: str
    place: tuple[str | int, ...] = ()
    """The keys that lead to the value, where one value is wrong."""
    value: Any = None
    code: str = ""


class Issued(Struct):
    """The replies that a service has given, as it wants them back."""

    replies: dict[str, Wire] = field(default_factory=dict)
    """By the id of the first call."""

    def find(self, message: Wire) -> Wire | None:
        return next(
            (self.replies[name] for name in call_ids(message) if name in self.replies), None
        )


Check = Callable[[Body, Issued], Iterable[Violation]]


class Rule(Struct, frozen=True):
    name: str
    check: Check
    plant: Callable[[Body], object]
    """Breaks the rule in a body that keeps all rules."""


def call_ids(message: Wire) -> list[str]:
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return calls + [block["id"] for block in blocks if block.get("type") == "tool_use"]


def replies(body: Body) -> Iterator[tuple[int, Wire]]:
    for place, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            yield place, message


def replies_with_calls(body: Body) -> Iterator[tuple[int, Wire]]:
    return ((place, message) for place, message in replies(body) if call_ids(message))


def first_reply(body: Body) -> Wire:
    return next(replies_with_calls(body))[1]


def last_reply(body: Body) -> Wire:
    return list(replies_with_calls(body))[-1][1]


def functions(body: Body) -> Iterator[tuple[int, Wire]]:
    return ((place, tool["function"]) for place, tool in enumerate(body.get("tools") or ()))


# Order --------------------------------------------------------------------------------------


def _check_order(body: Body, issued: Issued) -> Iterator[Violation]:
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield Violation(
                    "messages with role 'tool' must be a response to a preceeding message with"
                    " 'tool_calls'.",
                    ("messages", place, "role"),
                )
                return
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield Violation(
                "An assistant message with 'tool_calls' must be followed by tool messages"
                " responding to each 'tool_call_id'. The following tool_call_ids did not have"
                f" response messages: {', '.join(waiting)}",
                ("messages", place, "role"),
            )
            return
        if role == "assistant":
            waiting = call_ids(message)
    if waiting or body["messages"][-1]["role"] not in ("user", "tool"):
        yield Violation("the last message must be the user's or a result", ("messages",))


def _insert_user_between_results(body: Body) -> None:
    at = next(p for p, message in enumerate(body["messages"]) if len(call_ids(message)) > 1)
    body["messages"].insert(at + 2, {"role": "user", "content": [{"type": "text", "text": "hm"}]})


ORDER = Rule("order", _check_order, _insert_user_between_results)


def _check_no_user_after_tool(body: Body, issued: Issued) -> Iterator[Violation]:
    before = ""
    for place, message in enumerate(body["messages"]):
        if before == "tool" and message["role"] not in ("assistant", "tool"):
            yield Violation(
                f"Unexpected role '{message['role']}' after role 'tool'",
                ("messages", place),
                code="3230",
            )
        before = message["role"]


def _append_user(body: Body) -> None:
    body["messages"].append({"role": "user", "content": [{"type": "text", "text": "and now?"}]})


NO_USER_AFTER_TOOL = Rule("no user after tool", _check_no_user_after_tool, _append_user)


def _check_template_alternates(body: Body, issued: Issued) -> Iterator[Violation]:
    """As the templates of Mistral's open models count."""
    expected = "user"
    for message in body["messages"][1:]:
        if message["role"] == "tool" or message.get("tool_calls"):
            continue
        if message["role"] != expected:
            yield Violation(
                "Jinja Exception: After the optional system message, conversation roles must"
                " alternate user and assistant roles except for tool calls and results."
            )
            return
        expected = "assistant" if expected == "user" else "user"


TEMPLATE_ALTERNATES = Rule("template alternates", _check_template_alternates, _append_user)


def _check_text_content(body: Body, issued: Issued) -> Iterator[Violation]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield Violation("Invalid 'content' type. Expected one of: ['str'], got list.")


TEXT_CONTENT = Rule("text content", _check_text_content, _append_user)


def _check_text_or_calls(body: Body, issued: Issued) -> Iterator[Violation]:
    """Validators of Mistral's models before the tokenizer's fifth version."""
    for _, message in replies(body):
        if bool(message.get("content")) == bool(message.get("tool_calls")):
            yield Violation(
                "Assistant message must have either content or tool_calls, but not both."
            )


TEXT_OR_CALLS = Rule(
    "text or calls", _check_text_or_calls, lambda body: first_reply(body).update(content="Hm.")
)


# Ids ----------------------------------------------------------------------------------------


def id_rule(pattern: str, message: str, code: str = "") -> Rule:
    compiled = re.compile(pattern)

    def check(body: Body, issued: Issued) -> Iterator[Violation]:
        for place, reply in replies_with_calls(body):
            for name in call_ids(reply):
                if not compiled.fullmatch(name):
                    yield Violation(message.format(name), ("messages", place), name, code)

    def plant(body: Body) -> None:
        messages = body["messages"]
        if calls := first_reply(body).get("tool_calls"):
            result = next(m for m in messages if m.get("tool_call_id") == calls[0]["id"])
            calls[0]["id"] = result["tool_call_id"] = "call_" + "x1" * 40 + "."
            return
        block = next(b for b in first_reply(body)["content"] if b["type"] == "tool_use")
        for answer in messages:
            for each in answer["content"]:
                if isinstance(each, dict) and each.get("tool_use_id") == block["id"]:
                    each["tool_use_id"] = "call.1"
        block["id"] = "call.1"

    return Rule("ids", check, plant)


MISTRAL_IDS = id_rule(
    "[a-zA-Z0-9]{9}", "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9.", "3280"
)
SHORT_IDS = id_rule(".{1,40}", "Invalid 'messages.tool_calls.id': string too long: {}")
ANTHROPIC_IDS = id_rule(
    "[a-zA-Z0-9_-]{1,64}", "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$': {}"
)


# Fields and parameters ----------------------------------------------------------------------

MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
CALL_FIELDS = frozenset({"id", "type", "function", "index"})
COMMON_PARAMETERS = frozenset(
    [
        "model",
        "messages",
        "stream",
        "tools",
        "tool_choice",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
    ]
)


def field_rule(*extra: str, call_fields: Iterable[str] = ()) -> Rule:
    """No message has a field that the service does not know."""
    known, known_of_calls = MESSAGE_FIELDS | {*extra}, CALL_FIELDS | {*call_fields}

    def check(body: Body, issued: Issued) -> Iterator[Violation]:
        for place, message in enumerate(body["messages"]):
            for name in message.keys() - known:
                yield _unknown(("messages", place, message["role"], name), message[name])
            for number, call in enumerate(message.get("tool_calls") or ()):
                for name in call.keys() - known_of_calls:
                    where = ("messages", place, message["role"], "tool_calls", number, name)
                    yield _unknown(where, call[name])

    return Rule("message fields", check, lambda body: first_reply(body).update(thoughts="hm"))


def parameter_rule(*extra: str) -> Rule:
    known = COMMON_PARAMETERS | {*extra}

    def check(body: Body, issued: Issued) -> Iterator[Violation]:
        for name in body.keys() - known:
            yield _unknown((name,), body[name])

    return Rule("parameters", check, lambda body: body.update(best_of=1))


def _unknown(place: tuple[str | int, ...], value: Any) -> Violation:
    return Violation("Extra inputs are not permitted", place, value, "unknown")


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty")


def sampling_rule(message: str = "invalid {}", **wanted: float) -> Rule:
    """Only sampling parameters that the model is known to want."""

    def check(body: Body, issued: Issued) -> Iterator[Violation]:
        for name in SAMPLING:
            if body.get(name) != wanted.get(name):
                yield Violation(message.format(name), (name,), body.get(name))

    return Rule("sampling", check, lambda body: body.update(temperature=0.5))


def _check_plain_schemas(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, function in functions(body):
        where = f"tools[{place}].function_declarations[0].parameters"
        if "strict" in function:
            yield Violation(f"Unknown name \"strict\" at '{where}': Cannot find field.")
        yield from _check_plain_schema(function["parameters"], where)


def _check_plain_schema(schema: Any, where: str) -> Iterator[Violation]:
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("type"), list):
        yield Violation(
            f"Invalid JSON payload received. Unknown name \"type\" at '{where}': Proto field is"
            " not repeating, cannot start list."
        )
    if schema.get("format") not in (None, "date-time", "enum"):
        yield Violation(
            f"* {where}.format: only 'enum' and 'date-time' are supported for STRING type"
        )
    for name in ("$schema", "$ref", "const", "exclusiveMinimum"):
        if name in schema:
            yield Violation(
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find"
                " field."
            )
    for kind in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(kind, ()):
            if isinstance(part, dict) and part.get("type") == "null":
                yield Violation(f"{where}.{kind}: a null type is not supported")
            yield from _check_plain_schema(part, f"{where}.{kind}")
    for name, part in (schema.get("properties") or {}).items():
        yield from _check_plain_schema(part, f"{where}.properties[{name}]")
    yield from _check_plain_schema(schema.get("items"), f"{where}.items")


def _plant_nullable(body: Body) -> None:
    parameters = body["tools"][0]["function"]["parameters"]
    parameters["properties"]["extra"] = {"type": ["string", "null"]}


PLAIN_SCHEMAS = Rule("plain schemas", _check_plain_schemas, _plant_nullable)


def _check_no_additional_properties(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, function in functions(body):
        if "additionalProperties" in json.dumps(function["parameters"]):
            yield Violation(
                'Invalid JSON payload received. Unknown name "additionalProperties" at'
                f" 'tools[{place}].function_declarations[0].parameters': Cannot find field."
            )


NO_ADDITIONAL_PROPERTIES = Rule(
    "additional properties",
    _check_no_additional_properties,
    lambda body: body["tools"][0]["function"]["parameters"].update(additionalProperties=False),
)


def _check_strict_schemas(body: Body, issued: Issued) -> Iterator[Violation]:
    for _, function in functions(body):
        if function.get("strict") is not True:
            continue
        parameters = function["parameters"]
        if missing := parameters["properties"].keys() - {*parameters["required"]}:
            yield Violation(
                f"Invalid schema for function '{function['name']}': In context=(), 'required' is"
                " required to be supplied and to be an array including every key in properties."
                f" Missing '{min(missing)}'."
            )


def _plant_optional(body: Body) -> None:
    body["tools"][0]["function"]["strict"] = True
    body["tools"][0]["function"]["parameters"]["required"] = []


STRICT_SCHEMAS = Rule("strict schemas", _check_strict_schemas, _plant_optional)


def iter_schemas(body: Body) -> Iterator[tuple[str, Any]]:
    """Every schema of every tool, and where it is."""
    for tool in body.get("tools") or ():
        spec = tool.get("function", tool)
        waiting = [(spec["name"], spec.get("parameters", spec.get("input_schema")))]
        while waiting:
            where, schema = waiting.pop()
            yield where, schema
            if isinstance(schema, dict):
                waiting += [(f"{where}.{k}", v) for k, v in schema.get("properties", {}).items()]
                waiting += [(f"{where}.anyOf", part) for part in schema.get("anyOf", ())]
                waiting += [(f"{where}.{k}", schema[k]) for k in ("items",) if k in schema]


def first_property(body: Body) -> Wire:
    tool = body["tools"][0]
    spec = tool.get("function", tool)
    schema: Wire = spec.get("parameters", spec.get("input_schema"))
    found: Wire = next(iter(schema["properties"].values()))
    return found


def _check_typed_schemas(body: Body, issued: Issued) -> Iterator[Violation]:
    problem = ""
    for where, schema in iter_schemas(body):
        if not isinstance(schema, dict):
            problem = "property schema must be an object"
        elif "type" not in schema and "anyOf" not in schema:
            problem = "type is not defined"
        elif "type" in schema and "anyOf" in schema:
            problem = "when using anyOf, type should be defined in anyOf items"
        elif len({type(value) for value in schema.get("enum", "x")}) != 1:
            problem = "enum values must be of one type"
        if problem:
            message = "tools.function.parameters is not a valid moonshot flavored json schema"
            yield Violation(f"{message}, details: <At path '{where}': {problem}>")
            return


TYPED_SCHEMAS = Rule(
    "typed schemas", _check_typed_schemas, lambda body: first_property(body).pop("type")
)


def _check_items(body: Body, issued: Issued) -> Iterator[Violation]:
    for where, schema in iter_schemas(body):
        if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
            yield Violation(f"Invalid schema for function: {where}, array schema missing items.")


ARRAY_ITEMS = Rule("items", _check_items, lambda body: first_property(body).update(type="array"))


def _check_text_enums(body: Body, issued: Issued) -> Iterator[Violation]:
    for where, schema in iter_schemas(body):
        if not all(isinstance(value, str) for value in schema.get("enum", ())):
            yield Violation(f"Invalid value at '{where}.enum[0]' (TYPE_STRING), 1")
        if schema.get("type") != "object" and {"properties", "required"} & schema.keys():
            yield Violation(f"* {where}.properties: only allowed for OBJECT type")


TEXT_ENUMS = Rule(
    "text enums", _check_text_enums, lambda body: first_property(body).update(enum=[1])
)


def _check_description_lengths(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, function in functions(body):
        if (length := len(function.get("description", ""))) > 1024:
            yield Violation(
                f"Invalid 'tools[{place}].function.description': string too long. Expected a string"
                f" with maximum length 1024, but got a string with length {length} instead.",
                code="string_above_max_length",
            )


DESCRIPTION_LENGTHS = Rule(
    "description lengths",
    _check_description_lengths,
    lambda body: body["tools"][0]["function"].update(description="x" * 1025),
)


def _check_property_names(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, tool in enumerate(body.get("tools") or ()):
        for name in tool["input_schema"]["properties"]:
            if not re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name):
                yield Violation(
                    f"tools.{place}.custom.input_schema.properties: Property keys should match"
                    " pattern '^[a-zA-Z0-9_.-]{1,64}$'"
                )


PROPERTY_NAMES = Rule(
    "property names",
    _check_property_names,
    lambda body: body["tools"][0]["input_schema"]["properties"].update({"a b": {}}),
)


# Reasoning ----------------------------------------------------------------------------------


def _check_echo(body: Body, issued: Issued) -> Iterator[Violation]:
    """Every reply of the service comes back exactly as it was given."""
    for place, reply in replies_with_calls(body):
        given = issued.find(reply)
        if given is None:
            continue
        before, after = normalize(given), normalize(reply)
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                message = f"{name} was changed: {before.get(name)!r} is {after.get(name)!r}"
                yield Violation(message, ("messages", place))


def normalize(reply: Wire) -> Wire:
    """The reply with arguments as values, since their white space means nothing."""
    content = reply.get("content")
    if isinstance(content, list):
        content = [{k: v for k, v in b.items() if k != "cache_control"} for b in content]
    calls = [
        {**call, "function": {**call["function"], "arguments": _load(call)}}
        for call in reply.get("tool_calls") or ()
    ]
    return {**reply, "content": content, "tool_calls": calls}


def _load(call: Wire) -> Any:
    arguments = call["function"]["arguments"]
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def _plant_changed_reply(body: Body) -> None:
    reply = first_reply(body)
    if "tool_calls" in reply:
        reply["tool_calls"][0]["function"]["name"] += "_"
    else:
        reply["content"][-1]["name"] += "_"


ECHO = Rule("echo", _check_echo, _plant_changed_reply)


def reasoning_rule(message: str, *, may_be_empty: bool = True) -> Rule:
    """Every message with calls has `reasoning_content`."""

    def check(body: Body, issued: Issued) -> Iterator[Violation]:
        for place, reply in replies_with_calls(body):
            thought = reply.get("reasoning_content")
            if not isinstance(thought, str) or not (thought or may_be_empty):
                yield Violation(message.format(place), ("messages", place))

    return Rule("reasoning", check, lambda body: first_reply(body).pop("reasoning_content"))


DUMMY_SIGNATURE = "skip_thought_signature_validator"


def _check_gemini_signatures(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, reply in replies_with_calls(body):
        if issued.find(reply) is not None:
            continue  # the echo is checked
        for call in reply["tool_calls"]:
            google = (call.get("extra_content") or {}).get("google") or {}
            if google.get("thought_signature") != DUMMY_SIGNATURE:
                yield Violation(
                    "Function call is missing a thought_signature in functionCall parts. This is"
                    " required for tools to work correctly, and missing thought_signature may"
                    " lead to degraded model performance. Additional data, function call"
                    f" `default_api:{call['function']['name']}` , position {place}.",
                    ("messages", place),
                )


def _plant_foreign_signature(body: Body) -> None:
    foreign = json.loads(json.dumps(first_reply(body)))
    call = foreign["tool_calls"][0]
    foreign["tool_calls"] = [{**call, "id": "foreign", "extra_content": {"google": {}}}]
    body["messages"] += [foreign, {"role": "tool", "tool_call_id": "foreign", "content": "ok"}]


GEMINI_SIGNATURES = Rule("signatures", _check_gemini_signatures, _plant_foreign_signature)


def _check_foreign_details(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, reply in replies_with_calls(body):
        if issued.find(reply) is None and reply.get("reasoning_details"):
            yield Violation(
                "reasoning_details: encrypted content could not be decrypted", ("messages", place)
            )


def _plant_foreign_details(body: Body) -> None:
    foreign = json.loads(json.dumps(first_reply(body)))
    foreign["tool_calls"] = [{**foreign["tool_calls"][0], "id": "foreign"}]
    foreign["reasoning_details"] = [{"type": "reasoning.encrypted", "data": "x"}]
    body["messages"] += [foreign, {"role": "tool", "tool_call_id": "foreign", "content": "ok"}]


FOREIGN_DETAILS = Rule("foreign details", _check_foreign_details, _plant_foreign_details)


# Anthropic ----------------------------------------------------------------------------------

_BLOCK_FIELDS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
    "image": {"type", "source"},
}


def _check_blocks(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, message in enumerate(body["messages"]):
        content = message["content"]
        for name in message.keys() - {"role", "content"}:
            yield Violation(f"messages.{place}.{name}: Extra inputs are not permitted")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            kind = block["type"]
            for name in block.keys() - _BLOCK_FIELDS[kind] - {"cache_control"}:
                yield Violation(
                    f"messages.{place}.content.{number}.{kind}.{name}: Extra inputs are not"
                    " permitted"
                )


BLOCKS = Rule("blocks", _check_blocks, lambda body: first_reply(body).update(reasoning="hm"))


def _check_signatures(body: Body, issued: Issued) -> Iterator[Violation]:
    for place, reply in replies(body):
        content = reply["content"]
        for number, block in enumerate(content if isinstance(content, list) else ()):
            if block["type"].endswith("thinking") and issued.find(reply) is None:
                yield Violation(
                    f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block"
                )


def _plant_foreign_thinking(body: Body) -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "foreign"}
    reply = {"role": "assistant", "content": [block, {"type": "text", "text": "Hm."}]}
    body["messages"].insert(1, reply)


SIGNATURES = Rule("signatures", _check_signatures, _plant_foreign_thinking)


def _check_anthropic_order(body: Body, issued: Issued) -> Iterator[Violation]:
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        found = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if found != waiting or not all(b["type"] == "tool_result" for b in blocks[: len(found)]):
            yield Violation(
                f"messages.{place}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after: {', '.join(waiting)}. Each `tool_use` block must have a"
                " corresponding `tool_result` block in the next message."
            )
            return
        waiting = call_ids(message)


ANTHROPIC_ORDER = Rule(
    "order", _check_anthropic_order, lambda body: body["messages"][-1]["content"].pop(0)
)
