"""Models beside the task's own, for a mode or for summaries: other profiles, made on need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from joey.core.modes import Mode
from joey.errors import UserError
from joey.ports import Provider

SUMMARIES = "<summaries>"
"""No mode has such a slug."""


class ModeProviders:
    """One provider for each profile, kept until the task is closed."""

    def __init__(self, profiles: Mapping[str, str], make: Callable[[str], Provider]) -> None:
        self._profiles = profiles
        """Names of profiles by the slugs of modes, or by `SUMMARIES`."""
        self._make = make
        self._made: dict[str, Provider | None] = {}
        self._problems: dict[str, str] = {}

    def of(self, mode: Mode) -> Provider | None:
        """The mode's own; None when it has none, or none that can be used."""
        return self._by(mode.slug)

    def for_summaries(self) -> Provider | None:
        """The one that sums conversations up; None when that is the task's own."""
        return self._by(SUMMARIES)

    def _by(self, use: str) -> Provider | None:
        profile = self._profiles.get(use)
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

    def take_problem_of_summaries(self) -> str | None:
        problem = self._problems.pop(self._profiles.get(SUMMARIES, ""), None)
        if problem is None:
            return None
        return f"condensingProfile: the model of the task writes the summary. {problem}"

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
