"""Leases of MCP servers: tasks in one workspace share one set of them.

A thousand tasks in one directory share one hub. If no file names a server, nothing is loaded or
started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.core.mcp import McpResult, McpServer, list_config_paths
from joey.errors import ToolError
from joey.ports.extensions import Mcp

if TYPE_CHECKING:
    from joey.mcp.hub import Hub


class HubConfig(Struct, frozen=True, kw_only=True):
    """What hubs need to know about the user and the machine."""

    joey_home: Path
    env: Mapping[str, str]
    """Where `${env:NAME}` is looked up."""
    server_environment: Mapping[str, str]
    """What servers that are programs may see of it."""
    trust_file: Path
    """Changes when the user trusts, or no longer trusts, a workspace."""
    is_trusted: Callable[[Path, Mapping[str, bytes]], bool]
    initial_restart_delay_s: float = 1.0


class HubPool:
    """One hub per workspace and extra servers, for as long as it is used."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._hubs: dict[tuple[Path, bytes], Hub] = {}

    def lease(self, workspace: Path, extra_servers: Mapping[str, Any] | None = None) -> HubLease:
        """Create a lease; `extra_servers` are additional servers, in the format of the files."""
        return HubLease(self, workspace, extra_servers or {})

    def acquire(self, workspace: Path, extra_servers: Mapping[str, Any]) -> Hub | None:
        """Acquire a hub; None as long as there are no servers."""
        key = _build_key(workspace, extra_servers)
        hub = self._hubs.get(key)
        if hub is None:
            paths = list_config_paths(self._config.joey_home, workspace)
            if not extra_servers and not any(path.exists() for path in paths):
                return None
            from joey.mcp.hub import Hub

            hub = self._hubs[key] = Hub(workspace, self._config, extra_servers)
        hub.lease_count += 1
        return hub

    async def release(self, workspace: Path, extra_servers: Mapping[str, Any], hub: Hub) -> None:
        hub.lease_count -= 1
        if hub.lease_count == 0:
            key = _build_key(workspace, extra_servers)
            if self._hubs.get(key) is hub:
                del self._hubs[key]
            await hub.close()


def _build_key(workspace: Path, extra_servers: Mapping[str, Any]) -> tuple[Path, bytes]:
    return workspace, msgspec.json.encode(extra_servers, order="sorted")


class HubLease:
    """One task's lease of the servers. Nothing is read or started before `wait_until_ready`."""

    def __init__(self, pool: HubPool, workspace: Path, extra_servers: Mapping[str, Any]) -> None:
        self._pool = pool
        self._workspace = workspace
        self._extra_servers = extra_servers
        self._hub: Hub | None = None

    @property
    def servers(self) -> tuple[McpServer, ...]:
        return () if self._hub is None else self._hub.servers

    async def wait_until_ready(self, timeout_s: float) -> None:
        if self._hub is None:
            self._hub = self._pool.acquire(self._workspace, self._extra_servers)
        if self._hub is not None:
            await self._hub.wait_until_ready(timeout_s)

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        return await self._require_hub().call_tool(server, tool, arguments, on_progress)

    async def read_resource(self, server: str, uri: str) -> McpResult:
        return await self._require_hub().read_resource(server, uri)

    async def close(self) -> None:
        hub, self._hub = self._hub, None
        if hub is not None:
            await self._pool.release(self._workspace, self._extra_servers, hub)

    def _require_hub(self) -> Hub:
        if self._hub is None:
            raise ToolError("No MCP server has been started yet.")
        return self._hub


_protocol_check: type[Mcp] = HubLease
