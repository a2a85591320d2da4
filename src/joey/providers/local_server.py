"""Model servers on the user's own machine: queries for the window and the abilities of a model.

A server is queried once for an address and a model; the answer is remembered for a day. Ollama,
whose window changes with a Modelfile and is requested by joey itself, is queried in every run. A
small window is queried again before each request: the server may have been restarted with a larger
one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import structs

from joey.core.messages import Chunk
from joey.core.models import ModelInfo, ModelRequest, ServedModel
from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.ports.model import RefusalMemory, ServedModels
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.http_client import HttpClient
from joey.providers.openai import OpenAiProvider
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.providers.server_advice import SERVER_KINDS, get_window_advice
from joey.providers.server_facts import ServerClient, ask_about_model
from joey.providers.services import identify_service

_MAX_OUTPUT_SHARE = 0.2


class LocalServerProvider(OpenAiProvider):
    def __init__(
        self,
        profile: Profile,
        model: ModelInfo,
        http: HttpClient,
        route: ModelRoute | None = None,
        memory: ServedModels | None = None,
        refusal_memory: RefusalMemory | None = None,
    ) -> None:
        super().__init__(profile, model, http, route, refusal_memory)
        self._root_url = self._url.removesuffix("/chat/completions").removesuffix("/v1")
        self._listed_model = model
        self._memory = memory
        self._served = None if memory is None else memory.find(self.address, model.id)
        self._was_asked = False
        self._is_window_doubtful = False
        if self._served is not None:
            self._apply(self._served)

    @property
    def window_advice(self) -> str:
        service, served = self._service, self._served or ServedModel()
        return get_window_advice(
            self._kind,
            self.model.id,
            service.profile_name,
            service.base_url,
            window=self.model.context_window,
            largest=served.max_context_window,
        )

    @property
    def _kind(self) -> str:
        """The kind of server; empty while only its address is known."""
        named, served = self._service.provider_name, self._served
        if named in SERVER_KINDS or served is None:
            return named if named in SERVER_KINDS else ""
        return served.server

    @property
    def _service_id(self) -> str:
        if self._uses_responses:
            return super()._service_id
        return identify_service(self._server_profile.provider, self._host)

    @property
    def _server_profile(self) -> Profile:
        """The profile for the kind of server known by now."""
        return structs.replace(self._profile, provider=self._kind or self._profile.provider)

    async def prepare(self) -> None:
        known = self._served
        is_known = known is not None and known.context_window is not None
        is_confirmed = self._kind != "ollama" or self._was_asked
        is_settled = (
            is_known
            and is_confirmed
            and not self.model.has_small_window
            and not self._is_window_doubtful
        )
        # A server of an unknown kind will not report more later.
        if not is_settled and (self._kind or not self._was_asked):
            await self._ask()

    async def _ask(self) -> None:
        known = self._served
        client = ServerClient(self._root_url, self._headers, self._http)
        served = await ask_about_model(self._kind, client, self.model.id)
        self._was_asked = True
        self._is_window_doubtful = False
        if served is not None and known is not None and not served.server:
            served = structs.replace(served, server=known.server)
        if served is not None:
            self._remember(served)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        try:
            async with aclosing(super().stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderError as error:
            is_overflow = error.failure is ProviderFailureKind.CONTEXT_OVERFLOW
            if is_overflow and error.context_window is None:
                await self._ask()  # it may have been restarted with another window
                error.context_window = self.model.context_window
            raise

    def _make_request_builder(self, refused: frozenset[str]) -> RequestBuilder:
        if not self._kind:
            return super()._make_request_builder(refused)
        profile = self._server_profile
        if self._kind == "llamacpp":  # older servers do not cache unasked
            extra = {"cache_prompt": True, **profile.extra_body}
            profile = structs.replace(profile, extra_body=extra)
        return OpenAiRequestBuilder(profile, self.model, self._host, refused)

    def learn_window(self, tokens: int) -> None:
        if tokens < self.model.context_window:
            known = self._served or ServedModel()
            self._remember(structs.replace(known, context_window=tokens))

    def doubt_window(self) -> None:
        self._is_window_doubtful = True

    def _remember(self, served: ServedModel) -> None:
        if self._memory is not None and served != self._served:
            self._memory.record(self.address, self.model.id, served)
        self._served = served
        self._apply(served)

    def _apply(self, served: ServedModel) -> None:
        self._set_model(limit_model(self._listed_model, served, self._profile, self._kind))


def limit_model(model: ModelInfo, served: ServedModel, profile: Profile, kind: str) -> ModelInfo:
    """Limit the model to the server's window, whatever the profile says. Ollama can be asked for
    any window up to the model's own."""
    window = served.context_window or model.context_window
    if profile.context_window:
        most = served.max_context_window if kind == "ollama" else window
        window = min(profile.context_window, most or profile.context_window)
    tools, images = profile.native_tools, served.images
    if tools is None:
        tools = served.native_tools
    return structs.replace(
        model,
        context_window=window,
        max_output_tokens=profile.max_tokens
        or min(model.max_output_tokens, math.ceil(window * _MAX_OUTPUT_SHARE)),
        supports_native_tools=model.supports_native_tools if tools is None else tools,
        supports_images=model.supports_images if images is None else images,
    )
