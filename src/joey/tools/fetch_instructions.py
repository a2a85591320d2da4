"""The `fetch_instructions` tool: instructions for work on the agent's modes and MCP servers.

The texts are the Markdown files in `instructions/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.parameters import XML_ONLY


class FetchInstructionsParams(Struct, frozen=True):
    task: Annotated[
        Literal["create_mcp_server", "create_mode"],
        Meta(description="Which instructions.", extra=XML_ONLY),
    ]


class FetchInstructions(Tool[FetchInstructionsParams, PreparedToolCall]):
    name: ClassVar[str] = "fetch_instructions"
    group: ClassVar[ToolGroup] = ToolGroup.READ
    params: ClassVar[type[Struct]] = FetchInstructionsParams
    can_run_in_parallel: ClassVar[bool] = True

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.capabilities.customizations is not None

    async def prepare(self, params: FetchInstructionsParams, ctx: ToolContext) -> PreparedToolCall:
        text = Path(__file__).parent / "instructions" / f"{params.task}.md"
        subject = f"the instructions for {params.task}"
        return PreparedToolCall(
            claims=(Claim(Access.FETCH_INSTRUCTIONS, subject=subject),),
            row={"tool": "fetchInstructions", "content": params.task},
            outcome=Outcome(text.read_text(encoding="utf-8")),
        )
