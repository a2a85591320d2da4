"""The terminal of one task: starts its shell commands and keeps those left in the background.

The shell is fixed and reads no start-up files.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from joey.core.check_commands import PIPELINE_REPORT, hides_failures
from joey.core.permissions.hosts import NetworkSetting
from joey.errors import ToolError
from joey.execution.command import LocalCommand
from joey.execution.command_environment import build_command_environment
from joey.ports.execution import RunningCommand, Sandbox, SandboxReport, Terminal
from joey.system.subprocess import (
    MARKER_VARIABLE,
    Process,
    find_processes,
    terminate_processes,
)

if TYPE_CHECKING:
    from joey.core.permissions.network import RegistryHost

KILL_GRACE_S = 2.0
EXIT_GRACE_S = 0.2
BASH_PATHS = (Path("/bin/bash"), Path("/usr/bin/bash"), Path("/usr/local/bin/bash"))
"""Looked for here first: the shell that runs approved commands is not to be found by accident."""


class LocalTerminal:
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
        self.is_sandbox_explained = False
        self._started_count = 0
        self._commands: list[LocalCommand] = []

    @property
    def background_commands(self) -> Sequence[RunningCommand]:
        return [command for command in self._commands if command.is_listed_as_background]

    def detach_foreground(self) -> bool:
        return bool([command for command in self._commands if command.detach()])

    def prewarm(self) -> None:
        if self._sandbox is not None:
            self._sandbox.prewarm()

    async def start(
        self,
        command: str,
        cwd: Path,
        artifact: Path | None,
        on_output: Callable[[str], None] | None = None,
        network: NetworkSetting | None = None,
        *,
        preamble: str = "",
    ) -> RunningCommand:
        self._discard_finished()
        self._started_count += 1
        marker = f"{self._marker_prefix}{self._started_count}"
        running = LocalCommand(
            command, cwd, marker, artifact, on_output, self._kill_grace_s, self._exit_grace_s
        )
        await self._spawn(running, marker, network, preamble)
        self._commands.append(running)
        return running

    async def get_sandbox_report(self) -> SandboxReport | None:
        return None if self._sandbox is None else await self._sandbox.probe()

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        return () if self._sandbox is None else await self._sandbox.find_registries()

    def is_hidden(self, path: Path) -> bool:
        return self._sandbox is not None and self._sandbox.is_hidden(path)

    def is_private(self, path: Path) -> bool:
        return self._sandbox is not None and self._sandbox.is_private(path)

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
            # Background children whose output goes elsewhere.
            await terminate_processes(
                lambda: find_processes(self._marker_prefix), self._kill_grace_s
            )
        self._discard_finished()

    def _discard_finished(self) -> None:
        for command in self._commands:
            if command.can_discard:
                command.close_confined_process()
        self._commands = [command for command in self._commands if not command.can_discard]

    async def _spawn(
        self, running: LocalCommand, marker: str, network: NetworkSetting | None, preamble: str
    ) -> None:
        env = {**self._env, MARKER_VARIABLE: f"{self._outer_markers}:{marker}".lstrip(":")}
        shell = (*self._shell_arguments, preamble + self._add_pipeline_report(running.command))
        try:
            if self._sandbox is not None:
                running.confined_process = await self._sandbox.confine(
                    shell, running.cwd, env, network
                )
            if running.confined_process is not None:
                await running.confined_process.start(running)
                return
            running.attach(
                Process(shell, cwd=running.cwd, env=env, merge_stderr=True, reaps_at_exit=True)
            )
            await asyncio.sleep(0)  # cancellation is raised here
        except (OSError, ValueError) as error:
            await running.abort_start()
            raise ToolError(_describe_start_error(running, error)) from error
        except BaseException:
            await running.abort_start()
            raise

    def _add_pipeline_report(self, command: str) -> str:
        is_bash = Path(self._shell_arguments[0]).name == "bash"
        return command + _PIPELINE_REPORT if is_bash and hides_failures(command) else command


_PIPELINE_REPORT = f"""
set -- "$?" "${{PIPESTATUS[@]}}"; IFS=' '; for joey_code in "${{@:2:$#-2}}"; do
case $joey_code in 0 | 141) ;; *)
echo "{PIPELINE_REPORT}${{*:2}}. The last one is that of the command.]" >&2
break ;; esac; done; exit "$1"
"""
"""Tells of a program that failed before the last one of a pipeline; 141 is SIGPIPE."""


def find_shell(path: str | None) -> tuple[str, ...]:
    """Return the shell and its options; after `--`, a command may begin with `-`."""
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
