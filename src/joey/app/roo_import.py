"""Import of the settings that Roo Code, Zoo Code or Kilo Code has exported to a file.

An import is planned first, so that the user sees what it changes, and nothing is stored before they
agree. What exists already is left out of the plan: a second import changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.config.config_keys import (
    UNSTORABLE_REASON,
    check_storable,
    check_value,
    describe_setting_keys,
)
from joey.config.config_store import ConfigStore
from joey.config.custom_modes import (
    USER_MODES_FILES,
    InvalidModeError,
    add_user_modes,
    parse_mode,
    read_user_mode_entries,
)
from joey.config.home import resolve_home_and_env
from joey.config.json_documents import read_document
from joey.config.profiles import ROO_EXPORT_KEY, check_profile_name, parse_profile
from joey.config.roo_settings import UNUSED_KEYS
from joey.core.redaction import remove_secrets
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.providers.catalog import find_provider_spec

EXPORT_NAMES = ("roo-code-settings", "zoo-code-settings", "kilo-code-settings")
"""Files that the editors' extensions suggest for an export begin with these."""
_EXPORT_DIRECTORIES = (".", "Downloads", "Documents", "Desktop")
_RENAMED_SUFFIX = "-roo"
_MODE_PROFILES_KEY = "modeApiConfigs"
_MODES_KEY = "customModes"


class PlannedProfile(Struct, frozen=True, rename="camel"):
    name: str
    """Here; another than in the file if a different profile has that name."""
    name_in_file: str
    changes_existing: bool
    """One with the same id is here already."""
    provider: str
    model: str | None
    secrets: tuple[str, ...]
    """Names of its keys, which are stored too."""


class PlannedSetting(Struct, frozen=True):
    key: str
    before: Any
    after: Any


class LeftOut(Struct, frozen=True):
    name: str
    reason: str


class ImportPlan(Struct, frozen=True, rename="camel"):
    """What an import would change."""

    profiles: tuple[PlannedProfile, ...]
    active_profile: str | None
    """It becomes the active one, as there is none yet."""
    settings: tuple[PlannedSetting, ...]
    modes: tuple[str, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.profiles or self.settings or self.modes)

    @property
    def secret_count(self) -> int:
        return sum(len(each.secrets) for each in self.profiles)


class RooExport(Struct, frozen=True):
    """The parts of an exported file."""

    path: Path
    profiles: dict[str, Any]
    active: str | None
    mode_profiles: dict[str, Any]
    settings: dict[str, Any]


def find_exports(directory: Path) -> list[Path]:
    """Find exports in the home and download directories, the newest first."""
    found = [
        path
        for place in _EXPORT_DIRECTORIES
        for name in EXPORT_NAMES
        for path in (directory / place).glob(f"{name}*.json")
        if path.is_file()
    ]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def load_export(path: Path) -> RooExport:
    """Load an export. Raises ConfigError if it cannot be read or is something else."""
    document = read_document(path)
    if document is None:
        raise ConfigError(f"{path} does not exist.")
    profiles, settings = document.get(ROO_EXPORT_KEY), document.get("globalSettings", {})
    profiles = profiles if isinstance(profiles, dict) else {}
    named = profiles.get("apiConfigs")
    if not isinstance(named, dict) or not isinstance(settings, dict):
        raise ConfigError(
            f"{path} is not a settings export: it has no `{ROO_EXPORT_KEY}`. In Roo Code, choose"
            " Settings, About Roo Code, Export."
        )
    active, modes = profiles.get("currentApiConfigName"), profiles.get(_MODE_PROFILES_KEY)
    return RooExport(
        path,
        named,
        active if isinstance(active, str) else None,
        modes if isinstance(modes, dict) else {},
        settings,
    )


