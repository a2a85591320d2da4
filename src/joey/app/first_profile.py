"""The first choice of a model that lasts: a profile, made by whoever comes for the first time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from joey.app.local_servers import LocalServer
from joey.config.home import joey_home
from joey.config.preferences import DEFAULT_PROFILE, Preferences
from joey.config.profiles import choose_profile, load_profiles
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError
from joey.providers.registry import KINDS, find_kind


def is_first_run(home: Path | None = None, env: Mapping[str, str] | None = None) -> bool:
    """Whether nothing was ever chosen: no profile, and nothing in the environment that would do.

    Raises:
        ConfigError: what there is cannot be understood or used, so that nobody knows.
    """
    env = os.environ if env is None else env
    profiles = load_profiles(home or joey_home(env))
    if profiles.profiles:
        return False
    try:
        choose_profile(profiles=profiles, env=env, kinds=KINDS)
    except NoModelError:
        return True
    return False


def save_first_profile(
    *,
    provider: str,
    model: str = "",
    key: str | None = None,
    base_url: str | None = None,
    name: str = DEFAULT_PROFILE,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Profile:
    """Write a profile, make it the active one, and return it complete, as a task would get it.

    Raises:
        ConfigError: it could not be used (nothing is written then), or there is one of this name.
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    kind = find_kind(provider)
    key = None if key is None else usable_key(key)
    given = {"provider": kind.name, "model": model, "baseUrl": base_url, "apiKey": key}
    values = {key: value for key, value in given.items() if value}
    preferences = Preferences(home)
    complete = choose_profile(
        profiles=preferences.profiles_with(name, values), env=env, kinds=KINDS, profile=name
    )
    preferences.save_profile(name, values, activate=True, exists=False)
    return complete


def save_found_server(
    server: LocalServer, model: str | None = None, *, env: Mapping[str, str] | None = None
) -> Profile:
    """As `save_first_profile`, of a server that was found; by default with its first model."""
    usual = find_kind(server.provider).base_url
    return save_first_profile(
        provider=server.provider,
        model=model or next(iter(server.models), ""),
        base_url=None if server.base_url == usual else server.base_url,
        env=env,
    )


def usable_key(text: str) -> str:
    """A key as it is pasted, without what came along.

    Raises:
        ConfigError: it cannot be one; the text does not repeat it.
    """
    key = text.strip().strip("\"'")
    if not key:
        raise ConfigError("The key is empty.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            "This cannot be a key: it has spaces, line breaks or letters that no key has. Copy it"
            " once more, alone."
        )
    return key
