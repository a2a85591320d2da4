"""Store of the user's choices: reads and changes `settings.json` and `profiles.json`.

Files are read again for every call, so changes made in an editor count at once; unknown keys are
preserved. `LiveNetwork` lets running tasks follow the setting of their network.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from joey.config.json_documents import convert_document, read_document, write_document
from joey.config.profiles import (
    PROFILES_FILE,
    ROO_EXPORT_KEY,
    Profiles,
    get_profiles_part,
    load_profiles,
    parse_profile,
    split_settings_and_profile,
)
from joey.config.settings import SETTINGS_FILE, check_key_spelling, load_settings
from joey.core.permissions.hosts import (
    NetworkOrigin,
    NetworkSetting,
    add_host,
    intersect_hosts,
    list_entries,
)
from joey.core.redaction import remove_secrets
from joey.core.settings import Profile, Settings
from joey.errors import ConfigError
from joey.ports.extensions import NetworkPolicy
from joey.system.files import FileFingerprint, read_fingerprint
from joey.system.locks import lock_for_update

log = logging.getLogger(__name__)

_PROVIDER_SPECIFIC_KEYS = ("apiKey", "baseUrl", "model", "headers")
"""What means nothing to another provider, or must not go to one."""

_KEYS_WITH_CHOSEN_NAMES = (
    *("modeApiConfigs", "customModePrompts", "profileThresholds", "pinnedApiConfigs"),
    "diagnosticCheckers",
)
"""Objects by names of modes, profiles and files, which say nothing about secrets."""


class ConfigStore:
    def __init__(self, home: Path) -> None:
        self._settings_file = home / SETTINGS_FILE
        self._profiles_file = home / PROFILES_FILE
        self._joey_home = home

    # Settings ---------------------------------------------------------------------------------

    def load_settings(self) -> Settings:
        return load_settings(self._joey_home)

    def merge_settings(self, values: dict[str, Any]) -> Settings:
        """Apply values to the settings. Raises ConfigError, which names the invalid key."""
        chosen = (read_document(self._settings_file) or {}) | values
        return convert_document(chosen, Settings, self._settings_file)

    def read_settings_document(self) -> dict[str, Any]:
        """Return all settings by their names in the file, defaults included."""
        settings = self.load_settings()
        known = {
            field.encode_name: getattr(settings, field.name) for field in structs.fields(Settings)
        }
        return {**(read_document(self._settings_file) or {}), **known}

    def update_settings(self, values: dict[str, Any]) -> None:
        """Set values; null resets a key to its default."""
        self.update_settings_with(lambda: values)

    def update_settings_with(self, compute_values: Callable[[], dict[str, Any]]) -> None:
        """Set values that are computed while the file is locked."""
        with lock_for_update(self._settings_file):
            values = compute_values()
            self.merge_settings(
                {name: value for name, value in values.items() if value is not None}
            )
            document = (read_document(self._settings_file) or {}) | values
            kept = {name: value for name, value in document.items() if value is not None}
            write_document(self._settings_file, kept)

    # Profiles ---------------------------------------------------------------------------------

    def load_profiles(self) -> Profiles:
        return load_profiles(self._joey_home)

    def merge_profile(self, values: dict[str, Any], name: str | None = None) -> Profile:
        """Apply values to the named or active profile, for one task only."""
        document, group, _ = self._read_profiles_document()
        active = name or self.load_profiles().active_name
        merged = _merge_profile_entry(document[group].get(active) or {}, values)
        return parse_profile(self._profiles_file, group, active, merged)

    def merge_profiles(self, name: str, values: dict[str, Any]) -> Profiles:
        """Return all profiles with one added or replaced; nothing is written."""
        known = self.load_profiles()
        return Profiles(name, {**known.profiles, name: self.merge_profile(values, name)})

    def get_profile_entry(self, name: str) -> dict[str, Any]:
        """Return a profile as stored in the file. Raises ConfigError if there is none of this
        name."""
        document, group, _ = self._read_profiles_document()
        entry = document[group].get(name)
        if entry is None:
            raise ConfigError(f"There is no profile '{name}'.", field="profile", value=name)
        return dict(entry)

    def save_profile(
        self, name: str, values: dict[str, Any], *, activate: bool, exists: bool | None = None
    ) -> None:
        """Add or change a profile. Keys that are not given stay, null removes a key. Raises
        ConfigError if a value is invalid or `exists` does not match the file."""
        with lock_for_update(self._profiles_file):
            document, group, active = self._read_profiles_document()
            known = document[group].get(name)
            if exists is not None and exists != (known is not None):
                wrong = "exists already" if known is not None else "does not exist"
                raise ConfigError(f"The profile '{name}' {wrong}.", field="profile", value=name)
            entry = _merge_profile_entry(known or {}, values)
            parse_profile(self._profiles_file, group, name, entry)
            active_name = self.load_profiles().active_name
            if activate or not document[group]:
                document[active] = name
            elif active_name in document[group]:
                document[active] = active_name
            document[group] = {**document[group], name: entry}
            self._write_profiles(document)

    def activate_profile(self, name: str) -> None:
        with lock_for_update(self._profiles_file):
            self.get_profile_entry(name)
            document, _, active = self._read_profiles_document()
            self._write_profiles({**document, active: name})

    def delete_profile(self, name: str) -> None:
        with lock_for_update(self._profiles_file):
            self.get_profile_entry(name)
            document, group, active = self._read_profiles_document()
            left = {other: entry for other, entry in document[group].items() if other != name}
            document[group] = left
            if not left:
                document.pop(active, None)
            elif self.load_profiles().active_name == name or len(left) == 1:
                document[active] = next(iter(left))
            self._write_profiles(document)

    def _read_profiles_document(self) -> tuple[dict[str, Any], str, str]:
        """Read the file, with its names for the profiles and the active one."""
        load_profiles(self._joey_home)
        document = get_profiles_part(read_document(self._profiles_file) or {"profiles": {}})
        if "profiles" not in document and "apiConfigs" in document:
            return document, "apiConfigs", "currentApiConfigName"
        document.setdefault("profiles", {})
        return document, "profiles", "active"

    def _write_profiles(self, document: dict[str, Any]) -> None:
        whole = read_document(self._profiles_file) or {}
        is_export = get_profiles_part(whole) is not whole
        write_document(
            self._profiles_file, {**whole, ROO_EXPORT_KEY: document} if is_export else document
        )

    # Both in one object, as Roo's clients send them -------------------------------------------

    def read_configuration(self) -> dict[str, Any]:
        """Return the settings and the keys of the active profile, without secrets."""
        profiles = self.load_profiles()
        document = self.read_settings_document()
        if active := profiles.profiles.get(profiles.active_name):
            document |= {"apiProvider": active.provider, "apiModelId": active.model}
            document |= split_settings_and_profile(self.get_profile_entry(active.name))[1]
            for key in ("headers", "openAiHeaders"):  # any header may hold a secret
                document.pop(key, None)
        document["currentApiConfigName"] = profiles.active_name
        document = msgspec.to_builtins(document)
        named = {key: document[key] for key in _KEYS_WITH_CHOSEN_NAMES if key in document}
        return {**remove_secrets(document), **named}

    def update_settings_and_profile(
        self, values: dict[str, Any], provider: str | None = None
    ) -> None:
        """Set settings and keys of the active profile, all or nothing. Values as returned by
        `read_configuration` change nothing; `provider` is used for a profile that does not exist
        yet. Raises ConfigError."""
        check_key_spelling(values)
        name = str(values.get("currentApiConfigName") or self.load_profiles().active_name)
        if name == self.load_profiles().active_name:
            now = self.read_configuration()
            values = {
                key: value for key, value in values.items() if key not in now or value != now[key]
            }
        settings, profile = split_settings_and_profile(values)
        is_chosen = settings.pop("currentApiConfigName", None) is not None
        if is_chosen and not profile:
            self.get_profile_entry(name)
        self.merge_settings({key: value for key, value in settings.items() if value is not None})
        if profile:
            # Without a provider, `apiKey` is Anthropic's.
            is_open = not profile.keys() & {"apiProvider", "provider", "apiKey"}
            if provider and is_open and name not in self.load_profiles().profiles:
                profile["provider"] = provider
            self.save_profile(name, profile, activate=True)
        elif is_chosen:
            self.activate_profile(name)
        if settings:
            self.update_settings(settings)


def _merge_profile_entry(known: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Merge an entry without its old key if the provider changes: a key is only sent to its
    provider."""
    before = known.get("apiProvider", known.get("provider"))
    after = values.get("apiProvider", values.get("provider", before))
    if after != before:
        known = {
            name: value for name, value in known.items() if name not in _PROVIDER_SPECIFIC_KEYS
        }
        known.pop("apiProvider" if "provider" in values else "provider", None)
    from joey.config.roo_settings import merge_roo_keys

    merged = merge_roo_keys(known, values)
    return {name: value for name, value in merged.items() if value is not None}


