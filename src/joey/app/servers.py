"""MCP servers, put together: which environment they get, and whose trust counts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from joey.config.trust import Trust, Trusted
from joey.errors import ConfigError
from joey.mcp.leases import Hubs, Surroundings
from joey.ports import Mcp
from joey.terminals.environment import command_environment
from joey.tools.toolbox import Toolboxes


class Servers:
    """What the tasks of one engine share of them."""

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.toolboxes = Toolboxes()
        self._hubs = Hubs(surroundings(home, env))

    def lease(self, workspace: Path) -> Mcp:
        return self._hubs.lease(workspace)


def is_trusted(home: Path, workspace: Path, wanted: Mapping[str, bytes]) -> bool:
    """Whether the person has agreed to all of this; a file that cannot be read is no trust."""
    try:
        return isinstance(Trust(home).standing(workspace, wanted), Trusted)
    except ConfigError:
        return False


def surroundings(home: Path, env: Mapping[str, str]) -> Surroundings:
    return Surroundings(
        home=home,
        env=env,
        environment=command_environment(env),
        trust_file=Trust(home).path,
        trusts=partial(is_trusted, home),
    )
