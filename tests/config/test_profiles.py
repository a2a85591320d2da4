from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from joey.config.profiles import Profiles, load_profiles
from joey.core.models import ToolProtocol
from joey.core.settings import Profile
from joey.errors import ConfigError

SECRET = "sk-canary-7f3a"


def write(home: Path, value: Any, mode: int = 0o600) -> Path:
    path = home / "profiles.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    path.chmod(mode)
    return path


def load_one(home: Path, fields: dict[str, Any]) -> Profile:
    write(home, {"profiles": {"p": fields}})
    return load_profiles(home).profiles["p"]


def test_without_a_file_there_are_no_profiles(tmp_path: Path) -> None:
    assert load_profiles(tmp_path) == Profiles("default", {})


def test_profiles_are_read_by_name(tmp_path: Path) -> None:
    fields = {"provider": "openai", "model": "m", "apiKey": SECRET, "baseUrl": "http://x/v1"}
    write(tmp_path, {"active": "work", "profiles": {"work": fields, "home": {"model": "n"}}})
    profiles = load_profiles(tmp_path)
    assert profiles.active_name == "work"
    assert profiles.profiles == {
        "work": Profile(
            name="work", provider="openai", model="m", api_key=SECRET, base_url="http://x/v1"
        ),
        "home": Profile(name="home", model="n"),
    }


@pytest.mark.parametrize(
    ("roo", "expected"),
    [
        (
            {
                "apiProvider": "anthropic",
                "apiModelId": "claude",
                "apiKey": SECRET,
                "anthropicBaseUrl": "https://proxy",
                "anthropicUseAuthToken": True,
                "modelTemperature": 0,
                "modelMaxTokens": 4096,
                "openAiApiKey": "another",
                "id": "x1",
            },
            Profile(
                name="p",
                provider="anthropic",
                model="claude",
                api_key=SECRET,
                base_url="https://proxy",
                legacy_headers=False,
                temperature=0.0,
                max_tokens=4096,
            ),
        ),
        (
            {
                "apiProvider": "openai",
                "openAiModelId": "qwen",
                "openAiApiKey": SECRET,
                "openAiBaseUrl": "http://127.0.0.1:8000/v1",
                "openAiHeaders": {"X-Team": "a"},
                "openAiCustomModelInfo": {"contextWindow": 32000},
                "toolProtocol": "xml",
                "apiKey": "of anthropic",
                "apiModelId": "claude",
                "modelTemperature": None,
            },
            Profile(
                name="p",
                provider="openai",
                model="qwen",
                api_key=SECRET,
                base_url="http://127.0.0.1:8000/v1",
                headers={"X-Team": "a"},
                context_window=32000,
                protocol=ToolProtocol.XML,
            ),
        ),
        (
            {"apiProvider": "openai-native", "apiModelId": "gpt", "openAiNativeApiKey": SECRET},
            Profile(name="p", provider="openai", model="gpt", api_key=SECRET),
        ),
        (
            {
                "apiProvider": "openrouter",
                "openRouterModelId": "a/b",
                "openRouterApiKey": SECRET,
                "reasoningEffort": "high",
            },
            Profile(
                name="p",
                provider="openrouter",
                model="a/b",
                api_key=SECRET,
                reasoning_effort="high",
            ),
        ),
        (
            {
                "apiProvider": "ollama",
                "ollamaModelId": "qwen3",
                "ollamaBaseUrl": "http://box:11434",
                "reasoningEffort": "disable",
            },
            Profile(name="p", provider="ollama", model="qwen3", base_url="http://box:11434"),
        ),
        (
            {"apiProvider": "lmstudio", "lmStudioModelId": "phi", "lmStudioBaseUrl": ""},
            Profile(name="p", provider="lmstudio", model="phi"),
        ),
        (
            {"apiProvider": "vertex", "apiModelId": "claude", "contextWindow": 9},
            Profile(name="p", provider="vertex", model="claude", context_window=9),
        ),
    ],
)
def test_names_of_roo_are_understood_for_its_provider_alone(
    tmp_path: Path, roo: dict[str, Any], expected: Profile
) -> None:
    assert load_one(tmp_path, roo) == expected


def test_the_shape_of_roo_is_understood(tmp_path: Path) -> None:
    configs = {"a": {"apiProvider": "ollama"}, "b": {"apiProvider": "lmstudio"}}
    write(tmp_path, {"currentApiConfigName": "b", "apiConfigs": configs})
    profiles = load_profiles(tmp_path)
    assert (profiles.active_name, sorted(profiles.profiles)) == ("b", ["a", "b"])


def test_the_only_profile_is_the_active_one(tmp_path: Path) -> None:
    write(tmp_path, {"profiles": {"work": {}}})
    assert load_profiles(tmp_path).active_name == "work"


def test_the_only_profile_is_used_although_another_is_named_as_active(tmp_path: Path) -> None:
    write(tmp_path, {"active": "gone", "profiles": {"work": {}}})
    profiles = load_profiles(tmp_path)
    assert profiles.active_name == "work"
    assert "no profile 'gone'" in profiles.missing_active_warning
    assert "joey profiles use work" in profiles.missing_active_warning


def test_of_several_none_is_used_when_the_active_one_does_not_exist(tmp_path: Path) -> None:
    write(tmp_path, {"active": "default", "profiles": {"a": {}, "b": {}}})
    profiles = load_profiles(tmp_path)
    assert profiles.active_name not in profiles.profiles
    assert "joey profiles use NAME: a, b" in profiles.missing_active_warning


@pytest.mark.contract("cli:config")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"profiles": []}, "`profiles` must be an object"),
        ({"profiles": {"p": SECRET}}, r"`profiles.p` must be an object"),
        ({"active": 5, "profiles": {"a": {}}}, "`active` must be the name"),
        ({"profiles": {"p": {"apiKey": [SECRET]}}}, "`profiles.p.apiKey`: Expected `str"),
        ({"profiles": {"p": {"protocol": SECRET}}}, "`profiles.p.protocol`: This value"),
        ({"profiles": {"p": {"apiProvider": ["x"]}}}, "`profiles.p.provider`: Expected `str`"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_place_but_no_secret(
    tmp_path: Path, value: Any, message: str
) -> None:
    path = write(tmp_path, value)
    with pytest.raises(ConfigError, match=message) as caught:
        load_profiles(tmp_path)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_others_could_read_is_closed_to_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, {"profiles": {"p": {"apiKey": SECRET}}}, mode=0o644)
    with caplog.at_level(logging.WARNING):
        load_profiles(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "could be read by others" in caplog.text
    assert SECRET not in caplog.text
