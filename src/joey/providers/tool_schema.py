"""JSON schemas of tools in the form that every service takes.

OpenAI's own service enforces schemas in which every property is required and optional ones are
nullable. Elsewhere such schemas are refused (Gemini), break chat templates (Gemma) or mislead
models. There an optional property has a plain type and is not required, and keywords that only
some services know are left out. What a schema no longer says, tools check themselves.
"""

from __future__ import annotations

from typing import Any

_KEPT_KEYWORDS = frozenset(
    [
        "type",
        "description",
        "title",
        "enum",
        "properties",
        "required",
        "items",
        "anyOf",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "default",
    ]
)
_KEPT_FORMATS = ("date-time", "enum")
_ALTERNATIVES = ("anyOf", "oneOf")
_MAX_DEPTH = 16
"""Schemas may refer to themselves."""

_Schema = dict[str, Any]


def simplify_schema(schema: _Schema, *, additional_properties: bool = True) -> _Schema:
    """The schema with plain types, without references, formats and nullable properties.
    `additional_properties`: that keyword is kept."""
    return _Simplifier(schema, additional_properties=additional_properties).simplify(schema)


class _Simplifier:
    def __init__(self, root: _Schema, *, additional_properties: bool) -> None:
        self._root = root
        self._keeps_additional = additional_properties

    def simplify(self, schema: _Schema, depth: int = 0) -> _Schema:
        if depth > _MAX_DEPTH:
            return {"type": "object"}
        schema = self._flatten(schema)
        plain = {key: value for key, value in schema.items() if key in _KEPT_KEYWORDS}
        if "const" in schema:
            plain["enum"] = [schema["const"]]
        if schema.get("format") in _KEPT_FORMATS:
            plain["format"] = schema["format"]
        if isinstance(kinds := plain.get("type"), list):
            plain["type"] = next((kind for kind in kinds if kind != "null"), "string")
        if isinstance(values := plain.get("enum"), list):
            plain["enum"] = [value for value in values if value is not None]
            plain.setdefault("type", "string")
        if plain.get("default", ...) is None:
            del plain["default"]
        if isinstance(plain.get("items"), dict):
            plain["items"] = self.simplify(plain["items"], depth + 1)
        elif plain.pop("items", None) is not None or plain.get("type") == "array":
            plain["items"] = {"type": "string"}
        if isinstance(parts := plain.get("anyOf"), list):
            plain["anyOf"] = [self.simplify(part, depth + 1) for part in parts]
        if isinstance(properties := plain.get("properties"), dict):
            self._simplify_properties(plain, properties, depth)
        additional = schema.get("additionalProperties") if self._keeps_additional else None
        if isinstance(additional, dict):
            plain["additionalProperties"] = self.simplify(additional, depth + 1)
        elif additional is not None:
            plain["additionalProperties"] = additional
        return plain

    def _simplify_properties(self, plain: _Schema, properties: _Schema, depth: int) -> None:
        given = {key: value for key, value in properties.items() if isinstance(value, dict)}
        plain["properties"] = {key: self.simplify(value, depth + 1) for key, value in given.items()}
        required = [
            name
            for name in plain.pop("required", None) or ()
            if name in given and not self._is_nullable(given[name])
        ]
        if required:
            plain["required"] = required

    def _flatten(self, schema: _Schema) -> _Schema:
        """The schema itself in place of a reference, of `allOf`, and of a choice with null."""
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
        found: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {"type": "object"}

    def _is_nullable(self, schema: _Schema) -> bool:
        kinds = schema.get("type")
        return (isinstance(kinds, list) and "null" in kinds) or any(
            part.get("type") == "null"
            for key in _ALTERNATIVES
            for part in _list_schemas(schema.get(key))
        )


def _list_schemas(value: Any) -> list[_Schema]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
