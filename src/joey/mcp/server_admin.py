"""Management of the MCP servers of a workspace: list, add, remove, test, log in.

Connections to servers are loaded only by the methods that open one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from joey.core.mcp import PROJECT_CONFIG_FILE, USER_CONFIG_FILE_NAMES, McpServer, McpStatus
from joey.errors import ConfigError, UserError
from joey.mcp.config import SERVERS_KEY, ServerConfig, parse_server
from joey.mcp.config_files import ConfigFiles, read_config_file, write_json_atomically
from joey.mcp.leases import HubConfig
from joey.mcp.trust import list_trust_items
from joey.ports.extensions import TrustItem
from joey.system.files import PRIVATE_FILE_MODE
from joey.system.locks import lock_for_update

if TYPE_CHECKING:
    from joey.mcp.login import Credentials

_HIDES_USER_SERVER_TEXT = (
    "replaces your own server of this name and inherits what your settings allow it"
)
_PROJECT_FILE_MODE = 0o644
_TEST_TIMEOUT_S = 35.0
_LOGIN_TIMEOUT_S = 300.0


class ServerInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A server as described without starting it."""

    name: str
    source: str
    transport: str
    reached_by: str
    state: str
    """`not started`, `disabled` or `untrusted`."""
    logged_in: bool = False


class ServerNotFoundError(ConfigError):
    """No file, or not the given one, names such a server."""


