"""Modes, rules, slash commands and skills, as the user and the project have written them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from joey.core.customs import Instructions, Skill, SlashCommand
from joey.core.modes import Mode


class Customs(Protocol):
    """What was on disk when it was last read; the same until `refresh`."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Built-in and custom ones, in the order they are offered."""
        ...

    def instructions(self, mode: Mode) -> Instructions: ...

    def commands(self) -> Sequence[SlashCommand]: ...

    def skills(self, mode: Mode) -> Sequence[Skill]:
        """Those that may be used in this mode."""
        ...

    def skill_text(self, skill: Skill) -> str:
        """The instructions themselves, without front matter.

        Raises:
            ToolError: the file is gone or cannot be read.
        """
        ...

    def refresh(self) -> None:
        """Read everything again: a run begins, or somebody changed a file."""
        ...
