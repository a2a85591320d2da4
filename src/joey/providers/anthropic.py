"""Claude, at Anthropic's own address or at any other that speaks `/v1/messages`.

The official service gets what its current documentation asks for: a Bearer key, the version of
October 2026 (which refuses a temperature) and eager tool input. Gateways and older servers get
the form that they have known since 2023. A profile decides with `legacy_headers`; left open, a
base URL means the older form.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from joey.core.chunks import Chunk
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile, Route
from joey.ports import Provider
from joey.providers.anthropic_stream import AnthropicStream
from joey.providers.convert.anthropic import AnthropicRequests
from joey.providers.errors import service_of
from joey.providers.http import HttpClient
from joey.providers.kinds import endpoint, find_kind
from joey.providers.wire import Wire

VERSION = "2026-10-21"
LEGACY_VERSION = "2023-06-01"
LEGACY_BETAS = "prompt-caching-2024-07-31,fine-grained-tool-streaming-2025-05-14"


class AnthropicProvider:
    def __init__(
        self, profile: Profile, model: ModelInfo, http: HttpClient, route: Route | None = None
    ) -> None:
        kind = find_kind(profile.provider)
        url = endpoint(kind, profile.base_url)
        legacy = wants_legacy(profile)
        self._model = model
        self._service = service_of(profile, url, route)
        self._requests = AnthropicRequests(profile, model, legacy=legacy)
        headers = headers_for(profile.api_key, legacy=legacy) | profile.headers
        self._wire = Wire(http, url, headers, self._service, profile.request_timeout)

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def api_protocol(self) -> str:
        return "anthropic"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        return self._wire.stream(self._requests.body(request), AnthropicStream(self._service))

    async def close(self) -> None:
        await self._wire.close()


def wants_legacy(profile: Profile) -> bool:
    if profile.legacy_headers is None:
        return profile.base_url is not None
    return profile.legacy_headers


def headers_for(key: str | None, *, legacy: bool) -> dict[str, str]:
    if legacy:
        headers = {"anthropic-version": LEGACY_VERSION, "anthropic-beta": LEGACY_BETAS}
        return headers | ({"x-api-key": key} if key else {})
    headers = {"anthropic-version": VERSION}
    return headers | ({"authorization": f"Bearer {key}"} if key else {})


_fits: type[Provider] = AnthropicProvider
