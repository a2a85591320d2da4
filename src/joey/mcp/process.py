"""Process of an MCP server: start and end, and the reasons for which it fails.

It gets its own session, an environment from an allow-list, and no terminal. On Linux the kernel
kills it when joey dies for any reason; elsewhere its standard input is closed, the usual signal for
servers to stop. The end of its standard error is kept for error messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from joey.mcp.config import ServerEntry, build_environment, find_program, resolve_cwd
from joey.system.files import PRIVATE_DIRECTORY_MODE, make_private_directory
from joey.system.subprocess import Process

_SETPRIV_PATHS = (Path("/usr/bin/setpriv"), Path("/bin/setpriv"))
_MAX_STDERR_BYTES = 4096


class LaunchError(Exception):
    """The server could not be started; the text says why."""


def launch_server(entry: ServerEntry, workspace: Path, environment: Mapping[str, str]) -> Process:
    """Raises LaunchError."""
    cwd = resolve_cwd(entry, workspace)
    env = build_environment(entry, environment)
    if not cwd.is_dir():
        raise LaunchError(f"its working directory {cwd} does not exist")
    program = find_program(entry.command or "", cwd, env)
    if program is None:
        raise LaunchError(f"the command {entry.command!r} was not found, or may not be executed")
    try:
        return Process(
            (*_build_death_signal_prefix(), program, *entry.args),
            cwd=cwd,
            env=env,
            has_stdin=True,
            has_stderr=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LaunchError(f"{entry.command!r} cannot be started: {reason}") from error


def make_default_cwd(directory: Path) -> None:
    """Raises LaunchError."""
    try:
        make_private_directory(directory.parent)
        directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            f"its directory {directory} cannot be created: {error.strerror}"
        ) from error


def _build_death_signal_prefix() -> tuple[str, ...]:
    if sys.platform != "linux":
        return ()
    tool = next((str(path) for path in _SETPRIV_PATHS if os.access(path, os.X_OK)), None)
    return () if tool is None else (tool, "--pdeathsig", "KILL", "--")


class StderrTail:
    """The end of a server's standard error, and how the server ended."""

    def __init__(self) -> None:
        self._tail = b""
        self.exit_code: int | None = None
        """How the program ended, if it did so by itself."""

    def feed(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_MAX_STDERR_BYTES:]

    @property
    def text(self) -> str:
        return self._tail.decode("utf-8", "replace").strip()


_MAX_STDERR_LINES = 8
_MAX_ERROR_CHARS = 1000
_CONNECTION_CLOSED_CODE = -32000
_CONNECTION_CLOSED_MESSAGE = "Connection closed"
"""What the library says when a connection ends; servers use the same code for other things."""


class ErrorContext(Struct):
    """Details known in addition to the error."""

    stderr_tail: StderrTail = field(default_factory=StderrTail)
    http_status: int = 0
    """Of the latest response that refused a request."""

    @property
    def exit_details(self) -> str:
        """The program's last output, after a dash."""
        code, ended = self.stderr_tail.exit_code, ""
        if code is not None:
            ended = f" (ended by signal {-code})" if code < 0 else f" (exit code {code})"
        lines = self.stderr_tail.text.splitlines()[-_MAX_STDERR_LINES:]
        output = "\n".join(lines)[-_MAX_ERROR_CHARS:]
        return f"{ended}; it said last: {output}" if output else ended


def describe_error(error: BaseException, context: ErrorContext, name: str = "") -> str:
    """Describe an error in a clause without a full stop."""
    error = find_first_cause(error)
    login = f"joey mcp login {name}"
    match type(error).__name__:
        case "LoginNeededError":
            return f"its login has expired; log in again: {login}"
        case "ValidationError":
            return "its response violates the protocol"
        case "ConnectError":
            return "no server listens at its address"
        case "MCPError" if str(error) == _CONNECTION_CLOSED_MESSAGE and context.http_status == 0:
            return f"the connection was closed{context.exit_details}"
    if context.http_status in (401, 403):
        return f"it requires a login (HTTP {context.http_status}): {login}"
    if context.http_status:
        return f"it answered with HTTP {context.http_status}"
    text = str(error).strip()[:_MAX_ERROR_CHARS] or type(error).__name__
    return f"{text.removesuffix('.')}{context.exit_details}"


def find_first_cause(error: BaseException) -> BaseException:
    """Find the first cause in the library's nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_connection_closed(error: BaseException) -> bool:
    """Whether the connection ended before the answer arrived."""
    error = find_first_cause(error)
    code: Any = getattr(error, "code", None)
    return type(error).__name__ == "MCPError" and code == _CONNECTION_CLOSED_CODE
