from __future__ import annotations

import pytest
from msgspec import structs

from joey.core.models import ApiProtocol, Prices, ProviderSpec
from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.providers.catalog import (
    PROVIDER_SPECS,
    build_endpoint_url,
    find_model_info,
    find_provider_spec,
    list_model_ids,
)
from joey.providers.factory import make_provider, resolve_model
from joey.providers.http_client import HttpClient


def test_a_known_model_has_limits_abilities_and_prices() -> None:
    info = find_model_info("anthropic", "claude-opus-4-5-20251101")
    assert info.id == "claude-opus-4-5-20251101"
    assert (info.context_window, info.max_output_tokens) == (200_000, 64_000)
    assert info.is_known
    assert info.supports_prompt_cache
    assert info.supports_thinking
    assert info.prices == Prices(
        input=5, output=25, cache_writes=6.25, cache_reads=0.5, as_of="2026-11-15"
    )


@pytest.mark.parametrize(
    ("provider", "model", "same_as"),
    [
        ("openrouter", "anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter", "anthropic/claude-opus-4.8:thinking", "claude-opus-4-8"),
        ("anthropic", "claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("openai", "gpt-5.5-2026-04-23", "gpt-5.5"),
        ("openrouter", "deepseek/deepseek-chat:free", "deepseek-chat"),
        ("gemini", "gemini-3.1-pro-preview", "gemini-3.1-pro"),
        ("openrouter", "google/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("groq", "openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_makers_dates_and_variants_do_not_hide_a_model(
    provider: str, model: str, same_as: str
) -> None:
    info = find_model_info(provider, model)
    assert info.is_known
    assert structs.replace(info, id=same_as) == find_model_info("openai", same_as)


def test_every_listed_id_is_found_by_its_own_name() -> None:
    for provider in ("anthropic", "openai"):
        assert list_model_ids(provider)
        for model in list_model_ids(provider):
            assert find_model_info(provider, model).is_known, model


@pytest.mark.parametrize(
    ("provider", "window", "cache"),
    [("anthropic", 200_000, True), ("openai", 128_000, False), ("ollama", 32_768, False)],
)
def test_an_unknown_model_has_the_stated_defaults(provider: str, window: int, cache: bool) -> None:
    info = find_model_info(provider, "somebody/new-model-9000")
    assert (info.is_known, info.context_window, info.supports_prompt_cache) == (
        False,
        window,
        cache,
    )
    assert info.supports_native_tools


def test_a_similar_name_is_not_the_same_model() -> None:
    assert not find_model_info("openai", "gpt-5.5-pro").is_known


def test_local_models_cost_nothing_and_know_whether_they_have_tools() -> None:
    assert find_model_info("ollama", "qwen3-coder:30b").supports_native_tools
    assert not find_model_info("ollama", "deepseek-r1:14b").supports_native_tools
    assert find_model_info("ollama", "unheard-of").prices == Prices()


@pytest.mark.parametrize(
    ("provider", "model", "native"),
    [
        ("ollama", "gemma3:27b", False),
        ("lmstudio", "gemma-3-27b-it", False),
        ("lmstudio", "google/gemma-3n-e4b", False),
        ("llamacpp", "google_gemma-3-4b-it-Q4_K_M.gguf", False),
        ("llamacpp", "/models/gemma-2-9b-it-Q8_0.gguf", False),
        ("vllm", "microsoft/phi-4", False),
        ("vllm", "microsoft/Phi-4-mini-instruct", True),
        ("lmstudio", "deepseek-r1-distill-qwen-7b", False),
        ("vllm", "HuggingFaceTB/SmolLM2-1.7B-Instruct", False),
        ("llamacpp", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", True),
        ("lmstudio", "Qwen_Qwen3-8B", True),
        ("openai", "gemma-3-27b-it", False),
        ("gemini", "models/gemma-3-27b-it", False),
        ("openai", "my-own-model", True),
    ],
)
def test_open_models_are_known_by_the_names_that_servers_give_them(
    provider: str, model: str, native: bool
) -> None:
    assert find_model_info(provider, model).supports_native_tools is native


def test_another_version_of_an_open_model_is_another_model() -> None:
    assert not find_model_info("vllm", "Qwen/Qwen3.5-9B").is_known
    assert not find_model_info("ollama", "gemma34").is_known
    assert find_model_info("ollama", "qwen3-coder").context_window == 262_000


@pytest.mark.contract("tool:apply_patch:schema:offered")
@pytest.mark.parametrize(
    ("provider", "model", "tool"),
    [
        ("anthropic", "claude-sonnet-5-5", "apply_diff"),
        ("openai", "gpt-5.1-codex", "apply_patch"),
        ("openai", "gpt-99-unheard-of", "apply_patch"),
        ("openai", "o3-mini", "apply_patch"),
        ("openai", "ft:gpt-4.1:acme", "apply_patch"),
        ("openai", "codex-mini-latest", "apply_patch"),
        ("openai", "qwen3-coder", "apply_diff"),
        ("openrouter", "openai/gpt-5.5", "apply_patch"),
        ("openrouter", "anthropic/claude-opus-4.8", "apply_diff"),
        ("openrouter", "x-ai/grok-4", "search_replace"),
        ("openrouter", "google/gemini-2.5-pro", "edit"),
        ("openrouter", "google/gemma-4", "apply_diff"),
        ("openrouter", "minimax/minimax-m2", "edit"),
        ("openrouter", "nvidia/llama-o1-mix", "apply_diff"),
        ("together", "MiniMaxAI/MiniMax-M2", "edit"),
        ("groq", "openai/gpt-oss-120b", "apply_patch"),
        ("xai", "grok-code-fast-1", "search_replace"),
        ("xai", "next", "search_replace"),
        ("gemini", "gemini-3.8-flash", "edit"),
        ("gemini", "models/gemini-flash-latest", "edit"),
        ("gemini", "gemma-4-27b", "edit"),
        ("ollama", "gpt-oss:20b", "apply_patch"),
        ("ollama", "qwen3-coder:30b", "apply_diff"),
        ("deepseek", "deepseek-v4-pro", "apply_diff"),
    ],
)
def test_a_model_edits_with_the_tool_that_its_maker_taught_it(
    provider: str, model: str, tool: str
) -> None:
    assert find_model_info(provider, model).preferred_edit_tool == tool


def test_a_profile_overrides_what_the_catalogue_says() -> None:
    profile = Profile(
        model="claude-sonnet-4-5", context_window=50_000, max_tokens=1234, native_tools=False
    )
    info = resolve_model(profile)
    assert (info.context_window, info.max_output_tokens, info.supports_native_tools) == (
        50_000,
        1234,
        False,
    )


def test_an_answer_gets_at_most_a_fifth_of_the_window() -> None:
    assert resolve_model(Profile(model="claude-sonnet-4-5")).max_output_tokens == 40_000
    assert resolve_model(Profile(model="claude-sonnet-5-5")).max_output_tokens == 128_000


@pytest.mark.parametrize("kind", PROVIDER_SPECS, ids=lambda kind: kind.name)
def test_every_provider_can_be_made(kind: ProviderSpec) -> None:
    profile = Profile(provider=kind.name, model="any")
    if kind.login:
        address = "https://cloud.example"
        profile = structs.replace(profile, base_url=address, region="eu-west-1", project="me")
    provider = make_provider(profile, HttpClient(environ={}))
    is_converse = kind.api_protocol is ApiProtocol.CONVERSE
    assert provider.api_protocol == ("anthropic" if is_converse else kind.api_protocol.value)
    assert provider.model.id == "any"


def test_a_provider_with_a_usual_model_needs_no_name_for_it() -> None:
    provider = make_provider(Profile(provider="anthropic"), HttpClient(environ={}))
    assert provider.model.is_known


def test_a_provider_without_one_says_so() -> None:
    with pytest.raises(ConfigError, match="names no model"):
        make_provider(Profile(provider="ollama"), HttpClient(environ={}))


def test_an_unknown_provider_is_answered_with_the_names_that_exist() -> None:
    with pytest.raises(ConfigError, match="anthropic, openai, openrouter"):
        make_provider(Profile(provider="antropic", model="x"), HttpClient(environ={}))


def test_a_base_url_that_is_none_is_refused_before_any_request() -> None:
    with pytest.raises(ConfigError, match="base URL"):
        make_provider(Profile(model="x", base_url="localhost"), HttpClient(environ={}))


def test_old_names_of_providers_are_understood() -> None:
    assert find_provider_spec("openai-native").name == "openai"
    assert find_provider_spec(" Anthropic ").api_protocol is ApiProtocol.ANTHROPIC


@pytest.mark.parametrize(
    ("provider", "base_url", "url"),
    [
        ("anthropic", None, "https://api.anthropic.com/v1/messages"),
        ("anthropic", "http://h:1/", "http://h:1/v1/messages"),
        ("anthropic", "http://h:1/v1", "http://h:1/v1/messages"),
        ("anthropic", "http://h:1/v1/messages", "http://h:1/v1/messages"),
        ("openai", None, "https://api.openai.com/v1/chat/completions"),
        ("openai", "http://h:1/v1/", "http://h:1/v1/chat/completions"),
        ("openai", "http://h:1", "http://h:1/chat/completions"),
        ("ollama", None, "http://127.0.0.1:11434/v1/chat/completions"),
        ("ollama", "0.0.0.0", "http://127.0.0.1:11434/v1/chat/completions"),
        ("ollama", "box:11435", "http://box:11435/v1/chat/completions"),
        ("ollama", "https://box", "https://box/v1/chat/completions"),
        ("ollama", "http://box:1/v1", "http://box:1/v1/chat/completions"),
        ("deepseek", None, "https://api.deepseek.com/v1/chat/completions"),
    ],
)
def test_requests_go_to_the_endpoint_of_the_wire(
    provider: str, base_url: str | None, url: str
) -> None:
    assert build_endpoint_url(find_provider_spec(provider), base_url) == url
