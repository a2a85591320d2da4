"""Roo Code's names: its providers, the keys of its profiles, and the keys without a meaning here.

A Roo profile often holds keys of several providers that were tried one after another; only those of
its `apiProvider` count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from joey.core.settings import Profile


class RooProvider(Struct, frozen=True):
    """A provider of Roo's: its name in joey, and the profile keys specific to it."""

    provider: str
    api_key: str | None = None
    base_url: str | None = None
    model: str = "apiModelId"
    url_path: str = ""
    """What Roo adds to the address."""


ROO_PROVIDERS = {
    "anthropic": RooProvider("anthropic", "apiKey", "anthropicBaseUrl"),
    "openai": RooProvider("openai", "openAiApiKey", "openAiBaseUrl", "openAiModelId"),
    "openai-native": RooProvider("openai", "openAiNativeApiKey", "openAiNativeBaseUrl"),
    "openrouter": RooProvider(
        "openrouter", "openRouterApiKey", "openRouterBaseUrl", "openRouterModelId"
    ),
    "ollama": RooProvider("ollama", "ollamaApiKey", "ollamaBaseUrl", "ollamaModelId"),
    "lmstudio": RooProvider("lmstudio", None, "lmStudioBaseUrl", "lmStudioModelId", "/v1"),
    "gemini": RooProvider(
        "gemini", "geminiApiKey", "googleGeminiBaseUrl", url_path="/v1beta/openai"
    ),
    "deepseek": RooProvider("deepseek", "deepSeekApiKey", "deepSeekBaseUrl"),
    "mistral": RooProvider("mistral", "mistralApiKey"),
    "moonshot": RooProvider("moonshot", "moonshotApiKey", "moonshotBaseUrl"),
    "minimax": RooProvider("minimax", "minimaxApiKey", "minimaxBaseUrl"),
    "xai": RooProvider("xai", "xaiApiKey"),
    "sambanova": RooProvider("sambanova", "sambaNovaApiKey"),
    "fireworks": RooProvider("fireworks", "fireworksApiKey"),
    "baseten": RooProvider("baseten", "basetenApiKey"),
    "zai": RooProvider("zai", "zaiApiKey"),
    "requesty": RooProvider("requesty", "requestyApiKey", "requestyBaseUrl", "requestyModelId"),
    "unbound": RooProvider("unbound", "unboundApiKey", None, "unboundModelId"),
    "litellm": RooProvider("litellm", "litellmApiKey", "litellmBaseUrl", "litellmModelId"),
    "vercel-ai-gateway": RooProvider(
        "vercel-ai-gateway", "vercelAiGatewayApiKey", None, "vercelAiGatewayModelId"
    ),
    "poe": RooProvider("poe", "poeApiKey", "poeBaseUrl"),
    "roo": RooProvider("roo", "rooApiKey"),
    "bedrock": RooProvider("bedrock"),
    "vertex": RooProvider("vertex"),
    "cerebras": RooProvider("cerebras", "cerebrasApiKey"),
    "chutes": RooProvider("chutes", "chutesApiKey"),
    "deepinfra": RooProvider(
        "deepinfra", "deepInfraApiKey", "deepInfraBaseUrl", "deepInfraModelId"
    ),
    "doubao": RooProvider("doubao", "doubaoApiKey", "doubaoBaseUrl"),
    "featherless": RooProvider("featherless", "featherlessApiKey"),
    "groq": RooProvider("groq", "groqApiKey"),
    "huggingface": RooProvider("huggingface", "huggingFaceApiKey", None, "huggingFaceModelId"),
    "io-intelligence": RooProvider(
        "io-intelligence", "ioIntelligenceApiKey", None, "ioIntelligenceModelId"
    ),
}
"""Those that are missing here have no counterpart (see `explain_unknown_provider`)."""
_ZAI_HOSTS = {"international": "https://api.z.ai", "china": "https://open.bigmodel.cn"}
_ZAI_PATHS = {"coding": "/api/coding/paas/v4", "api": "/api/paas/v4"}
_CODESTRAL_URL = "https://codestral.mistral.ai"
_AZURE_HOST, _FOUNDRY_HOST = ".openai.azure.com", ".services.ai.azure.com"
_BEDROCK_PREFIXES = {
    "us-gov-": "us-gov.",
    "us-": "us.",
    "eu-": "eu.",
    "ap-northeast-": "jp.",
    "ap-southeast-2": "au.",
    "ap-southeast-4": "au.",
    "ap-": "apac.",
    "ca-": "ca.",
    "sa-": "sa.",
}
"""Of models that are served in several regions, by the beginning of the region's name."""
_LARGE_WINDOW_BETA = "context-1m-2025-08-07"
_LARGE_WINDOW_MODELS = ("claude-sonnet-4", "claude-opus-4-6")
_DIRECT_FIELDS = {
    "modelTemperature": "temperature",
    "toolProtocol": "protocol",
    "rateLimitSeconds": "rateLimitSeconds",
}
_KEYS_OF_ALL_PROVIDERS = (
    *("apiProvider", "enableReasoningEffort", "reasoningEffort"),
    *("includeMaxTokens", "modelMaxTokens", "modelMaxThinkingTokens"),
    *_DIRECT_FIELDS,
)
_KEYS_BY_PROVIDER = {
    "anthropic": "anthropicUseAuthToken anthropicBeta1MContext",
    "openai": "openAiHeaders openAiCustomModelInfo openAiUseAzure azureApiVersion",
    "openai-native": "openAiNativeServiceTier verbosity",
    "openrouter": "openRouterSpecificProvider",
    "ollama": "ollamaNumCtx",
    "lmstudio": "lmStudioDraftModelId lmStudioSpeculativeDecodingEnabled",
    "mistral": "mistralCodestralUrl",
    "zai": "zaiApiLine",
    "huggingface": "huggingFaceInferenceProvider",
    "bedrock": (
        "awsAccessKey awsSecretKey awsSessionToken awsRegion awsUseCrossRegionInference"
        " awsUseGlobalInference awsProfile awsUseProfile awsApiKey awsUseApiKey awsCustomArn"
        " awsModelContextWindow awsBedrockEndpointEnabled awsBedrockEndpoint awsBedrock1MContext"
        " awsBedrockServiceTier"
    ),
    "vertex": "vertexKeyFile vertexJsonCredentials vertexProjectId vertexRegion vertex1MContext",
}
"""Keys that only count for one provider, besides those of its row."""
_UNUSED_PROFILE_KEYS = {
    "replies are always streamed": "openAiStreamingEnabled",
    "the form of messages follows from the service and the model": (
        "openAiR1FormatEnabled openAiLegacyFormat litellmUsePromptCache"
    ),
    "the address names the host": "openAiHostHeader",
    "Gemini is used by its OpenAI-compatible API": "enableUrlContext enableGrounding",
    "there is no provider `gemini-cli`": "geminiCliOAuthPath geminiCliProjectId",
    "prompts are cached where the model supports it": "awsUsePromptCache",
    "there is no provider `qwen-code`": "qwenCodeOauthPath",
    "there is no provider `vscode-lm`": "vsCodeLmModelSelector",
    "there is no provider `fake-ai`": "fakeAi",
}
_UNUSED_SETTINGS = {
    "modes are defined in `custom_modes.yaml` and `.roomodes`": "customModes",
    "profiles are in `profiles.json`": "currentApiConfigName listApiConfigMeta pinnedApiConfigs",
    "`condensingProfile` names the profile for summaries": "condensingApiConfigId",
    "prompts are not enhanced, and `customCondensingPrompt` is for summaries": (
        "customSupportPrompts enhancementApiConfigId includeTaskHistoryInEnhance"
    ),
    "`imageProfile` names the profile for images": (
        "imageGenerationProvider openRouterImageApiKey openRouterImageGenerationSelectedModel"
    ),
    "the index is set up by `codebaseIndexEnabled` and `embeddingProfile`": (
        "codebaseIndexConfig codebaseIndexModels codeIndexOpenAiKey codeIndexQdrantApiKey"
        " codebaseIndexOpenAiCompatibleApiKey codebaseIndexOpenAiCompatibleBaseUrl"
        " codebaseIndexOpenAiCompatibleModelDimension codebaseIndexGeminiApiKey"
        " codebaseIndexMistralApiKey codebaseIndexVercelAiGatewayApiKey"
        " codebaseIndexOpenRouterApiKey"
    ),
    "`editTool` chooses how files are edited": "diffEnabled fuzzyMatchThreshold",
    "edits are checked when they are made (`includeDiagnosticMessages`)": (
        "diagnosticsEnabled writeDelayMs"
    ),
    "`terminalOutputPreviewSize` limits output": (
        "terminalOutputLineLimit terminalOutputCharacterLimit terminalCompressProgressBar"
    ),
    "commands run without the terminal of an editor": (
        "terminalShellIntegrationTimeout terminalShellIntegrationDisabled terminalCommandDelay"
        " terminalPowershellCounter terminalZshClearEolMark terminalZshOhMy terminalZshP10k"
        " terminalZdotdir execaShellPath"
    ),
    "the browser runs on this machine, without a window": (
        "screenshotQuality remoteBrowserEnabled remoteBrowserHost cachedChromeHostUrl"
    ),
    "joey has no experimental settings": "experiments",
    "ignored files are never shown": "showRooIgnoredFiles",
    "the model is not asked to write MCP servers": "enableMcpServerCreation",
    "tasks are found in their directories": "taskHistory",
    "it concerns only the editor": (
        "maxOpenTabsContext telemetrySetting ttsEnabled ttsSpeed soundEnabled soundVolume"
        " historyPreviewCollapsed reasoningBlockCollapsed enterBehavior dismissedUpsells"
        " hasOpenedModeSelector lastShownAnnouncementId lastModeExportPath lastModeImportPath"
        " lastSettingsExportPath lastTaskExportPath lastImageSavePath worktreeAutoOpenPath"
        " showWorktreesInHomeScreen"
    ),
}


