from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from joey.tools.parameters import build_native_schema, collect_xml_descriptions
from joey.tools.registry import build_default_tools


class Part(Struct, frozen=True):
    name: Annotated[str, Meta(description="its name")]
    span: tuple[int, int] | None = None


class Params(Struct, frozen=True):
    parts: Annotated[list[Part], Meta(description="the parts", min_length=1)]
    depth: Annotated[int, Meta(description="how deep")]
    ratio: float = 0.5
    deep: bool = False
    kind: Literal["a", "b"] | None = None
    names: tuple[str, ...] = ()


def test_a_schema_has_every_property_required_and_optional_ones_nullable() -> None:
    assert build_native_schema(Params) == {
        "type": "object",
        "properties": {
            "parts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "its name"},
                        "span": {
                            "type": ["array", "null"],
                            "items": {"type": "integer"},
                            "minItems": 2,
                            "maxItems": 2,
                        },
                    },
                    "required": ["name", "span"],
                    "additionalProperties": False,
                },
                "minItems": 1,
                "description": "the parts",
            },
            "depth": {"type": "integer", "description": "how deep"},
            "ratio": {"type": ["number", "null"]},
            "deep": {"type": ["boolean", "null"]},
            "kind": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "names": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["parts", "depth", "ratio", "deep", "kind", "names"],
        "additionalProperties": False,
    }


def test_a_schema_is_the_same_every_time() -> None:
    assert msgspec.json.encode(build_native_schema(Params)) == msgspec.json.encode(
        build_native_schema(Params)
    )


def test_a_type_without_a_schema_is_a_mistake_of_the_tool() -> None:
    class Odd(Struct):
        value: int | str

    with pytest.raises(TypeError, match="no schema"):
        build_native_schema(Odd)


@pytest.mark.contract("loop:calls")
def test_every_tool_has_a_closed_schema_with_all_parameters_described() -> None:
    for tool in build_default_tools():
        schema = build_native_schema(tool.params)
        assert list(open_objects(schema)) == []
        listed = collect_xml_descriptions(tool.params)
        for name, parameter in schema["properties"].items():
            assert parameter.get("description") or listed.get(name), f"{tool.name}.{name}"
        assert tool.description
        assert "---xml---" not in tool.description


def open_objects(schema: dict[str, Any]) -> Any:
    """Objects that allow more than they list, or do not require what they list."""
    if schema.get("type") == "object":
        if schema["additionalProperties"] or schema["required"] != list(schema["properties"]):
            yield schema
        for inner in schema["properties"].values():
            yield from open_objects(inner)
    if "items" in schema:
        yield from open_objects(schema["items"])
