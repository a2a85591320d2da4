"""The `attempt_completion` tool: presents the result of the whole task.

A module of its own because every tool has one, named like the tool, with its `.md` next to it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.task_types import Answer
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    CompleteTask,
    Outcome,
    PreparedToolCall,
    Tool,
    build_missing_parameter_error,
    convert_arguments,
)


class AttemptCompletionParams(Struct, frozen=True):
    result: Annotated[
        str, Meta(description="What was done and what came of it, final; no question at the end.")
    ]


class PreparedCompletion(PreparedToolCall, frozen=True, kw_only=True):
    result: str


class AttemptCompletion(Tool[AttemptCompletionParams, PreparedCompletion]):
    """Whether the result may be presented, and whether it is accepted, is the task's business."""

    name: ClassVar[str] = "attempt_completion"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = AttemptCompletionParams
    extra_xml_params: ClassVar[tuple[str, ...]] = ("command",)

    def parse(self, arguments: dict[str, Any]) -> AttemptCompletionParams:
        known = {key: value for key, value in arguments.items() if key != "command"}
        params = convert_arguments(known, AttemptCompletionParams, self.name)
        if not params.result.strip():
            raise build_missing_parameter_error(self.name, "result")
        return params

    async def prepare(
        self, params: AttemptCompletionParams, ctx: ToolContext
    ) -> PreparedCompletion:
        return PreparedCompletion(claims=(Claim(Access.NONE),), row={}, result=params.result)

    async def run_prepared(
        self, prepared: PreparedCompletion, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        return Outcome("", directive=CompleteTask(prepared.result))
