"""Management of the MCP servers of a workspace: list, add, remove, test, log in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from joey.core.mcp import PROJECT_CONFIG_FILE, USER_CONFIG_FILES, McpServer
from joey.errors import ConfigError, UserError
from joey.mcp import connection
from joey.mcp.config import SERVERS_KEY, ServerConfig, parse_server
from joey.mcp.config_files import PRIVATE_FILE_MODE, ConfigFiles, read_servers, replace_json
from joey.mcp.hub import Hub
from joey.mcp.leases import HubConfig
from joey.mcp.login import Credentials, listening
from joey.mcp.process import ErrorContext, StderrTail, describe_error, first_cause
from joey.mcp.trust import wanted_of
from joey.ports.extensions import TrustItem
from joey.system.files import changing

_HIDES_USER_SERVER_TEXT = (
    "takes the place of your own server of this name, and what your settings allow it"
)
_PROJECT_FILE_MODE = 0o644
_TEST_TIMEOUT_S = 35.0
_LOGIN_TIMEOUT_S = 300.0


class ServerInfo(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A server as it is told of without starting it."""

    name: str
    source: str
    transport: str
    reached_by: str
    state: str
    """`not started`, `disabled` or `untrusted`."""
    logged_in: bool = False


class ServerNotFoundError(ConfigError):
    """No file names such a server, or not the file that was meant."""


