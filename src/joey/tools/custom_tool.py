"""A custom tool of the user or the project, wrapped as a tool.

A separate module because custom tools are an optional feature (`tests/test_features.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from joey.core.modes import ToolGroup
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.extensions import CustomToolInfo
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    ExternalCall,
    ExternalTool,
    Outcome,
    PreparedToolCall,
)
from joey.tools.parameters import build_missing_parameter_error


class PreparedCustomToolCall(PreparedToolCall, frozen=True, kw_only=True):
    arguments: dict[str, Any]


class CustomTool(ExternalTool[PreparedCustomToolCall]):
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, info: CustomToolInfo) -> None:
        super().__init__(info.name, info.description, info.schema)
        self._info = info

    def parse(self, arguments: dict[str, Any]) -> ExternalCall:
        known = {name: value for name, value in arguments.items() if name in self._schemas}
        call = super().parse(known)
        for name in self.spec.parameters.get("required", ()):
            if call.arguments.get(name) is None:
                raise build_missing_parameter_error(self.name, name)
        return call

    async def prepare(self, params: ExternalCall, ctx: ToolContext) -> PreparedCustomToolCall:
        return PreparedCustomToolCall(
            claims=(Claim(Access.CUSTOM_TOOL, subject=f"the custom tool {self.name}"),),
            row={
                "tool": "customTool",
                "name": self.name,
                "path": self._info.path,
                "arguments": msgspec.json.encode(params.arguments).decode(),
            },
            arguments=params.arguments,
        )

    async def run_prepared(
        self, prepared: PreparedCustomToolCall, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        tools = ctx.capabilities.custom_tools
        if tools is None:
            raise ToolError(f"The custom tool {self.name} is gone.")
        return Outcome(await tools.run(self.name, prepared.arguments, ctx.mode.slug))
