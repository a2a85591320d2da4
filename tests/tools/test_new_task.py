from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.permissions.policy import Access
from joey.core.settings import Settings
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import StartSubtask
from joey.tools.new_task import MAX_SUBTASK_DEPTH, NewTaskTool
from tests.harness.tools.tool_context import make_context

TOOL = NewTaskTool()


async def delegated(ctx: ToolContext, **arguments: Any) -> StartSubtask:
    prepared = await TOOL.prepare(TOOL.parse(arguments), ctx)
    outcome = await TOOL.run_prepared(prepared, ctx, None)
    assert isinstance(outcome.directive, StartSubtask)
    return outcome.directive


@pytest.mark.contract("tool:new_task:native")
async def test_a_part_of_the_work_goes_to_a_task_in_another_mode(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    prepared = await TOOL.prepare(TOOL.parse({"mode": " ask ", "message": "look"}), ctx)
    assert [claim.access for claim in prepared.claims] == [Access.DELEGATE]
    assert prepared.row == {"tool": "newTask", "mode": "❓ Ask", "content": "look", "todos": []}
    assert await delegated(ctx, mode="ask", message="look") == StartSubtask("ask", "look")


@pytest.mark.contract("tool:new_task:native")
@pytest.mark.parametrize("missing", ["mode", "message"])
@pytest.mark.parametrize("value", [None, "", "  "])
async def test_mode_and_message_are_needed(missing: str, value: str | None) -> None:
    arguments = {"mode": "code", "message": "look", missing: value}
    with pytest.raises(ArgumentError) as error:
        TOOL.parse(arguments)
    assert error.value.parameter == missing


async def test_an_unknown_mode_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"Invalid mode: cook\. Available modes: .*code"):
        await delegated(make_context(tmp_path), mode="cook", message="a meal")


@pytest.mark.contract("tool:new_task:success:todos")
async def test_todos_are_needed_where_the_settings_want_them(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, settings=Settings(new_task_require_todos=True))
    with pytest.raises(ArgumentError) as error:
        await delegated(ctx, mode="code", message="look")
    assert error.value.parameter == "todos"
    assert (await delegated(ctx, mode="code", message="look", todos="")).todos == ()
    listed = await delegated(ctx, mode="code", message="look", todos="[ ] one\n- [x] two")
    assert [(todo.content, todo.status) for todo in listed.todos] == [
        ("one", "pending"),
        ("two", "completed"),
    ]


@pytest.mark.parametrize(
    ("said", "meant"),
    [("see \\\\@/a.py", "see \\@/a.py"), ("see \\@/a.py", "see \\@/a.py"), ("me@x", "me@x")],
)
async def test_an_escaped_mention_stays_escaped(tmp_path: Path, said: str, meant: str) -> None:
    wanted = await delegated(make_context(tmp_path), mode="code", message=said)
    assert wanted.message == meant


@pytest.mark.contract("tool:new_task:failure:too-deep", "subtasks:result")
async def test_the_deepest_level_delegates_no_further(tmp_path: Path) -> None:
    assert await delegated(
        make_context(tmp_path, subtask_depth=MAX_SUBTASK_DEPTH - 1), mode="code", message="x"
    )
    with pytest.raises(ToolError, match="do the work here"):
        await delegated(
            make_context(tmp_path, subtask_depth=MAX_SUBTASK_DEPTH), mode="code", message="x"
        )


def test_a_result_in_xml_names_the_mode_and_the_message() -> None:
    described = TOOL.describe_call({"mode": "code", "message": "look"})
    assert described == "[new_task in code mode: 'look']"
