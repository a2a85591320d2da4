"""The choice of a task's model: its provider, address and key.

A key is sent only where its owner sent it. An address counts as named by the user if it is in a
profile, a variable or a flag, or if joey remembers, outside the task directory, that it was named
for the task. An address that only the task directory names gets no key. One that a client names
with a task gets the key that came with it and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from joey.config.files import convert_document
from joey.config.profiles import (
    DEFAULT_PROVIDER,
    Profiles,
    address_of,
    choose_profile,
    same_address,
)
from joey.core.redaction import without_user
from joey.core.settings import ModelRoute, Profile, TaskSecrets
from joey.errors import ConfigError, UntrustedAddressError
from joey.providers.registry import PROVIDER_SPECS, find_kind

_TUNING_FIELDS = {
    field.name: field.encode_name
    for field in structs.fields(Profile)
    if field.name not in ("name", "provider", "model", "base_url", "api_key", "headers")
}
"""What a profile says of its model, apart from how to reach it."""
_CONFIGURATION_LABEL = Path("configuration")


class StoredModel(Protocol):
    """What is remembered of the model that a task works with."""

    @property
    def profile(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def model(self) -> str: ...
    @property
    def own_key(self) -> bool: ...


class ModelFlags(Struct, frozen=True, kw_only=True):
    """What flags say about the model."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    profile: str | None = None


class ModelChoice(Struct, frozen=True):
    profile: Profile
    route: ModelRoute
    """What the task remembers of it."""
    secrets: TaskSecrets | None = None
    """What is remembered outside the task folder."""
    tuning: dict[str, Any] = {}
    """What a client gave besides an address and a key, by the names of `profiles.json`."""


def choose(
    asked: ModelFlags,
    earlier: StoredModel | None,
    profiles: Profiles,
    env: Mapping[str, str],
    secrets: TaskSecrets | None = None,
) -> ModelChoice:
    """The model that flags and files ask for; a task that is resumed stays with its own unless
    the flags name another.

    Raises:
        ConfigError
    """
    by_user = asked != ModelFlags()
    if earlier is not None and not (asked.provider or asked.base_url or asked.profile):
        return _as_before(asked.model, earlier, profiles, env, secrets, by_user=by_user)
    if earlier is not None and _confirms(asked, earlier):
        # The address gets no key of a profile that was made for another.
        profiles = Profiles()
        provider, model = earlier.provider or None, asked.model or earlier.model or None
        asked = structs.replace(asked, provider=provider, model=model)
    chosen = choose_profile(
        profiles=profiles, env=env, kinds=PROVIDER_SPECS, **structs.asdict(asked)
    )
    route = remembered(chosen, profiles, asked.base_url, by_user=by_user)
    named = None
    if asked.base_url is not None:
        named = TaskSecrets(
            profile=route.profile, provider=chosen.provider, base_url=asked.base_url
        )
    return ModelChoice(chosen, route, named)


def _confirms(asked: ModelFlags, earlier: StoredModel) -> bool:
    """Whether the flags name the address of before, and nothing else about the service."""
    alone = asked.base_url is not None and not (asked.provider or asked.profile)
    return alone and same_address(asked.base_url, earlier.base_url)


def remembered(
    chosen: Profile, profiles: Profiles, base_url: str | None, *, by_user: bool
) -> ModelRoute:
    """An address from a flag or a profile stays with the task; one from the environment may
    change with it."""
    known = profiles.profiles.get(chosen.name)
    name = ""
    if known is not None and _is_made_of(chosen, known):
        name, base_url = chosen.name, base_url or known.base_url
    return structs.replace(
        chosen.route, profile=name, base_url=without_user(base_url), chosen=by_user
    )


def _is_made_of(chosen: Profile, known: Profile) -> bool:
    """A profile that flags or variables made up has the usual name too, but not the key."""
    return chosen.provider == known.provider and known.api_key in (None, chosen.api_key)


