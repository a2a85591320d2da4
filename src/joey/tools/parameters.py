"""Parameters of tools: their JSON schema, and arguments of models converted to them.

The JSON schema of the parameters has the strict form that providers can enforce: every property is
listed as required and nothing else is allowed; a parameter with a default may be null instead.
Descriptions come from `msgspec.Meta`.

Models send numbers as strings, lists as JSON in a string, a string in a list, and the XML protocol
sends only strings. An unambiguous value is converted. Objects and numbers are never paths or
commands; where a whole text is required, JSON may be that text.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

from joey.core.text import compile_regex, split_validation_error
from joey.errors import ArgumentError

StructT = TypeVar("StructT", bound=Struct)

_NULL_SPELLINGS = frozenset({"null", "none", "undefined"})
_OPTIONAL_MARK_RE = compile_regex(r"\s*\(optional\)$")
_SECONDS_RE = compile_regex(r"(\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?")
_TYPE_DESCRIPTIONS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_MAX_QUOTED_CHARS = 80
_TEXT_BODY_PARAMETERS = frozenset({"content", "diff", "result"})
"""Here JSON is a text like any other: some models send `package.json` as an object."""


def convert_arguments(
    arguments: Mapping[str, Any],
    kind: type[StructT],
    tool: str,
    aliases: Mapping[str, str] | None = None,
) -> StructT:
    """Convert the arguments of a call. `aliases` maps other names of parameters: `{old: real}`.
    Unknown arguments are ignored; null, also as a string, and the placeholder of a usage mean the
    default. Raises ArgumentError if a value is missing (then it has the `parameter`) or invalid."""
    given = {name: value for name, value in arguments.items() if value is not None}
    for alias, name in (aliases or {}).items():
        if alias in given and name not in given:
            given[name] = given[alias]
    values: dict[str, Any] = {}
    for field in get_fields(kind):
        value = given.get(field.encode_name)
        if not field.required and is_null_spelling(value, field.encode_name):
            continue
        if field.encode_name in given:
            _set_converted_field(values, field, value, tool)
        elif field.required:
            raise build_missing_parameter_error(tool, field.encode_name)
    return kind(**values)


def build_missing_parameter_error(tool: str, parameter: str) -> ArgumentError:
    return ArgumentError(
        f"Missing value for required parameter '{parameter}' of {tool}.", parameter
    )


def require_texts(params: Struct, names: Iterable[str], tool: str) -> None:
    """Check parameters. Raises ArgumentError if one of these is blank."""
    for name in names:
        if not getattr(params, name).strip():
            raise build_missing_parameter_error(tool, name)


def list_required_parameters(kind: type[Struct]) -> list[str]:
    """List required parameters, faster than by the fields, whose types must be evaluated."""
    names, defaults = kind.__struct_encode_fields__, kind.__struct_defaults__
    values = [msgspec.NODEFAULT] * (len(names) - len(defaults)) + [*defaults]
    return [name for name, value in zip(names, values, strict=True) if value is msgspec.NODEFAULT]


@cache
def get_fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def is_null_spelling(value: Any, parameter: str = "") -> bool:
    """Whether a string means no value: `null`, `(optional)`, `cwd here (optional)`."""
    if not isinstance(value, str):
        return False
    text = value.strip().lower()
    unmarked = _OPTIONAL_MARK_RE.sub("", text)
    is_placeholder = unmarked == f"{parameter} here" or (bool(text) and not unmarked)
    return is_placeholder or text in _NULL_SPELLINGS


def _set_converted_field(values: dict[str, Any], field: FieldInfo, value: Any, tool: str) -> None:
    problem: msgspec.ValidationError | None = None
    for reading in _iter_interpretations(value, is_body=field.encode_name in _TEXT_BODY_PARAMETERS):
        try:
            values[field.name] = msgspec.convert(reading, field.type, strict=False)
        except msgspec.ValidationError as error:
            problem = problem or error
        else:
            return
    if isinstance(value, str) and not value.strip() and not field.required:
        return
    place = split_validation_error(problem)[0] if problem is not None else ""
    raise build_wrong_kind_error(tool, field.encode_name, field.type, value, place) from problem


def build_wrong_kind_error(
    tool: str, parameter: str, kind: Any, value: Any, place: str = ""
) -> ArgumentError:
    """Build an error about the type of a value; `place` is the position inside of it."""
    where = f" (wrong at {place})" if place else ""
    return ArgumentError(
        f"The parameter '{parameter}' of {tool} has a value of the wrong kind: it must be"
        f" {_describe_type(kind)}, not {_quote(value)}{where}."
    )


def _describe_type(kind: Any) -> str:
    """Describe the expected type of a value."""
    parts = [part for part in get_args(kind) if part is not types.NoneType]
    match get_origin(kind):
        case typing.Literal:
            return "one of " + ", ".join(map(repr, parts))
        case typing.Annotated | types.UnionType | typing.Union:
            return _describe_type(parts[0])
        case array if array is list or array is tuple:
            return f"a list in which each item is {_describe_type(parts[0])}"
        case None if isinstance(kind, type) and issubclass(kind, Struct):
            return f"an object with the keys {', '.join(kind.__struct_encode_fields__)}"
    return _TYPE_DESCRIPTIONS.get(kind, "an object")


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"


def _iter_interpretations(value: Any, *, is_body: bool) -> Iterator[Any]:
    """Iterate over possible interpretations of a value, the most literal first."""
    yield value
    match value:
        case str():
            stripped = value.strip()
            yield stripped
            yield _OPTIONAL_MARK_RE.sub("", stripped)
            if (
                stripped.startswith(("[", "{"))
                and (decoded := try_decode_json(stripped)) is not None
            ):
                yield decoded
            if seconds := _SECONDS_RE.fullmatch(stripped):
                yield seconds[1]
        case [str(text)] if not is_body:
            yield text
        case _ if is_body:
            try:
                yield msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            except (UnicodeEncodeError, RecursionError):
                return  # half a surrogate pair, or endless nesting: not text in any reading


def try_decode_json(text: str) -> Any:
    """Decode a string as JSON; None if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def coerce_argument(value: Any, schema: Any) -> Any:
    """Coerce an argument. In XML all values are strings, and other types are JSON in them."""
    kinds = (schema.get("type") if isinstance(schema, dict) else None) or "string"
    if not isinstance(value, str) or kinds == "string" or "string" in kinds:
        return value
    decoded = try_decode_json(value.strip())
    return value if decoded is None else decoded


