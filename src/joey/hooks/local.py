"""The person's hooks, and those of a project that the person has trusted.

A project's hooks are looked at again each time one is due: what was changed since it was trusted
does not run, and counts as a hook that failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from joey.core.hooks import Hook, HookCall, HookEnd, HookReport, joined, report
from joey.hooks.process import Surroundings, run_hook
from joey.ports.extensions import Hooks, ProjectHooks

Trusts = Callable[[Mapping[str, bytes]], bool]
"""Whether the person has agreed to these things of the project, byte for byte."""
_CHANGED = "it was changed since you trusted it (`joey trust` shows and asks)"
_UNTRUSTED = (
    "The hooks of .roo/hooks.json are not used, because you have not trusted them as they"
    " are now (`joey trust` shows and asks)."
)


class LocalHooks:
    def __init__(
        self,
        own: tuple[Hook, ...],
        find: Callable[[], ProjectHooks],
        trusts: Trusts,
        place: Surroundings,
    ) -> None:
        """`find` reads what the project has; it is called in a thread."""
        self._own = own
        self._find = find
        self._trusts = trusts
        self._place = place
        self._found = ProjectHooks()
        self._project: tuple[Hook, ...] = ()
        """Those that were trusted when the run began."""
        self._warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    async def refresh(self) -> None:
        found, trusted = await asyncio.to_thread(self._look)
        self._found = found
        self._project = found.hooks if trusted else ()
        untrusted = (_UNTRUSTED,) if found.hooks and not trusted else ()
        self._warnings = (*found.warnings, *untrusted)

    async def run(self, about: HookCall, names: Sequence[str]) -> HookReport:
        own = [hook for hook in self._own if hook.concerns(about.event, names)]
        projects = [hook for hook in self._project if hook.concerns(about.event, names)]
        if not own and not projects:
            return HookReport()
        given = msgspec.json.encode(about) + b"\n"
        reports: list[HookReport] = []
        for number, hook in enumerate((*own, *projects)):
            if number >= len(own) and not await asyncio.to_thread(self._is_as_trusted):
                end = HookEnd(trouble=_CHANGED)
            else:
                end = await run_hook(hook, given, self._place)
            reports.append(report(hook, end))
            if reports[-1].blocks is not None:
                break
        return joined(reports)

    def _look(self) -> tuple[ProjectHooks, bool]:
        found = self._find()
        return found, bool(found.hooks) and self._trusts(_contents(found))

    def _is_as_trusted(self) -> bool:
        found, trusted = self._look()
        return trusted and found == self._found


def _contents(found: ProjectHooks) -> dict[str, bytes]:
    return {item.name: item.content for item in found.wanted}


_fits: type[Hooks] = LocalHooks
