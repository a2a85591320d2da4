"""Models of local servers: windows, abilities and speed, as the running servers report them.

Servers are looked up at their default addresses, at those of environment variables, and at local
addresses in the user's profiles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from joey.app.model_choice import open_model_catalog
from joey.app.models import (
    LOCAL_PROVIDERS,
    SERVER_SOURCE,
    ListedModel,
    LocalServer,
    ModelList,
    build_service_headers,
    find_local_servers,
    list_models,
    resolve_profile,
)
from joey.config.home import resolve_home_and_env
from joey.config.profiles import Profiles, load_profiles
from joey.core.models import ModelFacts, ModelInfo, ServedModel
from joey.core.settings import Profile
from joey.errors import ConfigError, NoModelError
from joey.ports.model import ModelOverrides
from joey.providers.catalog import find_provider_spec
from joey.providers.errors import TOOL_CHOICE_FLAG, build_tools_advice
from joey.providers.factory import is_local_address, resolve_model
from joey.providers.http_client import HttpClient
from joey.providers.local_server import limit_model
from joey.providers.server_advice import SERVER_KINDS, get_window_advice
from joey.providers.server_facts import (
    ServerClient,
    identify_server,
    list_facts,
    measure_speed,
)

MEASURE_TIMEOUT_S = 5.0


class ServerReport(Struct, frozen=True):
    """A server that was found, and what it reports about its models."""

    server: LocalServer
    kind: str = ""
    """Ollama, LM Studio and so on by their names as providers; empty if it is another."""
    models: tuple[ModelFacts, ...] = ()
    """Those that can hold a conversation; loaded ones first."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Command-line flags that select the first model."""
        names = tuple(each.id for each in self.models)
        return structs.replace(self.server, models=names).flags

    @property
    def window(self) -> int | None:
        """The window of the first model; None if it is not known."""
        served = self.models[0].served if self.models else None
        return served.context_window if served is not None else None

    @property
    def window_advice(self) -> str:
        """How to get a window that fits the usual prompt and tools."""
        server, served = self.server, self.models[0].served or ServedModel()
        return get_window_advice(
            self.kind,
            self.models[0].id,
            server.profile,
            server.base_url,
            window=served.context_window or 0,
            largest=served.max_context_window,
        )

    @property
    def tools_advice(self) -> str:
        """How to get native tool calls from a server that was started without them."""
        served = self.models[0].served if self.models else None
        if self.kind != "vllm" or served is None or served.native_tools is not False:
            return ""
        return build_tools_advice(self.models[0].id, TOOL_CHOICE_FLAG)


async def inspect_local_servers(
    home: Path | None = None, env: Mapping[str, str] | None = None, *, measure: bool = False
) -> list[ServerReport]:
    """Report the servers that answer. With `measure`, the first loaded model of each generates a
    few words. Raises nothing."""
    home, env = resolve_home_and_env(home, env)
    profiles = _list_local_profiles(home)
    servers = await find_local_servers(env, profiles)
    reports = (_inspect_server(server, env, profiles, measure=measure) for server in servers)
    return list(await asyncio.gather(*reports))


def _list_local_profiles(home: Path) -> list[Profile]:
    try:
        profiles = load_profiles(home)
    except ConfigError:
        profiles = Profiles()
    names = {kind.name for kind in LOCAL_PROVIDERS}
    return [
        profile
        for profile in profiles.profiles.values()
        if profile.base_url is not None
        and (profile.provider in names or is_local_address(profile.base_url))
    ]


async def _inspect_server(
    server: LocalServer, env: Mapping[str, str], profiles: Sequence[Profile], *, measure: bool
) -> ServerReport:
    if not server.models:
        return ServerReport(server)
    profile = next((each for each in profiles if each.name == server.profile), Profile())
    http = HttpClient(environ=env)
    client = _make_client(server.base_url, profile, http)
    try:
        kind = server.provider
        if kind not in SERVER_KINDS:
            kind = await identify_server(client, server.models)
        models = [each for each in await list_facts(kind, client, server.models) if each.is_chat]
        models.sort(key=lambda facts: facts.is_loaded is not True)
        if measure and models:
            models[0] = await measure_speed(kind, client, models[0], MEASURE_TIMEOUT_S)
        return ServerReport(server, kind, tuple(models))
    finally:
        await http.close()


def _make_client(base_url: str, profile: Profile, http: HttpClient) -> ServerClient:
    root_url = base_url.rstrip("/").removesuffix("/v1")
    return ServerClient(root_url, build_service_headers(profile), http)


async def list_served_models(
    provider: str | None = None,
    *,
    offline: bool = False,
) -> ModelList:
    """List models like `list_models`, with the windows that local servers report; if no provider
    was chosen yet, of all local servers that answer. Raises ConfigError."""
    home, env = resolve_home_and_env()
    try:
        profile = resolve_profile(provider, home, env)
    except NoModelError:
        reports = [] if offline else await inspect_local_servers(home, env)
        catalog = open_model_catalog(home)
        listed = [model for report in reports for model in _list_models_of(report, catalog)]
        if not listed:
            raise
        return ModelList("", tuple(listed))
    found = await list_models(provider, offline=offline, home=home, env=env)
    spec = find_provider_spec(profile.provider)
    base_url = profile.base_url or spec.base_url
    if not spec.is_local and not (spec.name == "openai" and is_local_address(base_url)):
        return found
    http = HttpClient(environ=env)
    client = _make_client(base_url, profile, http)
    offered = [model.id for model in found.models if SERVER_SOURCE in model.sources]
    try:
        kind = spec.name if spec.is_local else await identify_server(client, offered)
        facts = {each.id: each for each in await list_facts(kind, client, offered)}
    finally:
        await http.close()
    if not kind:
        return found
    models = (
        structs.replace(model, info=_build_info(facts.get(model.id), model.info, profile, kind))
        for model in found.models
        if spec.is_local or model.is_default or SERVER_SOURCE in model.sources
    )
    return structs.replace(found, models=tuple(models))


def _list_models_of(report: ServerReport, catalog: ModelOverrides | None) -> Iterator[ListedModel]:
    profile = Profile(provider=report.server.provider)
    for facts in report.models:
        info = resolve_model(structs.replace(profile, model=facts.id), catalog)
        info = _build_info(facts, info, profile, report.kind)
        yield ListedModel(facts.id, info, (SERVER_SOURCE,), provider=report.server.provider)


def _build_info(
    facts: ModelFacts | None, info: ModelInfo, profile: Profile, kind: str
) -> ModelInfo:
    """Build the model's facts as the server runs it; unknown if it does not report them, or if the
    model is not loaded and the server chooses a window then."""
    served = facts.served if facts is not None else None
    if served is None or served.context_window is None:
        return structs.replace(info, is_known=False)
    return structs.replace(limit_model(info, served, profile, kind), is_known=True)
