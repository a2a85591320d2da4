"""The names and keys of Roo Code 3.52, each with a value that is not its default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct


class RooKeys(Struct, frozen=True):
    providers: list[str]
    retired_providers: list[str]
    settings: dict[str, Any]
    profile: dict[str, Any]


_DOCUMENT = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
ROO = RooKeys(
    _DOCUMENT["providers"],
    _DOCUMENT["retiredProviders"],
    _DOCUMENT["settings"],
    _DOCUMENT["profile"],
)
PROVIDERS_WITHOUT_COUNTERPART = {
    "gemini-cli": "gemini",
    "openai-codex": "openai",
    "qwen-code": "qwen",
    "claude-code": "anthropic",
    "vscode-lm": "ollama",
    "fake-ai": "joey demo",
}
"""What is used instead."""
CLOUDS = ("bedrock", "vertex")
"""Their addresses and keys depend on more than one value."""
KEYS_AND_ADDRESSES = {
    "anthropic": ("apiKey", "https://api.anthropic.com/v1/messages"),
    "openai": ("openAiApiKey", "https://api.openai.com/v1/chat/completions"),
    "openai-native": ("openAiNativeApiKey", "https://api.openai.com/v1/chat/completions"),
    "openrouter": ("openRouterApiKey", "https://openrouter.ai/api/v1/chat/completions"),
    "ollama": ("ollamaApiKey", "http://127.0.0.1:11434/v1/chat/completions"),
    "lmstudio": (None, "http://127.0.0.1:1234/v1/chat/completions"),
    "gemini": (
        "geminiApiKey",
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
    ),
    "deepseek": ("deepSeekApiKey", "https://api.deepseek.com/v1/chat/completions"),
    "mistral": ("mistralApiKey", "https://api.mistral.ai/v1/chat/completions"),
    "moonshot": ("moonshotApiKey", "https://api.moonshot.ai/v1/chat/completions"),
    "minimax": ("minimaxApiKey", "https://api.minimax.io/v1/chat/completions"),
    "xai": ("xaiApiKey", "https://api.x.ai/v1/chat/completions"),
    "sambanova": ("sambaNovaApiKey", "https://api.sambanova.ai/v1/chat/completions"),
    "fireworks": ("fireworksApiKey", "https://api.fireworks.ai/inference/v1/chat/completions"),
    "baseten": ("basetenApiKey", "https://inference.baseten.co/v1/chat/completions"),
    "zai": ("zaiApiKey", "https://api.z.ai/api/coding/paas/v4/chat/completions"),
    "requesty": ("requestyApiKey", "https://router.requesty.ai/v1/chat/completions"),
    "unbound": ("unboundApiKey", "https://api.getunbound.ai/v1/chat/completions"),
    "litellm": ("litellmApiKey", "http://127.0.0.1:4000/v1/chat/completions"),
    "vercel-ai-gateway": (
        "vercelAiGatewayApiKey",
        "https://ai-gateway.vercel.sh/v1/chat/completions",
    ),
    "poe": ("poeApiKey", "https://api.poe.com/v1/chat/completions"),
    "roo": ("rooApiKey", "https://api.roocode.com/proxy/v1/chat/completions"),
    "cerebras": ("cerebrasApiKey", "https://api.cerebras.ai/v1/chat/completions"),
    "chutes": ("chutesApiKey", "https://llm.chutes.ai/v1/chat/completions"),
    "deepinfra": ("deepInfraApiKey", "https://api.deepinfra.com/v1/openai/chat/completions"),
    "doubao": ("doubaoApiKey", "https://ark.cn-beijing.volces.com/api/v3/chat/completions"),
    "featherless": ("featherlessApiKey", "https://api.featherless.ai/v1/chat/completions"),
    "groq": ("groqApiKey", "https://api.groq.com/openai/v1/chat/completions"),
    "huggingface": ("huggingFaceApiKey", "https://router.huggingface.co/v1/chat/completions"),
    "io-intelligence": (
        "ioIntelligenceApiKey",
        "https://api.intelligence.io.solutions/api/v1/chat/completions",
    ),
}
"""The key of a provider, and where it goes if nothing else is said."""
MODEL_KEYS = {
    "openai": "openAiModelId",
    "openrouter": "openRouterModelId",
    "ollama": "ollamaModelId",
    "lmstudio": "lmStudioModelId",
    "requesty": "requestyModelId",
    "unbound": "unboundModelId",
    "litellm": "litellmModelId",
    "vercel-ai-gateway": "vercelAiGatewayModelId",
    "deepinfra": "deepInfraModelId",
    "huggingface": "huggingFaceModelId",
    "io-intelligence": "ioIntelligenceModelId",
}
"""Others have `apiModelId`."""
BASE_URL_KEYS = {
    "anthropic": "anthropicBaseUrl",
    "openai": "openAiBaseUrl",
    "openai-native": "openAiNativeBaseUrl",
    "openrouter": "openRouterBaseUrl",
    "ollama": "ollamaBaseUrl",
    "lmstudio": "lmStudioBaseUrl",
    "gemini": "googleGeminiBaseUrl",
    "deepseek": "deepSeekBaseUrl",
    "moonshot": "moonshotBaseUrl",
    "minimax": "minimaxBaseUrl",
    "requesty": "requestyBaseUrl",
    "litellm": "litellmBaseUrl",
    "poe": "poeBaseUrl",
    "deepinfra": "deepInfraBaseUrl",
    "doubao": "doubaoBaseUrl",
}


def build_roo_profile(provider: str, *, base_url: str | None = None) -> dict[str, Any]:
    """A profile as Roo exports it, with keys of all other providers that were tried before."""
    secrets = {key: f"{key}-of-another" for key, _ in KEYS_AND_ADDRESSES.values() if key}
    profile: dict[str, Any] = {"apiProvider": provider, "id": f"id-{provider}", **secrets}
    profile |= {key: f"{key}-of-another" for key in MODEL_KEYS.values()}
    key, _ = KEYS_AND_ADDRESSES[provider]
    if key is not None:
        profile[key] = f"key-of-{provider}"
    profile[MODEL_KEYS.get(provider, "apiModelId")] = "the-model"
    if base_url is not None:
        profile[BASE_URL_KEYS[provider]] = base_url
    return profile
