"""Modes of a project that a person has to trust before they are used.

A mode decides which tools there are; the rules still judge each call. So a new mode is harmless
where somebody is asked. One that takes the place of a built-in mode and may do more is not what
the person thinks they chose, and where nobody is asked no mode of a stranger's is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from joey.config.modes import PROJECT_FILE
from joey.config.sightings import Sightings
from joey.core.modes import BUILT_IN, Mode, find_mode, may_do_more
from joey.core.permissions.decisions import ANYTHING
from joey.core.settings import Settings
from joey.ports.extensions import Wanted

Trusts = Callable[[Mapping[str, bytes]], bool]
"""Whether the person has agreed to these things of the project, byte for byte."""


def usable_modes(
    found: tuple[Mode, ...], settings: Settings, trusts: Trusts, sightings: Sightings
) -> tuple[Mode, ...]:
    """Without those of the project that need trust and have none; each is told."""
    unasked = _asks_nothing(settings)
    usable: list[Mode] = []
    for mode in found:
        why = _why_trust(mode, found, unasked) if mode.source == "project" else None
        if why is None or trusts({_name(mode): _content(mode)}):
            usable.append(mode)
        else:
            sightings.warn(
                f"{PROJECT_FILE}: mode '{mode.slug}' is not used: {why}; `joey trust` shows and"
                " asks."
            )
    return tuple(usable)


def wanted_modes(found: Sequence[Mode]) -> tuple[Wanted, ...]:
    """All of a project's, and whether a person is to be asked about them before anything else."""
    return tuple(
        Wanted(
            name=_name(mode),
            title=f"mode '{mode.slug}' of {PROJECT_FILE}",
            content=_content(mode),
            details=tuple(_details(mode)),
            only_unasked=_loosened(mode, found) is None,
        )
        for mode in found
        if mode.source == "project"
    )


def _asks_nothing(settings: Settings) -> bool:
    """As with `-y`."""
    writes = settings.auto_approval_enabled and settings.always_allow_write
    return writes and settings.always_allow_execute and ANYTHING in settings.allowed_commands


def _why_trust(mode: Mode, found: Sequence[Mode], unasked: bool) -> str | None:
    if (known := _loosened(mode, found)) is not None:
        return f"it may do more than the {known.source} mode that it would replace"
    return "nothing would be asked (-y), and you have not trusted it" if unasked else None


def _loosened(mode: Mode, found: Sequence[Mode]) -> Mode | None:
    """The mode that would be there without the project's, if that one may do less."""
    own = [each for each in found if each.slug == mode.slug and each.source == "global"]
    known = own[0] if own else find_mode(mode.slug, BUILT_IN)
    if known is None or find_mode(mode.slug, BUILT_IN) is None:
        return None
    return known if may_do_more(mode, known) else None


def _name(mode: Mode) -> str:
    return f"mode:{mode.slug}"


def _content(mode: Mode) -> bytes:
    return msgspec.json.encode(mode)


def _details(mode: Mode) -> Iterator[str]:
    groups = (
        f"{grant.group} ({grant.file_regex})" if grant.file_regex else str(grant.group)
        for grant in mode.grants
    )
    yield f"may use   {', '.join(groups) or 'nothing'}"
    if find_mode(mode.slug, BUILT_IN) is not None:
        yield "in place of the built-in mode of this name"
