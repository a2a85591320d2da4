"""The `new_task` tool: delegates a part of the work to a subtask."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from joey.core.models import ToolSpec
from joey.core.modes import ToolGroup
from joey.core.task_types import parse_todos
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    StartSubtask,
    Tool,
    require_mode,
)
from joey.tools.parameters import build_missing_parameter_error, build_native_schema

MAX_SUBTASK_DEPTH = 8
"""Below the task that a user started."""
_WORKTREE_DESCRIPTION = """\
With `worktree` a subtask works in its own git worktree: a copy of this workspace with uncommitted \
changes, but without ignored files (installed packages, build output). Use it for parallel \
subtasks that may touch the same files. Its changes are added to this workspace if they merge \
cleanly; if not, nothing here changes, and the result names the conflicts and the branch."""


class SharedWorkspaceTaskParams(Struct, frozen=True):
    mode: Annotated[str, Meta(description="Slug of the mode to work in, e.g. code.")]
    message: Annotated[
        str,
        Meta(description="Everything the subtask needs to know."),
    ]
    todos: Annotated[str | None, Meta(description="Its todo list, a Markdown checklist.")] = None


class NewTaskParams(SharedWorkspaceTaskParams, frozen=True):
    worktree: Annotated[
        bool | None,
        Meta(description="true: work in a git worktree; defaults to false."),
    ] = None


class NewTaskTool(Tool[NewTaskParams, PreparedToolCall]):
    name: ClassVar[str] = "new_task"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = NewTaskParams
    required_texts: ClassVar[tuple[str, ...]] = ("mode", "message")
    starts_subtask: ClassVar[bool] = True

    @property
    def spec(self) -> ToolSpec:
        return _build_specs(self)[0]

    def select_spec(self, context: AvailabilityContext) -> ToolSpec:
        """Select the specification: worktrees are offered only in a repository."""
        return _build_specs(self)[0 if context.capabilities.worktrees is None else 1]

    async def prepare(self, params: NewTaskParams, ctx: ToolContext) -> PreparedToolCall:
        mode = require_mode(params.mode, ctx)
        if ctx.settings.new_task_require_todos and params.todos is None:
            raise build_missing_parameter_error(self.name, "todos")
        if ctx.subtask_depth >= MAX_SUBTASK_DEPTH:
            raise ToolError(
                f"Subtasks may be nested {MAX_SUBTASK_DEPTH} deep, and this one is: do the work "
                "here."
            )
        if params.worktree and ctx.capabilities.worktrees is None:
            raise ToolError(
                "worktree: this workspace is not in a git repository. Leave it out, and delegate"
                " together only what does not touch the same files."
            )
        message = params.message.replace("\\\\@", "\\@")
        todos = parse_todos(params.todos or "")
        row: dict[str, Any] = {
            "tool": "newTask",
            "mode": mode.name,
            "content": message,
            "todos": msgspec.to_builtins(list(todos)),
        }
        if params.worktree:
            row["worktree"] = True
        # What becomes of it is the result of the subtask.
        directive = StartSubtask(mode.slug, message, todos, bool(params.worktree))
        outcome = Outcome("", directive=directive)
        return PreparedToolCall(claims=(Claim(Access.DELEGATE),), row=row, outcome=outcome)

    def describe_call(self, arguments: dict[str, Any]) -> str:
        mode, message = arguments.get("mode"), arguments.get("message")
        return f"[{self.name} in {mode} mode: '{message}']"


@cache
def _build_specs(tool: NewTaskTool) -> tuple[ToolSpec, ToolSpec]:
    """Build the specifications without and with worktrees."""
    shared, apart = tool.description, f"{tool.description}\n\n{_WORKTREE_DESCRIPTION}"
    return (
        ToolSpec(tool.name, shared, build_native_schema(SharedWorkspaceTaskParams), tool.strict),
        ToolSpec(tool.name, apart, build_native_schema(NewTaskParams), tool.strict),
    )
