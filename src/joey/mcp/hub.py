"""Hub: all MCP servers of one workspace, shared by its tasks.

They are started when the first task that may use them needs them, and stopped when the last one is
closed. The files are checked before every request: new servers are started, removed ones stopped,
and those whose settings changed are reconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from joey.core.mcp import McpResult, McpServer
from joey.errors import ToolError
from joey.mcp.config_files import ConfigFiles
from joey.mcp.connection import HubContext, McpConnection
from joey.mcp.leases import HubConfig
from joey.mcp.trust import ToolPins
from joey.system.files import FileFingerprint, read_fingerprint


class Hub:
    def __init__(
        self, workspace: Path, config: HubConfig, extra_servers: Mapping[str, Any] | None = None
    ) -> None:
        """`extra_servers` are servers of the user that no file names."""
        self.lease_count = 0
        self._config_files = ConfigFiles(config.joey_home, workspace, config.env, extra_servers)
        self._trust_file = config.trust_file
        self._trust_fingerprint: FileFingerprint = read_fingerprint(config.trust_file)
        self._context = HubContext(
            joey_home=config.joey_home,
            workspace=workspace,
            server_environment=config.server_environment,
            is_trusted=lambda contents: config.is_trusted(workspace, contents),
            tool_pins=ToolPins(config.joey_home),
            initial_restart_delay_s=config.initial_restart_delay_s,
        )
        self._connections: dict[str, McpConnection] = {}
        self._closing_jobs: set[asyncio.Task[None]] = set()
        self._cached_servers: tuple[McpServer, ...] | None = ()

    @property
    def servers(self) -> tuple[McpServer, ...]:
        if self._cached_servers is None:
            self._cached_servers = tuple(found.server for found in self._connections.values())
        return self._cached_servers

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers that the files name are left out."""
        return self._config_files.problems

    def refresh(self, only_server: str | None = None) -> None:
        """Read changes on disk; start only `only_server`, or all."""
        if self._config_files.refresh():
            self._reconcile_connections(only_server)
        if (fingerprint := read_fingerprint(self._trust_file)) != self._trust_fingerprint:
            self._trust_fingerprint = fingerprint
            for connection in self._connections.values():
                if connection.config.source == "project":
                    connection.restart()  # with the question whether to
        for connection in self._connections.values():
            connection.restart_if_changed()

    async def wait_until_ready(self, timeout_s: float, only_server: str | None = None) -> None:
        self.refresh(only_server)
        waiting = [
            found for found in self._connections.values() if not found.first_attempt_done.is_set()
        ]
        if not waiting:
            return
        deadline = max(found.started_at for found in waiting) + timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                for connection in waiting:
                    await connection.first_attempt_done.wait()

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        connection = self._require_connection(server)
        for known in connection.server.tools:
            if known.name == tool and known.enabled:
                return await connection.call_tool(known, arguments, on_progress)
        raise ToolError(f"The MCP server {server!r} has no tool {tool!r}.")

    async def read_resource(self, server: str, uri: str) -> McpResult:
        return await self._require_connection(server).read_resource(uri)

    async def close(self) -> None:
        for connection in self._connections.values():
            self._close_in_background(connection)
        self._connections = {}
        while self._closing_jobs:
            await asyncio.gather(*self._closing_jobs)

    def _require_connection(self, server: str) -> McpConnection:
        if server not in self._connections:
            raise ToolError(f"There is no MCP server {server!r}.")
        return self._connections[server]

    def _reconcile_connections(self, only_server: str | None) -> None:
        old, configs = self._connections, self._config_files.configs
        self._connections = {}
        for name, config in configs.items():
            if only_server not in (None, name):
                continue
            known = old.pop(name, None)
            if known is not None and known.config.connection_key == config.connection_key:
                if known.config != config:
                    known.update_config(config)
            else:
                if known is not None:
                    self._close_in_background(known)
                known = McpConnection(config, self._context, self._invalidate_servers)
            self._connections[name] = known
        for connection in old.values():
            self._close_in_background(connection)
        self._invalidate_servers()

    def _close_in_background(self, connection: McpConnection) -> None:
        leaving = asyncio.create_task(connection.close())
        self._closing_jobs.add(leaving)
        leaving.add_done_callback(self._closing_jobs.discard)

    def _invalidate_servers(self) -> None:
        self._cached_servers = None
