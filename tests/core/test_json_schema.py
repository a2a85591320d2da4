from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.json_schema import collect_pattern_checks, find_schema_problems
from joey.core.structured_output import parse_schema, parse_structured_result
from joey.errors import ConfigError


def found(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def problems(document: Any, value: Any) -> list[str]:
    return find_schema_problems(parse_schema(document), value, found)


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


@pytest.mark.requirement("front:json-schema")
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
        ({"minLength": 2}, "é\U0001f600"),
        ({"properties": {"a/b": {"type": "null"}}, "allOf": [{"$ref": "#/properties/a~1b"}]}, None),
    ],
)
def test_what_fits_has_no_problems(document: Any, value: Any) -> None:
    assert problems(document, value) == []


@pytest.mark.requirement("front:json-schema")
@pytest.mark.parametrize(
    ("document", "value", "expected"),
    [
        (USER, {}, "$: 'name' is missing."),
        (USER, {"name": ""}, "$.name: shorter than 1 characters."),
        (USER, {"name": "Eleonora"}, "$.name: longer than 5 characters."),
        (USER, {"name": "A", "age": 150}, "$.age: 150 is not less than 150."),
        (USER, {"name": "A", "age": True}, "$.age: True is not of type integer."),
        (USER, {"name": "A", "tags": ["c"]}, "$.tags[0]: 'c' is none of ['a', 'b']."),
        (USER, {"name": "A", "tags": []}, "$.tags: has 0 items, and needs 1."),
        (USER, {"name": "A", "x": 1}, "$: 'x' is not a property that it may have."),
        (TREE, {"value": 1, "below": [{}]}, "$.below[0]: 'value' is missing."),
        ({"const": 1}, True, "$: True is not 1."),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], "$: the same item stands in it twice."),
        ({"oneOf": [{}, {}]}, 1, "$: fits 2 of the schemas of `oneOf`, and may fit one only."),
        ({"not": {}}, 1, "$: 1 is what `not` rules out."),
        ({"pattern": "^a"}, "b", "$: 'b' does not match the pattern ^a"),
        ({"properties": {"a": False}}, {"a": 1}, "$.a: nothing may stand here."),
        ({"minProperties": 1}, {}, "$: has 0 properties, and needs 1."),
        (
            {"anyOf": [{"type": "string"}, {"minimum": 3}]},
            2,
            "$: fits none of the schemas of `anyOf`; nearest: $: 2 is not of type string.",
        ),
    ],
)
def test_what_does_not_fit_is_reported_with_its_path(
    document: Any, value: Any, expected: str
) -> None:
    assert problems(document, value) == [expected]


@pytest.mark.requirement("front:json-schema:keywords")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"properties": {"a": {"if": {}}}}, r"`if` at #/properties/a, which joey does not check"),
        ({"patternProperties": {}}, "`patternProperties` at #"),
        ({"type": "text"}, "#/type: 'text' is not a type"),
        ({"$ref": "other.json"}, "leads out of the document"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"enum": [{"if": {}}], "properties": {"a": {"$ref": "#/enum/0"}}}, "no schema"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "without end at #/\\$defs/a"),
        ({"pattern": "("}, "is not a regular expression"),
        ({"items": [{}]}, "prefixItems"),
        ({"items": "string"}, "#/items: not a schema"),
        ({"minLength": -1}, "#/minLength: a number of 0 or more"),
        ({"multipleOf": 0}, "above 0"),
        ({"required": "name"}, "a list of names"),
        ({"anyOf": []}, "a list with items"),
        ("string", "not a schema"),
        ({"anyOf": [{}] * 3000}, "more than"),
    ],
)
def test_what_would_not_be_checked_is_refused_by_name(document: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        parse_schema(document)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_a_value_is_itself_and_never_what_is_ruled_out(value: Any) -> None:
    assert problems({"const": value}, value) == []
    assert problems({"enum": [0.5, value]}, value) == []
    assert problems({"not": {"const": value}}, value) != []


@given(values)
def test_what_will_be_asked_does_not_depend_on_the_answers(value: Any) -> None:
    inner = {"$ref": "#"}
    document: Any = {
        "anyOf": [{"pattern": "a"}, {"not": {"pattern": "^b"}}, {"type": "array"}],
        "items": inner,
        "additionalProperties": inner,
    }
    schema = parse_schema(document)
    known = collect_pattern_checks(schema, value)
    for answer in (True, False):
        asked: set[tuple[str, str]] = set()

        def note(pattern: str, text: str, answer: bool = answer, asked: set[Any] = asked) -> bool:
            asked.add((pattern, text))
            return answer

        find_schema_problems(schema, value, note)
        assert asked == known


def test_what_is_too_deep_or_too_large_is_refused_and_not_waited_for() -> None:
    deep: Any = {"value": 1}
    for _ in range(300):
        deep = {"value": 1, "below": [deep]}
    assert "too deeply" in problems(TREE, deep)[0]
    schema: Any = {"type": "integer"}
    for _ in range(12):
        schema = {"anyOf": [schema] * 4}
    assert "too large" in problems_of_unread(schema)[0]


def problems_of_unread(document: Any) -> list[str]:
    """A schema whose parts are shared would be too large to be read."""
    from joey.core.structured_output import JsonSchema

    return find_schema_problems(JsonSchema(document), "x", found)


@pytest.mark.parametrize("text", ['{"a": 1}', ' \n{"a": 1}\n', '```json\n{"a": 1}\n```\n'])
def test_json_is_found_in_a_fence_too(text: str) -> None:
    read = parse_structured_result(text)
    assert (read.json_text, read.value) == ('{"a": 1}', {"a": 1})


@pytest.mark.parametrize("text", ["", "no", '{"a": 1} there', "NaN", "[" * 100_000])
def test_what_is_no_json_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_structured_result(text)
