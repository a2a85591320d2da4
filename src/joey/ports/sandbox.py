"""Confining commands by the operating system: how far it goes here, and how it is asked for."""

from __future__ import annotations

from asyncio import SubprocessProtocol
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Level(StrEnum):
    FULL = "full"
    """Namespaces: what is outside is not there."""
    LANDLOCK = "landlock"
    """Rules of the kernel about files, signals and system calls."""
    NONE = "none"


class SandboxReport(Struct, frozen=True):
    """What works on this machine, found out by trying it."""

    level: Level
    reasons: dict[str, str] = {}
    """Why a better level does not work, by its name."""
    gaps: tuple[str, ...] = ()
    """What this level does not hold here, in sentences for a person."""


class Leash(Protocol):
    """What a confined command is started with, and held by."""

    async def start(self, protocol: SubprocessProtocol) -> None:
        """Start it, and wait until the command itself runs. Its process, which has no input and one
        output, tells `protocol` about itself.

        Raises:
            OSError: no process could be started.
            ToolError: it could not be confined, and nothing of it was run.
        """
        ...

    def notes(self) -> list[str]:
        """New sentences about what was refused, for whoever reads the output."""
        ...

    def is_slack(self) -> bool:
        """Whether nothing is left inside."""
        ...

    def terminate(self) -> None:
        """SIGTERM to everything inside."""
        ...

    def kill(self) -> None:
        """End everything inside at once; also what happens when joey dies."""
        ...

    def close(self) -> None:
        """Let go: like `kill`, with nobody to see when it is done."""
        ...


class Sandbox(Protocol):
    """Confines the commands of one task."""

    def expect(self) -> None:
        """A command will come soon: make ready for it, in the background and in silence."""
        ...

    async def probe(self) -> SandboxReport:
        """What works here; tried once in a process, when it is first asked."""
        ...

    async def confine(
        self, shell: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> Leash | None:
        """How to start `shell` in `cwd`; None when nothing works here and a person may decide.

        Raises:
            ToolError: it may not run unconfined, or `cwd` is not to be seen from inside.
        """
        ...

    def spare(self, path: Path) -> None:
        """joey has just written this itself, with leave: no command is taken for its maker."""
        ...

    async def close(self) -> None:
        """Remove the task's private temporary folder."""
        ...
