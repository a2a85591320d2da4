"""Facts that local servers report about their models: windows, abilities, speed.

Ollama, LM Studio, llama.cpp and vLLM each report them in their own way. A server that is only known
to support OpenAI's protocol is queried in all of these ways.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from joey.core.models import ModelFacts, ServedModel, Speed
from joey.core.text import compile_regex
from joey.errors import UserError
from joey.providers.errors import TOOL_CHOICE_FLAG, decode_object
from joey.providers.http_client import HttpClient
from joey.providers.server_advice import ADVISED_WINDOW, SERVER_KINDS

ASK_TIMEOUT_S = 1.5
LIST_TIMEOUT_S = 3.0
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_CONCURRENT_REQUESTS = 8
_ENOUGH_WINDOW = 16_384
"""A model that is loaded with so much is not loaded again for more."""
_NUM_CTX_RE = compile_regex(r"num_ctx\s+([0-9]{1,12})(?:\s|$)")
_MEASURED_TOKENS = 16
_MEASURED_MESSAGES = [{"role": "user", "content": "Count from 1 to 20."}]
_MEASURED_TOOL = {
    "type": "function",
    "function": {"name": "noop", "description": "Do nothing.", "parameters": {"type": "object"}},
}


class ServerClient:
    def __init__(self, root_url: str, headers: Mapping[str, str], http: HttpClient) -> None:
        self._root_url = root_url
        self._headers = {
            "content-type": "application/json",
            **headers,
            "accept": "application/json",
        }
        self._http = http

    async def get(self, path: str) -> dict[str, Any]:
        return _require_ok(await self._request("GET", path))

    async def post(self, path: str, body: object) -> dict[str, Any]:
        return _require_ok(await self.try_post(path, body))

    async def try_post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        return await self._request("POST", path, msgspec.json.encode(body))

    async def _request(self, method: str, path: str, *body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer; empty for anything else."""
        url = f"{self._root_url}{path}"
        async with await self._http.post(url, self._headers, body, method=method) as response:
            data = await response.read_all(_MAX_ANSWER_BYTES)
            status = response.status
        return status, decode_object(data)


