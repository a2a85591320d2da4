"""Vertex AI: Claude by Anthropic's protocol, Gemini and others by OpenAI's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from joey.core.models import ModelInfo
from joey.core.settings import ModelRoute, Profile
from joey.errors import ConfigError, ProviderError
from joey.ports.model import RefusalMemory
from joey.providers.anthropic import AnthropicProvider, AnthropicRequestBuilder
from joey.providers.clouds.login import (
    TokenProvider,
    check_name,
    load_library,
    translate_login_errors,
)
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.errors import JSON_DECODE_ERRORS
from joey.providers.http_client import HttpClient
from joey.providers.openai import OpenAiProvider

_API_VERSION = "vertex-2023-10-16"
_DEFAULT_REGION = "global"
_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ADVICE = (
    "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the key"
    " file of a service account."
)
_TOKEN_TIMEOUT_S = 60.0
_MAX_TOKEN_BYTES = 1024 * 1024


class _GoogleTokenProvider(TokenProvider):
    """Requests with tokens of a service account, or of this machine's login."""

    def _build_location_url(self, profile: Profile) -> str:
        region = check_name(profile.region or _DEFAULT_REGION, "region")
        project = profile.project or self._load_service_account(profile).get("project_id")
        if not project:
            raise ConfigError(
                "Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT, or `project` in the profile."
            )
        host = _HOSTS.get(region, f"{region}-aiplatform.googleapis.com")
        base = (profile.base_url or f"https://{host}").rstrip("/").removesuffix("/v1")
        return f"{base}/v1/projects/{check_name(str(project), 'project')}/locations/{region}"

    def _build_headers(self, profile: Profile) -> dict[str, str]:
        if profile.api_key:
            return {"authorization": f"Bearer {profile.api_key}"}
        load_library("google.auth", "vertex")
        self._load_service_account(profile)
        return {}

    def _load_service_account(self, profile: Profile) -> dict[str, Any]:
        """Load the key file of the service account; empty if the profile has none. Raises
        ConfigError."""
        path, text = profile.credentials.get("file"), profile.credentials.get("key")
        if not path and not text:
            return {}
        try:
            data = Path(path).expanduser().read_bytes() if path else text or ""
            return msgspec.json.decode(data, type=dict[str, Any])
        except (OSError, *JSON_DECODE_ERRORS) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a JSON object"
            name = path or f"in the profile {profile.name!r}"
            raise ConfigError(
                f"The key of the service account {name} cannot be used: {reason}."
            ) from error

    @cached_property
    def _credentials(self) -> Any:
        if info := self._load_service_account(self._profile):
            loader = load_library("google.oauth2.service_account", "vertex").Credentials
            return loader.from_service_account_info(info, scopes=_SCOPES)
        return load_library("google.auth", "vertex").default(scopes=_SCOPES)[0]

    def _fetch_token(self) -> str:
        network_error = load_library("google.auth.exceptions", "vertex").TransportError
        with translate_login_errors(self._service, _ADVICE, network_error):
            if not self._credentials.valid:
                self._credentials.refresh(_Transport(self._http.environ))
            return str(self._credentials.token)


class VertexProvider(_GoogleTokenProvider, OpenAiProvider):
    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        http: HttpClient,
        route: ModelRoute | None = None,
        refusal_memory: RefusalMemory | None = None,
    ) -> None:
        if "/" not in profile.model:
            profile = structs.replace(profile, model=f"google/{profile.model}")
        super().__init__(profile, model, http, route, refusal_memory)

    def _build_url(self, profile: Profile) -> str:
        return f"{self._build_location_url(profile)}/endpoints/openapi/chat/completions"


class VertexClaudeProvider(_GoogleTokenProvider, AnthropicProvider):
    def _build_url(self, profile: Profile) -> str:
        model = quote(profile.model, safe="@")
        location = self._build_location_url(profile)
        return f"{location}/publishers/anthropic/models/{model}:streamRawPredict"

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        return _VertexRequestBuilder(self._profile, self.model, self._host, refused)


class _VertexRequestBuilder(AnthropicRequestBuilder):
    def __init__(
        self, profile: Profile, model: ModelInfo, host: str, refused: frozenset[str]
    ) -> None:
        super().__init__(profile, model, legacy=True, host=host, refused=refused)

    def _collect_parameters(self) -> dict[str, Any]:
        parameters = super()._collect_parameters()
        del parameters["model"]  # it is part of the address
        return parameters | {"anthropic_version": _API_VERSION}


class _TokenResponse(Struct, frozen=True):
    """Implements `google.auth.transport.Response`."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Transport:
    """Implements `google.auth.transport.Request` for token requests, with joey's own client."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **options: object,
    ) -> _TokenResponse:
        try:
            return asyncio.run(self._send(url, method, body or b"", headers or {}))
        except ProviderError as error:
            exceptions = load_library("google.auth.exceptions", "vertex")
            raise exceptions.TransportError(str(error)) from error

    async def _send(
        self, url: str, method: str, body: bytes, headers: Mapping[str, str]
    ) -> _TokenResponse:
        """Send in a separate event loop, since libraries request tokens in a thread."""
        client = HttpClient(environ=self._environ)
        try:
            pieces = (body,) if body else ()
            async with await client.post(
                url, headers, pieces, method=method, read_timeout=_TOKEN_TIMEOUT_S
            ) as response:
                data = await response.read_all(_MAX_TOKEN_BYTES)
                return _TokenResponse(response.status, response.headers, data)
        finally:
            await client.close()
