"""Models to choose from: those that the catalogue knows, and those that a server says it has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from joey.app.local_servers import listed
from joey.app.web_look import Answer, look
from joey.config.home import joey_home
from joey.config.profiles import choose_profile, load_profiles
from joey.core.models import ModelInfo
from joey.core.settings import Profile
from joey.errors import ConfigError, UserError
from joey.providers.anthropic import headers_for, wants_legacy
from joey.providers.registry import KINDS, WireKind, endpoint, find_kind, lookup, models_of

PATIENCE = 3.0
NO_SUCH_PAGE = 404
CATALOGUE, SERVER = "catalogue", "server"


class ListedModel(Struct, frozen=True):
    id: str
    info: ModelInfo
    sources: tuple[str, ...]
    """`catalogue`, `server`, or both."""
    chosen: bool = False
    """A task gets it unless flags say otherwise."""


class ModelList(Struct, frozen=True):
    provider: str
    models: tuple[ListedModel, ...]
    trouble: str = ""
    """Why the server has not been heard."""


async def list_models(
    provider: str | None = None,
    *,
    offline: bool = False,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> ModelList:
    """Of the provider that a task would talk to, unless one is named.

    Raises:
        ConfigError: there is no such provider, or none was ever chosen.
    """
    env = os.environ if env is None else env
    profile = route_of(provider, home or joey_home(env), env)
    known = catalogued(profile)
    offered: list[str] = []
    trouble = ""
    if not offline:
        try:
            offered = await offered_by(profile, env)
        except UserError as error:
            trouble = str(error)
    sources = dict.fromkeys((*known, *offered), ())
    models = tuple(
        ListedModel(
            name,
            lookup(profile.provider, name),
            (*((CATALOGUE,) if name in known else ()), *((SERVER,) if name in offered else ())),
            chosen=name == profile.model,
        )
        for name in sources
    )
    return ModelList(profile.provider, models, trouble)


def route_of(provider: str | None, home: Path, env: Mapping[str, str]) -> Profile:
    """The profile that would be used, whether or not a model is named in it yet.

    Raises:
        ConfigError
    """
    name = None if provider is None else find_kind(provider).name
    profiles = load_profiles(home)
    choose = partial(choose_profile, profiles=profiles, env=env, kinds=KINDS, provider=name)
    try:
        return choose()
    except ConfigError:
        if name is None:
            raise
    try:
        # Of a local server, which has no usual model, at least the address is known.
        return structs.replace(choose(model="any"), model="")
    except ConfigError:
        return Profile(provider=name)


def catalogued(profile: Profile) -> tuple[str, ...]:
    """What the catalogue has for a provider, and what the profile names."""
    usual = find_kind(profile.provider).default_model
    named = (profile.model, usual, *models_of(profile.provider))
    return tuple(dict.fromkeys(filter(None, named)))


async def offered_by(
    profile: Profile, env: Mapping[str, str], seconds: float = PATIENCE
) -> list[str]:
    """What the profile's server says that it has.

    Raises:
        UserError: it cannot be reached, or does not say.
    """
    answer = await ask_for_models(profile, env, seconds)
    names = listed(answer)
    if names is None:
        raise UserError(f"{profile.provider} does not list its models (status {answer.status}).")
    return names


async def ask_for_models(profile: Profile, env: Mapping[str, str], seconds: float) -> Answer:
    """The cheapest thing that one can ask a service: it costs nothing, and checks the key.

    Raises:
        ProviderError, ConfigError
    """
    kind = find_kind(profile.provider)
    url = endpoint(kind, profile.base_url)
    if kind.wire is WireKind.ANTHROPIC:
        url = f"{url.removesuffix('/messages')}/models?limit=100"
    else:
        url = f"{url.removesuffix('/chat/completions')}/models"
    return await look(url, env, seconds, _headers(profile))


async def silent_address(
    profile: Profile, env: Mapping[str, str], seconds: float = PATIENCE
) -> str | None:
    """Where a task would send its words, if a look there finds nothing; else None. To look is not
    what a service expects, so this proves nothing; most say so, and thereby that they are there.

    Raises:
        ProviderError, ConfigError
    """
    url = endpoint(find_kind(profile.provider), profile.base_url)
    status = (await look(url, env, seconds, _headers(profile))).status
    return url if status == NO_SUCH_PAGE else None


def _headers(profile: Profile) -> dict[str, str]:
    if find_kind(profile.provider).wire is WireKind.ANTHROPIC:
        key = headers_for(profile.api_key, legacy=wants_legacy(profile))
    else:
        key = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
    return key | profile.headers
