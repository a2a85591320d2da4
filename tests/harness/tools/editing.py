"""Calls of tools that change files, from their arguments to what is told."""

from __future__ import annotations

from typing import Any

import pytest

from joey.core.models import ModelInfo
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import (
    AvailabilityContext,
    Outcome,
    PreparedToolCall,
    Tool,
)

AnyTool = Tool[Any, Any]
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


async def prepare(tool: AnyTool, ctx: ToolContext, arguments: dict[str, Any]) -> PreparedToolCall:
    prepared = await tool.prepare(tool.parse(arguments), ctx)
    assert isinstance(prepared, PreparedToolCall)
    return prepared


async def run_tool(tool: AnyTool, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
    return await tool.run_prepared(await prepare(tool, ctx, arguments), ctx, None)


async def expect_error(tool: AnyTool, ctx: ToolContext, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as caught:
        await run_tool(tool, ctx, arguments)
    return str(caught.value)


def is_offered(tool: AnyTool, edit_tool: Any = "auto", model: str = "apply_diff") -> bool:
    info = ModelInfo(id="m", preferred_edit_tool=model)
    return tool.is_offered(AvailabilityContext(Settings(edit_tool=edit_tool), info, Capabilities()))
