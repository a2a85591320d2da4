"""The JSON schema of a tool's parameters, in the strict form that providers can enforce.

Every property is listed as required and nothing else is allowed; a parameter with a default may
be null instead. Descriptions come from `msgspec.Meta`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, inspect

_SIMPLE: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}


def native_schema(params: type[Struct]) -> dict[str, Any]:
    """The schema of an object with the fields of `params`; the same every time."""
    return _schema(inspect.type_info(params))


def _schema(kind: inspect.Type) -> dict[str, Any]:
    if name := _SIMPLE.get(type(kind)):
        return {"type": name}
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return {**_schema(inner), **(extra or {})}
        case inspect.StructType(fields=fields):
            return _object(fields)
        case inspect.LiteralType(values=values):
            return {"type": "string", "enum": list(values)}
        case inspect.TupleType(item_types=items):
            bounds = {"minItems": len(items), "maxItems": len(items)}
            return {"type": "array", "items": _schema(items[0]), **bounds}
        case (
            inspect.ListType(item_type=item, min_length=least)
            | inspect.VarTupleType(item_type=item, min_length=least)
        ):
            bounds = {"minItems": least} if least else {}
            return {"type": "array", "items": _schema(item), **bounds}
        case inspect.UnionType(types=types):
            return _nullable_union(types)
    raise TypeError(f"no schema for a parameter of type {kind}")


def _object(fields: tuple[inspect.Field, ...]) -> dict[str, Any]:
    properties = {field.encode_name: _schema(field.type) for field in fields}
    for field in fields:
        if not field.required:
            _allow_null(properties[field.encode_name])
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable_union(types: tuple[inspect.Type, ...]) -> dict[str, Any]:
    """`X | None`; other unions would need a schema that not every provider takes."""
    others = [kind for kind in types if not isinstance(kind, inspect.NoneType)]
    if len(others) != 1:
        raise TypeError(f"no schema for a parameter of the types {types}")
    schema = _schema(others[0])
    _allow_null(schema)
    return schema


def _allow_null(schema: dict[str, Any]) -> None:
    if isinstance(schema["type"], list):
        return
    schema["type"] = [schema["type"], "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
