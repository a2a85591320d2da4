"""Ports of command execution: the terminal, its sandbox, the shell's grammar.

The grammar is a second, independent parser for commands that would run without approval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from joey.core.permissions.shell import CommandChain

if TYPE_CHECKING:
    from asyncio import SubprocessProtocol

    from joey.core.permissions.hosts import NetworkSetting
    from joey.core.permissions.network import RegistryHost


class CommandExit(Struct, frozen=True):
    exit_code: int | None
    signal: str | None = None
    has_background_processes: bool = False
    """The shell has ended, but processes that it put in the background have not."""


class RunningCommand(Protocol):
    """A process group. Output is collected whether or not it is read."""

    pid: int
    command: str
    cwd: Path
    artifact: Path | None
    """Where all of its output is kept."""
    is_expected_to_end: bool
    """It went to the background only because it took long: a run without a user waits for it."""
    is_end_recorded: bool
    """The history of the task has its exit code or signal."""

    @property
    def is_running(self) -> bool:
        """Whether the shell, or a background process that it left, is running."""

    @property
    def is_listening(self) -> bool:
        """Whether one of its processes accepts TCP connections, as servers do."""

    @property
    def running_s(self) -> float:
        """Seconds since it was started."""

    @property
    def exit(self) -> CommandExit | None: ...

    @property
    def output_bytes(self) -> int: ...

    def render_truncated(self, budget: int) -> str:
        """Return decoded output within `budget` bytes: all of it, or head and tail around a
        note."""

    def read_new_output(self) -> str:
        """Return the output since the last call (for environment details), bounded."""

    async def wait(self, timeout_s: float | None = None) -> CommandExit | None:
        """Wait for the end; None after `timeout_s` seconds (the command keeps running). Cancelling
        this kills the command, unless it is in the background."""

    async def wait_for_processes(self, timeout_s: float) -> None:
        """Wait until nothing of it `is_running`, but no longer than `timeout_s` seconds."""

    def detach(self) -> bool:
        """Let waiting callers continue as if their timeout had expired; False if none waits."""

    async def kill(self) -> CommandExit:
        """Send SIGTERM to the group, SIGKILL to whatever is left, and reap it."""


class Terminal(Protocol):
    def prewarm(self) -> None:
        """Prepare for a command that is expected soon. Returns at once."""

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
        """Run `command` with bash, stdin closed, both outputs merged; `preamble` is shell code that
        runs before it. `artifact` receives every byte of the output. `on_output` gets decoded text
        as it arrives. `network` is what it may reach; None uses the settings."""

    @property
    def background_commands(self) -> Sequence[RunningCommand]:
        """The background commands of this task, finished or not."""

    def detach_foreground(self) -> bool:
        """Move the commands that are waited for to the background; False if there are none."""

    is_sandbox_explained: bool
    """The model has been told what the sandbox bars."""

    async def get_sandbox_report(self) -> SandboxReport | None:
        """Return how commands are sandboxed here; None if the user has turned that off."""

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        """Find the hosts that `registries` means; none without a sandbox."""

    def is_hidden(self, path: Path) -> bool:
        """Whether the path exists but is hidden from sandboxed commands."""

    def is_private(self, path: Path) -> bool:
        """Whether sandboxed commands have a private file at the path: in their `$TMPDIR`."""

    async def close(self) -> None:
        """Kill everything that is still running."""


class SandboxLevel(StrEnum):
    FULL = "full"
    """Namespaces: what is outside is not there."""
    LANDLOCK = "landlock"
    """Rules of the kernel about files, signals and system calls."""
    SEATBELT = "seatbelt"
    """A profile of macOS; not yet tried on hardware."""
    NONE = "none"


class SandboxReport(Struct, frozen=True):
    """The sandbox that works on this machine, determined by probing."""

    level: SandboxLevel
    unavailable_reasons: dict[str, str] = {}
    """Why a better level does not work, by its name."""
    confinement_gaps: tuple[str, ...] = field(default=(), name="gaps")
    """What this level does not hold here, in sentences for a user."""


class ConfinedProcess(Protocol):
    """A sandboxed process: how to start and control it."""

    async def start(self, protocol: SubprocessProtocol) -> None:
        """Start it, and wait until the command itself runs. Its process, which has no input and one
        output, reports events to `protocol`. Raises OSError if no process could be started,
        ToolError if it could not be sandboxed and no part of it was run."""

    def take_denial_messages(self) -> list[str]:
        """Take new sentences about denied accesses, for readers of the output."""

    def has_no_processes(self) -> bool:
        """Whether no process is left inside."""

    def terminate(self) -> None:
        """Send SIGTERM to everything inside."""

    def kill(self) -> None:
        """Kill everything inside at once, as also happens when joey dies."""

    def close(self) -> None:
        """Release it: like `kill`, without waiting for the end."""


class Sandbox(Protocol):
    """Sandboxes the commands of one task."""

    def prewarm(self) -> None:
        """Prepare quietly in the background for a command that is expected soon."""

    async def probe(self) -> SandboxReport:
        """Probe what works here, once per process."""

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        """Find the hosts that `registries` means; programs are run, which may take a second."""

    async def confine(
        self,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        network: NetworkSetting | None = None,
    ) -> ConfinedProcess | None:
        """Prepare to start `shell` in `cwd`, with the settings' network unless another one is
        given; None if no sandbox works and a user may decide. Raises ToolError if it may not run
        without a sandbox, or `cwd` is not visible inside."""

    def is_hidden(self, path: Path) -> bool:
        """Whether the path exists but is hidden from commands."""

    def is_private(self, path: Path) -> bool:
        """Whether commands have a private file at the path: in their `$TMPDIR`."""

    def mark_own_write(self, path: Path) -> None:
        """Mark a file that joey itself has just written, so that it is not attributed to a
        command."""

    async def close(self) -> None:
        """Remove the task's private temporary directory."""


class ShellGrammar(Protocol):
    def parse_chain(self, line: str) -> CommandChain | None:
        """Parse a line made only of plain words into commands; None for any other line. Callers
        treat any exception as "not proven"."""