def _invert(keys_by_reason: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for reason, keys in keys_by_reason.items() for key in keys.split()}


UNUSED_KEYS = _invert(_UNUSED_PROFILE_KEYS) | _invert(_UNUSED_SETTINGS)
"""Keys of Roo's that mean nothing here, and why."""
ROO_PROFILE_KEYS = (
    frozenset(_KEYS_OF_ALL_PROVIDERS)
    | {key for keys in _KEYS_BY_PROVIDER.values() for key in keys.split()}
    | {
        key
        for row in ROO_PROVIDERS.values()
        for key in (row.model, row.api_key, row.base_url)
        if key
    }
)
PROFILE_KEYS = (
    ROO_PROFILE_KEYS | set(Profile.__struct_encode_fields__) | set(_invert(_UNUSED_PROFILE_KEYS))
) - {"name"}
"""What belongs to a profile where settings and profiles are given in one object, as Roo does."""


def get_api_key_name(provider: str) -> str:
    """Return the key under which a Roo profile stores its API key."""
    row = ROO_PROVIDERS.get(provider)
    return row.api_key if row is not None and row.api_key else "apiKey"


def merge_roo_keys(known: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Merge values into a profile, in Roo's names if any of them is. A value stored under joey's
    name does not hide a new one under Roo's."""
    merged = known | values
    if not values.keys() & ROO_PROFILE_KEYS - set(Profile.__struct_encode_fields__):
        return merged
    if "apiProvider" not in merged:
        merged["apiProvider"] = merged.pop("provider", Profile().provider)
        if "apiKey" in merged:
            merged[get_api_key_name(merged["apiProvider"])] = merged.pop("apiKey")
    new = {name: value for name, value in values.items() if value is not None}
    hidden = convert_roo_profile(new, merged["apiProvider"]).keys() - values.keys()
    hidden -= {"apiKey", "extraBody", "headers"}  # Roo's own name, or merged with Roo's
    return {name: value for name, value in merged.items() if name not in hidden}


def convert_roo_profile(given: Mapping[str, Any], provider: str = "") -> dict[str, Any]:
    """Convert a profile to joey's names; `provider` is used if only some keys are given, without
    `apiProvider`."""
    name = given.get("apiProvider", provider)
    row = ROO_PROVIDERS.get(str(name)) or RooProvider(name, "apiKey")
    fields = {
        "provider": row.provider,
        "model": given.get(row.model),
        "apiKey": given.get(row.api_key or ""),
        "baseUrl": _build_base_url(str(name), row, given),
        **{field: given.get(key) for key, field in _DIRECT_FIELDS.items()},
        **_convert_limits(given),
        **_convert_reasoning(given),
        **_CONVERTERS.get(str(name), lambda _: {})(given),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _convert_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    is_sent = given.get("includeMaxTokens") is not False
    return {"maxTokens": given.get("modelMaxTokens") if is_sent else None}


def _convert_reasoning(given: Mapping[str, Any]) -> dict[str, Any]:
    effort = given.get("reasoningEffort")
    if given.get("enableReasoningEffort") is False or effort in ("disable", "none"):
        return {}
    return {"reasoningEffort": effort, "thinkingBudget": given.get("modelMaxThinkingTokens")}


def _convert_anthropic(given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if given.get("anthropicUseAuthToken") is True:
        fields["legacyHeaders"] = False
    if _has_large_window(given, "anthropicBeta1MContext"):
        fields |= {"headers": {"anthropic-beta": _LARGE_WINDOW_BETA}, "contextWindow": 1_000_000}
    return fields


def _has_large_window(given: Mapping[str, Any], key: str) -> bool:
    model = str(given.get("apiModelId")).removeprefix("anthropic.")
    return given.get(key) is True and model.startswith(_LARGE_WINDOW_MODELS)


def _convert_bedrock(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the login of Bedrock. Like Roo, prefer the key, then the profile if it is enabled."""
    arn, tier = given.get("awsCustomArn"), given.get("awsBedrockServiceTier")
    fields: dict[str, Any] = {
        "region": given.get("awsRegion"),
        "model": arn or _build_bedrock_model(given),
        "contextWindow": given.get("awsModelContextWindow") if arn else None,
        "extraBody": {"serviceTier": {"type": tier.lower()}}
        if tier in ("FLEX", "PRIORITY")
        else {},
    }
    if given.get("awsBedrockEndpointEnabled") is True:
        fields["baseUrl"] = given.get("awsBedrockEndpoint")
    if _has_large_window(given, "awsBedrock1MContext"):
        fields["extraBody"]["anthropic_beta"] = [_LARGE_WINDOW_BETA]
        fields["contextWindow"] = 1_000_000
    if given.get("awsUseApiKey") is True and given.get("awsApiKey"):
        return fields | {"apiKey": given["awsApiKey"]}
    if given.get("awsUseProfile") is True and given.get("awsProfile"):
        return fields | {"credentials": {"profile": given["awsProfile"]}}
    names = {"accessKey": "awsAccessKey", "secretKey": "awsSecretKey"}
    names["sessionToken"] = "awsSessionToken"
    keys = {ours: given[name] for ours, name in names.items() if given.get(name)}
    return fields | {"credentials": keys}


def _build_bedrock_model(given: Mapping[str, Any]) -> Any:
    model, region = given.get("apiModelId"), str(given.get("awsRegion") or "")
    if not isinstance(model, str) or model.count(".") != 1:
        return model
    if given.get("awsUseGlobalInference") is True:
        return f"global.{model}"
    if given.get("awsUseCrossRegionInference") is not True:
        return model
    known = [each for each in _BEDROCK_PREFIXES if region.startswith(each)]
    return _BEDROCK_PREFIXES[max(known, key=len)] + model if known else model


def _convert_vertex(given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "region": given.get("vertexRegion"),
        "project": given.get("vertexProjectId"),
    }
    if _has_large_window(given, "vertex1MContext"):
        fields |= {"headers": {"anthropic-beta": _LARGE_WINDOW_BETA}, "contextWindow": 1_000_000}
    if account := given.get("vertexJsonCredentials"):
        return fields | {"credentials": {"key": account}}
    path = given.get("vertexKeyFile")
    return fields | {"credentials": {"file": path} if path else {}}


def _convert_openai(given: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"headers": given.get("openAiHeaders"), **_convert_azure(given)}
    info = given.get("openAiCustomModelInfo")
    if not isinstance(info, dict):
        return fields
    fields["contextWindow"] = info.get("contextWindow")
    fields["nativeTools"] = info.get("supportsNativeTools")
    fields["images"] = False if info.get("supportsImages") is False else None
    fields["prices"] = _convert_prices(info)
    if given.get("includeMaxTokens") is True and not given.get("modelMaxTokens"):
        limit = info.get("maxTokens")
        fields["maxTokens"] = None if limit == -1 else limit
    return fields


def _convert_azure(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Azure, which is a separate provider here. Foundry has no dated versions at this
    address."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(str(given.get("openAiBaseUrl") or ""))
        host = parts.hostname or ""
    except ValueError:
        return {}  # the request will report the error in the address
    is_azure = given.get("openAiUseAzure") is True and bool(host)
    if not is_azure and not host.endswith((_AZURE_HOST, _FOUNDRY_HOST)):
        return {}
    version = None if host.endswith(_FOUNDRY_HOST) else given.get("azureApiVersion")
    base_url = f"{parts.scheme}://{parts.netloc}"
    return {"provider": "azure", "baseUrl": base_url, "apiVersion": version}


def _convert_prices(info: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert prices; missing ones are 0 in Roo."""
    fresh, output = info.get("inputPrice"), info.get("outputPrice")
    if not fresh and not output:
        return None
    return {
        "input": fresh or 0,
        "output": output or 0,
        "cache_writes": info.get("cacheWritesPrice") or fresh or 0,
        "cache_reads": info.get("cacheReadsPrice") or fresh or 0,
    }


def _convert_openai_native(given: Mapping[str, Any]) -> dict[str, Any]:
    tier, verbosity = given.get("openAiNativeServiceTier"), given.get("verbosity")
    body = {"service_tier": tier, "verbosity": verbosity}
    return {"extraBody": {name: value for name, value in body.items() if value}}


def _convert_openrouter(given: Mapping[str, Any]) -> dict[str, Any]:
    only = given.get("openRouterSpecificProvider")
    if not only or only == "[default]":
        return {}
    return {"extraBody": {"provider": {"only": [only], "allow_fallbacks": False}}}


def _convert_ollama(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"contextWindow": given.get("ollamaNumCtx")}


def _convert_lmstudio(given: Mapping[str, Any]) -> dict[str, Any]:
    draft = given.get("lmStudioDraftModelId")
    is_used = draft and given.get("lmStudioSpeculativeDecodingEnabled") is True
    return {"extraBody": {"draft_model": draft}} if is_used else {}


def _convert_huggingface(given: Mapping[str, Any]) -> dict[str, Any]:
    model, route = given.get("huggingFaceModelId"), given.get("huggingFaceInferenceProvider")
    return {"model": f"{model}:{route}"} if model and route and route != "auto" else {}


_CONVERTERS = {
    "anthropic": _convert_anthropic,
    "openai": _convert_openai,
    "openai-native": _convert_openai_native,
    "openrouter": _convert_openrouter,
    "ollama": _convert_ollama,
    "lmstudio": _convert_lmstudio,
    "huggingface": _convert_huggingface,
    "bedrock": _convert_bedrock,
    "vertex": _convert_vertex,
}


def _build_base_url(name: str, row: RooProvider, given: Mapping[str, Any]) -> Any:
    """Build the base URL. An address specific to Roo uses the profile's key: a key from a variable
    is for the usual address."""
    url = given.get(row.base_url or "")
    has_key = bool(given.get(row.api_key or ""))
    match name:
        case "zai" if has_key or "zaiApiLine" in given:
            area, _, line = str(given.get("zaiApiLine") or "international_coding").partition("_")
            if area in _ZAI_HOSTS and line in _ZAI_PATHS:
                return _ZAI_HOSTS[area] + _ZAI_PATHS[line]
        case "mistral" if str(given.get(row.model)).startswith("codestral") and (
            has_key or "mistralCodestralUrl" in given
        ):
            return _append_path(given.get("mistralCodestralUrl") or _CODESTRAL_URL, "/v1")
    return _append_path(url, row.url_path)


def _append_path(url: Any, path: str) -> Any:
    if not isinstance(url, str) or not url or url.rstrip("/").endswith(path):
        return url
    return url.rstrip("/") + path