XML_ONLY = {"xml_only": True}
"""Marks a description that in a schema would repeat the tool's: only XML lists the parameters."""
_JSON_TYPE_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def build_native_schema(params: type[Struct]) -> dict[str, Any]:
    """Build the schema of an object with the fields of `params`, cached."""
    properties: dict[str, Any] = {}
    for field in fields(params):
        properties[field.encode_name] = schema = _build_type_schema(field.type)
        if not field.required:
            _allow_null(schema)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def collect_xml_descriptions(params: type[Struct]) -> dict[str, str]:
    """Collect the descriptions of parameters that their schema leaves out."""
    return {
        field.encode_name: note.description
        for field in get_fields(params)
        for note in get_args(field.type)
        if isinstance(note, Meta) and note.description and note.extra == XML_ONLY
    }


def _build_type_schema(kind: Any) -> dict[str, Any]:
    parts = get_args(kind)
    match get_origin(kind):
        case None if kind in _JSON_TYPE_NAMES:
            return {"type": _JSON_TYPE_NAMES[kind]}
        case None if isinstance(kind, type) and issubclass(kind, Struct):
            return build_native_schema(kind)
        case typing.Annotated:
            return _build_annotated_schema(*parts)
        case typing.Literal:
            return {"type": "string", "enum": sorted(parts)}
        case types.UnionType | typing.Union if len(parts) == 2 and types.NoneType in parts:
            # Other unions would need a schema that not every provider accepts.
            schema = _build_type_schema(parts[0] if parts[1] is types.NoneType else parts[1])
            _allow_null(schema)
            return schema
        case array if array is list or array is tuple:
            schema = {"type": "array", "items": _build_type_schema(parts[0])}
            if len(parts) > 1 and parts[1] is not ...:  # a tuple that names each of its parts
                schema |= {"minItems": len(parts), "maxItems": len(parts)}
            return schema
    raise TypeError(f"no schema for a parameter of type {kind}")


def _build_annotated_schema(kind: Any, *notes: Meta) -> dict[str, Any]:
    schema = _build_type_schema(kind)
    for note in notes:
        if note.min_length and "items" in schema:
            schema["minItems"] = note.min_length
        if note.description and note.extra != XML_ONLY:
            schema["description"] = note.description
        schema |= note.extra_json_schema or {}
    return schema


def _allow_null(schema: dict[str, Any]) -> None:
    if isinstance(schema["type"], list):
        return
    schema["type"] = [schema["type"], "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