class ServerAdmin:
    def __init__(self, workspace: Path, around: HubConfig) -> None:
        self._workspace = workspace
        self._around = around
        self._files = ConfigFiles(around.home, workspace, around.env)
        self._files.refresh()

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the files cannot be used."""
        return self._files.problems

    def listed(self) -> list[ServerInfo]:
        return [
            ServerInfo(
                name=config.name,
                source=config.source,
                transport=config.transport,
                reached_by=config.shown,
                state=self._state(config),
                logged_in=bool(self._credentials(config).load()),
            )
            for config in self._files.configs.values()
        ]

    def wanted(self) -> tuple[TrustItem, ...]:
        """What the workspace would run if it were trusted."""
        configs = self._files.configs.values()
        mine = (config for config in configs if config.source == "project")
        return tuple(item for config in mine for item in self._shown(config))

    def add(self, name: str, entry: dict[str, Any], *, project: bool) -> Path:
        """The file that it was written to.

        Raises:
            ConfigError: the entry is not one, or there is a server of this name.
        """
        try:
            parse_server(name, entry, "project" if project else "global", {})
        except ValueError as error:
            raise ConfigError(f"The server {name!r} cannot be added: {error}.") from error
        path = self._path(project)
        with self._changing():
            document = read_servers(path)
            group = _group(document, path)
            if name in group:
                raise ConfigError(f"There is a server {name!r} in {path} already; remove it first.")
            _write(path, {**document, SERVERS_KEY: {**group, name: entry}}, project)
        return path

    def remove(self, name: str, *, project: bool) -> Path:
        """The file that it was taken from: the project's, which others share, or one's own.

        Raises:
            ServerNotFoundError: there is none of this name.
            ConfigError
        """
        with self._changing():
            for path in self._paths(project):
                document = read_servers(path)
                group = _group(document, path)
                if name in group:
                    left = {other: entry for other, entry in group.items() if other != name}
                    _write(path, {**document, SERVERS_KEY: left}, project)
                    return path
        if not project and name in _group(read_servers(self._path(True)), self._path(True)):
            raise ServerNotFoundError(
                f"The server {name!r} is named in the project's file; --project removes it there."
            )
        raise ServerNotFoundError(f"There is no server {name!r}; see joey mcp list.")

    async def test(self, name: str) -> McpServer:
        """Start one server, and say how it stands.

        Raises:
            ServerNotFoundError: there is none of this name.
            ConfigError: its entry, or its file, cannot be used.
        """
        self._config(name)
        hub = Hub(self._workspace, self._around)
        try:
            await hub.settle(_TEST_TIMEOUT_S, only=name)
            return next(server for server in hub.servers if server.name == name)
        finally:
            await hub.close()

    async def login(self, name: str, show: Callable[[str], None]) -> int:
        """Log in at a server; `show` gets the address to open. How many tools it offers.

        Raises:
            UserError
        """
        config = self._config(name)
        if config.transport == "stdio":
            raise ConfigError(f"{name!r} is a program on this machine, and needs no login.")
        if self._state(config) == "untrusted":
            raise ConfigError(f"{name!r} belongs to this workspace, which is not trusted.")
        dialogue, oauth = await connection.load("session"), await connection.load("oauth")
        async with listening() as callback:
            auth = oauth.new_login(self._credentials(config), callback, show)
            links = dialogue.SessionContext(
                workspace=self._workspace,
                environment={},
                auth=auth,
                stderr_tail=StderrTail(),
                http_state=dialogue.HttpState(),
                on_end=lambda reason: None,
                on_change=lambda: None,
            )
            try:
                async with (
                    asyncio.timeout(_LOGIN_TIMEOUT_S),
                    dialogue.open_dialogue(config, links) as talk,
                ):
                    await talk.greet()
                    return len(await talk.tools())
            except TimeoutError as error:
                raise UserError(
                    f"Nobody logged in within {_LOGIN_TIMEOUT_S / 60:.0f} minutes."
                ) from error
            except Exception as error:
                if isinstance(cause := first_cause(error), UserError):
                    raise cause from error
                about = ErrorContext(status=links.http_state.status)
                raise UserError(
                    f"The login failed: {describe_error(error, about, name)}."
                ) from error

    def forget_login(self, name: str) -> bool:
        """Whether there was one."""
        return self._credentials(self._config(name)).forget()

    def _config(self, name: str) -> ServerConfig:
        config = self._files.configs.get(name)
        if config is not None:
            return config
        mine = [problem for problem in self._files.problems if f" {name!r} is left out" in problem]
        if problems := mine or self._files.broken:
            raise ConfigError("\n".join(problems))
        known = ", ".join(self._files.configs) or "none"
        raise ServerNotFoundError(f"There is no server {name!r}. Known ones: {known}.")

    def _credentials(self, config: ServerConfig) -> Credentials:
        return Credentials(self._around.home, config.entry.url or "")

    def _state(self, config: ServerConfig) -> str:
        if config.entry.disabled:
            return "disabled"
        if config.source == "project":
            wanted = {item.name: item.content for item in self._wanted(config)}
            if not self._around.trusts(self._workspace, wanted):
                return "untrusted"
        return "not started"

    def _shown(self, config: ServerConfig) -> Iterator[TrustItem]:
        server, *files = self._wanted(config)
        if self._files.is_own(config.name):
            server = structs.replace(server, details=(*server.details, _HIDES_USER_SERVER_TEXT))
        yield from (server, *files)

    def _wanted(self, config: ServerConfig) -> tuple[TrustItem, ...]:
        return wanted_of(config, self._workspace, self._around.environment)

    def _changing(self) -> AbstractContextManager[None]:
        """Of the project's file, too: its folder is not ours to make."""
        return changing(self._path(project=False))

    def _path(self, project: bool) -> Path:
        return self._paths(project)[0]

    def _paths(self, project: bool) -> tuple[Path, ...]:
        if project:
            return (self._workspace / PROJECT_CONFIG_FILE,)
        return tuple(self._around.home / name for name in USER_CONFIG_FILES)


def _group(document: dict[str, Any], path: Path) -> dict[str, Any]:
    group = document.get(SERVERS_KEY, {})
    if not isinstance(group, dict):
        raise ConfigError(f"{path}: `{SERVERS_KEY}` must be an object with one key per server.")
    return group


def _write(path: Path, document: dict[str, Any], project: bool) -> None:
    """Files of a project stay as readable as they are; the person's own are private."""
    mode = PRIVATE_FILE_MODE
    if project:
        mode = path.stat().st_mode & 0o777 if path.exists() else _PROJECT_FILE_MODE
    replace_json(path, document, mode)
