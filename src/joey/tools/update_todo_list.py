"""The `update_todo_list` tool: replaces the task's todo list."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.task_types import parse_todos
from joey.errors import ArgumentError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    SetTodos,
    Tool,
)
from joey.tools.parameters import XML_ONLY, try_decode_json

_CHECKBOX_MARKS = {
    "pending": " ",
    "todo": " ",
    "in_progress": "-",
    "in-progress": "-",
    "completed": "x",
    "done": "x",
}


class UpdateTodoListParams(Struct, frozen=True):
    todos: Annotated[
        str,
        Meta(
            description="The whole list as a Markdown checklist, one step per line: [ ] pending,"
            " [-] in progress, [x] completed.",
            extra=XML_ONLY,
        ),
    ]


class UpdateTodoList(Tool[UpdateTodoListParams, PreparedToolCall]):
    name: ClassVar[str] = "update_todo_list"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = UpdateTodoListParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.settings.todo_list_enabled

    def parse(self, arguments: dict[str, Any]) -> UpdateTodoListParams:
        if "todos" in arguments:
            arguments = {**arguments, "todos": _to_checklist(arguments["todos"])}
        params = super().parse(arguments)
        if params.todos.strip() and not parse_todos(params.todos):
            raise ArgumentError(
                "update_todo_list found no steps: write each on a line of its own, as"
                " `[ ] step`, `[-] step` or `[x] step`."
            )
        return params

    async def prepare(self, params: UpdateTodoListParams, ctx: ToolContext) -> PreparedToolCall:
        todos = parse_todos(params.todos)
        return PreparedToolCall(
            claims=(Claim(Access.NONE),),
            row={"tool": "updateTodoList", "todos": msgspec.to_builtins(list(todos))},
            outcome=Outcome("The todo list is updated.", directive=SetTodos(todos)),
        )


def _to_checklist(given: object) -> object:
    """Convert a list of steps, which some models send instead of Markdown, to a checklist."""
    if given is None:
        return ""
    if isinstance(given, str) and given.lstrip().startswith("["):
        decoded = try_decode_json(given)
        given = decoded if isinstance(decoded, list) else given
    if not isinstance(given, list):
        return given
    return "\n".join(map(_format_checklist_line, given))


def _format_checklist_line(item: object) -> str:
    if not isinstance(item, dict):
        text = str(item)
        return text if parse_todos(text) else f"[ ] {' '.join(text.split())}"
    status = str(item.get("status") or "pending")
    if status not in _CHECKBOX_MARKS:
        raise ArgumentError(
            f'update_todo_list: "{status}" is not a status; use pending, in_progress or completed.'
        )
    content = " ".join(str(item.get("content") or item.get("text") or "").split())
    return f"[{_CHECKBOX_MARKS[status]}] {content}"
