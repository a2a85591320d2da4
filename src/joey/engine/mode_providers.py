"""A model of its own for a mode: providers of other profiles than the task's, made on need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from joey.core.modes import Mode
from joey.errors import UserError
from joey.ports import Provider


class ModeProviders:
    """One provider for each profile, kept until the task is closed."""

    def __init__(self, profiles: Mapping[str, str], make: Callable[[str], Provider]) -> None:
        self._profiles = profiles
        """Names of profiles by the slugs of modes."""
        self._make = make
        self._made: dict[str, Provider | None] = {}
        self._problems: dict[str, str] = {}

    def of(self, mode: Mode) -> Provider | None:
        """The mode's own; None when it has none, or none that can be used."""
        profile = self._profiles.get(mode.slug)
        if profile is None:
            return None
        if profile not in self._made:
            self._made[profile] = self._try_to_make(profile)
        return self._made[profile]

    def take_problem(self, mode: Mode) -> str | None:
        """Why the mode does without its own provider, once."""
        problem = self._problems.pop(self._profiles.get(mode.slug, ""), None)
        if problem is None:
            return None
        return (
            f"modeApiConfigs: {mode.name} mode goes on with the model of the task. {problem}"
            " Correct the setting or the profile; it counts when the task is opened again."
        )

    def _try_to_make(self, profile: str) -> Provider | None:
        try:
            return self._make(profile)
        except UserError as error:
            self._problems[profile] = str(error)
            return None

    async def close(self) -> None:
        made = [provider for provider in self._made.values() if provider is not None]
        self._made.clear()
        await asyncio.gather(*(provider.close() for provider in made))
