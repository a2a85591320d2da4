"""Files that name MCP servers: the user's own, and those of the workspace.

Looking for changes costs a few `stat` calls. A file that stops being valid JSON changes nothing:
the servers loaded from it before stay in use, and the error is reported. Files are replaced
atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from joey.core.mcp import SERVER_WORKING_DIRECTORY_NAME, list_config_paths
from joey.errors import ConfigError
from joey.mcp.config import (
    SERVERS_KEY,
    ParsedServers,
    ServerConfig,
    apply_default_cwd,
    parse_servers,
)
from joey.system.files import (
    PRIVATE_FILE_MODE,
    FileFingerprint,
    NotRegularFileError,
    make_private_directory,
    open_regular_file,
    read_fingerprint,
    replace_file,
)

MAX_FILE_BYTES = 1024 * 1024
EXTRA_SERVERS_PSEUDO_PATH = Path("given")
"""Used in place of a path for servers that are not configured in a file."""


def read_config_file(path: Path) -> dict[str, Any]:
    """Read the JSON object in a regular file of limited size; empty if there is no file. Raises
    ConfigError, which names the file and the problem."""
    data = _read_bytes(path)
    try:
        value = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{path}{where}: not valid JSON. Correct it.") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object: {{ … }}.")
    return value


def _read_bytes(path: Path) -> bytes:
    try:
        with open_regular_file(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (IsADirectoryError, NotRegularFileError):
        raise ConfigError(f"{path} is not a file of at most 1 MiB.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is not a file of at most 1 MiB.")
    return data.removeprefix(b"\xef\xbb\xbf")


class ConfigFiles:
    """All servers that a workspace may use."""

    def __init__(
        self,
        home: Path,
        workspace: Path,
        env: Mapping[str, str],
        extra_servers: Mapping[str, Any] | None = None,
    ) -> None:
        """`extra_servers` are servers of the user that no file names; nothing is substituted, and
        they start in the workspace, which their user has opened."""
        self.workspace = workspace
        self._extra_servers = parse_servers(
            {SERVERS_KEY: dict(extra_servers or {})}, "global", EXTRA_SERVERS_PSEUDO_PATH, {}
        )
        self._has_new_extra_servers = bool(extra_servers)
        self._variables = {**env, "workspaceFolder": str(workspace)}
        self._default_cwd = home / SERVER_WORKING_DIRECTORY_NAME
        self._user_home = Path(env["HOME"]) if env.get("HOME") else Path.home()
        self.paths = list_config_paths(home, workspace)
        self.project_path, *self._user_paths = self.paths
        self._fingerprints: dict[Path, FileFingerprint] = {}
        self._servers_by_path: dict[Path, ParsedServers] = {}
        self._errors_by_path: dict[Path, str] = {}

    @property
    def configs(self) -> dict[str, ServerConfig]:
        """Servers by precedence: extra ones, then the project's, then the user's; the first of a
        name counts."""
        merged = dict(self._extra_servers.configs)
        for path in self.paths:
            for name, config in self._servers_by_path.get(path, ParsedServers()).configs.items():
                merged.setdefault(name, config)
        return merged

    def is_user_server(self, name: str) -> bool:
        """Whether the user has a server of this name, hidden or not."""
        return any(
            name in self._servers_by_path.get(path, ParsedServers()).configs
            for path in self._user_paths
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers, or whole files, are left out."""
        return (
            *self.file_errors,
            *(text for each in self._sources for text in each.problems.values()),
        )

    def find_server_problems(self, name: str) -> tuple[str, ...]:
        """Find why a server is left out."""
        return tuple(each.problems[name] for each in self._sources if name in each.problems)

    @property
    def _sources(self) -> tuple[ParsedServers, ...]:
        read = (self._servers_by_path[path] for path in self.paths if path in self._servers_by_path)
        return (*read, self._extra_servers)

    @property
    def file_errors(self) -> tuple[str, ...]:
        """Errors of whole files."""
        return tuple(self._errors_by_path.values())

    def refresh(self) -> bool:
        """Read changed files; False if nothing changed."""
        changed = [
            path
            for path in self._list_source_paths()
            if self._fingerprints.get(path) != read_fingerprint(path)
        ]
        for path in changed:
            self._fingerprints[path] = read_fingerprint(path)
            self._load_file(path)
        has_new, self._has_new_extra_servers = self._has_new_extra_servers, False
        return has_new or bool(changed)

    def _list_source_paths(self) -> Iterable[Path]:
        """List the files. If the user's directory is the workspace's, its file counts as the
        user's."""
        is_project_user_file = any(
            path == self.project_path or _is_same_file(path, self.project_path)
            for path in self._user_paths
        )
        return self._user_paths if is_project_user_file else self.paths

    def _load_file(self, path: Path) -> None:
        try:
            document = read_config_file(path)
        except ConfigError as error:
            self._errors_by_path[path] = str(error)
            return
        self._errors_by_path.pop(path, None)
        if path not in self._user_paths:
            self._servers_by_path[path] = parse_servers(document, "project", path, self._variables)
            return
        user_servers = parse_servers(document, "global", path, self._variables)
        configs = {
            name: apply_default_cwd(config, self._default_cwd, self._user_home)
            for name, config in user_servers.configs.items()
        }
        self._servers_by_path[path] = ParsedServers(configs, user_servers.problems)


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second)
    except OSError:
        return False


def write_json_atomically(path: Path, value: dict[str, Any], mode: int = PRIVATE_FILE_MODE) -> None:
    """Write `value`; missing directories are created for their owner only. Raises ConfigError if it
    cannot be written; then the old file is unchanged."""
    data = json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        if mode == PRIVATE_FILE_MODE:
            make_private_directory(path.parent)
        else:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(path, data, mode)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