def _as_before(
    model: str | None,
    earlier: StoredModel,
    profiles: Profiles,
    env: Mapping[str, str],
    secrets: TaskSecrets | None,
    *,
    by_user: bool,
) -> ModelChoice:
    model = model or earlier.model or None
    if secrets is not None and _leads_to(secrets, earlier):
        return _with_secrets(model, secrets, profiles, env, by_user=by_user)
    if earlier.own_key:
        raise ConfigError(
            f"The key that was given with this task for {_place(earlier)} is not on this machine:"
            " it is kept outside the task folder. Nothing was sent, and no other key was used."
            " Give address and key again in the task's configuration, or choose another model"
            " with --profile, --provider or --base-url."
        )
    known = profiles.profiles.get(earlier.profile)
    if known is not None and earlier.provider not in ("", known.provider):
        known = None
    if earlier.base_url is None:
        asked = ModelFlags(provider=earlier.provider or None, model=model)
        if known is not None:
            asked = ModelFlags(model=model, profile=earlier.profile)
    else:
        asked, profiles = _tied(model, earlier, known, profiles, env)
    chosen = choose_profile(
        profiles=profiles, env=env, kinds=PROVIDER_SPECS, **structs.asdict(asked)
    )
    return ModelChoice(chosen, remembered(chosen, profiles, None, by_user=by_user))


def _leads_to(secrets: TaskSecrets, earlier: StoredModel) -> bool:
    provider = earlier.provider or DEFAULT_PROVIDER
    return secrets.provider == provider and same_address(secrets.base_url, earlier.base_url)


def _with_secrets(
    model: str | None,
    secrets: TaskSecrets,
    profiles: Profiles,
    env: Mapping[str, str],
    *,
    by_user: bool,
) -> ModelChoice:
    if secrets.own_key:
        given = Profile(
            name=secrets.profile or "default",
            provider=secrets.provider,
            model=model or "",
            base_url=secrets.base_url,
            api_key=secrets.api_key,
            headers=secrets.headers,
        )
        return _only_with_own_key(given, secrets)
    asked = ModelFlags(provider=secrets.provider or None, model=model, base_url=secrets.base_url)
    if secrets.profile in profiles.profiles:
        asked = structs.replace(asked, provider=None, profile=secrets.profile)
    elif secrets.base_url is not None:
        profiles = Profiles()  # an address without a profile of its own gets nobody's key
    chosen = choose_profile(
        profiles=profiles, env=env, kinds=PROVIDER_SPECS, **structs.asdict(asked)
    )
    route = remembered(chosen, profiles, secrets.base_url, by_user=by_user)
    chosen = structs.replace(chosen, headers={**chosen.headers, **secrets.headers})
    return ModelChoice(chosen, route, secrets)


def _only_with_own_key(given: Profile, secrets: TaskSecrets) -> ModelChoice:
    profiles = Profiles(given.name, {given.name: given})
    chosen = choose_profile(profiles=profiles, env={}, kinds=PROVIDER_SPECS, profile=given.name)
    route = structs.replace(
        chosen.route, base_url=without_user(given.base_url), chosen=True, own_key=True
    )
    return ModelChoice(chosen, route, secrets)


def _tied(
    model: str | None,
    earlier: StoredModel,
    known: Profile | None,
    profiles: Profiles,
    env: Mapping[str, str],
) -> tuple[ModelFlags, Profiles]:
    """How the user has named the address that a task folder names.

    Raises:
        UntrustedAddressError
    """
    provider = earlier.provider or DEFAULT_PROVIDER
    for profile in (*filter(None, (known,)), *profiles.profiles.values()):
        if profile.provider == provider and same_address(profile.base_url, earlier.base_url):
            return ModelFlags(model=model, profile=profile.name), profiles
    kind = find_kind(provider)
    if any(same_address(own, earlier.base_url) for own in (kind.base_url, address_of(kind, env))):
        return ModelFlags(provider=provider, model=model), Profiles()
    assert earlier.base_url is not None
    raise UntrustedAddressError(provider, earlier.base_url)


def _place(earlier: StoredModel) -> str:
    return earlier.base_url or earlier.provider


# What a client gives with a task ---------------------------------------------------------------


def users_choice(name: str | None, profiles: Profiles, env: Mapping[str, str]) -> ModelChoice:
    """The profile of this name, else what the user's files and variables choose.

    Raises:
        ConfigError
    """
    chosen = choose_profile(profiles=profiles, env=env, kinds=PROVIDER_SPECS, profile=name)
    return ModelChoice(chosen, remembered(chosen, profiles, None, by_user=name is not None))


