"""Hub: all MCP servers of one workspace, shared by its tasks.

They are started when the first task that may use them asks, and stopped when the last one is
closed. The files are checked before every request: new servers are started, others stopped, and
those whose settings changed are connected again.
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
from joey.system.files import FileFingerprint, stamp


class Hub:
    def __init__(
        self, workspace: Path, around: HubConfig, given: Mapping[str, Any] | None = None
    ) -> None:
        """`given` are servers of the person's own that no file names."""
        self.users = 0
        self._files = ConfigFiles(around.home, workspace, around.env, given)
        self._trust_file = around.trust_file
        self._trust_stamp: FileFingerprint = stamp(around.trust_file)
        self._world = HubContext(
            home=around.home,
            workspace=workspace,
            environment=around.environment,
            trusts=lambda wanted: around.trusts(workspace, wanted),
            pins=ToolPins(around.home),
            first_delay=around.first_delay,
        )
        self._connections: dict[str, McpConnection] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._servers: tuple[McpServer, ...] | None = ()

    @property
    def servers(self) -> tuple[McpServer, ...]:
        if self._servers is None:
            self._servers = tuple(found.server for found in self._connections.values())
        return self._servers

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers that the files name are left out."""
        return self._files.problems

    def refresh(self, only: str | None = None) -> None:
        """Notice what changed on disk; start `only` this server, or all."""
        if self._files.refresh():
            self._reconcile(only)
        if (trusted := stamp(self._trust_file)) != self._trust_stamp:
            self._trust_stamp = trusted
            for connection in self._connections.values():
                connection.reconsider()
        for connection in self._connections.values():
            connection.look_around()

    async def settle(self, patience: float, only: str | None = None) -> None:
        self.refresh(only)
        waiting = [found for found in self._connections.values() if not found.settled.is_set()]
        if not waiting:
            return
        limit = max(found.started for found in waiting) + patience
        with suppress(TimeoutError):
            async with asyncio.timeout_at(limit):
                for connection in waiting:
                    await connection.settled.wait()

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        connection = self._find(server)
        for known in connection.server.tools:
            if known.name == tool and known.enabled:
                return await connection.call(known, arguments, on_progress)
        raise ToolError(f"The MCP server {server!r} has no tool {tool!r}.")

    async def read(self, server: str, uri: str) -> McpResult:
        return await self._find(server).read(uri)

    async def close(self) -> None:
        for connection in self._connections.values():
            self._leave(connection)
        self._connections = {}
        while self._leaving:
            await asyncio.gather(*self._leaving)

    def _find(self, server: str) -> McpConnection:
        if server not in self._connections:
            raise ToolError(f"There is no MCP server {server!r}.")
        return self._connections[server]

    def _reconcile(self, only: str | None) -> None:
        old, configs = self._connections, self._files.configs
        self._connections = {}
        for name, config in configs.items():
            if only not in (None, name):
                continue
            known = old.pop(name, None)
            if known is not None and known.config.reach == config.reach:
                if known.config != config:
                    known.adopt(config)
            else:
                if known is not None:
                    self._leave(known)
                known = McpConnection(config, self._world, self._change)
            self._connections[name] = known
        for connection in old.values():
            self._leave(connection)
        self._change()

    def _leave(self, connection: McpConnection) -> None:
        leaving = asyncio.create_task(connection.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _change(self) -> None:
        self._servers = None
