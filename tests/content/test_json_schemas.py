"""JSON Schemas: what they accept, what is refused, and what hostile ones cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.content.isolated_workers import IsolatedSchemaValidator
from joey.content.json_schema_worker import check_schema, find_problems
from joey.content.worker_main import handle_request
from joey.core.structured_output import JsonSchema
from joey.errors import ConfigError, ToolError

USER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2, "minItems": 1},
    },
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "number"},
                "below": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
        }
    },
}
LEAP_YEAR = {"if": {"multipleOf": 4}, "then": {"minimum": 8}, "else": {"type": "string"}}


@pytest.mark.contract("cli:json-schema")
@pytest.mark.parametrize(
    ("document", "value"),
    [
        (USER, {"name": "Ada", "age": 36.0, "tags": ["a"]}),
        (TREE, {"value": 1, "below": [{"value": 2.5, "below": []}]}),
        (True, "anything"),
        ({}, None),
        ({"const": 1}, 1.0),
        ({"type": ["string", "null"]}, None),
        ({"enum": [{"a": [1]}]}, {"a": [1.0]}),
        ({"multipleOf": 0.1}, 0.3),
        ({"uniqueItems": True}, [1, True, "1", [1], [True]]),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}, ["a", 1]),
        ({"additionalProperties": {"type": "null"}}, {"x": None}),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 4),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, 4),
        ({"not": {"type": "string"}}, 4),
        ({"pattern": "^[a-z]+$"}, "abc"),
        ({"pattern": "^[a-z]+$"}, 5),
        ({"format": "date"}, "no date"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{}]}, [1]),
        ({"minLength": 2}, "é\U0001f600"),
        ({"properties": {"a/b": {"type": "null"}}, "allOf": [{"$ref": "#/properties/a~1b"}]}, None),
        (LEAP_YEAR, 8),
        ({"contains": {"type": "string"}, "minContains": 2}, [1, "a", "b"]),
        ({"patternProperties": {"^x-": {"type": "string"}}}, {"x-a": "b", "y": 1}),
        ({"$defs": {"a": {"$anchor": "word", "type": "string"}}, "$ref": "#word"}, "a"),
        ({"$id": "https://example.org/a", "$ref": "a#/$defs/b", "$defs": {"b": {}}}, "a"),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}),
    ],
)
def test_what_fits_has_no_problems(document: Any, value: Any) -> None:
    check_schema(document)
    assert find_problems(document, value) == []


@pytest.mark.contract("cli:json-schema")
@pytest.mark.parametrize(
    ("document", "value", "expected"),
    [
        (USER, {}, "$: 'name' is a required property."),
        (USER, {"name": "Eleonora"}, "$.name: 'Eleonora' is too long."),
        (USER, {"name": "A", "age": True}, "$.age: True is not of type 'integer'."),
        (USER, {"name": "A", "tags": ["c"]}, "$.tags[0]: 'c' is not one of ['a', 'b']."),
        (TREE, {"value": 1, "below": [{}]}, "$.below[0]: 'value' is a required property."),
        ({"const": 1}, True, "$: 1 was expected."),
        ({"multipleOf": 0.1}, 0.35, "$: 0.35 is not a multiple of 0.1."),
        ({"pattern": "^a"}, "b", "$: 'b' does not match '^a'."),
        (LEAP_YEAR, 4, "$: 4 is less than the minimum of 8."),
        ({"contains": {"const": 1}}, [2], "$: [2] does not contain items matching the given sch"),
        ({"patternProperties": {"^x": False}}, {"x": 1}, "$: False schema does not allow 1."),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "$: 'b' is a dependency of 'a'."),
        (
            {"anyOf": [{"type": "string"}, {"minimum": 3}]},
            2,
            "$: 2 is not valid under any of the given schemas; nearest: $: 2 is not of type 'str",
        ),
    ],
)
def test_what_does_not_fit_is_reported_with_its_path(
    document: Any, value: Any, expected: str
) -> None:
    check_schema(document)
    (problem,) = find_problems(document, value)
    assert problem.startswith(expected)


def test_problems_are_few_and_short() -> None:
    problems = find_problems({"items": {"type": "string"}}, [[0] * 10_000] * 100)
    assert len(problems) == 10
    assert problems[0].endswith("0, 0] is not of type 'string'.")
    assert max(map(len, problems)) < 400


@pytest.mark.contract("cli:json-schema")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"properties": {"a": {"iff": {}}}}, r"`iff` at #/properties/a, which joey does not check"),
        ({"dependencies": {}}, "`dependencies` at #"),
        ({"type": "text"}, "#/type: 'text' is not .*'integer'"),
        ({"$ref": "other.json"}, "leads out of the document"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "leads out of the document"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#none"}, "leads nowhere"),
        ({"enum": [{"if": {}}], "properties": {"a": {"$ref": "#/enum/0"}}}, "no schema"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"if": True, "then": {"$ref": "#"}}, "refers to itself without end at #"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "without end at #/\\$defs/a"),
        ({"pattern": "("}, "#/pattern: '\\(' is not a regular expression"),
        ({"items": [{}]}, "prefixItems"),
        ({"items": "string"}, "#/items: 'string' is not of type 'object'"),
        ({"minLength": -1}, "#/minLength: -1 is less than"),
        ({"multipleOf": 0}, "#/multipleOf: 0 is less than"),
        ({"required": "name"}, "#/required: 'name' is not of type 'array'"),
        ({"anyOf": []}, "#/anyOf: .* non-empty"),
        ("string", "#: 'string' is not of type 'object'"),
    ],
)
def test_what_would_not_be_checked_is_refused_by_name(document: Any, expected: str) -> None:
    with pytest.raises(ToolError, match=expected):
        check_schema(document)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_a_value_is_itself_and_never_what_is_ruled_out(value: Any) -> None:
    assert find_problems({"const": value}, value) == []
    assert find_problems({"enum": [0.5, value]}, value) == []
    assert find_problems({"not": {"const": value}}, value) != []


def nest(times: int, wrap: Callable[[Any], Any]) -> Any:
    nested = wrap({})
    for _ in range(times):
        nested = wrap(nested)
    return nested


@pytest.mark.contract("cli:json-schema")
@pytest.mark.parametrize(
    ("document", "value"),
    [
        pytest.param({"pattern": "^(a+)+$"}, "a" * 60 + "b", id="exponential expression"),
        pytest.param(
            {
                "$defs": {
                    f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(12)
                }
                | {"d12": {"type": "integer"}},
                "$ref": "#/$defs/d0",
            },
            "x",
            id="8^12 alternatives",
        ),
        pytest.param({"items": {"$ref": "#"}}, nest(400, lambda inner: [inner]), id="deep value"),
    ],
)
async def test_what_takes_for_ever_or_is_too_deep_is_not_waited_for(
    document: Any, value: Any
) -> None:
    validator = IsolatedSchemaValidator(timeout_s=2)
    schema = await validator.check_schema(document)
    (problem,) = await validator.find_problems(schema, value)
    assert problem.startswith("It could not be checked: it ")


async def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot be used: it is too deeply nested\."):
        await IsolatedSchemaValidator().check_schema(nest(400, lambda inner: {"not": inner}))


async def test_problems_come_back_from_the_process() -> None:
    validator = IsolatedSchemaValidator()
    with pytest.raises(ConfigError, match="The JSON schema uses `iff` at #, which joey"):
        await validator.check_schema({"iff": {}})
    assert await validator.check_schema(USER) == JsonSchema(USER)
    assert await validator.find_problems(JsonSchema(USER), {"name": "Ada"}) == []
    assert len(await validator.find_problems(JsonSchema(USER), {"nam": "Ada"})) == 2


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    code, answer = handle_request(lambda data: "".join(find_problems({}, data)).encode(), b"1")
    assert code != 0
    assert answer.endswith(b"jsonschema is missing. Install it: pip install jsonschema")
