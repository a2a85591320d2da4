"""Registry of the model services that a profile may name, and catalogue of their models.

Pure data: which protocol a service speaks, its address, the variables that hold its key; limits,
abilities and prices of models. Reading the environment is left to the code that builds profiles.
Shell completion loads this module, so it must not import the HTTP client.

Prices are US dollars per million tokens with the date on which they were read, without batch and
priority tariffs. They change: a provider's own figure for the cost of a request takes precedence,
and the user's `models.json` and profiles override this list. An id is looked up without its maker,
its date and its variant, so `anthropic/claude-sonnet-4.5`, `claude-sonnet-4-5-20250929` and
Bedrock's `us.anthropic.claude-sonnet-4-5-20250929-v1:0` are one. Names of open models are prefixes
of the servers' ids: `gemma3` is also `gemma-3-27b-it-Q4_K_M.gguf`.

OpenAI's later models reason with tools only in its Responses API, wherever they are served under
their name by a server of OpenAI's kind; other services serve them in chat completions.

Makers train their models on their own edit tools. The tool is derived from the id, wherever the
model is served, or from the maker's own service.

A model that is not listed gets these defaults, and says so (`is_known` is False):

- with Anthropic's protocol a window of 200,000 tokens, 8,192 of output, prompt cache, thinking;
- on a local server a window of 32,768 and no price;
- elsewhere a window of 128,000, 8,192 of output, images and native tools.
"""

from __future__ import annotations

from msgspec import Struct, structs

from joey.core.models import (
    ApiProtocol,
    LongContextRates,
    ModelInfo,
    ModelOverride,
    Prices,
    ProviderSpec,
)
from joey.core.text import compile_regex
from joey.errors import ConfigError
from joey.ports.model import ModelOverrides


def _build_hosted_spec(name: str, base_url: str, *keys: str, model: str = "") -> ProviderSpec:
    return ProviderSpec(name, ApiProtocol.OPENAI, base_url, keys, default_model=model)


def _build_local_spec(name: str, port: int, variable: str | None = None) -> ProviderSpec:
    url = f"http://127.0.0.1:{port}/v1"
    return ProviderSpec(name, ApiProtocol.OPENAI, url, (), variable, is_local=True)


