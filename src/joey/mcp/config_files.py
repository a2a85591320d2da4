"""Files that name MCP servers: the user's own, and those of the workspace.

Looking for changes costs a few `stat` calls. A file that stops being valid JSON changes nothing:
the servers loaded from it before stay in use, and the error is reported. Files are replaced
atomically.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from joey.core.mcp import SERVER_WORKING_DIRECTORY, list_config_paths
from joey.errors import ConfigError
from joey.mcp.config import SERVERS_KEY, ParsedServers, ServerConfig, parse_servers, set_aside
from joey.system.files import FileFingerprint, make_private_directory, stamp

MAX_FILE_BYTES = 1024 * 1024
EXTRA_SERVERS_PATH = Path("given")
"""In place of a file, for servers that no file names."""


def read_servers(path: Path) -> dict[str, Any]:
    """The JSON object in a regular file of sane size; empty when there is no file.

    Raises:
        ConfigError: naming the file and what is wrong with it.
    """
    data = _read(path)
    try:
        value = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{path}{where}: not valid JSON. Correct it.") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object: {{ … }}.")
    return value


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is not a file of at most 1 MiB.")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES).removeprefix(b"\xef\xbb\xbf")
    finally:
        os.close(descriptor)


class ConfigFiles:
    """All servers that a workspace may use."""

    def __init__(
        self,
        home: Path,
        workspace: Path,
        env: Mapping[str, str],
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """`given` are servers of the person's own that no file names; nothing is filled in, and
        they start in the workspace: whoever gives them has opened it."""
        self.workspace = workspace
        self._given = parse_servers(
            {SERVERS_KEY: dict(given or {})}, "global", EXTRA_SERVERS_PATH, {}
        )
        self._is_new = bool(given)
        self._variables = {**env, "workspaceFolder": str(workspace)}
        self._aside = home / SERVER_WORKING_DIRECTORY
        self._user_home = Path(env["HOME"]) if env.get("HOME") else Path.home()
        self.paths = list_config_paths(home, workspace)
        self.project, *self._user = self.paths
        self._stamps: dict[Path, FileFingerprint] = {}
        self._loaded: dict[Path, ParsedServers] = {}
        self._broken: dict[Path, str] = {}

    @property
    def configs(self) -> dict[str, ServerConfig]:
        """The project's first; one of its servers hides the person's of the same name. What was
        given hides both."""
        merged = dict(self._given.configs)
        for path in self.paths:
            for name, config in self._loaded.get(path, ParsedServers()).configs.items():
                merged.setdefault(name, config)
        return merged

    def is_own(self, name: str) -> bool:
        """Whether the person has a server of this name, hidden or not."""
        return any(name in self._loaded.get(path, ParsedServers()).configs for path in self._user)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why servers, or whole files, are left out."""
        left_out = (self._loaded.get(path, ParsedServers()).problems for path in self.paths)
        of_files = (problem for some in left_out for problem in some)
        return (*self.broken, *of_files, *self._given.problems)

    @property
    def broken(self) -> tuple[str, ...]:
        """What is wrong with whole files."""
        return tuple(self._broken.values())

    def refresh(self) -> bool:
        """Read what changed since the last time; whether anything did."""
        changed = [path for path in self._sources() if self._stamps.get(path) != stamp(path)]
        for path in changed:
            self._stamps[path] = stamp(path)
            self._load(path)
        is_new, self._is_new = self._is_new, False
        return is_new or bool(changed)

    def _sources(self) -> Iterable[Path]:
        """Where the person's folder *is* the workspace's, its file is the person's."""
        own = any(path == self.project or _same(path, self.project) for path in self._user)
        return self._user if own else self.paths

    def _load(self, path: Path) -> None:
        try:
            document = read_servers(path)
        except ConfigError as error:
            self._broken[path] = str(error)
            return
        self._broken.pop(path, None)
        if path not in self._user:
            self._loaded[path] = parse_servers(document, "project", path, self._variables)
            return
        own = parse_servers(document, "global", path, self._variables)
        placed = {
            name: set_aside(config, self._aside, self._user_home)
            for name, config in own.configs.items()
        }
        self._loaded[path] = ParsedServers(placed, own.problems)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


PRIVATE_FILE_MODE = 0o600


def replace_json(path: Path, value: dict[str, Any], mode: int = PRIVATE_FILE_MODE) -> None:
    """Write `value`; folders that are missing are made, for their owner alone.

    Raises:
        ConfigError: it cannot be written; what was there is untouched.
    """
    data = json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        if mode == PRIVATE_FILE_MODE:
            make_private_directory(path.parent)
        else:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(".tmp", ".joey-", path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
