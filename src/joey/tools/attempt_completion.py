"""The `attempt_completion` tool: presents the result of the whole task."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    CompleteTask,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.parameters import XML_ONLY


class AttemptCompletionParams(Struct, frozen=True):
    result: Annotated[str, Meta(description="The final summary.", extra=XML_ONLY)]


class AttemptCompletion(Tool[AttemptCompletionParams, PreparedToolCall]):
    """The task decides whether the result may be presented, and whether it is accepted."""

    name: ClassVar[str] = "attempt_completion"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = AttemptCompletionParams
    required_texts: ClassVar[tuple[str, ...]] = ("result",)
    extra_xml_params: ClassVar[tuple[str, ...]] = ("command",)

    async def prepare(self, params: AttemptCompletionParams, ctx: ToolContext) -> PreparedToolCall:
        outcome = Outcome("", directive=CompleteTask(params.result))
        return PreparedToolCall(claims=(Claim(Access.NONE),), row={}, outcome=outcome)