PROVIDER_SPECS: tuple[ProviderSpec, ...] = (
    ProviderSpec(
        "anthropic",
        ApiProtocol.ANTHROPIC,
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        "ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5-5",
    ),
    ProviderSpec(
        "openai",
        ApiProtocol.OPENAI,
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        default_model="gpt-6.1-sol",
    ),
    _build_hosted_spec(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        model="anthropic/claude-sonnet-5.5",
    ),
    _build_local_spec("ollama", 11434, "OLLAMA_HOST"),
    _build_local_spec("lmstudio", 1234),
    _build_local_spec("llamacpp", 8080),
    _build_local_spec("vllm", 8000),
    _build_hosted_spec(
        "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", model="deepseek-v4-flash"
    ),
    _build_hosted_spec(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        model="gemini-3.8-flash",
    ),
    _build_hosted_spec("xai", "https://api.x.ai/v1", "XAI_API_KEY", model="grok-4.7"),
    _build_hosted_spec("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _build_hosted_spec("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    _build_hosted_spec("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _build_hosted_spec("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _build_hosted_spec("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _build_hosted_spec(
        "moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", model="kimi-k3"
    ),
    _build_hosted_spec("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", model="glm-5.2"),
    _build_hosted_spec(
        "qwen",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
        model="qwen3-max",
    ),
    _build_hosted_spec("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    _build_hosted_spec("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    _build_hosted_spec("baseten", "https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    _build_hosted_spec("requesty", "https://router.requesty.ai/v1", "REQUESTY_API_KEY"),
    _build_hosted_spec("unbound", "https://api.getunbound.ai/v1", "UNBOUND_API_KEY"),
    _build_hosted_spec("litellm", "http://127.0.0.1:4000/v1", "LITELLM_API_KEY"),
    _build_hosted_spec(
        "vercel-ai-gateway",
        "https://ai-gateway.vercel.sh/v1",
        "AI_GATEWAY_API_KEY",
        "VERCEL_AI_GATEWAY_API_KEY",
    ),
    _build_hosted_spec("poe", "https://api.poe.com/v1", "POE_API_KEY"),
    _build_hosted_spec("roo", "https://api.roocode.com/proxy/v1", "ROO_API_KEY"),
    _build_hosted_spec("chutes", "https://llm.chutes.ai/v1", "CHUTES_API_KEY"),
    _build_hosted_spec("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    _build_hosted_spec("doubao", "https://ark.cn-beijing.volces.com/api/v3", "ARK_API_KEY"),
    _build_hosted_spec("featherless", "https://api.featherless.ai/v1", "FEATHERLESS_API_KEY"),
    _build_hosted_spec("huggingface", "https://router.huggingface.co/v1", "HUGGINGFACE_API_KEY"),
    _build_hosted_spec(
        "io-intelligence", "https://api.intelligence.io.solutions/api/v1", "IOINTELLIGENCE_API_KEY"
    ),
    ProviderSpec(
        "bedrock",
        ApiProtocol.CONVERSE,
        "",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        login="AWS credentials",
        region_variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
    ),
    ProviderSpec(
        "vertex",
        ApiProtocol.OPENAI,
        "",
        login="Google Cloud login",
        region_variables=("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"),
        project_variables=("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"),
    ),
    ProviderSpec(
        "azure",
        ApiProtocol.OPENAI,
        "",
        ("AZURE_OPENAI_API_KEY",),
        "AZURE_OPENAI_ENDPOINT",
        login="Microsoft Entra ID login",
    ),
)

PROVIDER_ALIASES = {
    "openai-native": "openai",
    "openai-compatible": "openai",
    "google": "gemini",
    "claude": "anthropic",
    "vertex-ai": "vertex",
    "azure-openai": "azure",
    "dashscope": "qwen",
    "llama.cpp": "llamacpp",
    "lm-studio": "lmstudio",
}
_SPECS_BY_NAME = {kind.name: kind for kind in PROVIDER_SPECS}


def find_provider_spec(name: str) -> ProviderSpec:
    """Find a provider. Raises ConfigError, which lists the existing names."""
    wanted = name.strip().lower()
    kind = _SPECS_BY_NAME.get(PROVIDER_ALIASES.get(wanted, wanted))
    if kind is None:
        from joey.core.provider_advice import explain_unknown_provider

        message = explain_unknown_provider(name, _SPECS_BY_NAME)
        raise ConfigError(message, field="provider", value=name)
    return kind


def build_endpoint_url(kind: ProviderSpec, base_url: str | None) -> str:
    """Build the URL for requests."""
    base = (base_url or kind.base_url).strip().rstrip("/").removesuffix("/responses")
    if kind.name == "ollama" and base_url:
        base = _normalize_ollama_url(base)
    elif kind.is_local and not _has_path(base):
        base += "/v1"
    if kind.api_protocol is ApiProtocol.ANTHROPIC:
        return _append_api_path(base, "/v1", "/messages")
    return _append_api_path(base, "", "/chat/completions")


def suggest_path(kind: ProviderSpec, base_url: str | None) -> str:
    """Suggest a path for an address that only names a server, to add to an error."""
    if not base_url or kind.api_protocol is ApiProtocol.ANTHROPIC or _has_path(base_url):
        return ""
    return f"did you mean {base_url.rstrip('/')}/v1?"


def _has_path(base_url: str) -> bool:
    return "/" in base_url.rpartition("://")[2].rstrip("/")


def _append_api_path(base: str, version: str, path: str) -> str:
    if base.endswith(path):
        return base
    return f"{base}{path}" if base.endswith(version) else f"{base}{version}{path}"


def _normalize_ollama_url(base: str) -> str:
    """Normalize `OLLAMA_HOST`, which is written for the server: it may lack a scheme, or be the
    listening address."""
    scheme, _, rest = base.rpartition("://")
    rest = rest.replace("0.0.0.0", "127.0.0.1")
    host, slash, path = rest.partition("/")
    if not scheme and ":" not in host:
        host = f"{host}:11434"
    return f"{scheme or 'http'}://{host}{slash}{path}" + ("" if slash else "/v1")


_MODEL_ID_SUFFIX_RE = compile_regex(
    r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-\d{4}|-latest|-preview(?:-\d\d-\d\d(?:\d\d)?)?"
    r"|:(?:free|thinking|nitro|floor|exacto|online|latest|beta))+$"
)


_BEDROCK_ID_RE = compile_regex(r"(?:[a-z-]+\.)?[a-z0-9]+\.(?P<name>[a-z].*?)(?:-v?\d+:\d+|-v\d+)?")


class _ModelRow(Struct, frozen=True):
    """Window and output in thousands of tokens, then prices: input, output, cache read, write."""

    window_kilotokens: int
    output_kilotokens: int
    prices: tuple[float, ...] = ()
    flags: str = ""
    """Letters: c cache marks · t thinking budget · n no native tools · x no temperature ·
    0 temperature 0 · b blind (no images) · r wants its reasoning back."""
    long_context: tuple[tuple[int, float, float], ...] = ()
    """Thousands of tokens that a request must exceed, then the factors of the prices of all its
    tokens: of input and cache, and of output."""
    prices_read: str = "2026-11-15"

    def to_model_info(self, model: str) -> ModelInfo:
        return ModelInfo(
            id=model,
            context_window=self.window_kilotokens * 1000,
            max_output_tokens=self.output_kilotokens * 1000,
            supports_images="b" not in self.flags,
            supports_native_tools="n" not in self.flags,
            supports_prompt_cache="c" in self.flags,
            supports_thinking="t" in self.flags,
            supports_temperature="x" not in self.flags,
            default_temperature=0 if "0" in self.flags else None,
            preserve_reasoning="r" in self.flags,
            prices=self._build_prices(*self.prices) if self.prices else None,
        )

    def _build_prices(
        self, fresh: float, output: float, cache_read: float, cache_write: float = 0.0
    ) -> Prices:
        written = cache_write or fresh
        return Prices(
            input=fresh,
            output=output,
            cache_writes=written,
            cache_reads=cache_read,
            long_context=tuple(
                LongContextRates(
                    above=kilotokens * 1000,
                    input=round(fresh * factor, 6),
                    output=round(output * output_factor, 6),
                    cache_writes=round(written * factor, 6),
                    cache_reads=round(cache_read * factor, 6),
                )
                for kilotokens, factor, output_factor in self.long_context
            ),
            as_of=self.prices_read,
        )


_REREAD = "2026-11-18"
"""When prices were read again, with their tariffs for long inputs."""
_DOUBLE_ABOVE_200K = ((200, 2, 1.5),)
_DOUBLE_ABOVE_272K = ((272, 2, 1.5),)


_CLAUDE_MODELS = {
    "claude-fable-5-2": _ModelRow(1000, 128, flags="cx"),
    "claude-mythos-5-2": _ModelRow(1000, 128, flags="cx"),
    "claude-fable-5-1": _ModelRow(1000, 128, (10, 50, 0.25, 12.5), "cx"),
    "claude-mythos-5-1": _ModelRow(1000, 128, (10, 50, 0.25, 12.5), "cx"),
    "claude-fable-5": _ModelRow(1000, 128, (10, 50, 1, 12.5), "cx"),
    "claude-mythos-5": _ModelRow(1000, 128, (10, 50, 1, 12.5), "cx"),
    "claude-opus-5-5": _ModelRow(1000, 128, (4, 20, 0.2, 5), "cx"),
    "claude-opus-5": _ModelRow(1000, 128, (5, 25, 0.5, 6.25), "cx"),
    "claude-opus-4-8": _ModelRow(1000, 128, (5, 25, 0.5, 6.25), "cx"),
    "claude-opus-4-7": _ModelRow(1000, 128, (5, 25, 0.5, 6.25), "cx"),
    "claude-opus-4-6": _ModelRow(1000, 128, (5, 25, 0.5, 6.25), "ct0"),
    "claude-opus-4-5": _ModelRow(200, 64, (5, 25, 0.5, 6.25), "ct0"),
    "claude-opus-4-1": _ModelRow(200, 32, (15, 75, 1.5, 18.75), "ct0"),
    "claude-opus-4": _ModelRow(200, 32, (15, 75, 1.5, 18.75), "ct0"),
    "claude-sonnet-5-5": _ModelRow(1000, 128, (2, 10, 0.1, 2.5), "cx", (), _REREAD),
    "claude-sonnet-5": _ModelRow(1000, 128, (2, 10, 0.2, 2.5), "cx"),
    "claude-sonnet-4-6": _ModelRow(1000, 64, (3, 15, 0.3, 3.75), "ct0"),
    "claude-sonnet-4-5": _ModelRow(200, 64, (3, 15, 0.3, 3.75), "ct0", _DOUBLE_ABOVE_200K, _REREAD),
    "claude-sonnet-4": _ModelRow(200, 64, (3, 15, 0.3, 3.75), "ct0", _DOUBLE_ABOVE_200K, _REREAD),
    "claude-haiku-5-5": _ModelRow(
        1000, 128, (0.1, 0.5, 0.01, 0.125), "cx", ((100, 5, 5),), _REREAD
    ),
    "claude-haiku-4-5": _ModelRow(200, 64, (1, 5, 0.1, 1.25), "ct0"),
}
_GPT_MODELS = {
    "gpt-6.1-sol": _ModelRow(1050, 128, (2, 10, 0.1, 2.5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-6.1-terra": _ModelRow(1050, 128, (1, 5, 0.05, 1.25), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-6-astra": _ModelRow(1050, 128, (10, 50, 1, 12.5), "xn", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-6-sol": _ModelRow(1050, 128, (2, 10, 0.2, 2.5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-6-luna": _ModelRow(1050, 128, (0.1, 0.5, 0.01, 0.125), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.6": _ModelRow(1050, 128, (4, 20, 0.4, 5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.6-sol": _ModelRow(1050, 128, (4, 20, 0.4, 5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.6-terra": _ModelRow(1050, 128, (2, 12, 0.2, 2.5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.6-luna": _ModelRow(1050, 128, (0.2, 1.2, 0.02, 0.25), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.5": _ModelRow(1050, 128, (5, 30, 0.5), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.4": _ModelRow(1050, 128, (2.5, 15, 0.25), "x", _DOUBLE_ABOVE_272K, _REREAD),
    "gpt-5.4-mini": _ModelRow(400, 128, (0.75, 4.5, 0.075), "x"),
    "gpt-5.4-nano": _ModelRow(400, 128, (0.2, 1.25, 0.02), "x"),
    "gpt-5.2": _ModelRow(400, 128, (1.75, 14, 0.175), "x"),
    "gpt-5.1": _ModelRow(400, 128, (1.25, 10, 0.125), "x"),
    "gpt-5.1-codex": _ModelRow(400, 128, (1.25, 10, 0.125), "x"),
    "gpt-5": _ModelRow(400, 128, (1.25, 10, 0.125), "x"),
    "gpt-5-codex": _ModelRow(400, 128, (1.25, 10, 0.125), "x"),
    "gpt-5-mini": _ModelRow(400, 128, (0.25, 2, 0.025), "x"),
    "gpt-5-nano": _ModelRow(400, 128, (0.05, 0.4, 0.005), "x"),
    "gpt-4.1": _ModelRow(1047, 32, (2, 8, 0.5), "0"),
    "gpt-4.1-mini": _ModelRow(1047, 32, (0.4, 1.6, 0.1), "0"),
    "gpt-4.1-nano": _ModelRow(1047, 32, (0.1, 0.4, 0.025), "0"),
    "gpt-4o": _ModelRow(128, 16, (2.5, 10, 1.25), "0"),
    "gpt-4o-mini": _ModelRow(128, 16, (0.15, 0.6, 0.075), "0"),
    "o4-mini": _ModelRow(200, 100, (1.1, 4.4, 0.275), "x"),
    "o3": _ModelRow(200, 100, (2, 8, 0.5), "x"),
    "o3-mini": _ModelRow(200, 100, (1.1, 4.4, 0.55), "xb"),
    "o1": _ModelRow(200, 100, (15, 60, 7.5), "x"),
}
_OTHER_HOSTED_MODELS = {
    "gemini-3.8-flash": _ModelRow(1048, 65, (0.75, 3.75, 0.075)),
    "gemini-3.5-flash": _ModelRow(1048, 65, (1.5, 9, 0.15)),
    "gemini-3.1-pro": _ModelRow(1048, 65, (2, 12, 0.2), "", _DOUBLE_ABOVE_200K, _REREAD),
    "gemini-3.1-flash-lite": _ModelRow(1048, 65, (0.25, 1.5, 0.025)),
    "gemini-3-flash": _ModelRow(1048, 65, (0.5, 3, 0.05)),
    "gemini-2.5-pro": _ModelRow(1048, 65, (1.25, 10, 0.125), "", _DOUBLE_ABOVE_200K, _REREAD),
    "gemini-2.5-flash": _ModelRow(1048, 65, (0.3, 2.5, 0.03)),
    "gemini-2.5-flash-lite": _ModelRow(1048, 65, (0.1, 0.4, 0.01)),
    "deepseek-v4.1-flash": _ModelRow(1000, 384, (0.14, 0.28, 0.0028), "br"),
    "deepseek-v4-flash": _ModelRow(1000, 384, (0.14, 0.28, 0.0028), "br"),
    "deepseek-v4-pro": _ModelRow(1000, 384, (0.435, 0.87, 0.0036), "br"),
    "deepseek-v3.2": _ModelRow(128, 64, (0.28, 0.42, 0.028), "br"),
    "deepseek-chat": _ModelRow(128, 8, (0.28, 0.42, 0.028), "b0"),
    "deepseek-reasoner": _ModelRow(128, 64, (0.28, 0.42, 0.028), "br"),
    "deepseek-r1": _ModelRow(128, 32, (0.55, 2.19, 0.14), "bn"),
    "qwen3-max": _ModelRow(
        262, 65, (1.2, 6, 0.24, 1.5), "b0", ((32, 2, 2), (128, 2.5, 2.5)), _REREAD
    ),
    "qwen3.5-plus": _ModelRow(1000, 65, (0.4, 2.4, 0.04, 0.5), "", ((256, 1.25, 1.25),), _REREAD),
    "qwen-plus": _ModelRow(1000, 32, (0.4, 1.2, 0.08, 0.5), "b", ((256, 3, 3),), _REREAD),
    "qwen3-coder-plus": _ModelRow(
        1000, 65, (1, 5, 0.2, 1.25), "b", ((32, 1.8, 1.8), (128, 3, 3), (256, 6, 12)), _REREAD
    ),
    "qwen3-coder-next": _ModelRow(262, 65, (0.07, 0.3, 0.07), "b"),
    "qwen3-coder": _ModelRow(262, 65, (0.2, 0.8, 0.2), "b"),
    "kimi-k3": _ModelRow(1048, 65, (3, 15, 0.3), "r"),
    "kimi-k2.5": _ModelRow(262, 65, (0.6, 3, 0.1), "r"),
    "glm-5.2": _ModelRow(1000, 128, (1.4, 4.4, 0.28), "br"),
    "glm-5.1": _ModelRow(200, 128, (1.4, 4.4, 0.26), "br"),
    "grok-4.7": _ModelRow(500, 64, (2, 6, 0.5), "", ((200, 2, 2),), _REREAD),
    "grok-4": _ModelRow(256, 64, (3, 15, 0.75), "", ((128, 2, 2),), _REREAD),
    "grok-code-fast-1": _ModelRow(256, 32, (0.2, 1.5, 0.02), "b"),
    "llama-4-maverick": _ModelRow(1048, 16, (0.15, 0.6, 0.15)),
    "llama-4-scout": _ModelRow(328, 16, (0.08, 0.3, 0.08)),
    "llama-3.3-70b-instruct": _ModelRow(131, 16, (0.1, 0.32, 0.1), "b"),
    "llama-3.3-70b-versatile": _ModelRow(131, 32, (0.59, 0.79, 0.59), "b"),
    "llama-3.1-8b-instant": _ModelRow(131, 131, (0.05, 0.08, 0.05), "b"),
    "gpt-oss-120b": _ModelRow(131, 65, (0.15, 0.6, 0.075), "b"),
    "gpt-oss-20b": _ModelRow(131, 65, (0.075, 0.3, 0.037), "b"),
    "mistral-large": _ModelRow(262, 32, (0.5, 1.5, 0.05)),
    "devstral": _ModelRow(262, 32, (0.4, 2, 0.04), "b"),
    "codestral": _ModelRow(256, 32, (0.3, 0.9, 0.03), "b"),
}
_LOCAL_MODELS = {
    "qwen3-coder": _ModelRow(262, 32, flags="b"),
    "qwen3": _ModelRow(40, 8, flags="b"),
    "qwen2.5-coder": _ModelRow(32, 8, flags="b"),
    "gpt-oss": _ModelRow(131, 32, flags="b"),
    "devstral": _ModelRow(131, 16, flags="b"),
    "mistral": _ModelRow(32, 8, flags="b"),
    "mistral-small": _ModelRow(131, 8, flags=""),
    "llama3.3": _ModelRow(131, 8, flags="b"),
    "llama3.2": _ModelRow(131, 8, flags="b"),
    "llama3.1": _ModelRow(131, 8, flags="b"),
    "llama4": _ModelRow(1000, 16),
    "gemma2": _ModelRow(8, 2, flags="bn"),
    "gemma3": _ModelRow(131, 8, flags="n"),
    "gemma4": _ModelRow(262, 16),
    "phi4": _ModelRow(16, 4, flags="bn"),
    "phi4-mini": _ModelRow(131, 4, flags="b"),
    "deepseek-r1": _ModelRow(131, 16, flags="bn"),
    "deepseek-coder-v2": _ModelRow(163, 8, flags="bn"),
    "codellama": _ModelRow(16, 4, flags="bn"),
    "smollm2": _ModelRow(8, 2, flags="bn"),
}
_MAKERS = frozenset({"meta", "google", "microsoft", "mistralai", "ai", "unsloth"})
"""What file names may begin with."""
_NAME_TOKEN_RE = compile_regex(r"[a-z]+|\d+(?:\.\d+)*")
_HOSTED_MODELS = {**_CLAUDE_MODELS, **_GPT_MODELS, **_OTHER_HOSTED_MODELS}
_EDIT_TOOLS_BY_MODEL_PATTERN = (
    (compile_regex(r"openai/|(?:^|[/:])(?:gpt-|chatgpt-|codex|o\d(?:-|$))"), "apply_patch"),
    (compile_regex(r"x-ai/|(?:^|/)grok"), "search_replace"),
    (compile_regex(r"(?:^|/)gemini"), "edit"),
    (compile_regex(r"minimax"), "edit"),
)
_RESPONSES_MODEL_RE = compile_regex(
    r"(?:^|/)(?:gpt-(?:5\.(?:[4-9]|\d\d)|[6-9]|1\d)(?:[.-]|$)|gpt-5.*-(?:codex|pro)|o\d-pro)"
)
_EDIT_TOOL_BY_PROVIDER = {"xai": "search_replace", "gemini": "edit"}


def find_model_info(
    provider: str, model: str, overrides: ModelOverrides | None = None
) -> ModelInfo:
    """Find what is known about a model at a provider; the stated defaults if it is not listed.
    Raises ConfigError if there is no such provider, or `overrides` are invalid."""
    info, override = find_model_and_override(provider, model, overrides)
    return info if override is None else override.apply_to(info)


def find_model_and_override(
    provider: str, model: str, overrides: ModelOverrides | None
) -> tuple[ModelInfo, ModelOverride | None]:
    """Find the facts known here, and those of `overrides`. Raises ConfigError."""
    kind = find_provider_spec(provider)
    info = structs.replace(
        _find_model_or_default(kind, model),
        preferred_edit_tool=_choose_edit_tool(kind, model),
        needs_responses=kind.name in ("openai", "azure")
        and _RESPONSES_MODEL_RE.search(model.lower()) is not None,
    )
    if overrides is None:
        return info, None
    names = (model, _MODEL_ID_SUFFIX_RE.sub("", model.lower()), _normalize_model_id(model))
    return info, overrides.find(kind.name, names)


def list_model_ids(provider: str) -> tuple[str, ...]:
    """List ids worth offering for a provider with a list of its own."""
    match find_provider_spec(provider).name:
        case "anthropic":
            return tuple(_CLAUDE_MODELS)
        case "openai":
            return tuple(_GPT_MODELS)
        case _:
            return ()


def _find_model_or_default(kind: ProviderSpec, model: str) -> ModelInfo:
    default, open_row = _build_default_model_info(kind, model), _find_local_row(model)
    if kind.is_local:
        info = default if open_row is None else open_row.to_model_info(model)
        return structs.replace(info, prices=Prices())
    if (row := _HOSTED_MODELS.get(_normalize_model_id(model))) is not None:
        return row.to_model_info(model)
    if open_row is not None and "n" in open_row.flags:
        return structs.replace(default, supports_native_tools=False)
    return default


def _find_local_row(model: str) -> _ModelRow | None:
    """Find the row whose name the id begins with, whoever packaged it: `gemma3` is also
    `google/gemma-3-27b-it` and `google_gemma-3-27b-it-Q4_K_M.gguf`. The longest name counts."""
    tokens = _split_model_name(model.rpartition("/")[2].partition(":")[0])
    while tokens and (tokens[0] in _MAKERS or tokens[:1] == tokens[1:2]):
        tokens = tokens[1:]
    rows = ((_split_model_name(name), row) for name, row in _LOCAL_MODELS.items())
    found = [(len(name), row) for name, row in rows if tokens[: len(name)] == name]
    return max(found, key=lambda each: each[0])[1] if found else None


def _split_model_name(name: str) -> list[str]:
    """Split a name into words and version numbers: `qwen2.5-coder` is `qwen`, `2.5`, `coder`."""
    return _NAME_TOKEN_RE.findall(name.lower())


def _choose_edit_tool(kind: ProviderSpec, model: str) -> str:
    name = model.lower()
    for pattern, tool in _EDIT_TOOLS_BY_MODEL_PATTERN:
        if pattern.search(name):
            return tool
    return _EDIT_TOOL_BY_PROVIDER.get(kind.name, "apply_diff")


def _normalize_model_id(model: str) -> str:
    name = model.lower().rpartition("/")[2]
    if match := _BEDROCK_ID_RE.fullmatch(name):
        name = match["name"]
    name = _MODEL_ID_SUFFIX_RE.sub("", name)
    return name.replace(".", "-") if name.startswith("claude-") else name


def _build_default_model_info(kind: ProviderSpec, model: str) -> ModelInfo:
    if kind.api_protocol is ApiProtocol.ANTHROPIC:
        return ModelInfo(
            id=model,
            context_window=200_000,
            supports_prompt_cache=True,
            supports_thinking=True,
            is_known=False,
        )
    if kind.is_local:
        return ModelInfo(id=model, context_window=32_768, is_known=False)
    return ModelInfo(id=model, is_known=False)
