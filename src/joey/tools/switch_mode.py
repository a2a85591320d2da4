"""The `switch_mode` tool: continues in another mode."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    ChangeMode,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    require_mode,
)
from joey.tools.parameters import is_null_spelling


class SwitchModeParams(Struct, frozen=True):
    mode_slug: Annotated[str, Meta(description="Slug of the mode, e.g. code.")]
    reason: Annotated[str | None, Meta(description="Why, in a sentence for the user.")] = None


class SwitchModeTool(Tool[SwitchModeParams, PreparedToolCall]):
    name: ClassVar[str] = "switch_mode"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = SwitchModeParams

    async def prepare(self, params: SwitchModeParams, ctx: ToolContext) -> PreparedToolCall:
        mode = require_mode(params.mode_slug, ctx)
        if mode.slug == ctx.mode.slug:
            raise ToolError(f"Already in {mode.name} mode.")
        reason = params.reason or ""
        because = f" because: {reason}" if reason else ""
        return PreparedToolCall(
            claims=(Claim(Access.SWITCH_MODE),),
            row={"tool": "switchMode", "mode": mode.slug, "reason": reason},
            outcome=Outcome(
                f"Successfully switched from {ctx.mode.name} mode to {mode.name} mode{because}.",
                directive=ChangeMode(mode.slug),
            ),
        )

    def describe_call(self, arguments: dict[str, Any]) -> str:
        slug, reason = arguments.get("mode_slug"), arguments.get("reason")
        because = f" because: {reason}" if reason and not is_null_spelling(reason) else ""
        return f"[{self.name} to '{slug}'{because}]"
