"""JSON schemas of tools in the form that every service accepts.

OpenAI's own service enforces schemas in which every property is required and optional ones are
nullable. Elsewhere such schemas are rejected (Gemini), break chat templates (Gemma) or mislead
models. For these, an optional property has a plain type and is not required, and keywords that only
some services know are left out. Tools check dropped constraints themselves.
"""

from __future__ import annotations

from typing import Any

_KEPT_KEYWORDS: dict[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "description": str,
    "title": str,
    "enum": list,
    "properties": dict,
    "required": list,
    "items": (dict, list),
    "minItems": int,
    "maxItems": int,
    "minimum": (int, float),
    "maximum": (int, float),
    "minLength": int,
    "maxLength": int,
    "pattern": str,
    "default": object,
}
"""Keywords and the types of their values; with any other value, services refuse all tools."""
_KEPT_FORMATS = ("date-time", "enum")
_ALTERNATIVES = ("anyOf", "oneOf")
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_TYPE_BY_KEYWORD = {
    "properties": "object",
    "items": "array",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}
_MAX_DEPTH = 16
_MAX_SUBSCHEMAS = 1000
"""Schemas may refer to themselves, and more than once."""
_MAX_EXPANSIONS = 2
"""Of one reference within itself."""

_Schema = dict[str, Any]


def simplify_schema(
    schema: _Schema, *, additional_properties: bool = True, number_enums: bool = True
) -> _Schema:
    """Return the schema with plain types, without references, formats and nullable properties.
    `additional_properties` keeps that keyword. `number_enums` allows other `enum` values than
    strings."""
    simplifier = _Simplifier(
        schema, additional_properties=additional_properties, number_enums=number_enums
    )
    return simplifier.simplify(schema)


class _Simplifier:
    def __init__(self, root: _Schema, *, additional_properties: bool, number_enums: bool) -> None:
        self._root = root
        self._keeps_additional = additional_properties
        self._keeps_number_enums = number_enums
        self._remaining_subschemas = _MAX_SUBSCHEMAS
        self._open_references: list[str] = []

    def simplify(self, schema: _Schema, depth: int = 0) -> _Schema:
        self._remaining_subschemas -= 1
        if depth > _MAX_DEPTH or self._remaining_subschemas < 0:
            return {"type": "object"}
        count = len(self._open_references)
        plain = self._simplify_flat(self._flatten(schema), depth + 1)
        del self._open_references[count:]
        return plain

    def _simplify_flat(self, schema: _Schema, depth: int) -> _Schema:
        plain: _Schema = {
            key: value
            for key, value in schema.items()
            if key in _KEPT_KEYWORDS and isinstance(value, _KEPT_KEYWORDS[key])
        }
        if "const" in schema:
            plain["enum"] = [schema["const"]]
        if schema.get("format") in _KEPT_FORMATS:
            plain["format"] = schema["format"]
        if kinds := [kind for kind in _as_list(plain.get("type", [])) if kind in _TYPES]:
            plain["type"] = next((kind for kind in kinds if kind != "null"), "string")
        else:
            plain.pop("type", None)
        if plain.get("default", ...) is None:
            del plain["default"]
        if "enum" in plain:
            self._simplify_enum(plain)
        self._simplify_items(plain, depth)
        self._simplify_choice(plain, _list_schemas(schema.get("anyOf")), depth)
        self._simplify_properties(plain, depth)
        additional = schema.get("additionalProperties") if self._keeps_additional else None
        if isinstance(additional, dict):
            plain["additionalProperties"] = self.simplify(additional, depth)
        elif isinstance(additional, bool):
            plain["additionalProperties"] = additional
        return plain if "type" in plain or "anyOf" in plain else plain | _find_type(plain)

    def _simplify_enum(self, plain: _Schema) -> None:
        values = [value for value in plain.pop("enum") if value is not None]
        kinds = {_TYPE_NAMES.get(type(value), "") for value in values}
        kind = kinds.pop() if len(kinds) == 1 else ""
        if kind:
            plain.setdefault("type", kind)
        if kind == "string" or (kind and self._keeps_number_enums):
            plain["enum"] = values
        elif values:
            listed = f"One of: {', '.join(map(str, values))}."
            plain["description"] = f"{plain.get('description', '')} {listed}".strip()

    def _simplify_items(self, plain: _Schema, depth: int) -> None:
        items = plain.pop("items", None)
        if isinstance(items, list):
            items = {"anyOf": items} if len(items) > 1 else next(iter(_list_schemas(items)), None)
        if items is not None or plain.get("type") == "array":
            plain["items"] = self.simplify(items or {"type": "string"}, depth)

    def _simplify_choice(self, plain: _Schema, parts: list[_Schema], depth: int) -> None:
        """Simplify alternatives, which have the type instead of the schema around them; those of an
        object with its own properties only add to these."""
        if not parts:
            return
        if "properties" in plain:
            for part in map(self._flatten, parts):
                if isinstance(more := part.get("properties"), dict):
                    plain["properties"] = {**more, **plain["properties"]}
            return
        kind = plain.pop("type", None)
        shared = {} if kind is None else {"type": kind}
        plain["anyOf"] = [self.simplify({**shared, **part}, depth) for part in parts]

    def _simplify_properties(self, plain: _Schema, depth: int) -> None:
        properties, required = plain.pop("properties", None), plain.pop("required", ())
        if properties is None or plain.get("type", "object") != "object":
            return
        given = {
            name: {} if value is True else value
            for name, value in properties.items()
            if value is True or isinstance(value, dict)
        }
        plain["properties"] = {key: self.simplify(value, depth) for key, value in given.items()}
        names = [
            name
            for name in required
            if isinstance(name, str) and name in given and not self._is_nullable(given[name])
        ]
        if names:
            plain["required"] = names

    def _flatten(self, schema: _Schema) -> _Schema:
        """Replace a reference, `allOf` and a choice with null by the schema itself."""
        for _ in range(_MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._resolve(reference), **rest}
        for part in _list_schemas(schema.get("allOf")):
            schema = {**self._flatten(part), **schema}
        for key in _ALTERNATIVES:
            parts = _list_schemas(schema.get(key))
            others = [part for part in parts if part.get("type") != "null"]
            if parts:
                rest = {name: value for name, value in schema.items() if name != key}
                one = self._flatten(others[0]) if len(others) == 1 else {"anyOf": others}
                schema = {**one, **rest}
        return schema

    def _resolve(self, reference: str) -> _Schema:
        if self._open_references.count(reference) >= _MAX_EXPANSIONS:
            return {"type": "object"}
        self._open_references.append(reference)
        found: Any = self._root
        for step in reference.removeprefix("#").removeprefix("/").split("/"):
            if step:
                found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {"type": "object"}

    def _is_nullable(self, schema: _Schema) -> bool:
        kinds = schema.get("type")
        return (isinstance(kinds, list) and "null" in kinds) or any(
            part.get("type") == "null"
            for key in _ALTERNATIVES
            for part in _list_schemas(schema.get(key))
        )


def _find_type(plain: _Schema) -> _Schema:
    """Return the type that other keywords imply, or a choice of all types: services require one."""
    for keyword, kind in _TYPE_BY_KEYWORD.items():
        if keyword in plain:
            return {"type": kind}
    kinds: list[_Schema] = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
    return {"anyOf": [*kinds, {"type": "array", "items": {"type": "string"}}]}


def _as_list(value: str | list[Any]) -> list[Any]:
    return [value] if isinstance(value, str) else value


def _list_schemas(value: Any) -> list[_Schema]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
