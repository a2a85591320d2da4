"""The tools there are and those that others bring, found under whatever name a model uses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from joey.core.mcp import McpServer, fold
from joey.errors import ToolError
from joey.ports import CustomToolInfo
from joey.tools.custom_tool import CustomTool
from joey.tools.mcp_tool import server_tools
from joey.tools.registry import AnyTool, Registry

_MOST_KEPT = 64

Servers = tuple[McpServer, ...]
Custom = tuple[CustomToolInfo, ...]


class Toolbox(Registry):
    """A registry with the tools of servers and of the user behind its own."""

    def __init__(self, registry: Registry, servers: Servers, custom: Custom = ()) -> None:
        own = {name for tool in registry.tools for name in (tool.name, *tool.aliases)}
        brought = [tool for tool in server_tools(servers) if tool.name not in own]
        taken = own | {tool.name for tool in brought}
        added = [CustomTool(info) for info in custom if info.name not in taken]
        super().__init__((*registry.tools, *brought, *added))
        self._folded: dict[str, list[AnyTool]] = {}
        for tool in brought:
            self._folded.setdefault(fold(tool.name) or tool.name, []).append(tool)

    def find(self, name: str) -> AnyTool:
        """Also by mangled names: `mcp__server__tool`, `server__tool`, `-` and `_` confused (D2)."""
        if name in self._by_name:
            return self._by_name[name]
        meant = self._folded.get(fold(name) or "", [])
        if len(meant) > 1:
            listed = ", ".join(tool.name for tool in meant)
            raise ToolError(f'"{name}" may be any of these tools: {listed}. Use one of the names.')
        return meant[0] if meant else super().find(name)


class _Made(NamedTuple):
    registry: Registry
    servers: Servers
    custom: Custom
    box: Registry


class Toolboxes:
    """Toolboxes made so far, so that tasks with the same servers share one.

    A server that comes and goes changes nothing as long as it brings the same tools.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[int, int, int], _Made] = OrderedDict()

    def of(self, registry: Registry, servers: Servers, custom: Custom = ()) -> Registry:
        if not servers and not custom:
            return registry
        key = (id(registry), id(servers), id(custom))
        known = self._made.get(key)
        if known is None:
            box = self._alike(registry, servers, custom) or Toolbox(registry, servers, custom)
            # Holding on to all of them keeps their numbers from being given to others.
            known = self._made[key] = _Made(registry, servers, custom, box)
            if len(self._made) > _MOST_KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return known.box

    def _alike(self, registry: Registry, servers: Servers, custom: Custom) -> Registry | None:
        offered = _offered(servers)
        for made in self._made.values():
            same = made.registry is registry and made.custom == custom
            if same and _offered(made.servers) == offered:
                return made.box
        return None


def _offered(servers: Sequence[McpServer]) -> list[tuple[object, ...]]:
    """All that the model is told of them."""
    return [
        (server.name, server.command, server.instructions, server.offered, server.resources)
        for server in servers
        if server.offered or server.resources
    ]
