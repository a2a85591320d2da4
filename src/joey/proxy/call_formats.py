"""Formats in which models write calls, and calls that a client could not execute.

Calls in text are read by joey's own parsers, with the tools of the request: those that it declares,
or those that its prompt describes under a heading or in a list, with an example of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.messages import TextChunk
from joey.core.models import ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.parsing.call_names import KnownTool, ToolNames
from joey.core.parsing.leaked_call_finder import FoundCalls, find_leaked_calls
from joey.core.text import compile_regex
from joey.providers.errors import JSON_DECODE_ERRORS
from joey.proxy.reply_decoder import RecordedReply
from joey.proxy.request_blocks import ModelRequestBody


class CallFormat(StrEnum):
    NATIVE = "native"
    XML = "xml"
    TOOL_CODE = "tool_code"
    TOOL_CALL = "tool_call"
    JSON = "json"
    FUNCTION = "function"
    NONE = "none"


class CallFault(StrEnum):
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"


class FaultyCall(Struct, frozen=True):
    fault: CallFault
    text: str


_CALLS_IN_TEXT_RE = compile_regex(r"[<{\[]|tool_code")
_MARKS = (
    (
        compile_regex(r"^[ ]{0,3}(?:```|~~~)[ \t]*tool_code\b|<tool_code>\s*\w*[\s({]", re.M),
        CallFormat.TOOL_CODE,
    ),
    (
        compile_regex(r"<function=[\"']?[\w.-]+[\"']?\s*>|<function\s+name=[\"']"),
        CallFormat.FUNCTION,
    ),
    (
        compile_regex(
            r"<tool_call>\s*(?:```\w*\s*)?(?:[{\[<]|[\w.-]+\s*[{<])|\[TOOL_CALLS?\]\s*[\w\[{]"
            r"|<\|tool_calls?(?:_begin|_section_begin)?\|>"
        ),
        CallFormat.TOOL_CALL,
    ),
)
"""Marks that nothing but a call begins with, in the order in which they are looked for: a
`<tool_call>` may hold a `<function=…>`."""
_JSON_RE = compile_regex(r"[{\[]\s*[\"{\w]")
_JSON_CALL_RE = compile_regex(
    r"\{\s*\"(?:name|tool|tool_name|function|action)\"\s*:\s*\"([\w.-]{1,80})\"\s*,\s*"
    r"\"(?:arguments|parameters|input|args|params|tool_input|action_input)\"\s*:\s*[{\"]"
)
_NESTED_ELEMENT_RE = compile_regex(
    r"^<([a-z]+(?:_[a-z]+)+)>\s*<([a-z_]+)>.*</\2>\s*</\1>\s*\Z", re.MULTILINE | re.DOTALL
)
_TOOL_NAME = r"[`*]{0,2}([a-z][a-z0-9_]{2,60})[`*]{0,2}(?=[ \t]*(?:$|[:(—–]|- ))"
_TOOL_HEADING_RE = compile_regex(rf"^#{{1,5}} +(?:Tool: *)?{_TOOL_NAME}", re.MULTILINE)
_TOOL_ITEM_RE = compile_regex(rf"^[ \t]*(?:[-*]|\d+\.) +{_TOOL_NAME}", re.MULTILINE)
_TAG_RE = compile_regex(r"<([a-z][a-z0-9_]{0,60})>")
_SERVER_TOOL_PREFIXES = ("web_search", "code_execution", "web_fetch")


def list_known_tools(request: ModelRequestBody) -> tuple[KnownTool, ...]:
    if request.tools:
        return tuple(
            KnownTool(tool.name, frozenset(_get_properties(tool.parameters)))
            for tool in request.tools
        )
    return find_described_tools(request.system_prompt)


def find_described_tools(prompt: str) -> tuple[KnownTool, ...]:
    """Find tools described in the prompt, with the parameters in their examples."""
    for pattern in (_TOOL_HEADING_RE, _TOOL_ITEM_RE):
        names = dict.fromkeys(match[1] for match in pattern.finditer(prompt))
        tools = {name: _list_parameters(prompt, name) for name in names if f"<{name}>" in prompt}
        inner = frozenset[str]().union(*tools.values())
        if tools.keys() - inner:
            return tuple(KnownTool(*each) for each in tools.items() if each[0] not in inner)
    return ()


def _list_parameters(prompt: str, tool: str) -> frozenset[str]:
    """List the elements in examples of its calls."""
    examples = re.findall(rf"<{tool}>(.*?)</{tool}>", prompt, re.DOTALL)
    names = (match[1] for example in examples for match in _TAG_RE.finditer(example))
    return frozenset(names) - {tool}


def detect_format(reply: RecordedReply, tools: tuple[KnownTool, ...]) -> CallFormat:
    """Detect the format of the first call, if a reply has several in the text."""
    if reply.calls:
        return CallFormat.NATIVE
    if _CALLS_IN_TEXT_RE.search(reply.text) is None:
        return CallFormat.NONE
    if _find_xml_calls(reply.text, tools):
        return CallFormat.XML
    for pattern, call_format in _MARKS:
        if pattern.search(reply.text):
            return call_format
    return _detect_unmarked_format(reply.text, tools)


def _detect_unmarked_format(text: str, tools: tuple[KnownTool, ...]) -> CallFormat:
    """Detect a format without marks: objects and elements are calls only if they name tools."""
    found = _find_text_calls(text, tools)
    if found.calls or found.unusable is not None:
        name = found.unusable.unknown_tool if found.unusable is not None else None
        is_element = _JSON_RE.search(text) is None or (name is not None and f"<{name}" in text)
        return CallFormat.XML if is_element else CallFormat.JSON
    names = {tool.name for tool in tools}
    if any(match[1] in names for match in _JSON_CALL_RE.finditer(text)):
        return CallFormat.JSON
    is_element = not tools and _NESTED_ELEMENT_RE.search(text) is not None
    return CallFormat.XML if is_element else CallFormat.NONE


def list_faulty_calls(
    request: ModelRequestBody, reply: RecordedReply, tools: tuple[KnownTool, ...]
) -> Iterator[FaultyCall]:
    """List calls of tools that the request does not have, and arguments that a tool does not
    accept."""
    schemas = {tool.name: tool.parameters for tool in request.tools}
    for call in reply.calls:
        if call.name not in schemas:
            if schemas and not call.name.startswith(_SERVER_TOOL_PREFIXES):
                yield FaultyCall(CallFault.UNKNOWN_TOOL, f"{call.name} is not among the tools")
            continue
        problem = find_argument_problem(call.arguments, schemas[call.name])
        if problem and reply.is_complete:
            yield FaultyCall(CallFault.BAD_ARGUMENTS, f"{call.name}: {problem}")
    if not reply.calls and tools:
        unusable = _find_text_calls(reply.text, tools).unusable
        if unusable is not None and unusable.unknown_tool:
            text = f"{unusable.unknown_tool} is not among the tools"
            yield FaultyCall(CallFault.UNKNOWN_TOOL, text)
        elif unusable is not None and (
            unusable.tool or detect_format(reply, tools) is not CallFormat.NONE
        ):
            yield FaultyCall(CallFault.BAD_ARGUMENTS, unusable.problem)


def find_argument_problem(arguments: str, schema: dict[str, Any]) -> str:
    """Find why these arguments violate the schema of their tool; empty if they do not."""
    try:
        value = msgspec.json.decode(arguments) if arguments.strip() else {}
    except JSON_DECODE_ERRORS as error:
        return f"the arguments are not JSON ({error})"
    return next(_iter_schema_problems(value, schema, ""), "")


def _find_xml_calls(text: str, tools: tuple[KnownTool, ...]) -> bool:
    if not tools or "<" not in text:
        return False
    assembler = ReplyAssembler(
        protocol=ToolProtocol.XML,
        tools=ToolNames(tools),
        taken_ids=lambda call_id: False,
        make_id=lambda: "call",
        understand_text_calls=False,
    )
    assembler.feed(TextChunk(text))
    assembler.close(complete=True)
    return bool(assembler.reply.calls)


def _find_text_calls(text: str, tools: tuple[KnownTool, ...]) -> FoundCalls:
    return find_leaked_calls(text, ToolNames(tools), is_whole_reply=True)


def _get_properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def _iter_schema_problems(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Iterate over problems in the parts of JSON Schema that tools use: types, required and unknown
    properties, choices."""
    place = path or "the arguments"
    if (problem := _find_type_problem(value, schema.get("type"))) is not None:
        yield f"{place} must be {problem}"
        return
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield f"{place} must be one of {', '.join(map(str, choices))}"
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        options = alternatives if isinstance(alternatives, list) else []
        options = [option for option in options if isinstance(option, dict)]
        if options and all(
            next(_iter_schema_problems(value, option, path), "") for option in options
        ):
            yield f"{place} has none of the allowed forms"
    yield from _iter_limit_problems(value, schema, place)
    if isinstance(value, dict):
        properties = _get_properties(schema)
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if name not in value:
                yield f"{path}.{name} is missing".lstrip(".")
        for name, inner in value.items():
            inner_path = f"{path}.{name}".lstrip(".")
            if isinstance(inner_schema := properties.get(name), dict):
                yield from _iter_schema_problems(inner, inner_schema, inner_path)
            elif name not in properties and schema.get("additionalProperties") is False:
                yield f"{inner_path} is not a parameter"
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for number, inner in enumerate(value):
            yield from _iter_schema_problems(inner, items, f"{path}[{number}]")


