"""Model servers on the user's own machine: asked for the window and the abilities of a model.

Ollama, LM Studio, llama.cpp and vLLM each tell them in their own way. A server is asked once for
an address and a model; the answer is remembered for a day. Small windows are asked for in every
run, since a server is often restarted with a larger one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import structs

from joey.core.messages import Chunk
from joey.core.models import ModelInfo, ModelRequest, ServedModel
from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError, ProviderFailureKind, UserError
from joey.ports.model import RefusalMemory, ServedModels
from joey.providers.conversation_encoder import RequestBuilder
from joey.providers.errors import JSON_DECODE_ERRORS
from joey.providers.http_client import HttpClient
from joey.providers.openai import OpenAiProvider
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.providers.server_advice import ADVISED_WINDOW, get_window_advice

ASK_TIMEOUT_S = 1.5
_ASK_INTERVAL_S = 1.0
"""A run asks when it starts, and again before each request while the window is small."""
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_OUTPUT_SHARE = 0.2
_ENOUGH_WINDOW = 16_384
"""A model that is loaded with so much is not loaded again for more."""
_MEASURED_TOKENS = 16
_MEASURE_TIMEOUT_S = 8.0


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
        self._asked_at = -math.inf
        if self._served is not None:
            self._apply(self._served)

    @property
    def window_advice(self) -> str:
        return get_window_advice(self._service.provider_name, self.model.id)

    async def prepare(self) -> None:
        known = self._served
        is_known = known is not None and known.context_window is not None
        is_settled = is_known and not self.model.has_small_window
        if not is_settled and time.monotonic() - self._asked_at > _ASK_INTERVAL_S:
            await self._ask()

    async def _ask(self) -> None:
        self._asked_at = time.monotonic()
        served = await ask_about_model(
            self._service.provider_name, self._root_url, self._headers, self.model.id, self._http
        )
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
        profile = self._profile
        if self._service.provider_name == "llamacpp":  # older servers do not cache unasked
            extra = {"cache_prompt": True, **profile.extra_body}
            profile = structs.replace(profile, extra_body=extra)
        return OpenAiRequestBuilder(profile, self.model, self._host, refused)

    def learn_window(self, tokens: int) -> None:
        if tokens < self.model.context_window:
            known = self._served or ServedModel()
            self._remember(structs.replace(known, context_window=tokens))

    def _remember(self, served: ServedModel) -> None:
        if self._memory is not None and served != self._served:
            self._memory.record(self.address, self.model.id, served)
        self._served = served
        self._apply(served)

    def _apply(self, served: ServedModel) -> None:
        self._set_model(limit_model(self._listed_model, served, self._profile))


def limit_model(model: ModelInfo, served: ServedModel, profile: Profile) -> ModelInfo:
    """The model as the server runs it: its window is never exceeded, whatever the profile says."""
    window = served.context_window or model.context_window
    if profile.context_window:
        window = min(window, profile.context_window)
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


async def ask_about_model(
    kind: str, root_url: str, headers: Mapping[str, str], model: str, http: HttpClient
) -> ServedModel | None:
    """None if the server does not answer in time, or does not say."""
    client = _JsonClient(http, headers, root_url)
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            match kind:
                case "ollama":
                    return await _ask_ollama(client, model)
                case "lmstudio":
                    return _read_lmstudio(await client.get("/api/v0/models"), model)
                case "llamacpp":
                    return _read_llamacpp(await client.get("/props"))
                case _:
                    return _read_vllm(await client.get("/v1/models"), model)
    except (TimeoutError, UserError):
        return None  # the request itself will tell what is wrong


async def measure_speed(
    kind: str, root_url: str, headers: Mapping[str, str], model: str, http: HttpClient
) -> float | None:
    """Tokens a second of a short reply; None if the model is not loaded, or takes too long."""
    client = _JsonClient(http, headers, root_url)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Count from 1 to 20."}],
        "max_tokens": _MEASURED_TOKENS,
    }
    try:
        async with asyncio.timeout(_MEASURE_TIMEOUT_S):
            if kind == "ollama" and not _find_running(await client.get("/api/ps"), model):
                return None
            started = time.monotonic()
            answer = await client.post("/v1/chat/completions", body)
            elapsed = time.monotonic() - started
    except (TimeoutError, UserError):
        return None
    stated = _get_object(answer, "timings").get("predicted_per_second")  # llama.cpp
    if isinstance(stated, int | float) and stated > 0:
        return float(stated)
    count = _get_count(_get_object(answer, "usage"), "completion_tokens")
    return count / elapsed if count else None


class _JsonClient:
    def __init__(self, http: HttpClient, headers: Mapping[str, str], root: str) -> None:
        self._http = http
        self._headers = {**headers, "accept": "application/json"}
        self._root = root

    async def get(self, path: str) -> Any:
        return await self._request("GET", path)

    async def post(self, path: str, body: object) -> Any:
        return await self._request("POST", path, msgspec.json.encode(body))

    async def _request(self, method: str, path: str, *body: bytes) -> Any:
        """The JSON document that answers; an empty one for anything else."""
        url = f"{self._root}{path}"
        async with await self._http.post(url, self._headers, body, method=method) as response:
            data = await response.read_all(_MAX_ANSWER_BYTES)
            if response.status != 200:
                return {}
        try:
            document = msgspec.json.decode(data)
        except JSON_DECODE_ERRORS:
            return {}
        return document if isinstance(document, dict) else {}


async def _ask_ollama(client: _JsonClient, model: str) -> ServedModel | None:
    shown, running = await asyncio.gather(
        client.post("/api/show", {"model": model}), client.get("/api/ps")
    )
    details = _get_object(shown, "model_info")
    architecture = details.get("general.architecture")
    largest = _get_count(details, f"{architecture}.context_length")
    loaded = _get_count(_find_running(running, model), "context_length")
    abilities = shown.get("capabilities")
    if largest is None and loaded is None and not isinstance(abilities, list):
        return None
    return ServedModel(
        context_window=_choose_num_ctx(_find_num_ctx(shown.get("parameters")), loaded, largest),
        max_context_window=largest,
        native_tools="tools" in abilities if isinstance(abilities, list) else None,
        images="vision" in abilities if isinstance(abilities, list) else None,
    )


def _find_running(running: Any, model: str) -> dict[str, Any]:
    names = (model, f"{model}:latest")
    found = (each for each in _get_list(running, "models") if each.get("name") in names)
    return next(found, {})


def _choose_num_ctx(stated: int | None, loaded: int | None, largest: int | None) -> int:
    """The window to ask for: what the Modelfile says, else that of the loaded model if a task fits
    into it well, since another one would load it again; else a usual one."""
    is_enough = loaded is not None and loaded >= _ENOUGH_WINDOW
    window = stated or (loaded if is_enough and loaded else ADVISED_WINDOW)
    return min(window, largest or window)


def _find_num_ctx(parameters: object) -> int | None:
    """Of the lines of a Modelfile: `num_ctx    8192`."""
    lines = parameters.splitlines() if isinstance(parameters, str) else []
    values = [line.split()[1:] for line in lines if line.startswith("num_ctx")]
    return next((int(value[0]) for value in values if value and value[0].isdecimal()), None)


def _read_lmstudio(answer: Any, model: str) -> ServedModel | None:
    entry = next((each for each in _get_list(answer, "data") if each.get("id") == model), None)
    if entry is None:
        return None
    abilities = entry.get("capabilities")
    # Without "tool_use" it still describes tools to the model in words of its own.
    can_use_tools = True if isinstance(abilities, list) and "tool_use" in abilities else None
    return ServedModel(
        context_window=_get_count(entry, "loaded_context_length"),
        max_context_window=_get_count(entry, "max_context_length"),
        native_tools=can_use_tools,
        images=entry.get("type") == "vlm",
    )


def _read_llamacpp(answer: Any) -> ServedModel | None:
    window = _get_count(_get_object(answer, "default_generation_settings"), "n_ctx")
    if window is None:
        return None
    tools = _get_object(answer, "chat_template_caps").get("supports_tools")
    images = _get_object(answer, "modalities").get("vision")
    return ServedModel(
        context_window=window,
        native_tools=tools if isinstance(tools, bool) else None,
        images=images if isinstance(images, bool) else None,
    )


def _read_vllm(answer: Any, model: str) -> ServedModel | None:
    entries = [each for each in _get_list(answer, "data") if each.get("id") == model]
    window = _get_count(entries[0], "max_model_len") if entries else None
    return None if window is None else ServedModel(context_window=window)


def _get_object(document: Any, key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _get_list(document: Any, key: str) -> list[dict[str, Any]]:
    value = document.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _get_count(document: Mapping[str, Any], key: str) -> int | None:
    value = document.get(key)
    return value if isinstance(value, int) and value > 0 else None
