"""Settings, and keys of a profile, that a client gives to one task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from joey.app.customs import check_mode, modes_for
from joey.app.model_choice import (
    Choice,
    KnownModel,
    choice_again,
    new_choice,
    users_choice,
    with_client_fields,
)
from joey.app.options import check_price
from joey.config.home import joey_home
from joey.config.preferences import Preferences, split
from joey.config.profiles import Profiles, client_fields, load_profiles
from joey.config.settings import PRIVATE, with_configuration
from joey.core.settings import Profile, Settings, TaskSecrets
from joey.engine.engine import TaskOptions
from joey.errors import ConfigError

_STORED = frozenset(Settings.__struct_encode_fields__) - PRIVATE - {"mode"}
"""Settings that a task keeps in its folder; its mode has a record of its own."""


class _Given(Struct, frozen=True):
    settings: dict[str, Any]
    keys: dict[str, Any]
    profile: str | None
    mode: str | None


def configured(
    options: TaskOptions,
    values: dict[str, Any],
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> TaskOptions:
    """The options of a new task with these laid over them; what is denied stays denied.

    Raises:
        ConfigError: naming the key that does not fit.
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    given = _read(values)
    options = _with_settings(options, given, home, env)
    profiles = load_profiles(home)
    if options.profile is None or given.profile is not None:
        base = _users_choice(given, profiles, env)
    elif given.keys:
        base = Choice(options.profile, options.route or options.profile.route, options.secrets)
    else:
        return options
    return _with_model(options, _chosen(base, given, env))


def _users_choice(given: _Given, profiles: Profiles, env: Mapping[str, str]) -> Choice:
    try:
        return users_choice(given.profile, profiles, env)
    except ConfigError:
        fields = client_fields(given.keys, Profile().provider)
        base = None if given.profile else new_choice(profiles.active, fields)
        if base is None:
            raise
        return base


def _chosen(base: Choice, given: _Given, env: Mapping[str, str]) -> Choice:
    if not given.keys:
        return base
    return with_client_fields(base, client_fields(given.keys, base.profile.provider), env)


def reconfigured(
    task: KnownModel,
    workspace: Path,
    secrets: TaskSecrets | None,
    values: dict[str, Any],
    home: Path,
    env: Mapping[str, str],
) -> TaskOptions:
    """Options for opening a task again, with these laid over its own.

    Raises:
        ConfigError
    """
    given = _read(values)
    preferences = Preferences(home)
    options = TaskOptions(workspace=workspace, settings=preferences.settings())
    options = _with_settings(options, given, home, env)
    if given.profile is not None:
        base = users_choice(given.profile, preferences.profiles(), env)
    elif given.keys:
        fields = client_fields(given.keys, task.provider)
        base = choice_again(fields, task, secrets, preferences.profiles(), env)
    else:
        return options
    return _with_model(options, _chosen(base, given, env))


def _read(values: dict[str, Any]) -> _Given:
    settings, keys = split({name: value for name, value in values.items() if value is not None})
    profile = _name("currentApiConfigName", settings.pop("currentApiConfigName", None))
    return _Given(settings, keys, profile, _name("mode", settings.get("mode")))


def _name(key: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{key} must be text, not {type(value).__name__}.")
    return value


def _with_settings(
    options: TaskOptions, given: _Given, home: Path, env: Mapping[str, str]
) -> TaskOptions:
    workspace = options.workspace
    assert workspace is not None
    settings = with_configuration(options.settings or Settings(), given.settings)
    check_mode(given.mode, lambda: modes_for(workspace, home, env, settings))
    private = {name: value for name, value in given.settings.items() if name in PRIVATE}
    secrets = options.secrets
    if private:
        secrets = structs.replace(secrets or TaskSecrets(), settings=private)
    return structs.replace(
        options,
        settings=settings,
        mode=given.mode or options.mode,
        secrets=secrets,
        configuration={name: value for name, value in given.settings.items() if name in _STORED},
    )


def _with_model(options: TaskOptions, choice: Choice) -> TaskOptions:
    check_price(choice.profile, options.limits)
    secrets = choice.secrets
    if options.secrets is not None and options.secrets.settings:
        secrets = structs.replace(secrets or TaskSecrets(), settings=options.secrets.settings)
    return structs.replace(
        options,
        profile=choice.profile,
        route=choice.route,
        protocol=choice.profile.protocol or options.protocol,
        secrets=secrets,
        configuration=options.configuration | choice.tuning,
    )
