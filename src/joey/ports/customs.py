"""Modes, rules, slash commands and skills, as the user and the project have written them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from joey.core.customs import Instructions, Skill, SlashCommand
from joey.core.modes import Mode


class Customs(Protocol):
    """What was on disk when it was last read: the same objects until `refresh` says otherwise."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Built-in and custom ones, in the order they are offered; never empty."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be used, and why: for the person, one line each."""
        ...

    def instructions(self, mode: Mode) -> Instructions: ...

    def commands(self) -> Sequence[SlashCommand]:
        """One for each name, sorted by name; a project's own hide the person's."""
        ...

    def skills(self, mode: Mode) -> Sequence[Skill]:
        """Those that may be used in this mode: one for each name, sorted by name."""
        ...

    def skill_text(self, skill: Skill) -> str:
        """The instructions themselves, without front matter.

        Raises:
            ToolError: the file is gone or cannot be read.
        """
        ...

    def refresh(self) -> bool:
        """Look whether a file was changed, and if so read everything again: a run begins.

        True when something is different now. It looks at files: call it in a thread.
        """
        ...