class LiveNetwork:
    """The network setting of a running task, as the user's files have it now.

    A task starts with the network that flags, its configuration and the settings choose. A later
    change of `sandboxNetwork` takes effect at the next command: the new value if the task followed
    the settings; if a flag or a client chose the network, it can only restrict it. Hosts allowed in
    the directory count if nothing else was chosen. A project's limits stay in force.
    """

    def __init__(
        self,
        home: Path,
        at_start: NetworkSetting,
        origin: NetworkOrigin,
        read_directory_hosts: Callable[[], tuple[str, ...]] = lambda: (),
        can_filter_hosts: Callable[[], bool] = lambda: True,
    ) -> None:
        """`at_start` is the network when the task was opened, limits included."""
        self._settings_file = home / SETTINGS_FILE
        self._config_store = ConfigStore(home)
        self._at_start = at_start
        self._origin = origin
        self._read_directory_hosts = read_directory_hosts
        self._can_filter_hosts = can_filter_hosts
        self._fingerprint: FileFingerprint = ()  # not read yet
        self._user_setting: NetworkSetting = "off"
        self._is_switched_off = False
        self._initial_setting = self._read_user_setting()
        if origin.user_setting is not None:
            self._initial_setting = origin.user_setting
        self._has_changed = False
        """Also when the setting is what it was again: that is a decision too."""

    @property
    def ceiling(self) -> NetworkSetting:
        return self._origin.ceiling

    def read(self) -> NetworkSetting:
        current = self._read_user_setting()
        self._has_changed |= current != self._initial_setting
        if not self._has_changed:
            setting = self._at_start
        elif self._origin.is_pinned:
            setting = intersect_hosts(self._at_start, current)
        else:
            setting = intersect_hosts(current, self.ceiling)
        hosts = () if self.explain_fixed() else self._read_directory_hosts()
        if hosts and self._can_filter_hosts():
            for host in list_entries(intersect_hosts(hosts, self.ceiling)):
                setting = add_host(setting, host)
        return setting

    def explain_fixed(self) -> str:
        self._read_user_setting()
        if self._origin.is_pinned:
            return "the network was chosen for this run"
        return "`sandboxNetwork` is `off` in your settings" if self._is_switched_off else ""

    def _read_user_setting(self) -> NetworkSetting:
        fingerprint = read_fingerprint(self._settings_file)
        if fingerprint != self._fingerprint:
            try:
                self._user_setting = self._config_store.load_settings().sandbox_network
                document = read_document(self._settings_file) or {}
                self._is_switched_off = document.get("sandboxNetwork") == "off"
            except ConfigError as error:
                log.warning("the network stays as it was: %s", error)
            self._fingerprint = fingerprint
        return self._user_setting


_network_protocol_check: type[NetworkPolicy] = LiveNetwork
