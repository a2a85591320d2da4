"""The terminal of one task: its commands on this machine, those that run and those left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from joey.errors import ToolError
from joey.ports import Leash, RunningCommand, Sandbox, SandboxReport, Terminal
from joey.system.subprocess import begun
from joey.terminals.command import LocalCommand
from joey.terminals.environment import command_environment
from joey.terminals.processes import MARK, end_processes, find_processes

KILL_GRACE = 2.0
EXIT_GRACE = 0.2
BASHES = (Path("/bin/bash"), Path("/usr/bin/bash"), Path("/usr/local/bin/bash"))
"""Looked for here first: the shell that runs approved commands is not to be found by accident."""


class LocalTerminal:
    """Runs the commands of one task with a fixed shell that reads no start-up files."""

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        sandbox: Sandbox | None = None,
        kill_grace: float = KILL_GRACE,
        exit_grace: float = EXIT_GRACE,
    ) -> None:
        source = os.environ if env is None else env
        self._env = command_environment(source)
        self._sandbox = sandbox
        self._outer_marks = source.get(MARK, "")
        self._mark = f"{token_hex(16)}."
        self._shell = find_shell(self._env.get("PATH"))
        self._kill_grace = kill_grace
        self._exit_grace = exit_grace
        self._started = 0
        self._commands: list[LocalCommand] = []

    @property
    def running(self) -> Sequence[RunningCommand]:
        return [command for command in self._commands if command.is_listed]

    def leave_running(self) -> bool:
        left = [command for command in self._commands if command.leave()]
        return bool(left)

    async def kill_running(self) -> None:
        awaited = [command for command in self._commands if command.is_awaited]
        await asyncio.gather(*(command.kill() for command in awaited))

    def expect(self) -> None:
        if self._sandbox is not None:
            self._sandbox.expect()

    async def start(
        self,
        command: str,
        cwd: Path,
        artifact: Path | None,
        on_output: Callable[[str], None] | None = None,
    ) -> RunningCommand:
        self._forget()
        self._started += 1
        mark = f"{self._mark}{self._started}"
        running = LocalCommand(
            command, cwd, mark, artifact, on_output, self._kill_grace, self._exit_grace
        )
        await self._spawn(running, mark)
        self._commands.append(running)
        return running

    async def confinement(self) -> SandboxReport | None:
        return None if self._sandbox is None else await self._sandbox.probe()

    async def close(self) -> None:
        try:
            if self._started:
                await self._end_all()
        finally:
            if self._sandbox is not None:
                await self._sandbox.close()

    async def _end_all(self) -> None:
        try:
            await asyncio.gather(
                *(command.kill() for command in self._commands if not command.is_forgettable)
            )
        finally:
            # Children that were sent to the background with their output elsewhere.
            await end_processes(lambda: find_processes(self._mark), self._kill_grace)
        self._forget()

    def _forget(self) -> None:
        for command in self._commands:
            if command.is_forgettable:
                command.release()
        self._commands = [command for command in self._commands if not command.is_forgettable]

    async def _spawn(self, running: LocalCommand, mark: str) -> None:
        env = {**self._env, MARK: f"{self._outer_marks}:{mark}".lstrip(":")}
        shell = (*self._shell, running.command)
        try:
            running.leash = await self._leash(shell, running.cwd, env)
            if running.leash is not None:
                await running.leash.start(running)
                return
            await begun(
                asyncio.get_running_loop().subprocess_exec(
                    lambda: running,
                    *shell,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=running.cwd,
                    env=env,
                    start_new_session=True,
                )
            )
            await asyncio.sleep(0)  # who was cancelled meanwhile hears of it here
        except (OSError, ValueError) as error:
            running.abandon()
            raise ToolError(_why_not(running, error)) from error
        except BaseException:
            running.abandon()
            raise

    async def _leash(self, shell: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Leash | None:
        if self._sandbox is None:
            return None
        return await self._sandbox.confine(shell, cwd, env)


def find_shell(path: str | None) -> tuple[str, ...]:
    """The shell and its options; `--` keeps a command that begins with `-` a command."""
    found = next((str(place) for place in BASHES if place.exists()), None)
    bash = found or shutil.which("bash", path=path)
    if bash is None:
        return ("/bin/sh", "-c", "--")
    return (bash, "--noprofile", "--norc", "-c", "--")


def _why_not(running: LocalCommand, error: OSError | ValueError) -> str:
    if not running.cwd.is_dir():
        return f"Working directory '{running.cwd}' does not exist."
    if isinstance(error, ValueError):
        return f"The command holds characters that no command line can carry: {error}."
    size = len(running.command.encode())
    return (
        f"The command could not be started: {error.strerror}. It is {size} bytes long; if that is"
        " more than the system takes (usually 128 KiB), write it to a file and run the file."
    )


_fits: type[Terminal] = LocalTerminal
