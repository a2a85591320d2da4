"""The terminal of one task: starts its shell commands and keeps those left in the background.

The shell is fixed and reads no start-up files. Commands get an environment from an allow-list of
names; each value is checked again, because a secret may hide behind a harmless prefix or inside
the URL of a proxy. Hooks and MCP servers get the same environment (`build_command_environment`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from joey.core.redaction import has_secret_name
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.execution.command import LocalCommand
from joey.ports.execution import ConfinedProcess, RunningCommand, Sandbox, SandboxReport, Terminal
from joey.system.subprocess import (
    MARKER_VARIABLE,
    Process,
    find_processes,
    terminate_processes,
)

KILL_GRACE_S = 2.0
EXIT_GRACE_S = 0.2
BASH_PATHS = (Path("/bin/bash"), Path("/usr/bin/bash"), Path("/usr/local/bin/bash"))
"""Looked for here first: the shell that runs approved commands is not to be found by accident."""


class LocalTerminal:
    """Runs the commands of one task with a fixed shell that reads no start-up files."""

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        sandbox: Sandbox | None = None,
        kill_grace: float = KILL_GRACE_S,
        exit_grace: float = EXIT_GRACE_S,
    ) -> None:
        source = os.environ if env is None else env
        self._env = build_command_environment(source)
        self._sandbox = sandbox
        self._outer_markers = source.get(MARKER_VARIABLE, "")
        self._marker_prefix = f"{token_hex(16)}."
        self._shell_arguments = find_shell(self._env.get("PATH"))
        self._kill_grace_s = kill_grace
        self._exit_grace_s = exit_grace
        self._started_count = 0
        self._commands: list[LocalCommand] = []

    @property
    def background_commands(self) -> Sequence[RunningCommand]:
        return [command for command in self._commands if command.is_listed_as_background]

    def detach_foreground(self) -> bool:
        left = [command for command in self._commands if command.detach()]
        return bool(left)

    def prewarm(self) -> None:
        if self._sandbox is not None:
            self._sandbox.prewarm()

    async def start(
        self,
        command: str,
        cwd: Path,
        artifact: Path | None,
        on_output: Callable[[str], None] | None = None,
    ) -> RunningCommand:
        self._discard_finished()
        self._started_count += 1
        marker = f"{self._marker_prefix}{self._started_count}"
        running = LocalCommand(
            command, cwd, marker, artifact, on_output, self._kill_grace_s, self._exit_grace_s
        )
        await self._spawn(running, marker)
        self._commands.append(running)
        return running

    async def get_sandbox_report(self) -> SandboxReport | None:
        return None if self._sandbox is None else await self._sandbox.probe()

    async def close(self) -> None:
        try:
            if self._started_count:
                await self._kill_all()
        finally:
            if self._sandbox is not None:
                await self._sandbox.close()

    async def _kill_all(self) -> None:
        try:
            await asyncio.gather(
                *(command.kill() for command in self._commands if not command.can_discard)
            )
        finally:
            # Children that were sent to the background with their output elsewhere.
            await terminate_processes(
                lambda: find_processes(self._marker_prefix), self._kill_grace_s
            )
        self._discard_finished()

    def _discard_finished(self) -> None:
        for command in self._commands:
            if command.can_discard:
                command.close_confined_process()
        self._commands = [command for command in self._commands if not command.can_discard]

    async def _spawn(self, running: LocalCommand, marker: str) -> None:
        env = {**self._env, MARKER_VARIABLE: f"{self._outer_markers}:{marker}".lstrip(":")}
        shell = (*self._shell_arguments, running.command)
        try:
            running.confined_process = await self._confine(shell, running.cwd, env)
            if running.confined_process is not None:
                await running.confined_process.start(running)
                return
            running.attach(
                Process(shell, cwd=running.cwd, env=env, merge_stderr=True, reaps_at_exit=True)
            )
            await asyncio.sleep(0)  # who was cancelled meanwhile hears of it here
        except (OSError, ValueError) as error:
            await running.abort_start()
            raise ToolError(_describe_start_error(running, error)) from error
        except BaseException:
            await running.abort_start()
            raise

    async def _confine(
        self, shell: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> ConfinedProcess | None:
        if self._sandbox is None:
            return None
        return await self._sandbox.confine(shell, cwd, env)


def find_shell(path: str | None) -> tuple[str, ...]:
    """The shell and its options; `--` keeps a command that begins with `-` a command."""
    found = next((str(place) for place in BASH_PATHS if place.exists()), None)
    bash = found or shutil.which("bash", path=path)
    if bash is None:
        return ("/bin/sh", "-c", "--")
    return (bash, "--noprofile", "--norc", "-c", "--")


def _describe_start_error(running: LocalCommand, error: OSError | ValueError) -> str:
    if not running.cwd.is_dir():
        return f"Working directory '{running.cwd}' does not exist."
    if isinstance(error, ValueError):
        return f"The command holds characters that no command line can carry: {error}."
    size = len(running.command.encode())
    return (
        f"The command could not be started: {error.strerror}. It is {size} bytes long; if that is"
        " more than the system takes (usually 128 KiB), write it to a file and run the file."
    )


_protocol_check: type[Terminal] = LocalTerminal


_ALLOWED_VARIABLES = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM COLUMNS LINES TZ TMPDIR TMP TEMP HOSTNAME
    DISPLAY WAYLAND_DISPLAY EDITOR VISUAL MANPATH INFOPATH LD_LIBRARY_PATH LIBRARY_PATH CPATH
    PKG_CONFIG_PATH CC CXX CFLAGS CXXFLAGS LDFLAGS MAKEFLAGS CMAKE_PREFIX_PATH
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE
    VIRTUAL_ENV PYENV_ROOT PYENV_VERSION PYTHONPATH PYTHONIOENCODING PYTHONUTF8 UV_CACHE_DIR
    PIP_CACHE_DIR POETRY_HOME CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE MAMBA_ROOT_PREFIX
    NVM_DIR NVM_BIN NVM_INC NODE_PATH FNM_DIR FNM_MULTISHELL_PATH VOLTA_HOME PNPM_HOME
    BUN_INSTALL DENO_DIR DENO_INSTALL COREPACK_HOME
    CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS
    JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME SDKMAN_DIR ANDROID_HOME
    ANDROID_SDK_ROOT KOTLIN_HOME DOTNET_ROOT RBENV_ROOT RUBY_VERSION GEM_HOME GEM_PATH
    ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR
    HOMEBREW_REPOSITORY CI
    http_proxy https_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
)
_ALLOWED_VARIABLE_PREFIXES = ("LC_", "XDG_")
_URL_WITH_CREDENTIALS_RE = compile_regex(r"(?:^|//)[^/\s]+@")

_FIXED_VARIABLES = {
    "JOEY_ACTIVE": "1",
    "ROO_ACTIVE": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""By the first two, programs know that an agent has started them (Roo Code sets its own to this
very word). Nobody can scroll a pager or type a password: both would only wait."""


