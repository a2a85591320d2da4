"""Store of the user's choices: reads and changes `settings.json` and `profiles.json`.

Everything is read afresh, so that a change made in an editor counts at once; keys that are not
understood are kept as they were. `SettingsRuleStore` adds the permission rules of "always"
answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from joey.config.files import convert_document, read_document, write_document
from joey.config.profiles import PROFILES_FILE, Profiles, load_profiles, read_profile, split
from joey.config.settings import SETTINGS_FILE, check_spelling, load_settings
from joey.core.permissions.policy import PersistentRule, adds_nothing_else, with_rule
from joey.core.settings import Profile, Settings
from joey.errors import ConfigError
from joey.ports.extensions import RuleStore
from joey.system.files import changing

_PROVIDER_SPECIFIC_KEYS = ("apiKey", "baseUrl", "model", "headers")
"""What means nothing to another provider, or must not go to one."""


class ConfigStore:
    def __init__(self, home: Path) -> None:
        self._settings_file = home / SETTINGS_FILE
        self._profiles_file = home / PROFILES_FILE
        self._home = home

    # Settings ---------------------------------------------------------------------------------

    def settings(self) -> Settings:
        return load_settings(self._home)

    def settings_with(self, values: dict[str, Any]) -> Settings:
        """The settings with these laid over them.

        Raises:
            ConfigError: naming the key that does not fit.
        """
        chosen = (read_document(self._settings_file) or {}) | values
        return convert_document(chosen, Settings, self._settings_file)

    def document(self) -> dict[str, Any]:
        """All settings by their names in the file, defaults included."""
        settings = self.settings()
        known = {
            field.encode_name: getattr(settings, field.name) for field in structs.fields(Settings)
        }
        return {**(read_document(self._settings_file) or {}), **known}

    def change_settings(self, values: dict[str, Any]) -> None:
        """Set these; null takes a key back to its default."""
        self.revise_settings(lambda: values)

    def revise_settings(self, find: Callable[[], dict[str, Any]]) -> None:
        """The same with values that `find` gives; nobody else changes the settings meanwhile."""
        with changing(self._settings_file):
            values = find()
            self.settings_with({name: value for name, value in values.items() if value is not None})
            document = (read_document(self._settings_file) or {}) | values
            kept = {name: value for name, value in document.items() if value is not None}
            write_document(self._settings_file, kept)

    # Profiles ---------------------------------------------------------------------------------

    def profiles(self) -> Profiles:
        return load_profiles(self._home)

    def profile_with(self, values: dict[str, Any], name: str | None = None) -> Profile:
        """The named or active profile with these laid over it, for one task alone."""
        document, group, _ = self._profile_document()
        active = name or self.profiles().active
        merged = _merged(document[group].get(active) or {}, values)
        return read_profile(self._profiles_file, group, active, merged)

    def profiles_with(self, name: str, values: dict[str, Any]) -> Profiles:
        """All profiles, and one more or another one; nothing is written."""
        known = self.profiles()
        return Profiles(name, {**known.profiles, name: self.profile_with(values, name)})

    def profile_entry(self, name: str) -> dict[str, Any]:
        """A profile as the file has it.

        Raises:
            ConfigError: there is none of this name.
        """
        document, group, _ = self._profile_document()
        entry = document[group].get(name)
        if entry is None:
            raise ConfigError(f"There is no profile '{name}'.")
        return dict(entry)

    def save_profile(
        self, name: str, values: dict[str, Any], *, activate: bool, exists: bool | None = None
    ) -> None:
        """Make or change a profile. What is not given stays, null removes a key.

        Raises:
            ConfigError: a value does not fit, or `exists` says otherwise than the file.
        """
        with changing(self._profiles_file):
            document, group, active = self._profile_document()
            known = document[group].get(name)
            if exists is not None and exists != (known is not None):
                wrong = "exists already" if known is not None else "does not exist"
                raise ConfigError(f"The profile '{name}' {wrong}.")
            entry = _merged(known or {}, values)
            read_profile(self._profiles_file, group, name, entry)
            active_name = self.profiles().active
            if activate or not document[group]:
                document[active] = name
            elif active_name in document[group]:
                document[active] = active_name
            document[group] = {**document[group], name: entry}
            write_document(self._profiles_file, document)

    def activate_profile(self, name: str) -> None:
        with changing(self._profiles_file):
            self.profile_entry(name)
            document, _, active = self._profile_document()
            write_document(self._profiles_file, {**document, active: name})

    def delete_profile(self, name: str) -> None:
        with changing(self._profiles_file):
            self.profile_entry(name)
            document, group, active = self._profile_document()
            left = {other: entry for other, entry in document[group].items() if other != name}
            document[group] = left
            if not left:
                document.pop(active, None)
            elif self.profiles().active == name or len(left) == 1:
                document[active] = next(iter(left))
            write_document(self._profiles_file, document)

    def _profile_document(self) -> tuple[dict[str, Any], str, str]:
        """The file, and what it calls its profiles and the active one."""
        load_profiles(self._home)
        document = read_document(self._profiles_file) or {"profiles": {}}
        if "profiles" not in document and "apiConfigs" in document:
            return document, "apiConfigs", "currentApiConfigName"
        document.setdefault("profiles", {})
        return document, "profiles", "active"

    # Both in one object, as Roo's clients send them -------------------------------------------

    def change(self, values: dict[str, Any]) -> None:
        """Set settings, and keys of the active profile, from one object.

        Raises:
            ConfigError: nothing was changed.
        """
        check_spelling(values)
        settings, profile = split(values)
        active = settings.pop("currentApiConfigName", None)
        if active is not None:
            self.profile_entry(str(active))
        self.settings_with({name: value for name, value in settings.items() if value is not None})
        if profile:
            name = str(active or self.profiles().active)
            self.save_profile(name, profile, activate=True)
        elif active is not None:
            self.activate_profile(str(active))
        if settings:
            self.change_settings(settings)


def _merged(known: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """A key goes only where it belongs: another provider starts without the old one's."""
    before = known.get("apiProvider", known.get("provider"))
    after = values.get("apiProvider", values.get("provider", before))
    if after != before:
        known = {
            name: value for name, value in known.items() if name not in _PROVIDER_SPECIFIC_KEYS
        }
        if "provider" in values:
            known.pop("apiProvider", None)
    merged = known | values
    return {name: value for name, value in merged.items() if value is not None}


class SettingsRuleStore:
    def __init__(self, home: Path) -> None:
        self._file = home / SETTINGS_FILE
        self._preferences = ConfigStore(home)

    def takes(self, rule: PersistentRule) -> bool:
        try:
            return adds_nothing_else(rule, self._preferences.settings())
        except ConfigError:
            return False  # nothing is written into a file that is not understood

    def add(self, rule: PersistentRule) -> None:
        self._preferences.revise_settings(lambda: self._values_with(rule))

    def _values_with(self, rule: PersistentRule) -> dict[str, Any]:
        if not self.takes(rule):
            raise ConfigError(
                f"{self._file} was changed meanwhile; `{rule.text}` was not added to it."
            )
        settings = with_rule(self._preferences.settings(), rule)
        if rule.setting == "allowedCommands":
            return {"alwaysAllowExecute": True, "allowedCommands": settings.allowed_commands}
        return {"alwaysAllowMcp": True, "allowedMcpTools": settings.allowed_mcp_tools}


_fits: type[RuleStore] = SettingsRuleStore
