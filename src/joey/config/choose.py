"""Which model a run talks to, and with which key.

Flags come before a profile named on the command line, that before the active profile, that
before the first key found in the usual variables. A key goes only where it belongs: changing the
provider of a profile leaves its key and address behind, an address from a variable is used only
with a key from a variable, and an address that is named alone is not taken for one of the active
profile, unless that has the same host: it is a server that speaks OpenAI's protocol, as nearly
all do. Nothing is read but the environment of the process; a `.env` file in the workspace belongs
to the project, not to us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import structs

from joey.config.profiles import Profiles
from joey.core.regex import regex
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError

USUAL = "openai"
"""Whose protocol is spoken at an address of which nothing else is known."""
_HOST = regex(r"(?P<name>\[[^\]]*\]|[^:/\[\]]*)(?P<port>:\d+)?(?P<path>(/.*)?)")


class ProviderKind(Protocol):
    """What has to be known about a provider to choose it."""

    @property
    def name(self) -> str: ...

    @property
    def key_variables(self) -> Sequence[str]: ...

    @property
    def base_url_variable(self) -> str | None: ...

    @property
    def default_model(self) -> str: ...

    @property
    def is_local(self) -> bool:
        """A server of the person's own, which needs no key."""
        ...


def choose_profile(
    *,
    profiles: Profiles,
    env: Mapping[str, str],
    kinds: Sequence[ProviderKind],
    provider: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    profile: str | None = None,
) -> Profile:
    """A profile with everything that is needed to talk to a model.

    Raises:
        ConfigError: something named does not exist, or nothing usable was found.
    """
    start = _start(profiles, env, kinds, provider, base_url, profile)
    kind = _find_kind(start.provider, kinds)
    url = base_url or start.base_url
    if url is None and start.api_key is None:
        url = address_of(kind, env)
    usual = kind.default_model if base_url is None else ""
    chosen = structs.replace(
        start,
        model=model or start.model or usual,
        base_url=url,
        api_key=start.api_key or key_of(kind, env),
    )
    _check(chosen, kind)
    return chosen


def _start(
    profiles: Profiles,
    env: Mapping[str, str],
    kinds: Sequence[ProviderKind],
    provider: str | None,
    base_url: str | None,
    profile: str | None,
) -> Profile:
    """The profile that the flags are laid over."""
    if profile is not None and profile not in profiles.profiles:
        raise ConfigError(f"There is no profile {profile!r}. {_known_profiles(profiles)}")
    known = profiles.profiles.get(profile or profiles.active)
    if provider is not None:
        return known if known and known.provider == provider else Profile(provider=provider)
    if base_url is not None and profile is None:
        return known if known and _same_host(base_url, known.base_url) else Profile(provider=USUAL)
    if known is not None:
        return known
    kind = _found_in(env, kinds)
    if kind is not None:
        return Profile(provider=kind.name)
    if profiles.profiles:
        raise ConfigError(f"None of the profiles is the active one. {profiles.choice}")
    raise NoModelError(_nothing_found(kinds))


def same_address(one: str | None, other: str | None) -> bool:
    """Whether both are one place, with or without a password in them."""
    return _place(one) == _place(other)


def _place(address: str | None) -> object:
    if address is None:
        return None
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/"), parts.query
    except ValueError:
        return address


def _same_host(one: str, other: str | None) -> bool:
    try:
        return other is not None and urlsplit(one).netloc.lower() == urlsplit(other).netloc.lower()
    except ValueError:
        return False


def _found_in(env: Mapping[str, str], kinds: Sequence[ProviderKind]) -> ProviderKind | None:
    """The first kind with a key in the environment, else the first with an address there."""
    with_key = (kind for kind in kinds if key_of(kind, env))
    with_address = (kind for kind in kinds if address_of(kind, env))
    return next(with_key, None) or next(with_address, None)


def key_of(kind: ProviderKind, env: Mapping[str, str]) -> str | None:
    values = (env.get(variable, "").strip() for variable in kind.key_variables)
    return next(filter(None, values), None)


def address_of(kind: ProviderKind, env: Mapping[str, str]) -> str | None:
    """What the environment says about where a provider is."""
    if kind.base_url_variable is None:
        return None
    value = env.get(kind.base_url_variable, "").strip()
    if not value:
        return None
    return _ollama_url(value) if kind.base_url_variable == "OLLAMA_HOST" else value


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` says where Ollama listens: scheme, name and port may be missing, and it may
    name every interface, which is no address to call."""
    scheme, separator, rest = host.rpartition("://")
    match = _HOST.fullmatch(rest)
    if match is None:
        return host
    name = "127.0.0.1" if match["name"] in ("", "0.0.0.0", "[::]") else match["name"]
    port = match["port"] or ("" if separator else ":11434")
    return f"{scheme or 'http'}://{name}{port}{match['path'].rstrip('/')}"


def _find_kind(name: str, kinds: Sequence[ProviderKind]) -> ProviderKind:
    for kind in kinds:
        if kind.name == name:
            return kind
    known = ", ".join(kind.name for kind in kinds)
    raise ConfigError(f"There is no provider {name!r}. Known ones: {known}.")


def _check(chosen: Profile, kind: ProviderKind) -> None:
    if not chosen.model:
        where = f"at {chosen.base_url}" if chosen.base_url else f"of {kind.name}"
        raise NoModelError(f"Say which model {where} to use, with --model.")
    if chosen.api_key is None and chosen.base_url is None and not kind.is_local:
        where = " or ".join(kind.key_variables) or "a key"
        raise ConfigError(
            f"There is no key for {kind.name}. Set {where}, or put `apiKey` into the profile."
        )


def _known_profiles(profiles: Profiles) -> str:
    if not profiles.profiles:
        return "There are none yet; they live in profiles.json."
    return f"Known ones: {', '.join(sorted(profiles.profiles))}."


def _nothing_found(kinds: Sequence[ProviderKind]) -> str:
    variables = [kind.key_variables[0] for kind in kinds if kind.key_variables]
    others = " and others" if len(variables) > 3 else ""
    return (
        "No model to talk to was found. There are three ways to go on:\n"
        f"  1. set a key in the environment ({', '.join(variables[:3])}{others});\n"
        "  2. start a model server on this machine, such as Ollama, and name it with --provider or"
        " --base-url, and its model with --model;\n"
        "  3. run `joey demo`, which needs neither key nor network.\n"
        "joey doctor says what is found here; joey profiles add makes a choice permanent."
    )