def _require_ok(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    status, document = answer
    return document if status == 200 else {}


async def ask_about_model(kind: str, client: ServerClient, model: str) -> ServedModel | None:
    """Query the facts of a model; None if the server does not answer in time or does not report
    any. A server of an unknown kind is queried in all ways, and the answer identifies it."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            if kind in SERVER_KINDS:
                return await _ask(kind, client, model)
            answers = await asyncio.gather(*(_ask(each, client, model) for each in SERVER_KINDS))
    except (TimeoutError, UserError):
        return None  # the request itself will report the error
    for found, served in zip(SERVER_KINDS, answers, strict=True):
        if served is not None:
            return structs.replace(served, server=found)
    return None


async def identify_server(client: ServerClient, models: Sequence[str]) -> str:
    """Identify the kind of server at an address; empty if unknown."""
    served = await ask_about_model("", client, models[0]) if models else None
    return served.server if served is not None else ""


async def list_facts(kind: str, client: ServerClient, models: Sequence[str]) -> list[ModelFacts]:
    """List the server's facts about these models, in their order, within a few seconds."""
    if not models:
        return []
    unknown = [ModelFacts(model) for model in models]
    try:
        async with asyncio.timeout(LIST_TIMEOUT_S):
            match kind:
                case "ollama":
                    return await _list_ollama(client, models)
                case "lmstudio":
                    answer = await client.get("/api/v0/models")
                    return [_read_lmstudio(answer, model) for model in models]
                case "llamacpp":
                    return await _list_llamacpp(client, models)
                case "vllm":
                    answer = await client.get("/v1/models")
                    return [ModelFacts(each, _read_vllm(answer, each), True) for each in models]
    except (TimeoutError, UserError):
        pass
    return unknown


async def measure_speed(
    kind: str, client: ServerClient, facts: ModelFacts, timeout_s: float
) -> ModelFacts:
    """Measure the speed of a short reply as well. Models that may not be loaded are skipped:
    loading one takes long, and may push another out of memory."""
    if not facts.is_loaded:
        return facts
    try:
        async with asyncio.timeout(timeout_s):
            if kind == "ollama":
                return structs.replace(facts, speed=await _measure_ollama(client, facts))
            return await _measure_chat(kind, client, facts)
    except TimeoutError:
        return structs.replace(facts, speed=Speed(is_timeout=True))
    except UserError:
        return facts


async def _measure_ollama(client: ServerClient, facts: ModelFacts) -> Speed | None:
    options = {"num_predict": _MEASURED_TOKENS}
    if facts.loaded_window is not None:  # another one would load the model again
        options["num_ctx"] = facts.loaded_window
    body = {"model": facts.id, "messages": _MEASURED_MESSAGES, "stream": False, "options": options}
    answer = await client.post("/api/chat", body)
    output, prompt = (
        _divide(_get_count(answer, f"{part}_count"), _get_number(answer, f"{part}_duration"), 1e9)
        for part in ("eval", "prompt_eval")
    )
    return Speed(output, prompt) if output else None


async def _measure_chat(kind: str, client: ServerClient, facts: ModelFacts) -> ModelFacts:
    path = "/api/v0/chat/completions" if kind == "lmstudio" else "/v1/chat/completions"
    body = {"model": facts.id, "messages": _MEASURED_MESSAGES, "max_tokens": _MEASURED_TOKENS}
    if kind == "llamacpp":
        body["cache_prompt"] = False  # the last prompt would be cached
    served = facts.served or ServedModel()
    asks_tools = kind == "vllm" and served.native_tools is None
    # Only a request with tools shows whether it was started with a parser for calls.
    tools = {"tools": [_MEASURED_TOOL]} if asks_tools else {}
    started = time.monotonic()
    status, answer = await client.try_post(path, body | tools)
    if asks_tools and (status == 200 or TOOL_CHOICE_FLAG in str(answer)):
        served = structs.replace(served, native_tools=status == 200)
        facts = structs.replace(facts, served=served)
    if asks_tools and status != 200:
        started = time.monotonic()
        status, answer = await client.try_post(path, body)
    elapsed = time.monotonic() - started
    if status != 200:
        return facts
    usage, timings, stats = (_get_object(answer, key) for key in ("usage", "timings", "stats"))
    output = _get_number(timings, "predicted_per_second") or _get_number(stats, "tokens_per_second")
    prompt = _get_number(timings, "prompt_per_second")
    if prompt is None:
        delay = _get_number(stats, "time_to_first_token")
        prompt = _divide(_get_count(usage, "prompt_tokens"), delay)
    if not output:
        output = _divide(_get_count(usage, "completion_tokens"), elapsed)
    return structs.replace(facts, speed=Speed(output, prompt)) if output else facts


def _divide(count: int | None, duration: float | None, unit: float = 1) -> float | None:
    return count / duration * unit if count and duration else None


async def _ask(kind: str, client: ServerClient, model: str) -> ServedModel | None:
    try:
        match kind:
            case "ollama":
                shown, running = await asyncio.gather(
                    client.post("/api/show", {"model": model}), client.get("/api/ps")
                )
                return _read_ollama(shown, running, model).served
            case "lmstudio":
                return _read_lmstudio(await client.get("/api/v0/models"), model).served
            case "llamacpp":
                return _read_llamacpp(await client.get("/props"))
            case _:
                return _read_vllm(await client.get("/v1/models"), model)
    except UserError:
        return None


async def _list_ollama(client: ServerClient, models: Sequence[str]) -> list[ModelFacts]:
    running = await client.get("/api/ps")
    limit = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)

    async def show(model: str) -> ModelFacts:
        async with limit:
            shown = await client.post("/api/show", {"model": model})
        return _read_ollama(shown, running, model)

    return await asyncio.gather(*map(show, models))


