"""Settings administration: values, their origin and meaning, and changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.app.customizations import build_config_scopes
from joey.config.config_keys import (
    ConfigKey,
    check_value,
    describe_setting_keys,
    find_key,
    parse_value,
)
from joey.config.config_store import ConfigStore
from joey.config.home import resolve_home_and_env
from joey.config.json_documents import (
    read_document,
    write_document,
)
from joey.config.settings import (
    PROJECT_SETTINGS_FILE,
    SETTINGS_FILE,
    ProjectRestrictions,
    describe_unknown_settings,
    read_restrictions,
    restrict_settings,
)
from joey.config.untrusted_files import UntrustedFileReader
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.system.locks import lock_for_update
from joey.workspace.files import LocalFiles

__all__ = ["ConfigKey", "SettingOrigin", "SettingState", "SettingsAdmin"]


class SettingOrigin(StrEnum):
    DEFAULT = "default"
    USER = "yours"
    """`settings.json` in JOEY_HOME."""
    PROJECT = "project"
    """`.roo/settings.json` of the workspace, which makes it stricter."""


class SettingState(Struct, frozen=True):
    key: ConfigKey
    value: Any
    """What counts in this workspace."""
    origin: SettingOrigin


class SettingsAdmin:
    def __init__(
        self, workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._home, self._env = resolve_home_and_env(home, env)
        self._workspace = workspace
        self._config_store = ConfigStore(self._home)

    @property
    def path(self) -> Path:
        return self._home / SETTINGS_FILE

    @property
    def project_path(self) -> Path:
        return self._workspace / ".roo" / PROJECT_SETTINGS_FILE

    def list_settings(self) -> list[SettingState]:
        """List every setting, in the order of definition. Raises ConfigError if the file cannot be
        parsed."""
        given = read_document(self.path) or {}
        own = self._config_store.load_settings()
        counting = restrict_settings(own, self._read_restrictions(UntrustedFileReader()))
        mine, theirs = _encode_settings(own), _encode_settings(counting)
        return [
            SettingState(key, theirs[name], _find_origin(name, given, mine, theirs))
            for name, key in describe_setting_keys().items()
        ]

    def find_setting(self, name: str) -> SettingState:
        """Raises ConfigError."""
        key_name = self.find_config_key(name).name
        return next(state for state in self.list_settings() if state.key.name == key_name)

    def find_config_key(self, name: str) -> ConfigKey:
        """Find a setting. Raises ConfigError, which suggests the closest match."""
        return describe_setting_keys()[find_key(name, describe_setting_keys())]

    def set_value(self, name: str, values: Sequence[str]) -> Any:
        """Set a setting to the value that this text means. Raises ConfigError; then nothing was
        changed."""
        key = self.find_config_key(name)
        value = parse_value(Settings, key, values)
        if value is None:
            self.unset_value(name)
            return None
        self._config_store.update_settings({key.name: value})
        return value

    def update_list(self, name: str, added: Sequence[str], removed: Sequence[str]) -> list[Any]:
        """Add to a list setting and remove from it. Raises ConfigError if it is not a list, or
        lacks an item to remove."""
        key = self.find_config_key(name)
        if not key.is_list and not key.may_be_list:
            raise ConfigError(
                f"`{key.name}` is not a list ({key.type_description}); set it to a value instead.",
                field=key.name,
            )
        with lock_for_update(self.path):
            document = read_document(self.path) or {}
            current = check_value(Settings, key, document.get(key.name, []))
            known: list[Any] = current if isinstance(current, list) else []
            missing = [each for each in removed if each not in known]
            if missing:
                has = f"it has {', '.join(map(repr, known))}." if known else "it is empty."
                raise ConfigError(
                    f"`{key.name}` does not have {missing[0]!r}: {has}", field=key.name
                )
            remaining = [each for each in known if each not in removed]
            value: list[Any] = check_value(Settings, key, list(dict.fromkeys((*remaining, *added))))
            write_document(self.path, {**document, key.name: value})
        return value

    def unset_value(self, name: str) -> bool:
        """Reset a setting to its default; False if it was not set.

        An unknown key can be named by its exact spelling, so that typos can be removed.
        """
        document = read_document(self.path) or {}
        exact = name if name in document else self.find_config_key(name).name
        if exact not in document:
            return False
        with lock_for_update(self.path):
            document = read_document(self.path) or {}
            # Not validated as a whole, so that errors can be removed one by one.
            write_document(self.path, {k: v for k, v in document.items() if k != exact})
        return True

    def collect_warnings(self) -> tuple[str, ...]:
        """Collect warnings about unknown keys, and about project keys that are not used."""
        reader = UntrustedFileReader()
        self._read_restrictions(reader)
        return (*describe_unknown_settings(self._home), *reader.warnings)

    def _read_restrictions(self, reader: UntrustedFileReader) -> ProjectRestrictions:
        """Raises WorkspaceError."""
        scopes = build_config_scopes(LocalFiles(self._workspace), self._home, self._env)
        return read_restrictions(scopes, reader)


def _encode_settings(settings: Settings) -> dict[str, Any]:
    """Encode the settings as JSON with their names in the file, defaults included."""
    names = zip(settings.__struct_encode_fields__, settings.__struct_fields__, strict=True)
    return {name: msgspec.to_builtins(getattr(settings, field)) for name, field in names}


def _find_origin(
    name: str, given: Mapping[str, Any], mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> SettingOrigin:
    if mine[name] != theirs[name]:
        return SettingOrigin.PROJECT
    return SettingOrigin.USER if name in given else SettingOrigin.DEFAULT
