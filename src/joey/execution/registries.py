"""Hosts of package registries and git remotes, as this machine is configured to use them.

Package managers are queried, and environment variables and the workspace's git remotes are read. No
host is built in. A workspace must not extend the result: programs run in the root directory, where
they see no project configuration, and are looked up only where commands cannot write. Remotes come
from `.git/config`, which commands cannot change either.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from joey.core.permissions.hosts import WEB_PORTS, parse_host
from joey.core.permissions.network import RegistryFamily, RegistryHost
from joey.core.text import compile_regex
from joey.execution.command_environment import build_command_environment
from joey.system import subprocess
from joey.system.files import keep_absolute_directories

log = logging.getLogger(__name__)

CACHE_SECONDS = 60.0
_QUERY_TIMEOUT_S = 10.0
_MAX_OUTPUT_BYTES = 64 * 1024
_NEUTRAL_DIRECTORY = Path("/")
_URL_RE = compile_regex(r"\b(?:sparse\+|git\+)?(https?://[^\s'\"<>|,)]+)")


class _Query(Struct, frozen=True):
    family: RegistryFamily
    command: tuple[str, ...]


_QUERIES = (
    _Query(RegistryFamily.NPM, ("npm", "config", "get", "registry")),
    _Query(RegistryFamily.NPM, ("yarn", "config", "get", "registry")),
    _Query(RegistryFamily.PIP, ("pip", "config", "list")),
    # Its help names the index in use, even the built-in one.
    _Query(RegistryFamily.PIP, ("pip", "install", "--help")),
    _Query(RegistryFamily.GO, ("go", "env", "GOPROXY")),
    _Query(RegistryFamily.GEM, ("gem", "sources", "--list")),
)
_HELP_DEFAULT_RE = compile_regex(r"\(default:?\s+(https?://[^\s)]+)\)")
_VARIABLES = {
    "npm_config_registry": RegistryFamily.NPM,
    "NPM_CONFIG_REGISTRY": RegistryFamily.NPM,
    "YARN_REGISTRY": RegistryFamily.NPM,
    "YARN_NPM_REGISTRY_SERVER": RegistryFamily.NPM,
    "PIP_INDEX_URL": RegistryFamily.PIP,
    "PIP_EXTRA_INDEX_URL": RegistryFamily.PIP,
    "UV_INDEX": RegistryFamily.PIP,
    "UV_INDEX_URL": RegistryFamily.PIP,
    "UV_DEFAULT_INDEX": RegistryFamily.PIP,
    "UV_EXTRA_INDEX_URL": RegistryFamily.PIP,
    "GOPROXY": RegistryFamily.GO,
    "CARGO_REGISTRY_DEFAULT": RegistryFamily.CARGO,
}
_CARGO_VARIABLE_RE = compile_regex(r"CARGO_REGISTRIES_[A-Z0-9_]+_INDEX")


class RegistryFinder:
    """Finds the hosts for one workspace, and caches them for a minute."""

    def __init__(
        self, workspace: Path, env: Mapping[str, str], writable: Iterable[Path] = ()
    ) -> None:
        """`writable` are directories besides the workspace that commands can change."""
        self._workspace = workspace
        self._env = env
        self._untrusted = tuple(each.resolve() for each in (workspace, *writable))
        self._found: tuple[RegistryHost, ...] = ()
        self._expires_at = 0.0
        self._lock = asyncio.Lock()

    async def find_hosts(self) -> tuple[RegistryHost, ...]:
        async with self._lock:
            if time.monotonic() >= self._expires_at:
                path = keep_absolute_directories(self._env.get("PATH", ""), outside=self._untrusted)
                queried = await asyncio.gather(
                    *(self._run_query(each, path) for each in _QUERIES),
                    self._list_git_remotes(path),
                )
                found = [*self._read_variables(), *(host for hosts in queried for host in hosts)]
                self._found = tuple(dict.fromkeys(found))
                self._expires_at = time.monotonic() + CACHE_SECONDS
            return self._found

    def _is_trusted(self, directory: str) -> bool:
        resolved = Path(directory).resolve()
        return not any(resolved.is_relative_to(each) for each in self._untrusted)

    def _read_variables(self) -> Iterator[RegistryHost]:
        for name, value in self._env.items():
            family = _VARIABLES.get(name)
            if family is None and _CARGO_VARIABLE_RE.fullmatch(name):
                family = RegistryFamily.CARGO
            if family is not None:
                yield from _parse_hosts(family, _URL_RE.findall(value))

    async def _run_query(self, query: _Query, path: str) -> list[RegistryHost]:
        text = await self._run_program(query.command, path, _NEUTRAL_DIRECTORY)
        pattern = _HELP_DEFAULT_RE if query.command[-1] == "--help" else _URL_RE
        return list(_parse_hosts(query.family, pattern.findall(text)))

    async def _list_git_remotes(self, path: str) -> list[RegistryHost]:
        """List the git remotes of the workspace, as rewritten by `insteadOf`."""
        quiet = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
        text = await self._run_program(("git", *quiet, "remote", "-v"), path, self._workspace)
        return list(_parse_hosts(RegistryFamily.GIT, _URL_RE.findall(text)))

    def _find_program(self, name: str, path: str) -> str | None:
        program = shutil.which(name, path=path)
        is_trusted = program is not None and self._is_trusted(os.path.realpath(program))
        return program if is_trusted else None

    async def _run_program(self, command: Sequence[str], path: str, directory: Path) -> str:
        """Return the output of a program; empty if it is not installed or fails."""
        program = self._find_program(command[0], path)
        if program is None:
            return ""
        try:
            completed = await subprocess.run(
                [program, *command[1:]],
                cwd=directory,
                env={**build_command_environment(self._env), "PATH": path},
                timeout_s=_QUERY_TIMEOUT_S,
                max_output_bytes=_MAX_OUTPUT_BYTES,
                output_grace_s=1.0,
            )
        except (OSError, ValueError) as error:
            log.info("%s could not be asked for its registry: %s", command[0], error)
            return ""
        return completed.stdout.decode(errors="replace") if completed.returncode == 0 else ""


def _parse_hosts(family: RegistryFamily, urls: Iterable[str]) -> Iterator[RegistryHost]:
    """Parse the hosts of URLs; those that are not valid as list entries are left out."""
    for url in urls:
        try:
            parts = urlsplit(url)
            name, port = parts.hostname or "", parts.port
            shown = f"[{name}]" if ":" in name else name
            entry = shown if port is None or port in WEB_PORTS else f"{shown}:{port}"
            parse_host(entry)
        except ValueError as error:
            log.info("an address of %s is not used: %s", family, error)
            continue
        yield RegistryHost(entry, family)