def _read_ollama(shown: dict[str, Any], running: dict[str, Any], model: str) -> ModelFacts:
    entry = _find_running(running, model)
    loaded_window = _get_count(entry, "context_length")
    details = _get_object(shown, "model_info")
    largest = _get_count(details, f"{details.get('general.architecture')}.context_length")
    abilities = shown.get("capabilities")
    is_loaded = bool(entry) if "models" in running else None
    if largest is None and loaded_window is None and not isinstance(abilities, list):
        return ModelFacts(model, None, is_loaded)
    window = _choose_num_ctx(_find_num_ctx(shown.get("parameters")), loaded_window, largest)
    served = ServedModel(context_window=window, max_context_window=largest)
    if not isinstance(abilities, list):
        return ModelFacts(model, served, is_loaded, loaded_window)
    served = structs.replace(
        served,
        native_tools="tools" in abilities,
        images="vision" in abilities,
        thinking="thinking" in abilities,
    )
    is_chat = "completion" in abilities or "embedding" not in abilities
    return ModelFacts(model, served, is_loaded, loaded_window, is_chat)


def _find_running(running: dict[str, Any], model: str) -> dict[str, Any]:
    names = (model, f"{model}:latest")
    found = (each for each in _get_list(running, "models") if each.get("name") in names)
    return next(found, {})


def _choose_num_ctx(stated: int | None, loaded: int | None, largest: int | None) -> int:
    """Choose the window to request: the Modelfile's, else that of the loaded model if a task fits
    into it well, since another window would reload it; else a default."""
    is_enough = loaded is not None and loaded >= _ENOUGH_WINDOW
    window = stated or (loaded if is_enough and loaded else ADVISED_WINDOW)
    return min(window, largest or window)


def _find_num_ctx(parameters: object) -> int | None:
    """Find `num_ctx 8192` in the lines of a Modelfile."""
    lines = parameters.splitlines() if isinstance(parameters, str) else []
    values = (_NUM_CTX_RE.match(line) for line in lines)
    return next((int(value[1]) for value in values if value), None)


def _read_lmstudio(answer: dict[str, Any], model: str) -> ModelFacts:
    entry = _find_entry(answer, model)
    if not entry:
        return ModelFacts(model)
    abilities, state = entry.get("capabilities"), entry.get("state")
    # Without "tool_use" it still describes tools to the model in its own format.
    can_use_tools = True if isinstance(abilities, list) and "tool_use" in abilities else None
    served = ServedModel(
        context_window=_get_count(entry, "loaded_context_length"),
        max_context_window=_get_count(entry, "max_context_length"),
        native_tools=can_use_tools,
        images=entry.get("type") == "vlm",
    )
    is_loaded = state == "loaded" if isinstance(state, str) else None
    return ModelFacts(model, served, is_loaded, is_chat=entry.get("type") != "embeddings")


async def _list_llamacpp(client: ServerClient, models: Sequence[str]) -> list[ModelFacts]:
    """List the models of llama.cpp. A server with one model reports more than one that loads models
    by name."""
    listed, properties = await asyncio.gather(client.get("/v1/models"), client.get("/props"))
    served = _read_llamacpp(properties) if len(models) == 1 else None
    found = []
    for model in models:
        entry = _find_entry(listed, model)
        window = _get_count(_get_object(entry, "meta"), "n_ctx")
        stated = ServedModel(context_window=window) if window else None
        state = _get_object(entry, "status").get("value")
        found.append(ModelFacts(model, served or stated, state in (None, "loaded")))
    return found


def _read_llamacpp(answer: dict[str, Any]) -> ServedModel | None:
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


def _read_vllm(answer: dict[str, Any], model: str) -> ServedModel | None:
    window = _get_count(_find_entry(answer, model), "max_model_len")
    return None if window is None else ServedModel(context_window=window)


def _find_entry(answer: dict[str, Any], model: str) -> dict[str, Any]:
    return next((each for each in _get_list(answer, "data") if each.get("id") == model), {})


def _get_object(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _get_list(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = document.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _get_count(document: Mapping[str, Any], key: str) -> int | None:
    value = document.get(key)
    return value if isinstance(value, int) and value is not True and value > 0 else None


def _get_number(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    return value if isinstance(value, int | float) and value > 0 else None
