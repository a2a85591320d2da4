"""The choice of a task's model: its provider, address and key.

A key is sent only to the address that its owner chose. An address counts as named by the user if it
is in a profile, an environment variable or a flag, or if joey remembers, outside the task
directory, that it was named for the task. An address that only the task directory names gets no
key. An address that a client sends with a task gets the key sent with it and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from joey.config.json_documents import convert_document
from joey.config.model_memory import MODELS_FILE, REFRESHED_MODELS_FILE
from joey.config.profiles import (
    DEFAULT_PROVIDER,
    Profiles,
    choose_profile,
    find_base_url,
    is_same_address,
)
from joey.core.redaction import strip_url_credentials
from joey.core.settings import Limits, ModelRoute, Profile, TaskSecrets
from joey.errors import ConfigError, UntrustedAddressError
from joey.ports.storage import TaskMetadata
from joey.providers.catalog import (
    PROVIDER_ALIASES,
    PROVIDER_SPECS,
    find_provider_spec,
    list_model_ids,
)
from joey.providers.factory import resolve_model

if TYPE_CHECKING:
    from joey.config.model_catalog import ModelCatalog

_TUNING_FIELDS = {
    field.name: field.encode_name
    for field in structs.fields(Profile)
    if field.name
    not in ("name", "provider", "model", "base_url", "api_key", "credentials", "headers")
}
"""What a profile says of its model, apart from how to reach it."""
_KEY_FIELDS = ("apiKey", "credentials")
_CONFIGURATION_LABEL = Path("configuration")


def open_model_catalog(home: Path) -> ModelCatalog | None:
    """Open the user's files about models; None if there are none."""
    if not any((home / name).exists() for name in (MODELS_FILE, REFRESHED_MODELS_FILE)):
        return None
    from joey.config.model_catalog import ModelCatalog  # most users have none

    return ModelCatalog(home)


def list_catalogued_ids(provider: str, catalog: ModelCatalog | None) -> tuple[str, ...]:
    """List a provider's models that are known by name. Raises ConfigError."""
    kind = find_provider_spec(provider)
    others = () if catalog is None else catalog.list_ids(kind.name)
    return tuple(dict.fromkeys((*list_model_ids(kind.name), *others)))


StoredModel = ModelRoute | TaskMetadata
"""What is remembered of the model that a task works with."""


