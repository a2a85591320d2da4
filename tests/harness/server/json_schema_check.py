"""A small checker of JSON Schema: enough for the schema that joey publishes of its own frames."""

from __future__ import annotations

from typing import Any

from joey.core.wire.schema import build_wire_schema

SCHEMA = build_wire_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {"$ref", "oneOf", "anyOf", "type", "const", "enum", "properties", "required", "items"}
KNOWN |= {"additionalProperties", "default", "title", "description", "pattern", "minItems"}
KNOWN |= {"minimum", "maximum", "minLength", "maxLength", "prefixItems", "maxItems", "$defs"}
KNOWN |= {"$schema"}


def find_violations(
    value: Any, schema: dict[str, Any] | None = None, place: str = "$"
) -> list[str]:
    """What is wrong with a frame; nothing when it is as the schema says."""
    schema = SCHEMA if schema is None else schema
    assert set(schema) <= KNOWN, f"the checker does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        return find_violations(
            value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], place
        )
    for several in ("oneOf", "anyOf"):
        if several in schema:
            near = [each for each in schema[several] if _is_named(value, each)]
            found = [find_violations(value, each, place) for each in near]
            if [] not in found:
                return [f"{place} fits none: {min(found, key=len, default='no shape of its name')}"]
    return [*_simple(value, schema, place), *_inner(value, schema, place)]


def _is_named(value: Any, schema: dict[str, Any]) -> bool:
    """The names in a frame say which shape it has; the others need not be tried."""
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties", {})
    names = {name: inner["const"] for name, inner in properties.items() if "const" in inner}
    return all(value.get(name) == const for name, const in names.items())


def _simple(value: Any, schema: dict[str, Any], place: str) -> list[str]:
    if "const" in schema and value != schema["const"]:
        return [f"{place}: {value!r} is not {schema['const']!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{place}: {value!r} is none of {schema['enum']}"]
    kind = schema.get("type")
    if kind is None:
        return []
    wrong = not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool))
    return [f"{place}: {value!r} is no {kind}"] if wrong else []


def _inner(value: Any, schema: dict[str, Any], place: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]
        found += [f"{place}.{name} is missing" for name in missing]
        other = schema.get("additionalProperties")
        for name, inner in value.items():
            if name in properties:
                found += find_violations(inner, properties[name], f"{place}.{name}")
            elif isinstance(other, dict):
                found += find_violations(inner, other, f"{place}.{name}")
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, inner in enumerate(value):
            found += find_violations(inner, schema["items"], f"{place}[{number}]")
    return found
