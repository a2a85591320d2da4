"""Model discovery: models of the catalogue, of a provider's server, of local model servers.

A server counts as local only if it lists its models as its API specifies: many other programs
listen on ports 8000 and 8080.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.app.model_choice import (
    ModelFlags,
    build_stored_route,
    find_key_source,
    list_catalogued_ids,
    open_model_catalog,
)
from joey.config.home import resolve_home_and_env
from joey.config.profiles import (
    find_base_url,
    find_key_variable,
    is_same_address,
    load_profiles,
)
from joey.core.models import ApiProtocol, ModelInfo, Prices, ProviderSpec
from joey.core.redaction import remove_secrets
from joey.core.settings import ModelRoute, Profile
from joey.core.text import compile_regex
from joey.errors import (
    NOT_RUNNING_CODE,
    ConfigError,
    NoModelError,
    ProviderError,
    ProviderFailureKind,
    UserError,
)
from joey.providers.anthropic import build_headers, should_use_legacy_api
from joey.providers.catalog import (
    PROVIDER_SPECS,
    build_endpoint_url,
    find_model_info,
    find_provider_spec,
    list_model_ids,
    suggest_path,
)
from joey.providers.errors import build_response_error, build_service_info
from joey.providers.factory import make_provider, resolve_model
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import parse_url

REQUEST_TIMEOUT_S = 3.0
HTTP_UNAUTHORIZED = 401
HTTP_NOT_FOUND = 404
HTTP_LOADING = 503
CATALOGUE_SOURCE, SERVER_SOURCE = "catalogue", "server"


def find_prices(profile: Profile) -> Prices | None:
    """Return the catalogue's prices of a profile's model; None if unknown or free."""
    home, _ = resolve_home_and_env()
    return resolve_model(profile, open_model_catalog(home)).prices


class ListedModel(Struct, frozen=True):
    id: str
    info: ModelInfo
    sources: tuple[str, ...]
    """`catalogue`, `server`, or both."""
    is_default: bool = False
    """A task gets it unless flags say otherwise."""
    provider: str = ""
    """Where the list has models of several."""


class ModelList(Struct, frozen=True):
    provider: str
    models: tuple[ListedModel, ...]
    server_error: str = ""
    """Why the server has not been heard."""


async def list_models(
    provider: str | None = None,
    *,
    offline: bool = False,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> ModelList:
    """List the models of a provider, by default the one that a task would use. Raises ConfigError
    if there is no such provider, or none was ever chosen."""
    home, env = resolve_home_and_env(home, env)
    profile = resolve_profile(provider, home, env)
    kind = find_provider_spec(profile.provider)
    catalog = open_model_catalog(home)
    known = [profile.model]
    # Any server may speak OpenAI's protocol, and few have OpenAI's models.
    is_other = kind.name == "openai" and profile.base_url is not None
    if offline or not is_other or is_same_address(profile.base_url, kind.base_url):
        known += (kind.default_model, *list_catalogued_ids(kind.name, catalog))
    known = [*filter(None, known)]
    offered: list[str] = []
    server_error = ""
    if not offline:
        route = build_stored_route(profile, load_profiles(home), None, by_user=False)
        try:
            offered = await fetch_offered_models(profile, env, route)
        except UserError as error:
            server_error = str(error)
    lists = {CATALOGUE_SOURCE: {*known}, SERVER_SOURCE: {*offered}}
    models = tuple(
        ListedModel(
            name,
            find_model_info(profile.provider, name, catalog),
            tuple(source for source, names in lists.items() if name in names),
            is_default=name == profile.model,
        )
        for name in dict.fromkeys((*known, *offered))
    )
    return ModelList(profile.provider, models, server_error)


async def list_profile_models(
    profile: Profile,
) -> list[str]:
    """List the models of a complete profile's server and of the catalogue; only the server's if it
    has a custom address and lists its models."""
    home, env = resolve_home_and_env()
    offered: list[str] = []
    with suppress(UserError):  # a request will report the error
        offered = await fetch_offered_models(profile, env)
    if offered and profile.base_url is not None:
        return offered
    usual = find_provider_spec(profile.provider).default_model
    ids = list_catalogued_ids(profile.provider, open_model_catalog(home))
    known = dict.fromkeys((usual, *ids, *offered))
    return [name for name in known if name]


def resolve_profile(provider: str | None, home: Path, env: Mapping[str, str]) -> Profile:
    """Return the profile that would be used, with or without a model. Raises ConfigError."""
    name = None if provider is None else find_provider_spec(provider).name
    profiles = load_profiles(home)
    try:
        return ModelFlags(provider=name).choose_profile(profiles, env)
    except ConfigError:
        if name is None:
            raise
    try:
        # A local server has no default model, but its address is known.
        found = ModelFlags(provider=name, model="any").choose_profile(profiles, env)
        return structs.replace(found, model="")
    except ConfigError:
        return Profile(provider=name)


async def fetch_offered_models(
    profile: Profile, env: Mapping[str, str], route: ModelRoute | None = None
) -> list[str]:
    """Fetch the models that the profile's server lists. Raises UserError if it cannot be reached,
    does not accept the key, or lists none."""
    answer = await request_models(profile, env, REQUEST_TIMEOUT_S)
    _require_accepted_key(answer, profile, env, route)
    names = parse_model_names(answer)
    if names is None:
        suggestion = suggest_path(find_provider_spec(profile.provider), profile.base_url)
        found = "; ".join(filter(None, (f"status {answer.status}", suggestion)))
        found = str(remove_secrets(found))
        raise UserError(f"{profile.provider} does not list its models ({found}).")
    return names


def _require_accepted_key(
    answer: HttpGetResponse, profile: Profile, env: Mapping[str, str], route: ModelRoute | None
) -> None:
    if answer.status != HTTP_UNAUTHORIZED:
        return
    url = build_endpoint_url(find_provider_spec(profile.provider), profile.base_url)
    service = build_service_info(profile, url, route)
    if profile.api_key:
        service = structs.replace(service, key_source=find_key_source(profile, env))
    raise build_response_error(service, answer.status, {}, answer.body)


async def request_models(
    profile: Profile, env: Mapping[str, str], seconds: float
) -> HttpGetResponse:
    """Request the list of models: the cheapest request that checks a key. Raises ProviderError,
    ConfigError."""
    kind = find_provider_spec(profile.provider)
    if kind.login:
        return await _reach_cloud(profile, env, seconds)
    url = build_endpoint_url(kind, profile.base_url)
    if kind.api_protocol is ApiProtocol.ANTHROPIC:
        url = f"{url.removesuffix('/messages')}/models?limit=100"
    else:
        url = f"{url.removesuffix('/chat/completions')}/models"
    return await http_get(url, env, seconds, build_service_headers(profile))


async def _reach_cloud(profile: Profile, env: Mapping[str, str], seconds: float) -> HttpGetResponse:
    """Check that a cloud can be reached; without a login, any answer shows that. Raises
    ProviderError, or ConfigError if its library, address, region or project is missing."""
    provider = make_provider(profile, HttpClient(environ=env))
    address = profile.base_url or f"https://{provider.address}"
    status = (await http_get(address, env, seconds)).status
    return HttpGetResponse(status if status >= 500 else 200, b"")


async def find_missing_endpoint(
    profile: Profile, env: Mapping[str, str], seconds: float = REQUEST_TIMEOUT_S
) -> str | None:
    """Return the URL that tasks would use if a GET request finds nothing there, else None. Services
    do not expect GET there, so this proves nothing; most answer with an error that shows the URL
    exists. Raises ProviderError, ConfigError."""
    url = build_endpoint_url(find_provider_spec(profile.provider), profile.base_url)
    status = (await http_get(url, env, seconds, build_service_headers(profile))).status
    return url if status == HTTP_NOT_FOUND else None


def build_service_headers(profile: Profile) -> dict[str, str]:
    if find_provider_spec(profile.provider).api_protocol is ApiProtocol.ANTHROPIC:
        key = build_headers(profile.api_key, legacy=should_use_legacy_api(profile))
    else:
        key = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
    return key | profile.headers


LOCAL_PROVIDERS = tuple(kind for kind in PROVIDER_SPECS if kind.is_local)
LOCAL_TIMEOUT_S = 2.0
"""For all of them together. Where nothing runs, a connection is refused at once; a server whose
model takes all processors needs its time."""
MAX_LISTED_MODELS = 500
_EMBEDDING_MODEL_RE = compile_regex(r"embed|rerank|(?:^|/)(?:bge|all-minilm)-", re.IGNORECASE)
"""Models that cannot chat; LM Studio always lists one, and Ollama those that were pulled."""


class LocalServer(Struct, frozen=True):
    provider: str
    """As `--provider` and a profile name it."""
    base_url: str
    """Where requests go; what `--base-url` and a profile take."""
    models: tuple[str, ...]
    """What it offers; none when nothing is loaded or pulled yet."""
    is_loading: bool = False
    """It is there, and answers nothing before its model is loaded."""
    profile: str = ""
    """The profile that names this address, unless the provider alone leads to it."""

    @property
    def is_local(self) -> bool:
        return find_provider_spec(self.provider).is_local

    @property
    def missing_model_hint(self) -> str:
        """What to do if it has no model to use; empty if it has one."""
        if self.is_loading:
            return f"{self.provider} at {self.base_url} is still loading its model."
        if self.models:
            return ""
        pull = "; get one with `ollama pull NAME`" if self.provider == "ollama" else ""
        return f"{self.provider} at {self.base_url} has no model yet{pull}."

    @property
    def flags(self) -> tuple[str, ...]:
        """Command-line flags that select it."""
        place = ("--profile", self.profile) if self.profile else ("--provider", self.provider)
        return (*place, "-m", self.models[0] if self.models else "NAME")


async def find_local_servers(
    env: Mapping[str, str], profiles: Iterable[Profile] = ()
) -> list[LocalServer]:
    """Find the servers that answer: those of the provider list in its order, then those of the
    profiles. Raises nothing."""
    places = []
    for kind in LOCAL_PROVIDERS:
        url = find_base_url(kind, env) or kind.base_url
        places.append(Profile(name="", provider=kind.name, base_url=url))
    for profile in profiles:
        if not any(is_same_address(profile.base_url, place.base_url) for place in places):
            places.append(profile)
    found = await asyncio.gather(*(_probe_local_server(place, env) for place in places))
    return [server for server in found if server is not None]


async def _probe_local_server(place: Profile, env: Mapping[str, str]) -> LocalServer | None:
    try:
        return await _ask_local_server(place, env, LOCAL_TIMEOUT_S)
    except UserError:
        return None  # no server is running: the usual case


async def _ask_local_server(place: Profile, env: Mapping[str, str], seconds: float) -> LocalServer:
    """Query a server. Raises UserError if it does not answer, or not as such a server does."""
    base = (place.base_url or find_provider_spec(place.provider).base_url).rstrip("/")
    root = base.removesuffix("/v1")
    is_ollama = place.provider == "ollama"
    url = f"{root}/api/tags" if is_ollama else f"{base}/models"
    answer = await http_get(url, env, seconds, build_service_headers(place))
    _require_accepted_key(answer, place, env, None)
    server = LocalServer(place.provider, f"{root}/v1" if is_ollama else base, (), False, place.name)
    if answer.status == HTTP_LOADING and b"oading model" in answer.body:
        return structs.replace(server, is_loading=True)
    names = parse_model_names(answer, "models", "name") if is_ollama else parse_model_names(answer)
    if names is None:
        raise UserError(f"{base} does not list its models as {place.provider} does.")
    return structs.replace(server, models=_choose_chat_models(names))


def _choose_chat_models(names: Sequence[str]) -> tuple[str, ...]:
    """Return the models that can chat, as far as their names tell; all if none can."""
    chat = tuple(name for name in names if _EMBEDDING_MODEL_RE.search(name) is None)
    return chat or tuple(names)


async def ask_named_server(
    flags: ModelFlags,
) -> LocalServer:
    """Return the server that the flags or the active profile name, with its models. Raises
    NoModelError if they name none, UserError if it does not answer."""
    home, env = resolve_home_and_env()
    profiles = load_profiles(home)
    profile = structs.replace(flags, model="any").choose_profile(profiles, env)
    if flags == ModelFlags() and profile.name not in profiles.profiles:
        raise NoModelError("Only an environment variable names a server.")
    kind = find_provider_spec(profile.provider)
    base = profile.base_url or kind.base_url
    if not kind.is_local:
        route = build_stored_route(profile, profiles, flags.base_url, by_user=True)
        names = await fetch_offered_models(profile, env, route)
        return LocalServer(kind.name, base, _choose_chat_models(names))
    try:
        named = structs.replace(profile, name="")
        return await _ask_local_server(named, env, REQUEST_TIMEOUT_S)
    except ProviderError as error:
        if error.code != NOT_RUNNING_CODE:
            raise
        from joey.providers.server_advice import describe_not_running

        address = parse_url(base).host_and_port
        raise UserError(describe_not_running(kind.name, address, "")) from error


def parse_model_names(
    answer: HttpGetResponse, group: str = "data", name: str = "id"
) -> list[str] | None:
    """Parse the names in an answer such as `{"data": [{"id": "a"}]}`; None for any other answer."""
    payload: Any = answer.json
    entries = payload.get(group) if answer.status == 200 and isinstance(payload, dict) else None
    if not isinstance(entries, list):
        return None
    named = (entry.get(name) for entry in entries[:MAX_LISTED_MODELS] if isinstance(entry, dict))
    return [each for each in named if isinstance(each, str) and each and each.isprintable()]


class KnownProvider(Struct, frozen=True):
    name: str
    needs_key: bool
    models: tuple[str, ...]
    """Those that are known by name, the usual one first."""
    start_hint: str = ""
    """Of a local server: where it would be, and how to start it."""
    key_variable: str = ""
    """The variable of the environment that holds a key for it."""


def list_known_providers(env: Mapping[str, str]) -> tuple[KnownProvider, ...]:
    """List the providers except clouds, which need more than a key."""
    found = []
    for kind in PROVIDER_SPECS:
        if kind.login:
            continue
        models = dict.fromkeys(filter(None, (kind.default_model, *list_model_ids(kind.name))))
        hint = _describe_start(kind, env) if kind.is_local else ""
        variable = find_key_variable(kind, env)
        found.append(KnownProvider(kind.name, not kind.is_local, tuple(models), hint, variable))
    return tuple(found)


def _describe_start(kind: ProviderSpec, env: Mapping[str, str]) -> str:
    from joey.providers.server_advice import describe_not_running

    try:
        address = parse_url(find_base_url(kind, env) or kind.base_url)
    except ConfigError as error:
        return str(error)
    return describe_not_running(kind.name, address.host_and_port, "")


MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""Lists of models are long, and some are no lists."""


class HttpGetResponse(Struct, frozen=True):
    status: int
    body: bytes

    @property
    def json(self) -> object:
        """The body as JSON; None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


async def http_get(
    url: str, env: Mapping[str, str], seconds: float, headers: Mapping[str, str] | None = None
) -> HttpGetResponse:
    """Send a GET request. Raises ProviderError if there is no answer, no such name, no trusted
    certificate, a timeout or invalid HTTP, ConfigError if the address, or that of a proxy in the
    environment, is invalid."""
    client = HttpClient(connect_timeout=seconds, environ=env)
    try:
        async with asyncio.timeout(seconds):
            asked = {"accept": "application/json", **(headers or {})}
            async with await client.get(url, asked) as response:
                return HttpGetResponse(response.status, await response.read_all(MAX_RESPONSE_BYTES))
    except TimeoutError as error:
        text = f"{parse_url(url).host_and_port} did not answer within {seconds:g} seconds."
        raise ProviderError(text, failure=ProviderFailureKind.NETWORK) from error
    finally:
        await client.close()
