"""Profile administration, and the first profile of a new user.

Keys can be set but not read back: at most their last characters are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from joey.app.model_choice import ModelFlags
from joey.app.models import LocalServer
from joey.config.config_keys import ConfigKey, describe_profile_keys, find_key, parse_value
from joey.config.config_store import ConfigStore
from joey.config.home import resolve_home_and_env
from joey.config.profiles import (
    DEFAULT_PROFILE_NAME,
    PROFILES_FILE,
    check_profile_name,
    collect_given_keys,
    find_api_key,
    find_base_url,
    find_key_variable,
    get_api_key_field_name,
    load_profiles,
)
from joey.core.models import ProviderSpec
from joey.core.redaction import remove_secrets
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError
from joey.providers.catalog import find_provider_spec

API_KEY_FIELD = "apiKey"
CREDENTIALS_FIELD = "credentials"
_NO_PROFILES_TEXT = "There are none yet; joey profiles add creates one."
_UNMASKED_KEY_CHARS = 4
"""Of a long key, so that one knows which it is."""
_MIN_PARTLY_MASKED_KEY_CHARS = 20


class ProfileValue(Struct, frozen=True):
    """One key of a profile, with its effective value."""

    name: str
    value: Any
    """A key as `…last`, never whole."""
    origin: str
    """`profiles.json`, `default`, or the variable that it comes from."""


class ProfileAdmin:
    def __init__(self, home: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._home, self._env = resolve_home_and_env(home, env)
        self._config_store = ConfigStore(self._home)

    @property
    def path(self) -> Path:
        return self._home / PROFILES_FILE

    @property
    def active_name(self) -> str:
        """Raises ConfigError."""
        return self._config_store.load_profiles().active_name

    @property
    def active_profile_warning(self) -> str:
        """Describe a problem with the choice of the active profile, and what to do. Raises
        ConfigError."""
        return self._config_store.load_profiles().missing_active_warning

    def repair_active_profile(self) -> str | None:
        """Set the active profile if the file names one that does not exist. Return its name, or
        None if the user has to choose. Raises ConfigError."""
        known = self._config_store.load_profiles()
        if known.missing_active_name is None or known.active_name not in known.profiles:
            return None
        self._config_store.activate_profile(known.active_name)
        return known.active_name

    def list_profiles(self) -> dict[str, Profile]:
        """List the profiles without their keys. Raises ConfigError."""
        known = self._config_store.load_profiles().profiles
        return {
            name: structs.replace(each, api_key=None, credentials={})
            for name, each in known.items()
        }

    def describe_profile(self, name: str | None = None) -> list[ProfileValue]:
        """Describe a profile as a task would use it; without a name, the one that would be used
        now. Raises ConfigError if there is no such profile, or none was ever chosen."""
        profiles = self._config_store.load_profiles()
        if name is not None:
            self._check_exists(name)
        effective = known = profiles.profiles.get(name or profiles.active_name)
        if effective is None or name is None:
            effective = ModelFlags(profile=name).choose_profile(profiles, self._env)
        written = None if known is None else self._config_store.get_profile_entry(known.name)
        return list(self._build_values(effective, known, collect_given_keys(written or {})))

    def _build_values(
        self, effective: Profile, known: Profile | None, written: frozenset[str]
    ) -> Sequence[ProfileValue]:
        kind = find_provider_spec(effective.provider)
        values = []
        for key, field in zip(
            Profile.__struct_encode_fields__, Profile.__struct_fields__, strict=True
        ):
            value = getattr(effective, field)
            mine = getattr(known, field) if key in written else None
            if key == "name" or value in (None, {}, ""):
                continue
            origin = _find_origin(key, value, mine, kind, self._env)
            values.append(ProfileValue(key, mask_value(key, value), origin))
        if effective.api_key is None and (found := find_api_key(kind, self._env)):
            variable = find_key_variable(kind, self._env)
            values.append(ProfileValue(API_KEY_FIELD, mask_key(found), variable))
        return values

    def add(self, name: str, provider: str, **values: Any) -> None:
        """Add a profile; the first one becomes active. Raises ConfigError if the name is taken or
        the profile could not be used."""
        self.check_new_profile(name, provider)
        given = {"provider": find_provider_spec(provider).name, **values}
        given = {key: value for key, value in given.items() if value}
        self._config_store.save_profile(name, given, activate=False, exists=False)

    def check_new_profile(self, name: str, provider: str) -> None:
        """Check a profile before a key is asked for. Raises ConfigError if it could not be
        added."""
        check_profile_name(name)
        if name in self._config_store.load_profiles().profiles:
            message = f"The profile '{name}' exists already."
            raise ConfigError(message, field="profile", value=name)
        find_provider_spec(provider)

    def set_value(self, name: str, key: str, values: Sequence[str]) -> Any:
        """Set a value. Raises ConfigError; an API key can only be set with `set_api_key`."""
        described = self.find_config_key(key)
        if described.name == API_KEY_FIELD:
            raise ConfigError(
                "A key is not accepted on the command line, which others can read: leave out the"
                " value, and joey asks for it or reads it from stdin.",
                field=key,
            )
        if described.name == CREDENTIALS_FIELD:
            raise ConfigError(
                "Credentials are not accepted on the command line, which others can read: write"
                f" them into {self.path}.",
                field=key,
            )
        value = parse_value(Profile, described, values)
        if described.name == "provider":
            value = find_provider_spec(str(value)).name
        self._config_store.save_profile(name, {described.name: value}, activate=False, exists=True)
        return value

    def set_api_key(self, name: str, text: str) -> None:
        """Raises ConfigError."""
        entry = self._config_store.get_profile_entry(name)
        values = {get_api_key_field_name(entry): parse_pasted_key(text)}
        self._config_store.save_profile(name, values, activate=False, exists=True)

    def unset_value(self, name: str, key: str) -> bool:
        """Remove a key from a profile; False if it was not set. Raises ConfigError."""
        entry = self._config_store.get_profile_entry(name)
        described = self.find_config_key(key).name
        written = get_api_key_field_name(entry) if described == API_KEY_FIELD else described
        if written not in entry:
            return False
        self._config_store.save_profile(name, {written: None}, activate=False, exists=True)
        return True

    def activate(self, name: str) -> None:
        """Raises ConfigError."""
        self._check_exists(name)
        self._config_store.activate_profile(name)

    def remove(self, name: str) -> None:
        """Raises ConfigError."""
        self._check_exists(name)
        self._config_store.delete_profile(name)

    def find_config_key(self, name: str) -> ConfigKey:
        """Raises ConfigError."""
        return describe_profile_keys()[find_key(name, describe_profile_keys(), "key of a profile")]

    def needs_api_key(self, provider: str) -> bool:
        """Whether a profile of this provider needs an API key. Raises ConfigError."""
        kind = find_provider_spec(provider)
        is_optional = kind.is_local or kind.login
        return not is_optional and find_api_key(kind, self._env) is None

    def is_local(self, provider: str) -> bool:
        """Whether the profile uses a local server without keys. Raises ConfigError."""
        return find_provider_spec(provider).is_local

    def _check_exists(self, name: str) -> None:
        known = self._config_store.load_profiles().profiles
        if name not in known:
            about = f"Known ones: {', '.join(known)}." if known else _NO_PROFILES_TEXT
            message = f"There is no profile '{name}'. {about}"
            raise ConfigError(message, field="profile", value=name)


def mask_key(key: str) -> str:
    """Mask a key but for the end, by which its owner recognizes it."""
    return f"…{key[-_UNMASKED_KEY_CHARS:]}" if len(key) >= _MIN_PARTLY_MASKED_KEY_CHARS else "…"


def mask_value(key: str, value: Any) -> Any:
    """Mask the secret part of a value."""
    if key == API_KEY_FIELD:
        return mask_key(str(value))
    if key == CREDENTIALS_FIELD:
        return mask_key("")
    return remove_secrets({key: value})[key]


def _find_origin(
    key: str, value: Any, mine: Any, kind: ProviderSpec, env: Mapping[str, str]
) -> str:
    if key == API_KEY_FIELD and mine is None:
        return find_key_variable(kind, env) or "default"
    if key == "baseUrl" and mine is None and find_base_url(kind, env) == value:
        return kind.base_url_variable or "default"
    return PROFILES_FILE if mine == value and mine is not None else "default"


def is_first_run(home: Path | None = None, env: Mapping[str, str] | None = None) -> bool:
    """Whether no model was ever chosen: no profile, and no usable key or address in the
    environment. Raises ConfigError if existing configuration cannot be parsed or used."""
    home, env = resolve_home_and_env(home, env)
    profiles = load_profiles(home)
    if profiles.profiles:
        return False
    try:
        ModelFlags().choose_profile(profiles, env)
    except NoModelError:
        return True
    return False


def save_first_profile(
    *,
    provider: str,
    model: str = "",
    key: str | None = None,
    base_url: str | None = None,
    name: str = DEFAULT_PROFILE_NAME,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Profile:
    """Save a profile, activate it, and return it complete, as a task would use it. Raises
    ConfigError if it could not be used (then nothing is written), or if the name is taken."""
    home, env = resolve_home_and_env(home, env)
    kind = find_provider_spec(provider)
    key = None if key is None else parse_pasted_key(key)
    given = {"provider": kind.name, "model": model, "baseUrl": base_url, "apiKey": key}
    values = {key: value for key, value in given.items() if value}
    preferences = ConfigStore(home)
    merged = preferences.merge_profiles(name, values)
    complete = ModelFlags(profile=name).choose_profile(merged, env)
    preferences.save_profile(name, values, activate=True, exists=False)
    return complete


def save_server_profile(
    server: LocalServer, model: str | None = None, *, env: Mapping[str, str] | None = None
) -> Profile:
    """Save the profile of a server that was found, by default with its first model; see
    `save_first_profile`."""
    usual = find_provider_spec(server.provider).base_url
    return save_first_profile(
        provider=server.provider,
        model=model or next(iter(server.models), ""),
        base_url=None if server.base_url == usual else server.base_url,
        env=env,
    )


def parse_pasted_key(text: str) -> str:
    """Parse a pasted key, without surrounding text. Raises ConfigError if it cannot be one; the
    message does not repeat it."""
    key = text.strip().strip("\"'")
    if not key:
        raise ConfigError("The key is empty.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            "This cannot be a key: it has spaces, line breaks or characters that are not"
            " allowed in keys. Copy only the key.",
            field=API_KEY_FIELD,
        )
    return key
