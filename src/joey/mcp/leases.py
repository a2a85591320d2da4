"""Servers as tasks have them: borrowed, and given back.

A thousand tasks in one folder share one set of servers. Where no file names a server, nothing is
loaded and nothing is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from joey.core.mcp import McpAnswer, McpServer
from joey.errors import ToolError
from joey.mcp.paths import config_paths
from joey.ports import Mcp

if TYPE_CHECKING:
    from joey.mcp.hub import Hub


class Surroundings(Struct, frozen=True, kw_only=True):
    """What hubs need to know of the person and the machine."""

    home: Path
    env: Mapping[str, str]
    """Where `${env:NAME}` is looked up."""
    environment: Mapping[str, str]
    """What servers that are programs may see of it."""
    trust_file: Path
    """Changes when the person trusts, or no longer trusts, a workspace."""
    trusts: Callable[[Path, Mapping[str, bytes]], bool]
    first_delay: float = 1.0
    """Seconds before a server that died is started again."""


class Hubs:
    """One hub for each workspace, for as long as somebody uses it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._hubs: dict[Path, Hub] = {}

    def lease(self, workspace: Path) -> Lease:
        return Lease(self, workspace)

    def take(self, workspace: Path) -> Hub | None:
        """None as long as no file names a server."""
        hub = self._hubs.get(workspace)
        if hub is None:
            if not any(path.exists() for path in config_paths(self._around.home, workspace)):
                return None
            from joey.mcp.hub import Hub

            hub = self._hubs[workspace] = Hub(workspace, self._around)
        hub.users += 1
        return hub

    async def give_back(self, workspace: Path, hub: Hub) -> None:
        hub.users -= 1
        if hub.users == 0:
            if self._hubs.get(workspace) is hub:
                del self._hubs[workspace]
            await hub.close()


class Lease:
    """The servers as one task has them. Nothing is read or started before `settle`."""

    def __init__(self, hubs: Hubs, workspace: Path) -> None:
        self._hubs = hubs
        self._workspace = workspace
        self._hub: Hub | None = None

    @property
    def servers(self) -> tuple[McpServer, ...]:
        return () if self._hub is None else self._hub.servers

    async def settle(self, patience: float) -> None:
        if self._hub is None:
            self._hub = self._hubs.take(self._workspace)
        if self._hub is not None:
            await self._hub.settle(patience)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpAnswer:
        return await self._open().call(server, tool, arguments, on_progress)

    async def read(self, server: str, uri: str) -> McpAnswer:
        return await self._open().read(server, uri)

    async def close(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None:
            await self._hubs.give_back(self._workspace, hub)

    def _open(self) -> Hub:
        if self._hub is None:
            raise ToolError("No MCP server has been started yet.")
        return self._hub


_fits: type[Mcp] = Lease
