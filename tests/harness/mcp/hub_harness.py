"""Hubs on real files and real servers, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from joey.core.mcp import McpServer
from joey.mcp.leases import HubConfig, HubLease, HubPool
from tests.harness.paths import MCP_SERVER_SCRIPT

TIMEOUT_S = 30


def tiny(*flags: str, **entry: Any) -> dict[str, Any]:
    """The entry of a server that misbehaves on request."""
    return {"command": sys.executable, "args": [str(MCP_SERVER_SCRIPT), *flags], **entry}


class HubHarness:
    """A home, a workspace, and the hubs of one engine."""

    def __init__(self, root: Path, trusted: bool = True) -> None:
        self.home = root / "home"
        self.workspace = root / "workspace"
        for directory in (self.home, self.workspace / ".roo"):
            directory.mkdir(parents=True, exist_ok=True)
        self.trusted = trusted
        self.asked: list[Mapping[str, bytes]] = []
        self.environment = {"PATH": os.environ["PATH"]}
        self.hub_config = HubConfig(
            joey_home=self.home,
            env={"NAME": "value"},
            server_environment=self.environment,
            trust_file=self.home / "trust.json",
            is_trusted=self._trusts,
            initial_restart_delay_s=0.05,
        )
        self.hubs = HubPool(self.hub_config)

    def _trusts(self, workspace: Path, wanted: Mapping[str, bytes]) -> bool:
        self.asked.append(wanted)
        return self.trusted

    def write(self, *, project: bool = False, **servers: Any) -> None:
        path = self.workspace / ".roo" / "mcp.json" if project else self.home / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    async def open(self, **servers: Any) -> HubLease:
        """A lease on these servers, all of which have connected or failed."""
        self.write(**servers)
        lease = self.hubs.lease(self.workspace)
        await settled(lease)
        return lease


async def settled(lease: HubLease) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await lease.wait_until_ready(TIMEOUT_S)


def server(lease: HubLease, name: str) -> McpServer:
    return next(found for found in lease.servers if found.name == name)


def names(lease: HubLease, name: str) -> list[str]:
    return [tool.name for tool in server(lease, name).tools]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody announces."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 (other processes have no events)
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
