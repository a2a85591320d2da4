"""Profiles: named ways to reach a model, with their keys, and the choice of one for a run.

`choose_profile`: flags come before a profile named on the command line, that before the active
profile, that before the first key found in the usual variables. A key is sent only where it
belongs: changing the provider of a profile drops its key and address, an address from a variable is
used only with a key from a variable, and an address given alone does not get the active profile's
key unless it has the same host: it counts as a server with OpenAI's protocol, which nearly all
support. Only the environment of the process is read; a `.env` file in the workspace belongs to the
project, not to joey.

`profiles.json` is readable by its owner alone:

{"active": "work", "profiles": {"work": {"provider": "anthropic", "apiKey": "…"}}}

Roo's shape (`currentApiConfigName`, `apiConfigs`) and its names inside a profile are understood too
(`roo_settings`).
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from joey.config.json_documents import convert_document, read_document
from joey.core.models import ProviderSpec
from joey.core.settings import Profile
from joey.core.text import compile_regex
from joey.errors import ConfigError, NoModelError

DEFAULT_PROVIDER = "openai"
"""Whose protocol is spoken at an address of which nothing else is known."""
_OLLAMA_HOST_RE = compile_regex(r"(?P<name>\[[^\]]*\]|[^:/\[\]]*)(?P<port>:\d+)?(?P<path>(/.*)?)")


def choose_profile(
    *,
    profiles: Profiles,
    env: Mapping[str, str],
    kinds: Sequence[ProviderSpec],
    provider: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    profile: str | None = None,
) -> Profile:
    """Choose a profile and complete it. Raises ConfigError."""
    profile = None if profile is None else profiles.find_name(profile)
    start = _select_base_profile(profiles, env, kinds, provider, base_url, profile)
    kind = _find_provider(start.provider, kinds)
    url = base_url or start.base_url
    if url is None and start.api_key is None and not start.credentials:
        url = find_base_url(kind, env)
    named_url = base_url or (start.base_url if kind.name == DEFAULT_PROVIDER else None)
    # Any server may speak OpenAI's protocol, and few have OpenAI's models.
    is_other = named_url is not None and not is_same_address(named_url, kind.base_url)
    usual = "" if is_other else kind.default_model
    chosen = structs.replace(
        start,
        model=model or start.model or usual,
        base_url=url,
        api_key=start.api_key or (None if start.credentials else find_api_key(kind, env)),
        region=start.region or _find_first_value(kind.region_variables, env),
        project=start.project or _find_first_value(kind.project_variables, env),
    )
    _check_profile(chosen, kind)
    return chosen


def _select_base_profile(
    profiles: Profiles,
    env: Mapping[str, str],
    kinds: Sequence[ProviderSpec],
    provider: str | None,
    base_url: str | None,
    profile: str | None,
) -> Profile:
    """Select the profile to which the flags are applied."""
    if profile is not None and profile not in profiles.profiles:
        known_names = _describe_known_profiles(profiles)
        raise ConfigError(
            f"There is no profile {profile!r}. {known_names}", field="profile", value=profile
        )
    known = profiles.profiles.get(profile or profiles.active_name)
    if provider is not None:
        return known if known and known.provider == provider else Profile(provider=provider)
    if base_url is not None and profile is None:
        is_known = known and _is_same_host(base_url, known.base_url)
        return known if known and is_known else Profile(provider=DEFAULT_PROVIDER)
    if known is not None:
        return known
    with_key = (kind for kind in kinds if find_api_key(kind, env))
    with_address = (kind for kind in kinds if find_base_url(kind, env))
    if kind := next(with_key, None) or next(with_address, None):
        return Profile(provider=kind.name)
    if profiles.profiles:
        raise ConfigError(f"No profile is active. {profiles.choose_hint}")
    raise NoModelError(_format_no_model_message(kinds))


def is_same_address(one: str | None, other: str | None) -> bool:
    """Whether both addresses are the same, ignoring passwords."""
    return _normalize_address(one) == _normalize_address(other)


def _normalize_address(address: str | None) -> object:
    from urllib.parse import urlsplit

    if address is None:
        return None
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/"), parts.query
    except ValueError:
        return address


def _is_same_host(one: str, other: str | None) -> bool:
    from urllib.parse import urlsplit

    try:
        return other is not None and urlsplit(one).netloc.lower() == urlsplit(other).netloc.lower()
    except ValueError:
        return False


def find_api_key(kind: ProviderSpec, env: Mapping[str, str]) -> str | None:
    return _find_first_value(kind.key_variables, env)


def find_key_variable(kind: ProviderSpec, env: Mapping[str, str]) -> str:
    """Return the variable that holds a key, or ""."""
    return next((name for name in kind.key_variables if env.get(name, "").strip()), "")


def _find_first_value(variables: Sequence[str], env: Mapping[str, str]) -> str | None:
    values = (env.get(variable, "").strip() for variable in variables)
    return next(filter(None, values), None)


def find_base_url(kind: ProviderSpec, env: Mapping[str, str]) -> str | None:
    """Find the base URL of a provider in the environment."""
    if kind.base_url_variable is None:
        return None
    value = env.get(kind.base_url_variable, "").strip()
    if not value:
        return None
    return _build_ollama_url(value) if kind.base_url_variable == "OLLAMA_HOST" else value


def _build_ollama_url(host: str) -> str:
    """Build the URL from `OLLAMA_HOST`, where Ollama listens: scheme, name and port may be missing,
    and it may name every interface, which is not an address to connect to."""
    scheme, separator, rest = host.rpartition("://")
    match = _OLLAMA_HOST_RE.fullmatch(rest)
    if match is None:
        return host
    name = "127.0.0.1" if match["name"] in ("", "0.0.0.0", "[::]") else match["name"]
    port = match["port"] or ("" if separator else ":11434")
    return f"{scheme or 'http'}://{name}{port}{match['path'].rstrip('/')}"


def _find_provider(name: str, kinds: Sequence[ProviderSpec]) -> ProviderSpec:
    for kind in kinds:
        if kind.name == name:
            return kind
    from joey.core.provider_advice import explain_unknown_provider

    message = explain_unknown_provider(name, (kind.name for kind in kinds))
    raise ConfigError(message, field="provider", value=name)


def _check_profile(chosen: Profile, kind: ProviderSpec) -> None:
    if not chosen.model:
        if chosen.base_url:
            raise NoModelError(f"Name a model at {chosen.base_url} with --model.")
        command = f"joey models --provider {kind.name}"
        raise NoModelError(f"Name a model of {kind.name} with --model; `{command}` lists them.")
    has_access = chosen.api_key or chosen.base_url or kind.is_local or kind.login
    if not has_access:
        where = " or ".join(kind.key_variables) or "a key"
        raise ConfigError(
            f"There is no key for {kind.name}. Set {where}, or put `apiKey` into the profile."
        )


def _describe_known_profiles(profiles: Profiles) -> str:
    if not profiles.profiles:
        return "There are no profiles yet; create one with joey profiles add."
    return f"Known ones: {', '.join(sorted(profiles.profiles))}."


def _format_no_model_message(kinds: Sequence[ProviderSpec]) -> str:
    variables = [kind.key_variables[0] for kind in kinds if kind.key_variables]
    others = " and others" if len(variables) > 3 else ""
    return (
        "No model is configured. There are three ways to continue:\n"
        f"  1. set an API key in the environment ({', '.join(variables[:3])}{others}), or run"
        " `joey` at a terminal, which asks for one;\n"
        "  2. start a model server on this machine, such as Ollama, and name it with --provider or"
        " --base-url, and its model with --model;\n"
        "  3. run `joey demo`, which needs neither a key nor a network.\n"
        "joey doctor shows what is found here; joey profiles add makes a choice permanent."
    )


PROFILES_FILE = "profiles.json"
ROO_EXPORT_KEY = "providerProfiles"
_log = logging.getLogger(__name__)


class Profiles(Struct, frozen=True):
    active_name: str = "default"
    profiles: dict[str, Profile] = {}
    missing_active_name: str | None = None
    """Whom the file names as the active one although it does not exist."""
    names_by_id: dict[str, str] = {}
    """Roo's settings name profiles by their ids."""

    def find_name(self, name_or_id: str) -> str:
        if name_or_id in self.profiles:
            return name_or_id
        return self.names_by_id.get(name_or_id, name_or_id)

    @property
    def missing_active_warning(self) -> str:
        """What to do about `missing_active_name`; empty without one."""
        if self.missing_active_name is None:
            return ""
        missing, used = self.missing_active_name, self.active_name
        said = f"{PROFILES_FILE} has no profile {missing!r}, which it names as the active one"
        if used in self.profiles:
            return f"{said}; {used} is used (joey profiles use {used} settles it)."
        return f"{said}. {self.choose_hint}"

    @property
    def choose_hint(self) -> str:
        """How to choose among several profiles."""
        return f"Choose one with joey profiles use NAME: {', '.join(self.profiles)}."


