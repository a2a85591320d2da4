"""`profiles.json`: named ways to reach a model, with their keys; readable by its owner alone.

    {"active": "work", "profiles": {"work": {"provider": "anthropic", "apiKey": "…"}}}

Roo's shape (`currentApiConfigName`, `apiConfigs`) and its names inside a profile are understood
too. A profile of Roo's often holds keys of several providers that were tried one after the other;
only those of its `apiProvider` count.
"""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.config.documents import convert_document, read_document
from joey.core.settings import Profile
from joey.errors import ConfigError

PROFILES = "profiles.json"
_log = logging.getLogger(__name__)


class Profiles(Struct, frozen=True):
    active: str = "default"
    profiles: dict[str, Profile] = {}
    missing: str | None = None
    """Whom the file names as the active one although it does not exist."""

    @property
    def remark(self) -> str:
        """What to do about `missing`; empty without."""
        if self.missing is None:
            return ""
        said = f"{PROFILES} has no profile {self.missing!r}, which it names as the active one"
        if self.active in self.profiles:
            return f"{said}; {self.active} is used (joey profiles use {self.active} settles it)."
        return f"{said}. {self.choice}"

    @property
    def choice(self) -> str:
        """How to say which of several is meant."""
        return f"Choose one with joey profiles use NAME: {', '.join(self.profiles)}."


class _RooKeys(Struct, frozen=True):
    """How Roo names the three things that differ from provider to provider."""

    model: str = "apiModelId"
    key: str | None = None
    url: str | None = None
    provider: str | None = None
    """Our name for the provider, where it is another one."""


_ROO: dict[str, _RooKeys] = {
    "anthropic": _RooKeys(key="apiKey", url="anthropicBaseUrl"),
    "openai": _RooKeys("openAiModelId", "openAiApiKey", "openAiBaseUrl"),
    "openai-native": _RooKeys(
        key="openAiNativeApiKey", url="openAiNativeBaseUrl", provider="openai"
    ),
    "openrouter": _RooKeys("openRouterModelId", "openRouterApiKey", "openRouterBaseUrl"),
    "ollama": _RooKeys("ollamaModelId", "ollamaApiKey", "ollamaBaseUrl"),
    "lmstudio": _RooKeys("lmStudioModelId", None, "lmStudioBaseUrl"),
    "deepseek": _RooKeys(key="deepSeekApiKey", url="deepSeekBaseUrl"),
    "gemini": _RooKeys(key="geminiApiKey", url="googleGeminiBaseUrl"),
    "mistral": _RooKeys(key="mistralApiKey"),
    "xai": _RooKeys(key="xaiApiKey"),
    "groq": _RooKeys(key="groqApiKey"),
    "litellm": _RooKeys("litellmModelId", "litellmApiKey", "litellmBaseUrl"),
}
PROFILE_KEYS = frozenset(
    {*Profile.__struct_encode_fields__, "apiProvider", "modelTemperature", "modelMaxTokens"}
    | {"toolProtocol", "openAiHeaders", "enableReasoningEffort", "openAiCustomModelInfo"}
    | {"anthropicUseAuthToken"}
    | {key for keys in _ROO.values() for key in (keys.model, keys.key, keys.url) if key}
) - {"name"}
"""What belongs to a profile where settings and profiles are given in one object, as Roo does."""


def load_profiles(home: Path) -> Profiles:
    """The person's profiles; none when there is no file.

    Raises:
        ConfigError
    """
    path = home / PROFILES
    document = read_document(path)
    if document is None:
        return Profiles()
    _close_to_others(path)
    group = "profiles" if "profiles" in document else "apiConfigs"
    named = document.get(group, {})
    if not isinstance(named, dict):
        raise ConfigError(f"{path}: `{group}` must be an object of profiles by name.")
    only = next(iter(named)) if len(named) == 1 else "default"
    active = document.get("active", document.get("currentApiConfigName", only))
    if not isinstance(active, str):
        raise ConfigError(f"{path}: `active` must be the name of one of the profiles.")
    profiles = {name: read_profile(path, group, name, given) for name, given in named.items()}
    if not profiles or active in profiles or not _names_one(document):
        return Profiles(active, profiles)
    return Profiles(only if len(profiles) == 1 else active, profiles, missing=active)


def _names_one(document: dict[str, Any]) -> bool:
    return "active" in document or "currentApiConfigName" in document


def read_profile(path: Path, group: str, name: str, given: Any) -> Profile:
    """One profile, in our names or in Roo's.

    Raises:
        ConfigError
    """
    place = f"{group}.{name}"
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: `{place}` must be an object.")
    return convert_document(_fields(given) | {"name": name}, Profile, path, within=place)


def keys_given(given: dict[str, Any]) -> frozenset[str]:
    """What the file says of a profile, by our names; all else is a default."""
    return frozenset(_fields(given))


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    return given if "apiProvider" not in given else _from_roo(given) | _ours(given)


def client_fields(given: dict[str, Any], provider: str) -> dict[str, Any]:
    """What a client says of a profile, by our names; `provider` where it names none.

    Nothing of a stored profile is mixed into it: there, names of Roo's may hold keys of several
    providers.
    """
    if "apiProvider" in given:
        return _from_roo(given) | _ours(given)
    provider = given.get("provider", provider)
    roo = _from_roo(given | {"apiProvider": provider})
    own = {name: given[name] for name in Profile.__struct_encode_fields__ if name in given}
    return {name: value for name, value in roo.items() if name != "provider"} | own


def name_of_key(given: dict[str, Any]) -> str:
    """Where this profile keeps its key; Roo has a name of its own for each provider."""
    keys = _ROO.get(str(given.get("apiProvider")))
    return keys.key if "apiProvider" in given and keys is not None and keys.key else "apiKey"


def _from_roo(given: dict[str, Any]) -> dict[str, Any]:
    provider = given["apiProvider"]
    keys = _ROO.get(provider, _RooKeys()) if isinstance(provider, str) else _RooKeys()
    fields = {
        "provider": keys.provider or provider,
        "model": given.get(keys.model),
        "apiKey": given.get(keys.key) if keys.key else None,
        "baseUrl": given.get(keys.url) if keys.url else None,
        "temperature": given.get("modelTemperature"),
        "maxTokens": given.get("modelMaxTokens"),
        "protocol": given.get("toolProtocol"),
        "headers": given.get("openAiHeaders") if provider == "openai" else None,
        "reasoningEffort": _effort(given),
        "contextWindow": _context_window(given) if provider == "openai" else None,
        "legacyHeaders": False if given.get("anthropicUseAuthToken") is True else None,
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _ours(given: dict[str, Any]) -> dict[str, Any]:
    """Keys of our own in a profile of Roo's; `apiKey` is Roo's name for Anthropic's alone."""
    own = set(Profile.__struct_encode_fields__) - {"apiKey", "reasoningEffort"}
    return {name: value for name, value in given.items() if name in own}


def _effort(given: dict[str, Any]) -> Any:
    effort = given.get("reasoningEffort")
    switched_off = given.get("enableReasoningEffort") is False or effort in ("disable", "none")
    return None if switched_off else effort


def _context_window(given: dict[str, Any]) -> Any:
    info = given.get("openAiCustomModelInfo")
    return info.get("contextWindow") if isinstance(info, dict) else None


def _close_to_others(path: Path) -> None:
    """Take away what others may do with a file that holds keys."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(0o600)
            _log.warning("%s could be read by others; it is now 0600", path)
    except OSError as error:
        _log.warning("%s may be readable by others: %s", path, error.strerror)
