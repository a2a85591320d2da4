from __future__ import annotations

import pytest

from joey.core.tool_schema import simplify_schema


@pytest.mark.contract("services:rules")
def test_a_nullable_property_is_optional_and_has_a_plain_type() -> None:
    strict = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["path", "mode", "limit"],
        "additionalProperties": False,
    }
    assert simplify_schema(strict) == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "limit": {"type": "integer"},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_nested_schemas_of_mcp_servers_lose_what_services_refuse() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "links": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "url": {"type": "string", "format": "uri"},
                        "at": {"type": "string", "format": "date-time"},
                        "kind": {"const": "page"},
                        "size": {"type": ["integer", "string"], "exclusiveMinimum": 0},
                    },
                    "additionalProperties": {"type": "string", "format": "uri"},
                },
            },
            "owner": {"$ref": "#/$defs/person"},
            "names": {"type": "array"},
        },
        "$defs": {
            "person": {
                "type": "object",
                "properties": {"friend": {"$ref": "#/$defs/person"}, "name": {"type": "string"}},
            }
        },
    }
    plain = simplify_schema(schema, additional_properties=False)
    assert plain.keys() == {"type", "properties"}
    properties = plain["properties"]
    assert properties["names"] == {"type": "array", "items": {"type": "string"}}
    assert properties["links"]["items"] == {
        "type": "object",
        "properties": {
            "url": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "kind": {"enum": ["page"], "type": "string"},
            "size": {"type": "integer"},
        },
    }
    owner = properties["owner"]
    assert owner["properties"]["friend"]["properties"]["name"] == {"type": "string"}
    kept = simplify_schema(schema)["properties"]["links"]["items"]["additionalProperties"]
    assert kept == {"type": "string"}


def test_a_real_choice_stays_one() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"oneOf": [{"type": "string"}, {"type": "integer"}]}},
    }
    assert simplify_schema(schema)["properties"]["x"] == {
        "anyOf": [{"type": "string"}, {"type": "integer"}]
    }


def test_odd_schemas_are_no_problem() -> None:
    odd = {
        "type": "object",
        "properties": {
            "any": True,
            "none": False,
            "list": {"anyOf": "x", "items": [1], "required": "x"},
            "unknown": {"type": "any", "description": 5},
            "empty": {"anyOf": [{"type": "null"}], "enum": [None]},
        },
    }
    properties = simplify_schema(odd)["properties"]
    every_type = properties["any"]
    assert [part["type"] for part in every_type["anyOf"]][:2] == ["string", "number"]
    assert properties == {
        "any": every_type,
        "list": every_type,
        "unknown": every_type,
        "empty": every_type,
    }


def test_a_schema_that_contains_itself_twice_ends_soon() -> None:
    node = {"$ref": "#/$defs/node"}
    both = {"type": "object", "properties": {"left": node, "right": node}}
    plain = simplify_schema(
        {"type": "object", "properties": {"root": node}, "$defs": {"node": both}}
    )
    assert plain["properties"]["root"]["properties"]["left"]["properties"]["right"] == {
        "type": "object"
    }


def test_values_that_are_no_texts_are_named_where_only_texts_may_be_listed() -> None:
    schema = {"properties": {"n": {"enum": [1, 2], "description": "How many."}}}
    assert simplify_schema(schema)["properties"]["n"] == {
        "type": "integer",
        "enum": [1, 2],
        "description": "How many.",
    }
    assert simplify_schema(schema, number_enums=False)["properties"]["n"] == {
        "type": "integer",
        "description": "How many. One of: 1, 2.",
    }