def load_profiles(home: Path) -> Profiles:
    """Load the user's profiles; none if there is no file. Raises ConfigError."""
    path = home / PROFILES_FILE
    document = read_document(path)
    if document is None:
        return Profiles()
    _restrict_file_permissions(path)
    document = get_profiles_part(document)
    group = "profiles" if "profiles" in document else "apiConfigs"
    named = document.get(group, {})
    if not isinstance(named, dict):
        raise ConfigError(f"{path}: `{group}` must be an object of profiles by name.")
    only = next(iter(named)) if len(named) == 1 else "default"
    active = document.get("active", document.get("currentApiConfigName", only))
    if not isinstance(active, str):
        raise ConfigError(f"{path}: `active` must be the name of one of the profiles.")
    profiles = {name: parse_profile(path, group, name, given) for name, given in named.items()}
    ids = {str(given["id"]): name for name, given in named.items() if "id" in given}
    is_named = "active" in document or "currentApiConfigName" in document
    if not profiles or active in profiles or not is_named:
        return Profiles(active, profiles, names_by_id=ids)
    used = only if len(profiles) == 1 else active
    return Profiles(used, profiles, missing_active_name=active, names_by_id=ids)


def get_profiles_part(document: dict[str, Any]) -> dict[str, Any]:
    """Return the profiles part of a file, which may be a settings export of Roo Code."""
    part = document.get(ROO_EXPORT_KEY)
    return part if isinstance(part, dict) else document