class ServerAdmin:
    def __init__(self, workspace: Path, hub_config: HubConfig) -> None:
        self._workspace = workspace
        self._hub_config = hub_config
        self._config_files = ConfigFiles(hub_config.joey_home, workspace, hub_config.env)
        self._config_files.refresh()

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the files."""
        return self._config_files.problems

    def list_servers(self) -> list[ServerInfo]:
        return [
            ServerInfo(
                name=config.name,
                source=config.source,
                transport=config.transport,
                reached_by=config.display_target,
                state=self._get_state(config),
                logged_in=bool(config.entry.url and self._get_credentials(config).load()),
            )
            for config in self._config_files.configs.values()
        ]

    def list_trust_items(self) -> tuple[TrustItem, ...]:
        """List what the workspace would run if it were trusted."""
        configs = self._config_files.configs.values()
        project_configs = (config for config in configs if config.source == "project")
        found: list[TrustItem] = []
        for config in project_configs:
            server, *files = self._list_config_trust_items(config)
            if self._config_files.is_user_server(config.name):
                server = structs.replace(server, details=(*server.details, _HIDES_USER_SERVER_TEXT))
            found += (server, *files)
        return tuple(found)

    def add(self, name: str, entry: dict[str, Any], *, project: bool) -> Path:
        """Add a server and return the file. Raises ConfigError if the entry is invalid or the name
        is taken."""
        try:
            parse_server(name, entry, "project" if project else "global", {})
        except ValueError as error:
            raise ConfigError(f"The server {name!r} cannot be added: {error}.") from error
        path = self._get_config_path(project)
        with self._lock_config():
            document, group = _read_server_entries(path)
            if name in group:
                raise ConfigError(f"There is a server {name!r} in {path} already; remove it first.")
            _write_config(path, {**document, SERVERS_KEY: {**group, name: entry}}, project)
        return path

    def remove(self, name: str, *, project: bool) -> Path:
        """Remove a server and return the file: the project's shared one or the user's own. Raises
        ServerNotFoundError if there is none of this name, ConfigError."""
        with self._lock_config():
            for path in self._list_config_paths(project):
                document, group = _read_server_entries(path)
                if name in group:
                    del group[name]
                    _write_config(path, {**document, SERVERS_KEY: group}, project)
                    return path
        if not project and name in _read_server_entries(self._get_config_path(True))[1]:
            raise ServerNotFoundError(
                f"The server {name!r} is configured in the project's file; use --project to "
                f"remove it there."
            )
        raise ServerNotFoundError(f"There is no server {name!r}; see joey mcp list.")

    async def test_server(self, name: str) -> McpServer:
        """Start one server and report its state. Raises ServerNotFoundError if there is none of
        this name, ConfigError if its entry or file cannot be used."""
        from joey.mcp.hub import Hub

        self._require_config(name)
        hub = Hub(self._workspace, self._hub_config)
        try:
            await hub.wait_until_ready(_TEST_TIMEOUT_S, only_server=name)
            return next(server for server in hub.servers if server.name == name)
        finally:
            await hub.close()

    async def log_in(self, name: str, show_url: Callable[[str], None]) -> int:
        """Log in at a server and return the number of its tools; `show_url` gets the address to
        open. Raises UserError."""
        import asyncio

        from joey.mcp import connection
        from joey.mcp.login import open_callback_server
        from joey.mcp.process import ErrorContext, StderrTail, describe_error, find_first_cause

        config = self._require_config(name)
        if config.transport == "stdio":
            raise ConfigError(f"{name!r} runs on this machine and needs no login.")
        if self._get_state(config) == McpStatus.UNTRUSTED:
            raise ConfigError(f"{name!r} belongs to this workspace, which is not trusted.")
        session_module = await connection.load_module("session")
        oauth = await connection.load_module("oauth")
        async with open_callback_server() as callback:
            auth = oauth.build_login_auth(self._get_credentials(config), callback, show_url)
            session_context = session_module.SessionContext(
                workspace=self._workspace,
                server_environment={},
                auth=auth,
                stderr_tail=StderrTail(),
                http_state=session_module.HttpState(),
                on_end=lambda reason: None,
                on_list_changed=lambda: None,
            )
            try:
                async with (
                    asyncio.timeout(_LOGIN_TIMEOUT_S),
                    session_module.open_session(config, session_context) as session,
                ):
                    await session.initialize()
                    return len(await session.list_tools())
            except TimeoutError as error:
                raise UserError(
                    f"No login was completed within {_LOGIN_TIMEOUT_S / 60:.0f} minutes."
                ) from error
            except Exception as error:
                if isinstance(cause := find_first_cause(error), UserError):
                    raise cause from error
                error_context = ErrorContext(http_status=session_context.http_state.error_status)
                raise UserError(
                    f"The login failed: {describe_error(error, error_context, name)}."
                ) from error

    def discard_login(self, name: str) -> bool:
        """Discard the login; False if there was none."""
        return self._get_credentials(self._require_config(name)).discard()

    def _require_config(self, name: str) -> ServerConfig:
        config = self._config_files.configs.get(name)
        if config is not None:
            return config
        files = self._config_files
        if problems := files.find_server_problems(name) or files.file_errors:
            raise ConfigError("\n".join(problems))
        known = ", ".join(self._config_files.configs) or "none"
        raise ServerNotFoundError(f"There is no server {name!r}. Known ones: {known}.")

    def _get_credentials(self, config: ServerConfig) -> Credentials:
        from joey.mcp.login import Credentials

        return Credentials(self._hub_config.joey_home, config.entry.url or "")

    def _get_state(self, config: ServerConfig) -> str:
        if config.entry.disabled:
            return McpStatus.DISABLED
        if config.source == "project":
            contents = {item.name: item.content for item in self._list_config_trust_items(config)}
            if not self._hub_config.is_trusted(self._workspace, contents):
                return McpStatus.UNTRUSTED
        return "not started"

    def _list_config_trust_items(self, config: ServerConfig) -> tuple[TrustItem, ...]:
        return list_trust_items(config, self._workspace, self._hub_config.server_environment)

    def _lock_config(self) -> AbstractContextManager[None]:
        """Lock a file, also a project's, whose directory must not be created."""
        return lock_for_update(self._get_config_path(project=False))

    def _get_config_path(self, project: bool) -> Path:
        return self._list_config_paths(project)[0]

    def _list_config_paths(self, project: bool) -> tuple[Path, ...]:
        if project:
            return (self._workspace / PROJECT_CONFIG_FILE,)
        return tuple(self._hub_config.joey_home / name for name in USER_CONFIG_FILE_NAMES)


def _read_server_entries(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the document in a file, and its server entries."""
    document = read_config_file(path)
    group = document.get(SERVERS_KEY, {})
    if not isinstance(group, dict):
        raise ConfigError(f"{path}: `{SERVERS_KEY}` must be an object with one key per server.")
    return document, group


def _write_config(path: Path, document: dict[str, Any], project: bool) -> None:
    """Write a file. A project's file keeps its permissions; the user's own are private."""
    mode = PRIVATE_FILE_MODE
    if project:
        mode = path.stat().st_mode & 0o777 if path.exists() else _PROJECT_FILE_MODE
    write_json_atomically(path, document, mode)
