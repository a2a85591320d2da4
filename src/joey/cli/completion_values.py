"""What stands behind a flag or in a place, by its metavar.

Every metavar of the command line is in one of these tables; a test holds them to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from joey.errors import UserError


class Files(StrEnum):
    NONE = "none"
    FILES = "files"
    FOLDERS = "folders"


class Place(Struct, frozen=True):
    """Where a value is wanted, and what was written before."""

    metavar: str
    current: str
    words: tuple[str, ...]
    flags: Mapping[str, str]
    """Values of flags, by their names in the parser."""
    prog: str
    dest: str

    @property
    def workspace(self) -> Path:
        return Path(self.flags.get("workspace") or Path.cwd()).resolve()


Values = list[tuple[str, str]]


def _tasks(place: Place) -> Values:
    from joey.app.completion_values import tasks

    return tasks(os.environ, place.current, place.workspace)


def _modes(place: Place) -> Values:
    from joey.app.completion_values import modes

    return modes(os.environ, place.workspace)


def _models(place: Place) -> Values:
    from joey.app.completion_values import models

    return models(os.environ, place.flags.get("provider"))


def _profiles(place: Place) -> Values:
    from joey.app.completion_values import profiles

    return profiles(os.environ)


def _providers(place: Place) -> Values:
    from joey.app.completion_values import providers

    return providers()


def _servers(place: Place) -> Values:
    from joey.app.completion_values import servers

    return servers(os.environ, place.workspace)


def _setting_names(place: Place) -> Values:
    from joey.app.completion_values import setting_names

    return setting_names()


def _profile_keys(place: Place) -> Values:
    from joey.app.completion_values import profile_key_names

    return profile_key_names()


def _setting_values(place: Place) -> Values:
    from joey.app.completion_values import profile_values, setting_values

    if "profiles" in place.prog:
        return profile_values(place.words[1], os.environ)
    name, *given = place.words
    return setting_values(name, len(given), os.environ, place.workspace)


def _items(place: Place) -> Values:
    """Of a list: those that are there can be removed."""
    from joey.app.completion_values import list_items

    return list_items(place.words[0], os.environ) if place.dest == "remove" else []


DYNAMIC: dict[str, Callable[[Place], Values]] = {
    "ID": _tasks,
    "ITEM": _items,
    "KEY": _setting_names,
    "MODE": _modes,
    "MODEL": _models,
    "PROFILE": _profiles,
    "PROFILE_KEY": _profile_keys,
    "PROVIDER": _providers,
    "SERVER": _servers,
    "VALUE": _setting_values,
}
ON_DISK: dict[str, Files] = {
    "FILE": Files.FILES,
    "FILE|JSON": Files.FILES,
    "PATH": Files.FILES,
    "DIR": Files.FOLDERS,
}
FREE = frozenset(
    """
    ADDRESS COMMAND MESSAGE N NAME NAME=VALUE NEW ORIGIN PATTERN PROMPT SECONDS TIME URL USD WHEN
    WORDS
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
) | {"NAME: VALUE"}
"""What only the person knows."""


def values_of(place: Place) -> tuple[Values, Files]:
    """What fits, and whether names of files do."""
    if place.metavar in ON_DISK:
        return [], ON_DISK[place.metavar]
    find = DYNAMIC.get(place.metavar)
    try:
        return (find(place) if find else []), Files.NONE
    except (UserError, OSError, IndexError, ValueError):
        return [], Files.NONE  # the command itself will say what is wrong
