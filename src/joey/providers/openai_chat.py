"""Everybody who speaks OpenAI's `/chat/completions`, from OpenAI itself to a local server."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from joey.core.chunks import Chunk
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile, Route
from joey.ports import Provider
from joey.providers.addresses import parse_url
from joey.providers.convert.openai import OpenAiRequests
from joey.providers.errors import service_of
from joey.providers.http import HttpClient
from joey.providers.kinds import endpoint, find_kind
from joey.providers.openai_stream import OpenAiStream
from joey.providers.wire import Wire


class OpenAiProvider:
    def __init__(
        self, profile: Profile, model: ModelInfo, http: HttpClient, route: Route | None = None
    ) -> None:
        kind = find_kind(profile.provider)
        url = endpoint(kind, profile.base_url)
        address = parse_url(url)
        self._model = model
        self._service = service_of(profile, url, route)
        self._requests = OpenAiRequests(profile, model, address.host)
        headers = {"authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        self._wire = Wire(
            http, url, headers | profile.headers, self._service, profile.request_timeout
        )

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def api_protocol(self) -> str:
        return "openai"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        return self._wire.stream(self._requests.body(request), OpenAiStream(self._service))

    async def close(self) -> None:
        await self._wire.close()


_fits: type[Provider] = OpenAiProvider
