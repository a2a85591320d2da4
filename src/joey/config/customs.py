"""Everything that files say to the agent: modes, rules, slash commands, skills.

One reading takes all of it in at once, and nothing of it changes afterwards: whoever asks twice
in a run gets the same objects. A reading is repeated only when something that it looked at is
not what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from joey.config.mode_trust import Trusts, usable_modes, wanted_modes
from joey.config.modes import load_modes
from joey.config.project_settings import read_tightening
from joey.config.rules import Rules
from joey.config.scopes import Scopes, find_scopes, nested_scopes
from joey.config.sightings import Sightings
from joey.config.skills import FoundSkill, load_skills, read_skill, skills_for
from joey.config.slash_commands import load_commands
from joey.config.trust import FILE as TRUST
from joey.core.customs import Instructions, Skill, SlashCommand
from joey.core.modes import Mode, all_modes
from joey.core.settings import Settings
from joey.ports import Customs
from joey.ports.extensions import Wanted


def _trusts_nothing(_: Mapping[str, bytes]) -> bool:
    return False


class Places(Struct, frozen=True):
    """Where to look."""

    workspace: Path
    home: Path
    """`JOEY_HOME`, the person's `.roo`."""
    user_home: Path
    hides: Callable[[Path], bool]
    """What the project keeps from the model; links must not get around it."""
    trusts: Trusts = _trusts_nothing
    """What of the project the person has agreed to."""


class _Reading(Struct, frozen=True):
    modes: tuple[Mode, ...]
    instructions: Mapping[str, Instructions]
    commands: tuple[SlashCommand, ...]
    skills: tuple[FoundSkill, ...]
    warnings: tuple[str, ...]


def read_modes(places: Places, settings: Settings) -> tuple[Mode, ...]:
    """The modes alone, for those who need nothing else."""
    return _modes(places, scopes_of(places), settings, Sightings())


def trusted_parts(places: Places) -> tuple[Wanted, ...]:
    """The project's modes, as far as trust in them matters."""
    return wanted_modes(load_modes(scopes_of(places), Sightings()))


class LocalCustoms:
    def __init__(self, places: Places, settings: Settings) -> None:
        self._places = places
        self._settings = settings
        self._sightings, self._reading = self._read()

    @property
    def modes(self) -> tuple[Mode, ...]:
        return self._reading.modes

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._reading.warnings

    def instructions(self, mode: Mode) -> Instructions:
        return self._reading.instructions.get(mode.slug) or Instructions()

    def commands(self) -> tuple[SlashCommand, ...]:
        return self._reading.commands

    def skills(self, mode: Mode) -> tuple[Skill, ...]:
        return skills_for(self._reading.skills, mode.slug)

    def skill_text(self, skill: Skill) -> str:
        return read_skill(self._reading.skills, skill)

    def refresh(self) -> bool:
        if self._sightings.unchanged():
            return False
        self._sightings, reading = self._read()
        if reading == self._reading:
            return False
        self._reading = reading
        return True

    def _read(self) -> tuple[Sightings, _Reading]:
        places, settings = self._places, self._settings
        sightings = Sightings()
        scopes = scopes_of(places)
        nested = nested_scopes(scopes, sightings) if settings.enable_subfolder_rules else ()
        modes = _modes(places, scopes, settings, sightings)
        read_tightening(scopes, sightings)
        rules = Rules(scopes, nested, sightings, agents=settings.use_agent_rules)
        reading = _Reading(
            modes=modes,
            instructions={mode.slug: rules.of(mode.slug) for mode in modes},
            commands=load_commands(scopes, sightings),
            skills=load_skills(scopes, sightings),
            warnings=sightings.warnings,
        )
        return sightings, reading


def _modes(
    places: Places, scopes: Scopes, settings: Settings, sightings: Sightings
) -> tuple[Mode, ...]:
    found = load_modes(scopes, sightings)
    usable = usable_modes(found, settings, places.trusts, sightings)
    if usable != found:
        sightings.is_file(places.home / TRUST)  # trust that comes later counts, too
    return all_modes(usable, settings.custom_mode_prompts)


def scopes_of(places: Places) -> Scopes:
    return find_scopes(
        workspace=places.workspace,
        home=places.home,
        user_home=places.user_home,
        hides=places.hides,
    )


_fits: type[Customs] = LocalCustoms