class ModelFlags(Struct, frozen=True, kw_only=True):
    """The command-line flags about the model."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    profile: str | None = None

    def choose_profile(self, profiles: Profiles, env: Mapping[str, str]) -> Profile:
        """Return the complete profile that these flags select. Raises ConfigError."""
        flags = structs.asdict(self)
        if self.provider is not None:
            flags["provider"] = PROVIDER_ALIASES.get(self.provider, self.provider)
        return choose_profile(profiles=profiles, env=env, kinds=PROVIDER_SPECS, **flags)


class ModelChoice(Struct, frozen=True):
    profile: Profile
    route: ModelRoute
    """What the task remembers of it."""
    secrets: TaskSecrets | None = None
    """What is remembered outside the task folder."""
    tuning: dict[str, Any] = {}
    """What a client gave besides an address and a key, by the names of `profiles.json`."""


def choose_model(
    flags: ModelFlags,
    previous: StoredModel | None,
    profiles: Profiles,
    env: Mapping[str, str],
    secrets: TaskSecrets | None = None,
) -> ModelChoice:
    """Choose the model that flags and files ask for; a resumed task keeps its own unless the flags
    name another. Raises ConfigError."""
    by_user = flags != ModelFlags()
    if previous is not None and not (flags.provider or flags.base_url or flags.profile):
        return _choose_previous_model(
            flags.model, previous, profiles, env, secrets, by_user=by_user
        )
    is_address_alone = flags.base_url is not None and not (flags.provider or flags.profile)
    if (
        previous is not None
        and is_address_alone
        and is_same_address(flags.base_url, previous.base_url)
    ):
        # The earlier address gets no key of a profile made for another one.
        profiles = Profiles()
        provider, model = previous.provider or None, flags.model or previous.model or None
        flags = structs.replace(flags, provider=provider, model=model)
    chosen = flags.choose_profile(profiles, env)
    route = build_stored_route(chosen, profiles, flags.base_url, by_user=by_user)
    named = None
    if flags.base_url is not None:
        named = TaskSecrets(
            profile=route.profile, provider=chosen.provider, base_url=flags.base_url
        )
    return ModelChoice(chosen, route, named)


_PROVIDERS_BY_KEY_PREFIX = {"sk-ant-": "anthropic", "sk-or-": "openrouter", "AIza": "gemini"}


def choose_model_with_key(
    key: str | None,
    flags: ModelFlags,
    previous: StoredModel | None,
    profiles: Profiles,
    env: Mapping[str, str],
    secrets: TaskSecrets | None = None,
) -> ModelChoice:
    """Choose a model like `choose_model`, with this key, if any, instead of the user's own. Raises
    ConfigError."""
    if not key:
        return choose_model(flags, previous, profiles, env, secrets)
    names_none = not (flags.provider or flags.base_url or flags.profile)
    if previous is not None and names_none:
        provider = previous.provider
    elif names_none and (guess := _guess_provider(key)):
        provider, flags = guess, structs.replace(flags, provider=guess)
    else:
        profile = profiles.profiles.get(flags.profile or profiles.active_name)
        named = flags.provider or (DEFAULT_PROVIDER if flags.base_url else "")
        provider = named or (profile.provider if profile is not None else "")
    if not provider:
        raise ConfigError(
            "The provider of this key is not known. Name it with --provider.",
            field="provider",
        )
    variables = find_provider_spec(PROVIDER_ALIASES.get(provider, provider)).key_variables
    env = {**env, **dict.fromkeys(variables, key)}
    choice = choose_model(flags, previous, profiles, env, secrets)
    return structs.replace(choice, profile=structs.replace(choice.profile, api_key=key))


def _guess_provider(key: str) -> str | None:
    found = (name for prefix, name in _PROVIDERS_BY_KEY_PREFIX.items() if key.startswith(prefix))
    return next(found, None)


def build_stored_route(
    chosen: Profile, profiles: Profiles, base_url: str | None, *, by_user: bool
) -> ModelRoute:
    """Build the route to store: an address from a flag or a profile stays with the task; one from
    the environment may change with it."""
    known = profiles.profiles.get(chosen.name)
    name = ""
    # A profile built from flags or variables has the default name too, but not the key.
    if known and chosen.provider == known.provider and known.api_key in (None, chosen.api_key):
        name, base_url = chosen.name, base_url or known.base_url
    return structs.replace(
        chosen.route, profile=name, base_url=strip_url_credentials(base_url), is_explicit=by_user
    )


def find_key_source(profile: Profile, env: Mapping[str, str]) -> str:
    """Return the variable that the key of a complete profile came from, or ""."""
    kind = find_provider_spec(profile.provider)
    named = (name for name in kind.key_variables if env.get(name, "").strip() == profile.api_key)
    return next(named, "")


def _choose_previous_model(
    model: str | None,
    previous: StoredModel,
    profiles: Profiles,
    env: Mapping[str, str],
    secrets: TaskSecrets | None,
    *,
    by_user: bool,
) -> ModelChoice:
    model = model or previous.model or None
    provider = previous.provider or DEFAULT_PROVIDER
    if (
        secrets is not None
        and secrets.provider == provider
        and is_same_address(secrets.base_url, previous.base_url)
    ):
        return _choose_with_secrets(model, secrets, profiles, env, by_user=by_user)
    if previous.has_own_key:
        raise ConfigError(
            "The key that was given with this task for "
            f"{previous.base_url or previous.provider} is not on this machine: it is kept outside "
            "the task folder. Nothing was sent, and no other key was used. Give address and key "
            "again in the task's configuration, or choose another model with --profile, --provider "
            "or --base-url."
        )
    known = profiles.profiles.get(previous.profile)
    if known is not None and previous.provider not in ("", known.provider):
        known = None
    if previous.base_url is None:
        flags = ModelFlags(provider=previous.provider or None, model=model)
        if known is not None:
            flags = ModelFlags(model=model, profile=previous.profile)
    else:
        flags, profiles = _find_flags_for_address(
            model, provider, previous.base_url, known, profiles, env
        )
    chosen = flags.choose_profile(profiles, env)
    return ModelChoice(chosen, build_stored_route(chosen, profiles, None, by_user=by_user))


def _choose_with_secrets(
    model: str | None,
    secrets: TaskSecrets,
    profiles: Profiles,
    env: Mapping[str, str],
    *,
    by_user: bool,
) -> ModelChoice:
    if secrets.has_own_key:
        given = Profile(
            name=secrets.profile or "default",
            provider=secrets.provider,
            model=model or "",
            base_url=secrets.base_url,
            api_key=secrets.api_key,
            credentials=secrets.credentials,
            headers=secrets.headers,
        )
        return _choose_with_own_key(given, secrets)
    flags = ModelFlags(provider=secrets.provider or None, model=model, base_url=secrets.base_url)
    if secrets.profile in profiles.profiles:
        flags = structs.replace(flags, provider=None, profile=secrets.profile)
    elif secrets.base_url is not None:
        profiles = Profiles()  # an address without its own profile gets no key
    chosen = flags.choose_profile(profiles, env)
    route = build_stored_route(chosen, profiles, secrets.base_url, by_user=by_user)
    chosen = structs.replace(chosen, headers={**chosen.headers, **secrets.headers})
    return ModelChoice(chosen, route, secrets)


def _choose_with_own_key(given: Profile, secrets: TaskSecrets) -> ModelChoice:
    profiles = Profiles(given.name, {given.name: given})
    chosen = ModelFlags(profile=given.name).choose_profile(profiles, {})
    route = structs.replace(
        chosen.route,
        base_url=strip_url_credentials(given.base_url),
        is_explicit=True,
        has_own_key=True,
    )
    return ModelChoice(chosen, route, secrets)


def _find_flags_for_address(
    model: str | None,
    provider: str,
    address: str,
    known: Profile | None,
    profiles: Profiles,
    env: Mapping[str, str],
) -> tuple[ModelFlags, Profiles]:
    """Find how the user named the address in a task directory. Raises UntrustedAddressError."""
    for profile in (*filter(None, (known,)), *profiles.profiles.values()):
        if profile.provider == provider and is_same_address(profile.base_url, address):
            return ModelFlags(model=model, profile=profile.name), profiles
    kind = find_provider_spec(provider)
    if any(is_same_address(own, address) for own in (kind.base_url, find_base_url(kind, env))):
        return ModelFlags(provider=provider, model=model), Profiles()
    raise UntrustedAddressError(provider, address)


# What a client gives with a task ---------------------------------------------------------------


def choose_user_model(name: str | None, profiles: Profiles, env: Mapping[str, str]) -> ModelChoice:
    """Return the profile of this name, or the one that the user's files and variables choose.
    Raises ConfigError."""
    chosen = ModelFlags(profile=name).choose_profile(profiles, env)
    return ModelChoice(chosen, build_stored_route(chosen, profiles, None, by_user=name is not None))


def build_client_choice(name: str, fields: Mapping[str, Any]) -> ModelChoice | None:
    """Build an empty choice for a client's fields, for when neither files nor variables choose a
    model."""
    if not fields.keys() & {"provider", "baseUrl", *_KEY_FIELDS}:
        return None
    profile = Profile(name=name, provider=fields.get("provider", Profile().provider))
    return ModelChoice(profile, profile.route)


def choose_resumed_model(
    fields: Mapping[str, Any],
    previous: StoredModel,
    secrets: TaskSecrets | None,
    profiles: Profiles,
    env: Mapping[str, str],
) -> ModelChoice:
    """Choose the model of an existing task, as the base for a client's fields. Raises
    ConfigError."""
    try:
        return choose_model(ModelFlags(), previous, profiles, env, secrets)
    except ConfigError:
        # A key alone does not make the task directory's address trusted.
        needed = _KEY_FIELDS if previous.base_url is None else ("baseUrl",)
        if fields.keys().isdisjoint(needed):
            raise
        profile = Profile(name=previous.profile, provider=previous.provider, model=previous.model)
        return ModelChoice(profile, structs.replace(profile.route, has_own_key=True))


def apply_client_fields(
    base: ModelChoice, fields: Mapping[str, Any], env: Mapping[str, str]
) -> ModelChoice:
    """Apply the profile fields that a client sends for one task. Raises ConfigError."""
    provider = fields.get("provider", base.profile.provider)
    if provider != base.profile.provider:
        base = _choose_other_provider(provider, base.profile.name, fields, env)
    known = base.profile
    given = convert_document(
        {**msgspec.to_builtins(known), **fields}, Profile, _CONFIGURATION_LABEL
    )
    tuning = {name: value for name, value in fields.items() if name in _TUNING_FIELDS.values()}
    here = known.base_url or find_provider_spec(given.provider).base_url
    has_key = not fields.keys().isdisjoint(_KEY_FIELDS)
    is_elsewhere = "baseUrl" in fields and not is_same_address(given.base_url, here)
    if is_elsewhere:
        # None of the user's keys goes there.
        given = structs.replace(
            given,
            api_key=fields.get("apiKey"),
            credentials=fields.get("credentials", {}),
            headers=fields.get("headers", {}),
        )
    elif has_key and "baseUrl" not in fields and base.route.base_url is None:
        # An address from a variable is used only with a key from a variable.
        given = structs.replace(given, base_url=None)
    own_key = is_elsewhere or has_key or base.route.has_own_key
    if own_key:
        return structs.replace(_choose_with_own_key(given, given.task_secrets), tuning=tuning)
    route = structs.replace(base.route, model=given.model, is_explicit=True)
    if "headers" not in fields:
        return ModelChoice(given, route, base.secrets, tuning)
    kept = base.secrets or TaskSecrets(
        profile=route.profile, provider=route.provider, base_url=route.base_url
    )
    return ModelChoice(given, route, structs.replace(kept, headers=given.headers), tuning)


def _choose_other_provider(
    provider: str, name: str, fields: Mapping[str, Any], env: Mapping[str, str]
) -> ModelChoice:
    """Choose a provider other than the user's, with a key from the environment if there is one."""
    profiles, model = Profiles(), fields.get("model")
    try:
        chosen = ModelFlags(provider=provider, model=model).choose_profile(profiles, env)
    except ConfigError:
        # A missing profile is an error, whatever key the client sends.
        find_provider_spec(provider)
        chosen = Profile(name=name, provider=provider)
    return ModelChoice(chosen, build_stored_route(chosen, profiles, None, by_user=True))


def apply_tuning(profile: Profile, tuning: Mapping[str, Any]) -> Profile:
    """Apply the tuning that a client sent for the task. Raises ConfigError."""
    given = {encoded: tuning[encoded] for encoded in _TUNING_FIELDS.values() if encoded in tuning}
    read = convert_document(given, Profile, _CONFIGURATION_LABEL)
    changes = {
        field: getattr(read, field) for field, encoded in _TUNING_FIELDS.items() if encoded in given
    }
    return structs.replace(profile, **changes)


def is_local_provider(name: str) -> bool:
    """Whether the provider runs on the user's own machine, free of charge."""
    return find_provider_spec(name).is_local


def require_known_price(profile: Profile, limits: Limits, home: Path) -> None:
    """Reject a budget that cannot be enforced before anything is spent."""
    if limits.max_cost is None or find_provider_spec(profile.provider).is_local:
        return
    if resolve_model(profile, open_model_catalog(home)).prices is None:
        raise ConfigError(
            f"The price of {profile.model!r} is not known, so a budget cannot be kept. Limit the"
            " turns, the tokens or the time instead (--max-turns, --max-tokens, --max-wall-time)."
        )
