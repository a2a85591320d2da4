from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from joey.errors import ArgumentError
from joey.tools.base import Tool
from joey.tools.execute_command import ExecuteCommand
from joey.tools.parameters import convert_arguments
from joey.tools.write_to_file import WriteToFile


class Item(Struct, frozen=True):
    text: str
    mode: str | None = None


class Params(Struct, frozen=True):
    path: Annotated[str, Meta(description="a path")]
    count: int = 3
    seconds: float | None = None
    recursive: bool = False
    items: tuple[Item, ...] = ()
    kind: Literal["a", "b"] = "a"
    note: str | None = None
    content: str | None = None


def converted(**arguments: Any) -> Params:
    return convert_arguments(arguments, Params, "a_tool")


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize(
    ("field", "given", "meant"),
    [
        ("count", "5", 5),
        ("count", " 5\n", 5),
        ("count", 5.0, 5),
        ("count", None, 3),
        ("count", "", 3),
        ("seconds", "1.5", 1.5),
        ("seconds", 2, 2.0),
        ("seconds", "null", None),
        ("seconds", "30s", 30.0),
        ("seconds", "1.5 seconds", 1.5),
        ("count", "null", 3),
        ("items", "None", ()),
        ("note", "null", None),
        ("note", "None", None),
        ("note", " undefined\n", None),
        ("note", "none of them", "none of them"),
        ("note", "30s", "30s"),
        ("recursive", "true", True),
        ("recursive", "False", False),
        ("recursive", " TRUE ", True),
        ("items", '[{"text": "x"}]', (Item("x"),)),
        ("items", [{"text": "x", "mode": None, "extra": 1}], (Item("x"),)),
        ("kind", "b", "b"),
        ("note", ["12"], "12"),
        ("content", {"a": [1]}, '{\n  "a": [\n    1\n  ]\n}'),
        ("content", ["a"], '[\n  "a"\n]'),
        ("note", "[1]", "[1]"),
        ("note", "  kept as it is ", "  kept as it is "),
    ],
)
def test_a_value_is_taken_for_what_it_can_only_mean(field: str, given: Any, meant: Any) -> None:
    assert getattr(converted(path="p", **{field: given}), field) == meant


def test_unknown_arguments_are_passed_over() -> None:
    assert converted(path="p", line_count="12") == Params("p")


def test_another_name_is_understood_unless_the_real_one_is_there() -> None:
    aliases = {"file": "path"}
    assert convert_arguments({"file": "a"}, Params, "t", aliases) == Params("a")
    assert convert_arguments({"file": "a", "path": "b"}, Params, "t", aliases) == Params("b")
    assert convert_arguments({"file": "a", "path": None}, Params, "t", aliases) == Params("a")


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize("arguments", [{}, {"path": None}, {"file": "x"}])
def test_a_missing_parameter_is_named(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="'path' of a_tool") as caught:
        convert_arguments(arguments, Params, "a_tool")
    assert caught.value.parameter == "path"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", "many"),
        ("recursive", "perhaps"),
        ("items", "[" * 100_000),
        ("items", [{"mode": "x"}]),
        ("items", '{"text": 5}'),
        ("kind", "c"),
        ("count", {"\ud800": 1}),
        ("note", {"a": [1]}),
        ("note", ["a", "b"]),
        ("note", [1]),
        ("note", []),
        ("content", {"\ud800": 1}),
    ],
)
def test_a_wrong_value_is_named_and_not_called_missing(field: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"'{field}' of a_tool") as caught:
        converted(path="p", **{field: value})
    assert caught.value.parameter is None


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("count", "many", "a whole number, not 'many'"),
        ("path", 5, "a string, not 5"),
        ("note", True, "a string, not True"),
        ("seconds", "soon", "a number, not 'soon'"),
        ("recursive", "perhaps", "true or false, not 'perhaps'"),
        ("kind", "c", "one of 'a', 'b', not 'c'"),
        ("items", "x", "a list in which each item is an object with the keys text, mode, not 'x'"),
        ("items", [{"text": "a"}, {"text": 5}], "{'text': 5}] (wrong at [1].text)"),
        ("note", ["x" * 200, ""], "a string, not ['" + "x" * 78 + "…."),
    ],
)
def test_the_error_says_what_a_value_must_be(field: str, value: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        converted(**{"path": "p", field: value})
    assert expected in str(caught.value)


def test_a_required_text_may_be_the_word_null() -> None:
    assert converted(path="null").path == "null"


@pytest.mark.parametrize(
    ("tool", "arguments", "meant"),
    [
        (WriteToFile(), {"path": ["a.txt"], "content": "x"}, "a.txt"),
        (WriteToFile(), {"path": {"path": "a.txt"}, "content": "x"}, None),
        (ExecuteCommand(), {"command": ["ls"]}, "ls"),
        (ExecuteCommand(), {"command": ["git", "status"]}, None),
    ],
)
def test_json_is_never_taken_for_a_path_or_a_command(
    tool: Tool[Any, Any], arguments: dict[str, Any], meant: str | None
) -> None:
    if meant is None:
        with pytest.raises(ArgumentError, match="of the wrong kind"):
            tool.parse(arguments)
    else:
        params = tool.parse(arguments)
        assert meant in (getattr(params, "path", None), getattr(params, "command", None))
