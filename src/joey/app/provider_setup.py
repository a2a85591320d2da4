"""Setup of a provider: its page for creating keys, the check of a key, the profile for it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from joey.app.models import HttpGetResponse, http_get, parse_model_names, request_models
from joey.app.profiles import ProfileAdmin, parse_pasted_key, save_first_profile
from joey.config.home import resolve_home_and_env
from joey.config.profiles import DEFAULT_PROFILE_NAME, load_profiles
from joey.core.models import MIN_WINDOW_TOKENS
from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError
from joey.providers.catalog import find_provider_spec
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import parse_url

_TIMEOUT_S = 8.0
_REFUSED_STATUSES = (401, 403)
_KEY_PAGES = {
    "anthropic": "https://console.anthropic.com/settings/keys",
    "openai": "https://platform.openai.com/api-keys",
    "openrouter": "https://openrouter.ai/settings/keys",
    "deepseek": "https://platform.deepseek.com/api_keys",
    "gemini": "https://aistudio.google.com/apikey",
    "xai": "https://console.x.ai",
    "groq": "https://console.groq.com/keys",
    "mistral": "https://console.mistral.ai/api-keys",
    "together": "https://api.together.ai/settings/api-keys",
    "fireworks": "https://app.fireworks.ai/settings/users/api-keys",
    "cerebras": "https://cloud.cerebras.ai",
    "moonshot": "https://platform.moonshot.ai/console/api-keys",
    "zai": "https://z.ai/manage-apikey/apikey-list",
    "qwen": "https://bailian.console.alibabacloud.com/?tab=model#/api-key",
    "minimax": "https://platform.minimax.io/user-center/basic-information/interface-key",
    "sambanova": "https://cloud.sambanova.ai/apis",
    "baseten": "https://app.baseten.co/settings/api_keys",
    "requesty": "https://app.requesty.ai/api-keys",
    "unbound": "https://gateway.getunbound.ai",
    "vercel-ai-gateway": "https://vercel.com/d?to=%2F%5Bteam%5D%2F%7E%2Fai%2Fapi-keys",
    "poe": "https://poe.com/api_key",
    "roo": "https://app.roocode.com",
    "chutes": "https://chutes.ai/app/api",
    "deepinfra": "https://deepinfra.com/dash/api_keys",
    "doubao": "https://console.volcengine.com/ark",
    "featherless": "https://featherless.ai/account/api-keys",
    "huggingface": "https://huggingface.co/settings/tokens",
    "io-intelligence": "https://ai.io.net/ai/api-keys",
}


class KeyCheck(Struct, frozen=True):
    is_refused: bool = False
    message: str = ""
    """Why it was refused, or could not be checked; empty: it was accepted."""
    models: tuple[str, ...] = ()
    """Those that the service lists for this key."""


def takes_key(provider: str) -> bool:
    """Whether an API key gives access; some clouds only support logins."""
    kind = find_provider_spec(provider)
    return kind.is_local or bool(kind.key_variables)


def get_key_page(provider: str) -> str:
    return _KEY_PAGES.get(provider, "")


async def check_key(
    provider: str,
    key: str,
    base_url: str | None = None,
    *,
    env: Mapping[str, str] = os.environ,
) -> KeyCheck:
    """Check a key by requesting the list of models, which is free. Raises ConfigError if the key is
    rejected, ProviderError if an address that the user named does not answer."""
    profile = Profile(
        provider=provider, base_url=base_url, api_key=parse_pasted_key(key) if key else None
    )
    if find_provider_spec(provider).login:
        return KeyCheck(message="The key could not be checked: a cloud has no free request for it.")
    try:
        answer = await _request_with_key(profile, env)
    except ProviderError as error:
        if base_url is not None:
            raise
        return KeyCheck(message=f"The key could not be checked. {error}")
    # Gemini answers 400 where others answer 401.
    is_refused = answer.status in _REFUSED_STATUSES or (
        answer.status == 400 and b"key" in answer.body.lower()
    )
    if is_refused:
        who = base_url or provider
        return KeyCheck(True, f"{who} does not accept this key (status {answer.status}).")
    if answer.status != 200:
        return KeyCheck(message=f"The key could not be checked (status {answer.status}).")
    return KeyCheck(models=tuple(parse_model_names(answer) or ()))


def normalize_address(text: str) -> str:
    """Normalize an address for a profile: `localhost:1234` becomes `http://localhost:1234/v1`.
    Raises ConfigError."""
    url = text if "://" in text else f"http://{text}"
    return f"{url.rstrip('/')}/v1" if parse_url(url).path == "/" else url


async def _request_with_key(profile: Profile, env: Mapping[str, str]) -> HttpGetResponse:
    if profile.provider == "openrouter" and profile.base_url is None:
        # The list of models is public.
        url = f"{find_provider_spec(profile.provider).base_url}/key"
        headers = {"authorization": f"Bearer {profile.api_key}"}
        return await http_get(url, env, _TIMEOUT_S, headers)
    return await request_models(profile, env, _TIMEOUT_S)


def save_provider_profile(
    *, provider: str, model: str = "", key: str | None = None, base_url: str | None = None
) -> str:
    """Save a profile under an unused name, activate it, and return its name. Raises ConfigError."""
    if base_url == find_provider_spec(provider).base_url:
        base_url = None
    home, env = resolve_home_and_env()
    known = load_profiles(home).profiles
    numbered = (f"{provider}-{number}" for number in range(2, len(known) + 3))
    names = (DEFAULT_PROFILE_NAME, provider, *numbered)
    name = next(name for name in names if name not in known)
    save_first_profile(
        provider=provider, model=model, key=key, base_url=base_url, name=name, home=home, env=env
    )
    return name


def replace_key(route: ModelRoute, base_url: str | None, key: str) -> None:
    """Replace the key that a task used: in its profile, or in a new one if the key came from a
    variable. Raises ConfigError."""
    profiles = ProfileAdmin()
    if route.profile in profiles.list_profiles():
        profiles.set_api_key(route.profile, key)
    else:
        save_provider_profile(
            provider=route.provider, model=route.model, key=key, base_url=base_url
        )


async def describe_small_window(
    profile: Profile, route: ModelRoute, *, env: Mapping[str, str] = os.environ
) -> str:
    """Describe how to enlarge the window if a local server's is too small for any task. Raises
    ConfigError if the profile is not complete."""
    http = HttpClient(environ=env)
    provider = make_provider(profile, http, route)
    try:
        await provider.prepare()
    finally:
        await http.close()
    model = provider.model
    if not provider.window_advice or model.context_window >= MIN_WINDOW_TOKENS:
        return ""
    return (
        f"{model.id} has a window of {model.context_window:,} tokens, and joey needs about"
        f" {MIN_WINDOW_TOKENS:,}: {provider.window_advice}."
    )
