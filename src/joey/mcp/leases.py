"""Leases of MCP servers: tasks in one workspace share one set of them.

A thousand tasks in one directory share one hub. Where no file names a server, nothing is loaded
and nothing is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.core.mcp import McpResult, McpServer, list_config_paths
from joey.errors import ToolError
from joey.ports import Mcp

if TYPE_CHECKING:
    from joey.mcp.hub import Hub


class HubConfig(Struct, frozen=True, kw_only=True):
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


class HubPool:
    """One hub for each workspace and what is given there, for as long as somebody uses it."""

    def __init__(self, around: HubConfig) -> None:
        self._around = around
        self._hubs: dict[tuple[Path, bytes], Hub] = {}

    def lease(self, workspace: Path, given: Mapping[str, Any] | None = None) -> HubLease:
        """`given` are servers beside those of the files, in the shape that these have."""
        return HubLease(self, workspace, given or {})

    def take(self, workspace: Path, given: Mapping[str, Any]) -> Hub | None:
        """None as long as nobody names a server."""
        key = _key(workspace, given)
        hub = self._hubs.get(key)
        if hub is None:
            paths = list_config_paths(self._around.home, workspace)
            if not given and not any(path.exists() for path in paths):
                return None
            from joey.mcp.hub import Hub

            hub = self._hubs[key] = Hub(workspace, self._around, given)
        hub.users += 1
        return hub

    async def give_back(self, workspace: Path, given: Mapping[str, Any], hub: Hub) -> None:
        hub.users -= 1
        if hub.users == 0:
            key = _key(workspace, given)
            if self._hubs.get(key) is hub:
                del self._hubs[key]
            await hub.close()


def _key(workspace: Path, given: Mapping[str, Any]) -> tuple[Path, bytes]:
    return workspace, msgspec.json.encode(given, order="sorted")


class HubLease:
    """The servers as one task has them. Nothing is read or started before `settle`."""

    def __init__(self, hubs: HubPool, workspace: Path, given: Mapping[str, Any]) -> None:
        self._hubs = hubs
        self._workspace = workspace
        self._given = given
        self._hub: Hub | None = None

    @property
    def servers(self) -> tuple[McpServer, ...]:
        return () if self._hub is None else self._hub.servers

    async def settle(self, patience: float) -> None:
        if self._hub is None:
            self._hub = self._hubs.take(self._workspace, self._given)
        if self._hub is not None:
            await self._hub.settle(patience)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        return await self._open().call(server, tool, arguments, on_progress)

    async def read(self, server: str, uri: str) -> McpResult:
        return await self._open().read(server, uri)

    async def close(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None:
            await self._hubs.give_back(self._workspace, self._given, hub)

    def _open(self) -> Hub:
        if self._hub is None:
            raise ToolError("No MCP server has been started yet.")
        return self._hub


_fits: type[Mcp] = HubLease