class RooImport:
    """One export and the files of joey that it would change."""

    def __init__(self, export: RooExport, *, with_keys: bool = True) -> None:
        """Raises ConfigError if joey's own files cannot be read."""
        self._export = export
        self.home, _ = resolve_home_and_env()
        self._store = ConfigStore(self.home)
        self._with_keys = with_keys
        self._left_out: list[LeftOut] = []
        self._entries: dict[str, dict[str, Any]] = {}
        self._modes: list[dict[str, Any]] = []
        self.plan = self._make_plan()

    def apply(self) -> None:
        """Store the planned changes. Raises ConfigError."""
        for profile in self.plan.profiles:
            self._store.save_profile(
                profile.name,
                self._entries[profile.name],
                activate=profile.name == self.plan.active_profile,
            )
        if self.plan.settings:
            self._store.update_settings({each.key: each.after for each in self.plan.settings})
        if self._modes:
            add_user_modes(self.home, self._modes)

    def _make_plan(self) -> ImportPlan:
        has_profiles = bool(self._store.load_profiles().profiles)
        profiles = tuple(self._plan_profiles())
        active = next(
            (each.name for each in profiles if each.name_in_file == self._export.active), None
        )
        settings, modes = tuple(self._plan_settings()), tuple(self._plan_modes())
        return ImportPlan(
            profiles, None if has_profiles else active, settings, modes, tuple(self._left_out)
        )

    def _plan_profiles(self) -> Iterator[PlannedProfile]:
        names = self._store.load_profiles().profiles
        known = {each: self._store.get_profile_entry(each) for each in names}
        for name, given in self._export.profiles.items():
            try:
                check_profile_name(name)
                profile = parse_profile(self._export.path, "apiConfigs", name, given)
                provider = find_provider_spec(profile.provider).name
                check_storable(given)
            except ConfigError as error:
                self._left_out.append(LeftOut(f"profile {name}", str(error)))
                continue
            except ValueError:
                self._left_out.append(LeftOut(f"profile {name}", UNSTORABLE_REASON))
                continue
            entry = given if self._with_keys else _drop_secrets(given)
            if (target := self._choose_name(name, entry, known)) is not None:
                self._entries[target] = entry
                secrets = tuple(key for key, value in entry.items() if _has_secret(key, value))
                yield PlannedProfile(
                    target, name, target in known, provider, profile.model, secrets
                )

    def _choose_name(
        self, name: str, entry: Mapping[str, Any], known: Mapping[str, dict[str, Any]]
    ) -> str | None:
        """Choose a name for a profile; None if an equal one exists."""
        for here in _iter_names(name):
            if here in self._entries:
                continue
            if here not in known:
                return here
            mine = known[here] if self._with_keys else _drop_secrets(known[here])
            if all(mine.get(key) == value for key, value in entry.items()):
                return None
            if "id" in entry and mine.get("id") == entry["id"]:
                return here
        raise AssertionError("there is always another name")

    def _plan_settings(self) -> Iterator[PlannedSetting]:
        known, current = describe_setting_keys(), self._store.read_settings_document()
        for key, value in self._collect_settings():
            if key == _MODES_KEY or value is None:
                continue
            if key not in known:
                reason = UNUSED_KEYS.get(key, "joey does not have this setting")
                self._left_out.append(LeftOut(key, reason))
                continue
            before = msgspec.json.decode(msgspec.json.encode(current.get(key)))
            if before == value:
                continue
            try:
                check_value(Settings, known[key], value)
            except ConfigError as error:
                self._left_out.append(LeftOut(key, str(error)))
                continue
            yield PlannedSetting(key, before, value)

    def _collect_settings(self) -> Iterable[tuple[str, Any]]:
        yield from self._export.settings.items()
        if self._export.mode_profiles and _MODE_PROFILES_KEY not in self._export.settings:
            yield _MODE_PROFILES_KEY, self._export.mode_profiles

    def _plan_modes(self) -> Iterator[str]:
        given = self._export.settings.get(_MODES_KEY) or []
        if not isinstance(given, list):
            self._left_out.append(LeftOut(_MODES_KEY, "it is not a list"))
            return
        known = {str(each.get("slug")): each for each in read_user_mode_entries(self.home)}
        for number, entry in enumerate(given, start=1):
            try:
                check_storable(entry)
                mode = parse_mode(entry, "global", lambda _: None)
            except InvalidModeError as error:
                self._left_out.append(LeftOut(f"mode number {number}", str(error)))
                continue
            except ValueError:
                self._left_out.append(LeftOut(f"mode number {number}", UNSTORABLE_REASON))
                continue
            if mode.slug not in known:
                known[mode.slug] = entry
                self._modes.append(entry)
                yield mode.slug
            elif known[mode.slug] != entry:
                reason = f"another mode in {' or '.join(USER_MODES_FILES)} has this slug"
                self._left_out.append(LeftOut(f"mode {mode.slug}", reason))


def _iter_names(name: str) -> Iterator[str]:
    renamed = f"{name}{_RENAMED_SUFFIX}"
    return chain((name, renamed), (f"{renamed}-{number}" for number in count(2)))


def _has_secret(key: str, value: Any) -> bool:
    return bool(value) and remove_secrets({key: value}) != {key: value}


def _drop_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys, headers, and users and passwords in addresses."""
    kept = remove_secrets(entry)
    return {key: value for key, value in kept.items() if type(value) is type(entry[key])}