def build_command_environment(source: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in source.items() if _is_safe_variable(name, value)}
    for name in _ABSOLUTE_PATH_LIST_VARIABLES & kept.keys():
        kept[name] = _drop_relative_entries(kept[name])
    for name in _SEARCH_PATH_VARIABLES & kept.keys():
        # An empty entry is the folder that the command is in, and is hardly ever meant.
        kept[name] = ":".join(filter(None, kept[name].split(":")))
        if not kept[name]:
            del kept[name]
    return {"TERM": "dumb", **kept, **_FIXED_VARIABLES}


_ABSOLUTE_PATH_LIST_VARIABLES = frozenset({"PATH", "LD_LIBRARY_PATH"})
_SEARCH_PATH_VARIABLES = frozenset(
    ("PYTHONPATH", "NODE_PATH", "LIBRARY_PATH", "CPATH", "GEM_PATH", "LD_LIBRARY_PATH")
)


def _drop_relative_entries(path: str) -> str:
    """A PATH whose entries are the same everywhere: with `.` in it, a rule for `git` would run, or
    load, whatever a folder of the workspace calls so."""
    return ":".join(entry for entry in path.split(":") if entry.startswith("/"))


def _is_safe_variable(name: str, value: str) -> bool:
    if name.lower().endswith("_proxy") and "@" in value:
        return False  # a login, be it ever so badly written
    listed = name in _ALLOWED_VARIABLES or name.startswith(_ALLOWED_VARIABLE_PREFIXES)
    return listed and not has_secret_name(name) and not _URL_WITH_CREDENTIALS_RE.search(value)
