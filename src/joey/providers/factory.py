"""Provider factory: the provider and the model limits for a profile.

A separate module because only it needs the HTTP client besides the registry; the protocols are
imported when a profile first asks for them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.models import ApiProtocol, ModelInfo, Prices, ProviderSpec
from joey.core.settings import ModelRoute, Profile
from joey.core.text import compile_regex
from joey.errors import ConfigError
from joey.ports.model import ModelOverrides, Provider, RefusalMemory, ServedModels
from joey.providers.catalog import find_model_and_override, find_provider_spec
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import parse_url

if TYPE_CHECKING:
    from joey.providers.sse_transport import StreamingProvider

_CLOSED_MODEL_RE = compile_regex(
    r"(?:^|[/:.])(?:claude|gpt-\d|chatgpt|o\d(?:-|$)|gemini|grok|qwen.*-(?:max|plus)(?:-|$))"
)
_MAX_OUTPUT_SHARE = 0.2
"""Of the window, at most, for one answer: the rest belongs to the conversation."""


def make_provider(
    profile: Profile,
    http: HttpClient,
    route: ModelRoute | None = None,
    *,
    overrides: ModelOverrides | None = None,
    served_models: ServedModels | None = None,
    refusal_memory: RefusalMemory | None = None,
    key_source: str | None = None,
) -> Provider:
    """Create the adapter for the service of a profile; `route` is the one stored with the task,
    `overrides` correct the catalogue, `served_models` and `refusal_memory` remember what local
    servers report and what services reject, `key_source` is the variable of the key, or "". Raises
    ConfigError if there is no such provider, no model is named, or the base URL is invalid."""
    kind = find_provider_spec(profile.provider)
    if not (profile.model or kind.default_model):
        raise ConfigError(
            f"The profile {profile.name!r} names no model, and {kind.name} has no default. Set "
            f"one with --model or in the profile."
        )
    if not profile.model:
        profile = structs.replace(profile, model=kind.default_model)
    model = resolve_model(profile, overrides)
    if kind.login:
        cloud = _find_cloud_provider(kind, profile)
        provider: StreamingProvider = cloud(profile, model, http, route, refusal_memory)
    elif kind.api_protocol is ApiProtocol.ANTHROPIC:
        from joey.providers.anthropic import AnthropicProvider

        provider = AnthropicProvider(profile, model, http, route, refusal_memory)
    elif kind.is_local or (kind.name == "openai" and _is_own_model(profile)):
        from joey.providers.local_server import LocalServerProvider
        from joey.providers.ollama import OllamaProvider

        # A bare address may be any of them.
        is_other = kind.is_local and kind.name != "ollama"
        server = LocalServerProvider if is_other else OllamaProvider
        provider = server(profile, model, http, route, served_models, refusal_memory)
    else:
        from joey.providers.openai import OpenAiProvider

        provider = OpenAiProvider(profile, model, http, route, refusal_memory)
    if key_source is not None and profile.api_key:
        provider.set_key_source(key_source)
    return provider


def _find_cloud_provider(kind: ProviderSpec, profile: Profile) -> type[StreamingProvider]:
    if kind.name == "bedrock":
        from joey.providers.clouds.bedrock import BedrockProvider

        return BedrockProvider
    if kind.name == "azure":
        from joey.providers.clouds.azure import AzureProvider

        return AzureProvider
    from joey.providers.clouds.vertex import VertexClaudeProvider, VertexProvider

    return VertexClaudeProvider if profile.model.startswith("claude") else VertexProvider


def _is_own_model(profile: Profile) -> bool:
    """Whether a model with open weights is at a loopback or private address, where it costs
    nothing; others can only be reached there through a gateway that pays for them."""
    is_closed = _CLOSED_MODEL_RE.search(profile.model.lower())
    return bool(profile.base_url) and not is_closed and is_local_address(profile.base_url or "")


def is_local_address(base_url: str) -> bool:
    """Whether it is on this machine or in a private network."""
    try:
        host = parse_url(base_url).host
    except ConfigError:
        return False
    if not host[:1].isdecimal() and ":" not in host:
        return host == "localhost" or host.endswith((".localhost", ".local"))
    import ipaddress  # few profiles name an address by its number

    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def resolve_model(profile: Profile, overrides: ModelOverrides | None = None) -> ModelInfo:
    """Resolve the catalogue's entry with the profile's limits, as requests use them."""
    info, override = find_model_and_override(profile.provider, profile.model, overrides)
    has_user_prices = override is not None and override.has_user_prices
    if override is not None:
        info = override.apply_to(info)
    window = profile.context_window or info.context_window
    if info.prices not in (None, Prices()) and not has_user_prices and _is_own_model(profile):
        info = structs.replace(info, prices=None)
    usual = min(info.max_output_tokens, math.ceil(window * _MAX_OUTPUT_SHARE))
    return structs.replace(
        info,
        context_window=window,
        max_output_tokens=profile.max_tokens or usual,
        supports_native_tools=info.supports_native_tools
        if profile.native_tools is None
        else profile.native_tools,
        supports_images=info.supports_images if profile.images is None else profile.images,
        prices=profile.prices or info.prices,
    )
