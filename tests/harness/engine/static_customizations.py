"""Customs that a test states instead of writing them to files."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from joey.core.modes import BUILT_IN_MODES, Instructions, Mode, Skill, SlashCommand
from joey.ports.extensions import Customizations


class StaticCustomizations(Struct, frozen=True, kw_only=True):
    modes: tuple[Mode, ...] = BUILT_IN_MODES
    slash_commands: tuple[SlashCommand, ...] = ()
    known_skills: tuple[Skill, ...] = ()

    def get_instructions(self, mode: Mode) -> Instructions:
        return Instructions()

    def list_commands(self) -> Sequence[SlashCommand]:
        return self.slash_commands

    def list_skills(self, mode: Mode) -> Sequence[Skill]:
        return [skill for skill in self.known_skills if mode.slug in (skill.modes or (mode.slug,))]

    def read_skill(self, skill: Skill) -> str:
        return f"How to {skill.name}."

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    def refresh(self) -> bool:
        """Nothing to read."""
        return False


_protocol_check: type[Customizations] = StaticCustomizations