_LIMITS = (
    ("minimum", (int, float), 1, "at least"),
    ("maximum", (int, float), -1, "at most"),
    ("minLength", (str,), 1, "at least this long:"),
    ("maxLength", (str,), -1, "at most this long:"),
    ("minItems", (list,), 1, "at least this long:"),
    ("maxItems", (list,), -1, "at most this long:"),
)
"""Keywords, the types they are for, and on which side of the limit values are."""


def _iter_limit_problems(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    for keyword, kinds, side, comparison in _LIMITS:
        limit = schema.get(keyword)
        if not isinstance(limit, int | float) or not isinstance(value, kinds):
            continue
        size = value if isinstance(value, int | float) else len(value)
        if side * (size - limit) < 0 and not isinstance(value, bool):
            yield f"{place} must be {comparison} {limit}"


def _find_type_problem(value: Any, declared: Any) -> str | None:
    names = [declared] if isinstance(declared, str) else declared
    if not isinstance(names, list) or not names:
        return None
    for name in names:
        kinds = _TYPES.get(name)
        is_bool = isinstance(value, bool)
        if kinds is None or (isinstance(value, kinds) and is_bool <= (bool in kinds)):
            return None
        if name == "integer" and isinstance(value, float) and value.is_integer():
            return None
    return " or ".join(map(str, names))
