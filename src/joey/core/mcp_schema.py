"""Schemas of MCP tools, brought into the form that providers take: one object with properties.

Servers may put `anyOf`, `oneOf`, `allOf` or a reference at the top, which providers refuse there.
The alternatives are laid over each other: every property may be given, and only what all of them
require is required.
"""

from __future__ import annotations

from typing import Any

_CHOICES = ("anyOf", "oneOf")
_ALL = "allOf"
_AT_TOP = ("$schema", "$id", "$ref", *_CHOICES, _ALL, "not", "if", "then", "else", "enum", "const")
_MOST_PARTS = 200
_DEEPEST = 20

Members = tuple[dict[str, Any], list[str]]
"""Properties, and the names of those that are required."""


def normalised(schema: object) -> dict[str, Any]:
    """The same schema where it is usable as it is; the open object where nothing is known."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    properties, required = _Walk(schema).members(schema)
    flat = {key: value for key, value in schema.items() if key not in (*_AT_TOP, "required")}
    flat |= {"type": "object", "properties": properties}
    names = [name for name in required if name in properties]
    return flat | {"required": names} if names else flat


class _Walk:
    """Through the alternatives of one schema; one that refers to itself has no end, this has."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def members(self, schema: dict[str, Any], depth: int = 0) -> Members:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return {}, []
        schema = self._resolved(schema)
        properties = _dict(schema.get("properties"))
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        for more, needed in self._parts(schema.get(_ALL), depth):
            properties = {**more, **properties}
            required += needed
        for key in _CHOICES:
            parts = self._parts(schema.get(key), depth)
            for more, _ in parts:
                properties = {**more, **properties}
            if parts:
                required += sorted(set.intersection(*(set(needed) for _, needed in parts)))
        return properties, list(dict.fromkeys(required))

    def _parts(self, value: object, depth: int) -> list[Members]:
        return [self.members(part, depth + 1) for part in _list(value) if isinstance(part, dict)]

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A reference within the document, followed one step."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: Any = self._root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        return {**_dict(found), **schema}


def _dict(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
