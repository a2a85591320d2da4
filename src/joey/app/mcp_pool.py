"""MCP servers of an engine's tasks: their environment, and the trust they need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from joey.app.customizations import is_trusted
from joey.config.home import resolve_joey_home
from joey.config.trust import TrustStore
from joey.core.mcp import list_config_paths
from joey.execution.command_environment import build_command_environment
from joey.mcp.leases import HubConfig, HubPool
from joey.ports.extensions import Mcp


class McpServerPool:
    """The MCP resources that the tasks of one engine share."""

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        from joey.tools.registry import (
            ToolSetCache,  # imports all tools, which `joey mcp list` does not need
        )

        self.tool_set_cache = ToolSetCache()
        self._home = home
        self._hub_pool = HubPool(
            structs.replace(build_hub_config(home, env), is_trusted=self._is_trusted)
        )
        self._trust_roots: dict[Path, Path] = {}
        """Each with the workspace whose trust counts in it, for the very same things."""

    def lease(
        self,
        workspace: Path,
        trust_root: Path | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Mcp:
        if trust_root is not None:
            self._trust_roots[workspace] = trust_root
        return self._hub_pool.lease(workspace, given)

    def _is_trusted(self, workspace: Path, contents: Mapping[str, bytes]) -> bool:
        return is_trusted(self._home, self._trust_roots.get(workspace, workspace), contents)


def list_mcp_config_problems(workspace: Path) -> tuple[str, ...]:
    """List problems of the files that name servers; reads nothing if there are none."""
    home, env = resolve_joey_home(os.environ), os.environ
    if not any(path.exists() for path in list_config_paths(home, workspace)):
        return ()
    from joey.mcp.config_files import ConfigFiles

    files = ConfigFiles(home, workspace, env)
    files.refresh()
    return files.problems


def build_hub_config(home: Path, env: Mapping[str, str]) -> HubConfig:
    return HubConfig(
        joey_home=home,
        env=env,
        server_environment=build_command_environment(env),
        trust_file=TrustStore(home).path,
        is_trusted=partial(is_trusted, home),
    )
