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
    """A process group of our own. Output is collected whether or not anybody looks."""

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
        """Whether the shell runs, or a process that it left in the background."""

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
        """Decoded output within `budget` bytes: all of it, or head and tail around a note."""

    def read_new_output(self) -> str:
        """Output since the last call (for environment details), bounded."""

    async def wait(self, timeout_s: float | None = None) -> CommandExit | None:
        """The end, or None when `timeout_s` seconds passed first (it keeps running). To cancel this
        kills the command, unless it is in the background."""

    async def wait_for_processes(self, timeout_s: float) -> None:
        """Wait until nothing of it `is_running`, but no longer than `timeout_s` seconds."""

    def detach(self) -> bool:
        """Let whoever waits for it go on, as if their patience were over; False when nobody has
        to wait any more."""

    async def kill(self) -> CommandExit:
        """SIGTERM to the group, SIGKILL to whatever is left, and reap it."""


class Terminal(Protocol):
    def prewarm(self) -> None:
        """A command will come soon: what takes a while can be begun. Returns at once."""

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
        """Run `command` with bash, stdin closed, both outputs merged; `preamble` is shell code
        that runs before it. `artifact` receives every byte of the output. `on_output` gets decoded
        text as it comes. `network` is what it may reach; None: what the settings say."""

    @property
    def background_commands(self) -> Sequence[RunningCommand]:
        """Commands of this task that were left in the background, finished or not."""

    def detach_foreground(self) -> bool:
        """Leave the commands that are waited for in the background; False when there are none."""

    is_sandbox_explained: bool
    """The model has been told what the sandbox bars."""

    async def get_sandbox_report(self) -> SandboxReport | None:
        """How far commands are confined here; None when the user has switched that off."""

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        """The hosts that `registries` stands for; none without a sandbox."""

    def is_hidden(self, path: Path) -> bool:
        """Whether the path exists, but not for sandboxed commands."""

    def is_private(self, path: Path) -> bool:
        """Whether sandboxed commands have a file of their own at the path: in their `$TMPDIR`."""

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
    """What works on this machine, found out by trying it."""

    level: SandboxLevel
    unavailable_reasons: dict[str, str] = {}
    """Why a better level does not work, by its name."""
    confinement_gaps: tuple[str, ...] = field(default=(), name="gaps")
    """What this level does not hold here, in sentences for a user."""


class ConfinedProcess(Protocol):
    """What a confined command is started with, and held by."""

    async def start(self, protocol: SubprocessProtocol) -> None:
        """Start it, and wait until the command itself runs. Its process, which has no input and one
        output, tells `protocol` about itself. Raises OSError: no process could be started;
        ToolError: it could not be confined, and nothing of it was run."""

    def take_denial_messages(self) -> list[str]:
        """New sentences about what was refused, for whoever reads the output."""

    def has_no_processes(self) -> bool:
        """Whether nothing is left inside."""

    def terminate(self) -> None:
        """SIGTERM to everything inside."""

    def kill(self) -> None:
        """End everything inside at once; also what happens when joey dies."""

    def close(self) -> None:
        """Let go: like `kill`, with nobody to see when it is done."""


class Sandbox(Protocol):
    """Confines the commands of one task."""

    def prewarm(self) -> None:
        """A command will come soon: make ready for it, in the background and in silence."""

    async def probe(self) -> SandboxReport:
        """What works here; tried once in a process, when it is first asked."""

    async def find_registries(self) -> tuple[RegistryHost, ...]:
        """The hosts that `registries` stands for; programs are asked, which may take a second."""

    async def confine(
        self,
        shell: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        network: NetworkSetting | None = None,
    ) -> ConfinedProcess | None:
        """How to start `shell` in `cwd`, with the network of the settings unless another one is
        given; None when nothing works here and a user may decide. Raises
        ToolError: it may not run unconfined, or `cwd` is not to be seen from inside."""

    def is_hidden(self, path: Path) -> bool:
        """Whether the path exists, but not for commands."""

    def is_private(self, path: Path) -> bool:
        """Whether commands have a file of their own at the path: in their `$TMPDIR`."""

    def mark_own_write(self, path: Path) -> None:
        """joey has just written this itself, with leave: no command is taken for its maker."""

    async def close(self) -> None:
        """Remove the task's private temporary folder."""


class ShellGrammar(Protocol):
    def parse_chain(self, line: str) -> CommandChain | None:
        """The commands of a line made of plain words alone; None when it holds anything else.
        Whatever it raises means the same to those who ask: not proven."""
