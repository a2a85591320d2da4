"""Trust in a workspace: everything it would run, and the MCP servers to list, change and test.

Loading the MCP library takes a second; tasks without servers never import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from joey.app.customizations import list_modes_to_trust, load_project_hooks
from joey.app.mcp_pool import build_hub_config
from joey.config.home import resolve_home_and_env
from joey.config.trust import Trusted, TrustStore
from joey.mcp.server_admin import ServerAdmin, ServerInfo, ServerNotFoundError
from joey.ports.extensions import TrustItem
from joey.workspace.files import LocalFiles


class WorkspaceTrust:
    def __init__(
        self, workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        from joey.app.features import list_tool_trust_items

        home, env = resolve_home_and_env(home, env)
        self.workspace = workspace.resolve()
        files = LocalFiles(self.workspace)
        servers = open_server_admin(workspace, home, env).list_trust_items()
        hooks = load_project_hooks(files, home, env).trust_items
        modes = list_modes_to_trust(files, home, env)
        self.items: tuple[TrustItem, ...] = (
            *servers,
            *list_tool_trust_items(self.workspace),
            *hooks,
            *modes,
        )
        """Everything that would run, trusted or not."""
        self._trust_store = TrustStore(home)

    @property
    def untrusted_items(self) -> tuple[TrustItem, ...]:
        """List what is not trusted in its current form. Raises ConfigError."""
        status = self._trust_store.check(self.workspace, self._contents_by_name)
        if isinstance(status, Trusted):
            return ()
        names = {*status.new_names, *status.changed_names}
        return tuple(item for item in self.items if item.name in names)

    def grant(self) -> None:
        """Trust exactly the listed items, and nothing added later."""
        self._trust_store.grant(self.workspace, self._contents_by_name)

    def revoke(self) -> bool:
        return self._trust_store.revoke(self.workspace)

    @property
    def _contents_by_name(self) -> dict[str, bytes]:
        return {item.name: item.content for item in self.items}


__all__ = ["ServerAdmin", "ServerInfo", "ServerNotFoundError", "open_server_admin"]


def open_server_admin(
    workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
) -> ServerAdmin:
    """Open the servers of a workspace, to list and change them."""
    return ServerAdmin(workspace.resolve(), build_hub_config(*resolve_home_and_env(home, env)))
