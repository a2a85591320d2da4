"""Azure OpenAI and Foundry: OpenAI's protocol at a resource's own address.

The v1 API has one address, and names of deployments as models. Resources behind older gateways
have an address for each deployment, and a dated version, which the profile then names.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import quote

from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.providers.clouds.login import TokenProvider, load_library, translate_login_errors
from joey.providers.openai import OpenAiProvider

_SCOPE = "https://ai.azure.com/.default"
_DATED_SCOPE = "https://cognitiveservices.azure.com/.default"
_ADVICE = "Run `az login`, or set AZURE_OPENAI_API_KEY."


class AzureProvider(TokenProvider, OpenAiProvider):
    def _build_url(self, profile: Profile) -> str:
        if not profile.base_url:
            raise ConfigError(
                "Azure needs the address of your resource: set AZURE_OPENAI_ENDPOINT, or "
                "`baseUrl` in"
                " the profile."
            )
        if profile.api_version is None:
            return f"{_get_resource_url(profile)}/openai/v1/chat/completions"
        deployment = quote(profile.model, safe="")
        return self._add_version(f"/openai/deployments/{deployment}/chat/completions", profile)

    def _build_headers(self, profile: Profile) -> dict[str, str]:
        if profile.api_key:
            return {"api-key": profile.api_key}
        load_library("azure.identity", "azure")
        return {}

    @property
    def _responses_url(self) -> str:
        if self._profile.api_version is None:
            return super()._responses_url
        return self._add_version("/openai/responses", self._profile)

    def _add_version(self, path: str, profile: Profile) -> str:
        version = quote(profile.api_version or "", safe="")
        return f"{_get_resource_url(profile)}{path}?api-version={version}"

    @cached_property
    def _credential(self) -> Any:
        return load_library("azure.identity", "azure").DefaultAzureCredential()

    def _fetch_token(self) -> str:
        scope = _SCOPE if self._profile.api_version is None else _DATED_SCOPE
        network_error = load_library("azure.core.exceptions", "azure").ServiceRequestError
        with translate_login_errors(self._service, _ADVICE, network_error):
            return str(self._credential.get_token(scope).token)


def _get_resource_url(profile: Profile) -> str:
    """Return the address without an API's suffix."""
    base = (profile.base_url or "").strip().rstrip("/")
    return base.removesuffix("/chat/completions").removesuffix("/v1").removesuffix("/openai")
