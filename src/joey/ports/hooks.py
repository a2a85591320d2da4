"""Hooks: the person's own commands at certain moments of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from joey.core.hooks import Hook, HookCall, HookReport
from joey.ports.trust import Wanted


class ProjectHooks(Struct, frozen=True):
    """What a project wants to have run, trusted or not."""

    hooks: tuple[Hook, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    """What trust in them is bound to."""
    warnings: tuple[str, ...] = ()


class Hooks(Protocol):
    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not used, and why: for the person."""
        ...

    async def refresh(self) -> None:
        """Look at the project's hooks again: a run begins."""
        ...

    async def run(self, about: HookCall, names: Sequence[str]) -> HookReport:
        """Run the hooks for this moment and tool one after the other, until one blocks.

        `names` are all that the tool goes by. Raises nothing; cancelling it kills what runs.
        """
        ...
