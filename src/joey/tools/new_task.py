"""Hand a piece of the work to a subtask."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from joey.core.asks import Answer
from joey.core.modes import Group, Mode, find_mode
from joey.core.todos import Todo, parse_todos
from joey.errors import ToolError
from joey.ports import ToolContext
from joey.tools.arguments import convert, missing
from joey.tools.base import Access, Claim, Delegate, Outcome, Prepared, Tool

DEEPEST = 8
"""Levels of subtasks below the task that a person started."""


class NewTaskParams(Struct, frozen=True):
    mode: Annotated[str, Meta(description="Slug of the mode to work in, e.g. code.")]
    message: Annotated[
        str,
        Meta(description="All that the subtask needs to know: it has seen nothing of this task."),
    ]
    todos: Annotated[
        str | None, Meta(description="Its first todo list, a Markdown checklist; or null.")
    ] = None


class PreparedTask(Prepared, frozen=True, kw_only=True):
    mode: Mode
    message: str
    todos: tuple[Todo, ...]


class NewTask(Tool[NewTaskParams, PreparedTask]):
    name: ClassVar[str] = "new_task"
    group: ClassVar[Group] = Group.ALWAYS
    params: ClassVar[type[Struct]] = NewTaskParams
    delegates: ClassVar[bool] = True

    def parse(self, arguments: dict[str, Any]) -> NewTaskParams:
        params = convert(arguments, NewTaskParams, self.name)
        for name in ("mode", "message"):
            if not getattr(params, name).strip():
                raise missing(self.name, name)
        return params

    async def prepare(self, params: NewTaskParams, ctx: ToolContext) -> PreparedTask:
        slug = params.mode.strip()
        mode = find_mode(slug, ctx.modes)
        if mode is None:
            known = ", ".join(mode.slug for mode in ctx.modes)
            raise ToolError(f"Invalid mode: {slug}. Available modes: {known}.")
        if ctx.settings.new_task_require_todos and params.todos is None:
            raise missing(self.name, "todos")
        if ctx.depth >= DEEPEST:
            raise ToolError(
                f"Subtasks may be nested {DEEPEST} deep, and this one is: do the work here."
            )
        message = params.message.replace("\\\\@", "\\@")
        todos = parse_todos(params.todos or "")
        listed = [msgspec.to_builtins(todo) for todo in todos]
        return PreparedTask(
            claims=(Claim(Access.DELEGATE),),
            row={"tool": "newTask", "mode": mode.name, "content": message, "todos": listed},
            mode=mode,
            message=message,
            todos=todos,
        )

    async def run(self, prepared: PreparedTask, ctx: ToolContext, answer: Answer | None) -> Outcome:
        """What becomes of it is the result of the subtask."""
        wanted = Delegate(prepared.mode.slug, prepared.message, prepared.todos)
        return Outcome("", directive=wanted)

    def describe(self, arguments: dict[str, Any]) -> str:
        mode, message = arguments.get("mode"), arguments.get("message")
        return f"[{self.name} in {mode} mode: '{message}']"
