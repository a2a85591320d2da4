"""Structured output: the JSON Schema of a task's result, and the JSON of that result.

A schema is read once, and every keyword in it that would not be checked is rejected by name: a
constraint that is silently ignored is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.text import compile_regex
from joey.errors import ConfigError

MAX_SUBSCHEMAS = 2_000
_JSON_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ANNOTATION_KEYWORDS = frozenset(
    {"$schema", "$id", "$comment", "title", "description", "default", "examples", "format"}
    | {"deprecated", "readOnly", "writeOnly"}
)
"""They say something about a value and demand nothing of it."""
_COUNT_KEYWORDS = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
)
_NUMBER_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SUBSCHEMA_KEYWORDS = ("items", "additionalProperties", "not")
_SUBSCHEMA_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SUBSCHEMA_KEYWORDS = ("properties", "$defs", "definitions")
_COMBINATOR_KEYWORDS = ("anyOf", "oneOf", "allOf")
"""Lists of schemas for the same value, not for a part of it."""
SUPPORTED_KEYWORDS = _ANNOTATION_KEYWORDS.union(
    ("type", "enum", "const", "required", "pattern", "uniqueItems", "$ref"),
    *(
        _COUNT_KEYWORDS,
        _NUMBER_KEYWORDS,
        _SUBSCHEMA_KEYWORDS,
        _SUBSCHEMA_LIST_KEYWORDS,
        _NAMED_SUBSCHEMA_KEYWORDS,
    ),
)


class JsonSchema(Struct, frozen=True):
    """A document that was read by `parse_schema`."""

    document: dict[str, Any] | bool


def parse_schema(document: Any) -> JsonSchema:
    """Raises ConfigError: naming the place, and what is wrong or not supported there."""
    found: dict[str, Any] = {}
    for schema, pointer in _iter_subschemas(document, "#"):
        found[pointer] = schema
        if len(found) > MAX_SUBSCHEMAS:
            raise ConfigError(f"The JSON schema has more than {MAX_SUBSCHEMAS} parts.")
        if not isinstance(schema, bool):
            _check_keywords(schema, pointer, document)
    known = {id(schema) for schema in found.values()}
    for pointer, schema in found.items():
        for part in _iter_same_value_schemas(schema, document):
            if id(part) not in known and not isinstance(part, bool):
                raise ConfigError(
                    f"The JSON schema is wrong at {pointer}/$ref: what it leads to is no schema."
                )
        _check_recursion(schema, pointer, document)
    return JsonSchema(document)


def resolve_reference(document: Any, reference: str) -> Any:
    """What a reference within the document means. Raises KeyError: nothing."""
    found = document
    if reference == "#":
        return found
    if not reference.startswith("#/"):
        raise KeyError(reference)
    for step in reference[2:].split("/"):
        name = _unescape_pointer(step)
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            raise KeyError(reference)
    return found


def _unescape_pointer(step: str) -> str:
    plain = re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), step)
    return plain.replace("~1", "/").replace("~0", "~")


def _iter_subschemas(schema: Any, pointer: str) -> Iterator[tuple[Any, str]]:
    """The schema and all below it, without following references."""
    waiting = [(schema, pointer)]
    while waiting:
        schema, pointer = waiting.pop()
        if not isinstance(schema, dict | bool):
            raise ConfigError(f"The JSON schema is wrong at {pointer}: not a schema (an object).")
        yield schema, pointer
        if isinstance(schema, bool):
            continue
        for keyword in _SUBSCHEMA_KEYWORDS:
            if keyword in schema:
                waiting.append((schema[keyword], f"{pointer}/{keyword}"))
        for keyword in _SUBSCHEMA_LIST_KEYWORDS:
            parts = schema.get(keyword, [])
            waiting += ((part, f"{pointer}/{keyword}/{n}") for n, part in enumerate(parts))
        for keyword in _NAMED_SUBSCHEMA_KEYWORDS:
            members = schema.get(keyword, {})
            waiting += ((part, f"{pointer}/{keyword}/{name}") for name, part in members.items())


def _check_keywords(schema: dict[str, Any], pointer: str, document: Any) -> None:
    for keyword, value in schema.items():
        if keyword not in SUPPORTED_KEYWORDS:
            raise ConfigError(
                f"The JSON schema uses `{keyword}` at {pointer}, which joey does not check. Say it"
                " with other keywords, or leave it out."
            )
        if reason := _find_keyword_error(keyword, value, document):
            raise ConfigError(f"The JSON schema is wrong at {pointer}/{keyword}: {reason}.")


def _find_keyword_error(keyword: str, value: Any, document: Any) -> str | None:
    match keyword:
        case "type":
            kinds = value if isinstance(value, list) else [value]
            fits = bool(kinds) and all(kind in _JSON_TYPES for kind in kinds)
            return None if fits else f"{value!r} is not a type ({', '.join(_JSON_TYPES)})"
        case "enum" | "anyOf" | "oneOf" | "allOf":
            return None if isinstance(value, list) and value else "a list with items is needed"
        case "prefixItems":
            return None if isinstance(value, list) else "a list is needed"
        case "required":
            fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
            return None if fits else "a list of names is needed"
        case "properties" | "$defs" | "definitions":
            return None if isinstance(value, dict) else "an object is needed"
        case "uniqueItems":
            return None if isinstance(value, bool) else "true or false is needed"
        case "pattern":
            return _find_pattern_error(value)
        case "$ref":
            return _find_reference_error(value, document)
        case "items" if isinstance(value, list):
            return "a list is not supported here; `prefixItems` says the same"
    return _find_number_error(keyword, value)


def _find_number_error(keyword: str, value: Any) -> str | None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if keyword in _COUNT_KEYWORDS:
        return None if is_integer and value >= 0 else "a number of 0 or more is needed"
    if keyword == "multipleOf":
        fits = (is_integer or isinstance(value, float)) and value > 0
        return None if fits else "a number above 0 is needed"
    if keyword in _NUMBER_KEYWORDS and not (is_integer or isinstance(value, float)):
        return "a number is needed"
    return None


def _find_pattern_error(value: Any) -> str | None:
    if not isinstance(value, str):
        return "an expression is needed"
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        return f"{value!r} is not a regular expression: {error}"
    return None


def _find_reference_error(value: Any, document: Any) -> str | None:
    if not isinstance(value, str) or not value.startswith("#"):
        return f"{value!r} leads out of the document; only `#/…` is supported"
    try:
        resolve_reference(document, value)
    except KeyError:
        return f"{value!r} leads nowhere"
    return None


def _check_recursion(schema: Any, pointer: str, document: Any) -> None:
    """A schema that asks for itself, of the same value, would be asked for ever."""
    waiting: list[tuple[Any, tuple[int, ...]]] = [(schema, (id(schema),))]
    seen: set[int] = set()
    while waiting:
        one, above = waiting.pop()
        for part in _iter_same_value_schemas(one, document):
            if id(part) in above:
                raise ConfigError(f"The JSON schema refers to itself without end at {pointer}.")
            if id(part) not in seen and isinstance(part, dict):
                seen.add(id(part))
                waiting.append((part, (*above, id(part))))


def _iter_same_value_schemas(schema: Any, document: Any) -> Iterator[Any]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield resolve_reference(document, schema["$ref"])
    if "not" in schema:
        yield schema["not"]
    for keyword in _COMBINATOR_KEYWORDS:
        yield from schema.get(keyword, ())


_CODE_FENCE_RE = compile_regex(r"\s*```[A-Za-z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


class StructuredResult(Struct, frozen=True):
    json_text: str
    value: Any


def parse_structured_result(result: str) -> StructuredResult:
    """The JSON of a result, also of one that stands in a code fence. Raises ValueError: it is no
    JSON; the text says why."""
    fenced = _CODE_FENCE_RE.fullmatch(result)
    text = (fenced["inside"] if fenced else result).strip()
    try:
        return StructuredResult(text, msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def render_schema_instructions(schema: JsonSchema) -> str:
    """The section of the system prompt; the same bytes for the same schema."""
    document = msgspec.json.encode(schema.document).decode()
    return (
        "FORM OF THE RESULT\n\nA program reads the result of this task. The `result` of"
        " `attempt_completion` must be one JSON value and nothing else: no words around it, no code"
        f" fence. It must be valid against this JSON Schema:\n\n{document}\n\nA result that is not"
        " valid is refused, and you are told what is wrong with it."
    )
