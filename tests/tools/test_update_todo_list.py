from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.task_types import Todo, parse_todos
from joey.errors import ArgumentError
from joey.tools.base import Access, SetTodos
from joey.tools.update_todo_list import UpdateTodoList
from tests.harness.tools.tool_context import make_context

tool = UpdateTodoList()
EXPECTED = [("plan", "completed"), ("build", "in_progress"), ("test", "pending")]


async def updated(root: Path, todos: Any) -> tuple[Todo, ...]:
    ctx = make_context(root)
    prepared = await tool.prepare(tool.parse({"todos": todos}), ctx)
    assert [claim.access for claim in prepared.claims] == [Access.NONE]
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert isinstance(outcome.directive, SetTodos)
    assert prepared.row == {
        "tool": "updateTodoList",
        "todos": [
            {"id": todo.id, "content": todo.content, "status": todo.status}
            for todo in outcome.directive.todos
        ],
    }
    assert not outcome.is_error
    assert "todo list is updated" in outcome.text
    return outcome.directive.todos


@pytest.mark.contract("tool:update_todo_list:success")
@pytest.mark.parametrize(
    "todos",
    [
        "[x] plan\n[-] build\n[ ] test",
        "# Steps\n- [X] plan\n- [~] build\n\n- [ ] test\n",
        [
            {"content": "plan", "status": "completed"},
            {"content": "build", "status": "in_progress"},
            {"content": "test"},
        ],
        '[{"content": "plan", "status": "done"}, {"text": "build", "status": "in-progress"},'
        ' {"content": "test", "status": "pending"}]',
        ["[x] plan", "[-] build", "test"],
        '[\n  {"content": "plan", "status": "completed"},\n'
        '  {"content": "build", "status": "in_progress"}, {"content": "test"}\n]',
        '["[x] plan", "[-] build", "test"]',
        ["[x] plan\n[-] build", "test"],
        "* [x] plan\n* [-] build\n* [ ] test",
        "1. [x] plan\n2) [-] build\n10. [ ] test",
    ],
)
async def test_steps_are_understood_in_every_form(tmp_path: Path, todos: Any) -> None:
    got = await updated(tmp_path, todos)
    assert [(todo.content, todo.status) for todo in got] == EXPECTED
    assert got == parse_todos("[x] plan\n[-] build\n[ ] test")


async def test_a_step_of_several_lines_becomes_one(tmp_path: Path) -> None:
    (todo,) = await updated(tmp_path, [{"content": "one\n  two", "status": "pending"}])
    assert todo.content == "one two"


@pytest.mark.parametrize("todos", ["", "  \n", None, []])
async def test_an_empty_list_clears(tmp_path: Path, todos: Any) -> None:
    assert await updated(tmp_path, todos) == ()


@pytest.mark.parametrize("todos", ["1. plan\n2. build", "plan", "[{broken"])
def test_a_text_without_any_step_does_not_clear_the_list(todos: Any) -> None:
    with pytest.raises(ArgumentError, match="no steps"):
        tool.parse({"todos": todos})


def test_an_unknown_status_is_named() -> None:
    with pytest.raises(ArgumentError, match="later"):
        tool.parse({"todos": [{"content": "plan", "status": "later"}]})


def test_leaving_the_list_out_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse({})
    assert caught.value.parameter == "todos"
