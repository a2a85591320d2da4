"""Terminals with fork servers, and what these leave behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil

from joey.core.settings import Settings
from joey.execution.sandbox.sandbox import (
    LocalSandbox,
    SandboxBackend,
    SandboxConfig,
    SandboxProbeResult,
)
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel, SandboxReport


def list_fork_servers() -> list[int]:
    """Processes of ours that start supervisors."""
    found = psutil.Process().children()
    return [
        one.pid
        for one in found
        if any("sandbox.forkserver" in word for word in _read_command_line(one))
    ]


def _read_command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []  # It ended meanwhile.


async def wait_for_spare() -> int:
    """The only supervisor that is left, once what it needs has been started."""
    async with asyncio.timeout(20):
        while True:
            servers = map(psutil.Process, list_fork_servers())
            supervisors = [each for server in servers for each in server.children()]
            if len(supervisors) == 1 and is_ready(supervisors[0]):
                return int(supervisors[0].pid)
            await asyncio.sleep(0.01)


def is_ready(supervisor: psutil.Process) -> bool:
    try:
        names = [each.name() for each in supervisor.children()]
    except psutil.Error:
        return False  # It ended meanwhile.
    return len(names) > names.count("bwrap")


def leftovers(directory: Path) -> list[Path]:
    return list(directory.glob("joey-*"))


class FixedProber:
    def __init__(self, confinement: SandboxBackend) -> None:
        self._confinement = confinement

    def find_likely_level(self) -> SandboxLevel:
        return SandboxLevel.FULL

    def find_available(self) -> SandboxProbeResult:
        return SandboxProbeResult(SandboxReport(self._confinement.level), self._confinement)


def made(tmp_path: Path, confinement: SandboxBackend, settings: Settings) -> LocalTerminal:
    home = tmp_path / ".roo"
    home.mkdir(exist_ok=True)
    session = SandboxConfig(workspace=tmp_path, joey_home=home, env=os.environ)
    held = LocalSandbox(session, settings, lambda: FixedProber(confinement))
    return LocalTerminal(sandbox=held, kill_grace=10)


async def output(terminal: LocalTerminal, cwd: Path, command: str) -> str:
    running = await terminal.start(command, cwd, None)
    async with asyncio.timeout(20):
        end = await running.wait()
    assert end is not None
    return f"{running.render_truncated(1000)}{end.exit_code}"
