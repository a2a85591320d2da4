"""A custom tool of the user or the project, wrapped as a tool."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from joey.core.models import ToolSpec
from joey.core.modes import ToolGroup
from joey.core.task_types import Answer
from joey.errors import ToolError
from joey.ports.extensions import CustomToolInfo
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    build_missing_parameter_error,
    try_decode_json,
)


class CustomToolCall(Struct, frozen=True):
    arguments: dict[str, Any]


class PreparedCustomToolCall(PreparedToolCall, frozen=True, kw_only=True):
    arguments: dict[str, Any]


class CustomTool(Tool[CustomToolCall, PreparedCustomToolCall]):
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = CustomToolCall

    def __init__(self, info: CustomToolInfo) -> None:
        self._info = info
        self._spec = ToolSpec(info.name, info.description, info.schema, strict=False)
        self._schema_properties: dict[str, Any] = info.schema.get("properties", {})

    @property
    def name(self) -> str:  # type: ignore[override]  # each instance is another tool
        return self._info.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def xml_tags(self) -> frozenset[str]:
        return frozenset(self._schema_properties)

    @property
    def xml_usage(self) -> str | None:
        return None

    def parse(self, arguments: dict[str, Any]) -> CustomToolCall:
        """Strings of an XML call become what the schema asks for."""
        given = {
            name: _coerce_to_schema(value, self._schema_properties.get(name, {}))
            for name, value in arguments.items()
            if name in self._schema_properties
        }
        for name in self._info.schema.get("required", ()):
            kind = self._schema_properties.get(name, {}).get("type")
            is_nullable = isinstance(kind, list) and "null" in kind
            if given.get(name) is None and not is_nullable:
                raise build_missing_parameter_error(self.name, name)
        return CustomToolCall(given)

    async def prepare(self, params: CustomToolCall, ctx: ToolContext) -> PreparedCustomToolCall:
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

    def describe_call(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name}]"


def _coerce_to_schema(value: Any, schema: dict[str, Any]) -> Any:
    kinds = schema.get("type")
    wanted = set(kinds if isinstance(kinds, list) else [kinds])
    if not isinstance(value, str) or "string" in wanted or None in wanted:
        return value
    decoded = try_decode_json(value.strip())
    return value if decoded is None else decoded