def check_profile_name(name: str) -> None:
    """Raise ConfigError for a name that no command line could contain."""
    if not name.strip() or not name.isprintable():
        raise ConfigError(f"{name!r} is not a valid profile name.")


def parse_profile(path: Path, group: str, name: str, given: Any) -> Profile:
    """Parse one profile with joey's or Roo's names. Raises ConfigError."""
    key_path = f"{group}.{name}"
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: `{key_path}` must be an object.")
    return convert_document(
        _normalize_fields(given) | {"name": name}, Profile, path, within=key_path
    )


def collect_given_keys(given: dict[str, Any]) -> frozenset[str]:
    """Return the keys that the file sets for a profile, by joey's names."""
    return frozenset(_normalize_fields(given))


def _normalize_fields(given: dict[str, Any]) -> dict[str, Any]:
    if "apiProvider" not in given:
        return given
    from joey.config.roo_settings import convert_roo_profile  # few profiles use Roo's names

    roo, own = convert_roo_profile(given), _pick_joey_fields(given)
    for name in ("extraBody", "headers"):
        if isinstance(roo.get(name), dict) and isinstance(own.get(name), dict):
            own[name] = roo[name] | own[name]
    return roo | own


def convert_client_fields(given: dict[str, Any], provider: str) -> dict[str, Any]:
    """Convert a client's profile fields to joey's names; `provider` is used if it names none.

    No stored profile is merged into it: there, Roo's names may hold keys of several providers.
    """
    if "apiProvider" in given:
        return _normalize_fields(given)
    from joey.config.roo_settings import convert_roo_profile

    roo = convert_roo_profile(given, given.get("provider", provider))
    own = {name: given[name] for name in Profile.__struct_encode_fields__ if name in given}
    return {name: value for name, value in roo.items() if name != "provider"} | own


def get_api_key_field_name(given: dict[str, Any]) -> str:
    """Return the field of this profile's API key; Roo has a different name for each provider."""
    if "apiProvider" not in given:
        return "apiKey"
    from joey.config.roo_settings import get_api_key_name

    return get_api_key_name(str(given["apiProvider"]))


def _pick_joey_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Pick joey's own keys from a profile of Roo's; Roo uses `apiKey` for Anthropic only."""
    own = set(Profile.__struct_encode_fields__) - {"apiKey", "reasoningEffort"}
    return {name: value for name, value in given.items() if name in own}


def _restrict_file_permissions(path: Path) -> None:
    """Make a file with keys readable by its owner only."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(0o600)
            _log.warning("%s could be read by others; it is now 0600", path)
    except OSError as error:
        _log.warning("%s may be readable by others: %s", path, error.strerror)


DEFAULT_PROFILE_NAME = "default"


def split_settings_and_profile(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from joey.config.roo_settings import PROFILE_KEYS

    settings = {name: value for name, value in values.items() if name not in PROFILE_KEYS}
    return settings, {name: value for name, value in values.items() if name in PROFILE_KEYS}
