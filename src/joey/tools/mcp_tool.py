"""The tools of MCP servers, each as a tool of its own: `mcp--<server>--<tool>`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from joey.core.mcp import McpServer, McpTool, normalised, tool_name
from joey.core.models import ToolProtocol, ToolSpec
from joey.core.modes import Group
from joey.core.task import Answer
from joey.ports import ToolContext
from joey.tools.arguments import decode_json
from joey.tools.base import Offer, Outcome, Tool
from joey.tools.mcp_request import PreparedCall, prepare_call, run_call


class NoParams(Struct, frozen=True):
    """The parameters are the server's own."""


class Given(Struct, frozen=True):
    arguments: dict[str, Any]


class McpServerTool(Tool[Given, PreparedCall]):
    """The one kind of tool that is named, described and shaped by somebody else."""

    group: ClassVar[Group] = Group.MCP
    params: ClassVar[type[Struct]] = NoParams
    strict: ClassVar[bool] = False

    def __init__(self, server: str, tool: McpTool) -> None:
        self.name = tool_name(server, tool.name)  # type: ignore[misc]
        self._server = server
        self._tool = tool
        self._schema = normalised(tool.schema)
        self._spec = ToolSpec(
            name=self.name, description=tool.description, parameters=self._schema, strict=False
        )

    def offered(self, offer: Offer) -> bool:
        return offer.protocol is ToolProtocol.NATIVE

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def xml_tags(self) -> frozenset[str]:
        return frozenset(self._schema["properties"])

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def xml_usage(self) -> str | None:
        return None

    def parse(self, arguments: dict[str, Any]) -> Given:
        return Given({name: self._read(name, value) for name, value in arguments.items()})

    def _read(self, name: str, value: Any) -> Any:
        """In XML all values are texts; what must be something else is JSON in one."""
        if not isinstance(value, str):
            return value
        schema = self._schema["properties"].get(name, {})
        kind = schema.get("type", "string") if isinstance(schema, dict) else "string"
        if kind == "string" or (isinstance(kind, list) and "string" in kind):
            return value
        decoded = decode_json(value)
        return value if decoded is None else decoded

    async def prepare(self, params: Given, ctx: ToolContext) -> PreparedCall:
        return prepare_call(self._server, self._tool.name, params.arguments, ctx)

    async def run(self, prepared: PreparedCall, ctx: ToolContext, answer: Answer | None) -> Outcome:
        return await run_call(prepared, ctx)

    def describe(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name}]"


def server_tools(servers: Sequence[McpServer]) -> Iterator[McpServerTool]:
    """One for each tool that is offered; of two that get the same name, the first."""
    taken: set[str] = set()
    for server in servers:
        for tool in server.offered:
            made = McpServerTool(server.name, tool)
            if made.name not in taken:
                taken.add(made.name)
                yield made
