"""The JSON schema of a tool's parameters, in the strict form that providers can enforce.

Every property is listed as required and nothing else is allowed; a parameter with a default may
be null instead. Descriptions come from `msgspec.Meta`.
"""

from __future__ import annotations

import types
import typing
from typing import Any, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def native_schema(params: type[Struct]) -> dict[str, Any]:
    """The schema of an object with the fields of `params`; the same every time."""
    properties = {field.encode_name: _property(field) for field in fields(params)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _property(field: FieldInfo) -> dict[str, Any]:
    schema = _schema(field.type)
    if not field.required:
        _allow_null(schema)
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    parts = get_args(kind)
    match get_origin(kind):
        case None if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        case None if isinstance(kind, type) and issubclass(kind, Struct):
            return native_schema(kind)
        case typing.Annotated:
            return _with_notes(*parts)
        case typing.Literal:
            return {"type": "string", "enum": sorted(parts)}
        case types.UnionType | typing.Union:
            return _nullable_union(kind, parts)
        case array if array is list or array is tuple:
            return _array(parts)
    raise TypeError(f"no schema for a parameter of type {kind}")


def _with_notes(kind: Any, *notes: Meta) -> dict[str, Any]:
    schema = _schema(kind)
    for note in notes:
        if note.min_length and "items" in schema:
            schema["minItems"] = note.min_length
        if note.description:
            schema["description"] = note.description
        schema |= note.extra_json_schema or {}
    return schema


def _array(parts: tuple[Any, ...]) -> dict[str, Any]:
    """Of any length, but for a tuple that names each of its parts."""
    schema: dict[str, Any] = {"type": "array", "items": _schema(parts[0])}
    if len(parts) > 1 and parts[1] is not ...:
        schema |= {"minItems": len(parts), "maxItems": len(parts)}
    return schema


def _nullable_union(kind: Any, parts: tuple[Any, ...]) -> dict[str, Any]:
    """`X | None`; other unions would need a schema that not every provider takes."""
    others = [each for each in parts if each is not types.NoneType]
    if len(others) != 1:
        raise TypeError(f"no schema for a parameter of the types {kind}")
    schema = _schema(others[0])
    _allow_null(schema)
    return schema


def _allow_null(schema: dict[str, Any]) -> None:
    if isinstance(schema["type"], list):
        return
    schema["type"] = [schema["type"], "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