def new_choice(name: str, fields: Mapping[str, Any]) -> ModelChoice | None:
    """To lay a client's fields over, where neither files nor variables choose anything."""
    if not fields.keys() & {"provider", "baseUrl", "apiKey"}:
        return None
    profile = Profile(name=name, provider=fields.get("provider", Profile().provider))
    return ModelChoice(profile, profile.route)


def choice_again(
    fields: Mapping[str, Any],
    earlier: StoredModel,
    secrets: TaskSecrets | None,
    profiles: Profiles,
    env: Mapping[str, str],
) -> ModelChoice:
    """To lay a client's fields over, for a task that there is already: its own model.

    Raises:
        ConfigError
    """
    try:
        return choose(ModelFlags(), earlier, profiles, env, secrets)
    except ConfigError:
        # A key alone does not tie the address that the task folder names.
        if ("apiKey" if earlier.base_url is None else "baseUrl") not in fields:
            raise
        profile = Profile(name=earlier.profile, provider=earlier.provider, model=earlier.model)
        return ModelChoice(profile, structs.replace(profile.route, own_key=True))


def with_client_fields(
    base: ModelChoice, fields: Mapping[str, Any], env: Mapping[str, str]
) -> ModelChoice:
    """A choice with the fields of a profile, by our names, that a client gives for one task.

    Raises:
        ConfigError
    """
    provider = fields.get("provider", base.profile.provider)
    if provider != base.profile.provider:
        base = _of_provider(provider, base.profile.name, fields, env)
    known = base.profile
    given = convert_document(
        {**msgspec.to_builtins(known), **fields}, Profile, _CONFIGURATION_LABEL
    )
    tuning = {name: value for name, value in fields.items() if name in _TUNING_FIELDS.values()}
    here = known.base_url or find_kind(given.provider).base_url
    is_elsewhere = "baseUrl" in fields and not same_address(given.base_url, here)
    if is_elsewhere:
        # Nothing of the user's goes there.
        given = structs.replace(
            given, api_key=fields.get("apiKey"), headers=fields.get("headers", {})
        )
    elif "apiKey" in fields and "baseUrl" not in fields and base.route.base_url is None:
        # An address from a variable is used only with a key from a variable.
        given = structs.replace(given, base_url=None)
    own_key = is_elsewhere or "apiKey" in fields or base.route.own_key
    if own_key:
        return structs.replace(_only_with_own_key(given, given.own_secrets), tuning=tuning)
    route = structs.replace(base.route, model=given.model, chosen=True)
    if "headers" not in fields:
        return ModelChoice(given, route, base.secrets, tuning)
    kept = base.secrets or TaskSecrets(
        profile=route.profile, provider=route.provider, base_url=route.base_url
    )
    return ModelChoice(given, route, structs.replace(kept, headers=given.headers), tuning)


def _of_provider(
    provider: str, name: str, fields: Mapping[str, Any], env: Mapping[str, str]
) -> ModelChoice:
    """Another provider than the user's: with a key from the environment, if there is one."""
    profiles, model = Profiles(), fields.get("model")
    try:
        chosen = choose_profile(
            profiles=profiles, env=env, kinds=PROVIDER_SPECS, provider=provider, model=model
        )
    except ConfigError:
        find_kind(provider)  # one that does not exist is an error, whatever key the client gives
        chosen = Profile(name=name, provider=provider)
    return ModelChoice(chosen, remembered(chosen, profiles, None, by_user=True))


def tuned(profile: Profile, tuning: Mapping[str, Any]) -> Profile:
    """The profile with what a client gave for the task.

    Raises:
        ConfigError
    """
    given = {encoded: tuning[encoded] for encoded in _TUNING_FIELDS.values() if encoded in tuning}
    read = convert_document(given, Profile, _CONFIGURATION_LABEL)
    changes = {
        field: getattr(read, field) for field, encoded in _TUNING_FIELDS.items() if encoded in given
    }
    return structs.replace(profile, **changes)
