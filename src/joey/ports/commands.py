"""Running commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from joey.ports.sandbox import SandboxReport


class CommandEnd(Struct, frozen=True):
    exit_code: int | None
    signal: str | None = None
    left_running: bool = False
    """The shell has ended, but processes that it put in the background have not."""


class RunningCommand(Protocol):
    """A process group of our own. Output is collected whether or not anybody looks."""

    pid: int
    command: str
    cwd: Path

    @property
    def end(self) -> CommandEnd | None: ...

    @property
    def total_bytes(self) -> int: ...

    def preview(self, budget: int) -> str:
        """Decoded output within `budget` bytes: all of it, or head and tail around a note."""
        ...

    def take_new(self) -> str:
        """Output since the last call (for environment details), bounded."""
        ...

    async def wait(self, patience: float | None = None) -> CommandEnd | None:
        """The end, or None when `patience` seconds passed first (it keeps running)."""
        ...

    def leave(self) -> bool:
        """Let whoever waits for it go on, as if their patience were over; False when nobody has
        to wait any more."""
        ...

    async def kill(self) -> CommandEnd:
        """SIGTERM to the group, SIGKILL to whatever is left, and reap it."""
        ...


class Terminal(Protocol):
    def expect(self) -> None:
        """A command will come soon: what takes a while can be begun. Returns at once."""
        ...

    async def start(
        self,
        command: str,
        cwd: Path,
        artifact: Path | None,
        on_output: Callable[[str], None] | None = None,
    ) -> RunningCommand:
        """Run `command` with bash, stdin closed, both outputs merged.

        `artifact` receives every byte of the output. `on_output` gets decoded text as it comes.
        """
        ...

    @property
    def running(self) -> Sequence[RunningCommand]:
        """Commands of this task that were left in the background, finished or not."""
        ...

    def leave_running(self) -> bool:
        """Leave the commands that are waited for in the background; False when there are none."""
        ...

    async def kill_running(self) -> None:
        """Kill the commands that are waited for: whoever waits hears how they have ended."""
        ...

    async def confinement(self) -> SandboxReport | None:
        """How far commands are confined here; None when the person has switched that off."""
        ...

    async def close(self) -> None:
        """Kill everything that is still running."""
        ...
