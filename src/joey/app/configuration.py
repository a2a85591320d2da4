"""Settings and keys of a profile that somebody brings along for one task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from joey.app.customs import check_mode, modes_for
from joey.app.options import check_price, remembered
from joey.config.choose import choose_profile
from joey.config.documents import convert_document
from joey.config.home import joey_home
from joey.config.preferences import Preferences, split
from joey.config.profiles import Profiles
from joey.core.settings import Settings
from joey.engine.engine import TaskOptions
from joey.errors import ConfigError
from joey.providers.kinds import KINDS

_WHERE = Path("configuration")


def configured(
    options: TaskOptions, values: dict[str, Any], env: Mapping[str, str] | None = None
) -> TaskOptions:
    """The options with these laid over them; what the flags deny stays denied.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    env = os.environ if env is None else env
    workspace = options.workspace
    assert workspace is not None
    given, keys = split({name: value for name, value in values.items() if value is not None})
    profile = given.pop("currentApiConfigName", None)
    if profile is not None and not isinstance(profile, str):
        raise ConfigError("currentApiConfigName must be text.")
    before = options.settings or Settings()
    settings = convert_document({**msgspec.to_builtins(before), **given}, Settings, _WHERE)
    denied = dict.fromkeys((*before.denied_commands, *settings.denied_commands))
    settings = structs.replace(settings, denied_commands=tuple(denied))
    options = structs.replace(options, settings=settings)
    if "mode" in given:
        home = joey_home(env)
        check_mode(settings.mode, lambda: modes_for(workspace, home, env, settings))
        options = structs.replace(options, mode=settings.mode)
    return _with_profile(options, profile, keys, env) if profile or keys else options


def _with_profile(
    options: TaskOptions, name: str | None, keys: dict[str, Any], env: Mapping[str, str]
) -> TaskOptions:
    preferences = Preferences(joey_home(env))
    profiles = preferences.profiles()
    if keys:
        given = preferences.profile_with(keys, name)
        profiles = Profiles(given.name, {**profiles.profiles, given.name: given})
    chosen = choose_profile(profiles=profiles, env=env, kinds=KINDS, profile=name)
    check_price(chosen, options.limits)
    route = remembered(chosen, profiles, None, by_person=True)
    protocol = chosen.protocol or options.protocol
    return structs.replace(options, profile=chosen, route=route, protocol=protocol)
