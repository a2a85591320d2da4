"""The sandbox of a task's commands, and the same boundary for its file tools.

Which sandbox works is probed once per process; the sandbox itself is built for each task.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from joey.core.path_access import DirectoryBoundary, FileScope
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.execution.sandbox.sandbox import (
    LocalSandbox,
    SandboxBackend,
    SandboxBoundary,
    SandboxConfig,
    SandboxProbe,
    explain_no_sandbox,
)
from joey.ports.execution import Sandbox, SandboxLevel, SandboxReport
from joey.ports.workspace import Boundary

if TYPE_CHECKING:
    from joey.execution.sandbox.seatbelt import Seatbelt

_prober_lock = threading.Lock()


def build_sandbox(
    workspace: Path,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    added: tuple[Path, ...] = (),
) -> Sandbox | None:
    """Build the sandbox, or None if the user turned it off; `added` directories are writable like
    the workspace."""
    if settings.sandbox == "off":
        return None
    return LocalSandbox(
        _build_sandbox_config(workspace, home, env, settings, added), settings, get_prober
    )


def build_boundary(
    workspace: Path, home: Path, env: Mapping[str, str], settings: Settings, scope: FileScope
) -> Boundary:
    """Build the boundary of file tools. With `-y` it is what the sandbox shows to commands, whether
    or not these are sandboxed."""
    if not scope.matches_sandbox:
        return DirectoryBoundary((Path(os.path.realpath(workspace)), *scope.added_directories))
    session = _build_sandbox_config(workspace, home, env, settings, scope.added_directories)
    reads_all = settings.always_allow_read_only_outside_workspace
    return SandboxBoundary(session, reads_all=reads_all)


def _build_sandbox_config(
    workspace: Path,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    added: tuple[Path, ...],
) -> SandboxConfig:
    return SandboxConfig(
        workspace=workspace,
        joey_home=home,
        env=env,
        readable_paths=settings.sandbox_readable,
        writable_paths=settings.sandbox_writable,
        added_directories=added,
    )


def detect_sandbox() -> SandboxReport:
    """Detect which sandbox works on this machine; the first call takes a moment."""
    return get_prober().find_available().report


def find_likely_sandbox(settings: Settings) -> SandboxStatus:
    """Estimate how commands will be sandboxed, without trying."""
    return "off" if settings.sandbox == "off" else get_prober().find_likely_level().value


def describe_remedy(platform: str) -> str:
    """Return what a user can do if no sandbox works on a system."""
    without = "add --no-sandbox if the model may use this machine without limits."
    return f"Install bubblewrap, or {without}" if platform == "linux" else without.capitalize()


async def check_unattended_sandbox(settings: Settings) -> None:
    """Reject a run that allows everything if no sandbox works, unless the user turned the sandbox
    off. Raises ConfigError."""
    if find_likely_sandbox(settings) != "none":
        return  # It is still probed before the first command.
    report = await asyncio.to_thread(detect_sandbox)
    if report.level is SandboxLevel.NONE:
        raise ConfigError(
            "-y lets the model run every command without asking, and nothing would keep these from "
            f"your files, keys and network: {explain_no_sandbox(report)} "
            f"{describe_remedy(sys.platform)}"
        )


def get_prober() -> SandboxProbe:
    with _prober_lock:  # concurrent commands share one probe
        return _build_prober()


@cache
def _build_prober() -> SandboxProbe:
    # Imported late: only needed to run a command or probe the sandbox.
    from joey.execution.sandbox.probe import CanaryProbe

    return CanaryProbe(build_backends(sys.platform))


def build_backends(platform: str) -> tuple[SandboxBackend | Seatbelt, ...]:
    """Build the sandbox backends of a system, the best first."""
    if platform == "darwin":
        from joey.execution.sandbox.seatbelt import Seatbelt

        return (Seatbelt(),)
    from joey.execution.sandbox.bubblewrap import Bubblewrap
    from joey.execution.sandbox.landlock import Landlock

    return (Bubblewrap(), Landlock())
