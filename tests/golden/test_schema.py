"""The JSON Schema of the WebSocket API, apart from the names of its shapes."""

from __future__ import annotations

import json
from typing import Any

from tests.golden import homes
from tests.golden.golden import ROOT, check_json

Schema = Any
_NOTES = {"title", "description", "$defs"}
_BY_NAME = {"properties", "patternProperties"}
_UNORDERED = {"anyOf", "oneOf", "required", "enum"}


def inlined(schema: Schema, defs: dict[str, Schema], above: tuple[str, ...] = ()) -> Schema:
    """The schema without references, titles and descriptions, in a stable order."""
    match schema:
        case list():
            return [inlined(each, defs, above) for each in schema]
        case {"$ref": str(reference), **rest}:
            if reference in above:
                return f"recursive: {len(above) - above.index(reference)} levels up"
            shape = defs[reference.removeprefix("#/$defs/")]
            return inlined(shape, defs, (*above, reference)) | inlined(rest, defs, above)
        case dict():
            return {
                key: _value(key, inner, defs, above)
                for key, inner in schema.items()
                if key not in _NOTES
            }
    return schema


def _value(key: str, inner: Schema, defs: dict[str, Schema], above: tuple[str, ...]) -> Schema:
    if key in _BY_NAME:
        return {name: inlined(each, defs, above) for name, each in inner.items()}
    if key in ("const", "default", "enum"):
        return sorted(inner, key=repr) if key == "enum" else inner
    found = inlined(inner, defs, above)
    if key in _UNORDERED:
        return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))
    return found


def test_the_schema_is_the_same() -> None:
    schema = json.loads(json.dumps(homes.websocket_schema()))
    check_json("websocket_schema.json", inlined(schema, schema["$defs"]))


def test_the_documented_schema_is_the_same() -> None:
    schema = json.loads((ROOT / "docs" / "websocket.schema.json").read_text(encoding="utf-8"))
    check_json("websocket_schema.json", inlined(schema, schema["$defs"]))
