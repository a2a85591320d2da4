"""The services that a profile may name: which wire they speak, where, and with whose key.

Pure data. Reading the environment is the business of whoever makes the profiles.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from joey.errors import ConfigError


class WireKind(StrEnum):
    ANTHROPIC = "anthropic"
    OPENAI = "openai"


class ProviderKind(Struct, frozen=True):
    name: str
    wire: WireKind
    base_url: str
    key_variables: tuple[str, ...] = ()
    """In order of preference; none where no key is needed."""
    base_url_variable: str | None = None
    default_model: str = ""
    is_local: bool = False
    """Runs on the user's own machine: no key, no price."""

    @property
    def key_variable(self) -> str | None:
        return self.key_variables[0] if self.key_variables else None


def _hosted(name: str, base_url: str, *keys: str, model: str = "") -> ProviderKind:
    return ProviderKind(name, WireKind.OPENAI, base_url, keys, default_model=model)


def _local(name: str, port: int, variable: str | None = None) -> ProviderKind:
    url = f"http://127.0.0.1:{port}/v1"
    return ProviderKind(name, WireKind.OPENAI, url, (), variable, is_local=True)


KINDS: tuple[ProviderKind, ...] = (
    ProviderKind(
        "anthropic",
        WireKind.ANTHROPIC,
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        "ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5-5",
    ),
    ProviderKind(
        "openai",
        WireKind.OPENAI,
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        default_model="gpt-6.1-sol",
    ),
    _hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        model="anthropic/claude-sonnet-5.5",
    ),
    _local("ollama", 11434, "OLLAMA_HOST"),
    _local("lmstudio", 1234),
    _local("llamacpp", 8080),
    _local("vllm", 8000),
    _hosted(
        "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", model="deepseek-v4-flash"
    ),
    _hosted(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        model="gemini-3.8-flash",
    ),
    _hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", model="grok-4.7"),
    _hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    _hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    _hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    _hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    _hosted("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", model="kimi-k3"),
    _hosted("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", model="glm-5.2"),
    _hosted(
        "qwen",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
        model="qwen3-max",
    ),
)

ALIASES = {
    "openai-native": "openai",
    "openai-compatible": "openai",
    "google": "gemini",
    "claude": "anthropic",
    "dashscope": "qwen",
    "llama.cpp": "llamacpp",
    "lm-studio": "lmstudio",
}
_BY_NAME = {kind.name: kind for kind in KINDS}


def find_kind(name: str) -> ProviderKind:
    """Raises ConfigError with the names that exist."""
    wanted = name.strip().lower()
    kind = _BY_NAME.get(ALIASES.get(wanted, wanted))
    if kind is None:
        names = ", ".join(_BY_NAME)
        raise ConfigError(
            f"There is no provider named {name!r}. Choose one of: {names}. For another service"
            " that speaks OpenAI's protocol, choose openai and set the base URL."
        )
    return kind


def endpoint(kind: ProviderKind, base_url: str | None) -> str:
    """The full URL that requests go to."""
    base = (base_url or kind.base_url).strip().rstrip("/")
    if kind.name == "ollama" and base_url:
        base = _ollama_base(base)
    if kind.wire is WireKind.ANTHROPIC:
        return _extended(base, "/v1", "/messages")
    return _extended(base, "", "/chat/completions")


def _extended(base: str, version: str, path: str) -> str:
    if base.endswith(path):
        return base
    return f"{base}{path}" if base.endswith(version) else f"{base}{version}{path}"


def _ollama_base(base: str) -> str:
    """`OLLAMA_HOST` is written for the server: perhaps no scheme, and the address it listens on."""
    scheme, _, rest = base.rpartition("://")
    rest = rest.replace("0.0.0.0", "127.0.0.1")
    host, slash, path = rest.partition("/")
    if not scheme and ":" not in host:
        host = f"{host}:11434"
    return f"{scheme or 'http'}://{host}{slash}{path}" + ("" if slash else "/v1")
