"""Every provider name and every key of Roo Code has a meaning here, or is said to have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.config.config_store import ConfigStore
from joey.config.profiles import Profiles, choose_profile, parse_profile
from joey.config.roo_settings import PROFILE_KEYS, ROO_PROFILE_KEYS, UNUSED_KEYS
from joey.core.models import Prices, ToolProtocol
from joey.core.settings import Profile, Settings
from joey.errors import ConfigError
from joey.providers.catalog import PROVIDER_SPECS, build_endpoint_url, find_provider_spec
from joey.providers.factory import resolve_model
from tests.harness.config.roo_keys import (
    BASE_URL_KEYS,
    CLOUDS,
    KEYS_AND_ADDRESSES,
    PROVIDERS_WITHOUT_COUNTERPART,
    ROO,
    build_roo_profile,
)

SETTINGS_KEYS = frozenset(Settings.__struct_encode_fields__)
EXTRAS: dict[str, dict[str, Any]] = {
    "modelMaxThinkingTokens": {"apiProvider": "anthropic"},
    "anthropicBeta1MContext": {"apiProvider": "anthropic", "apiModelId": "claude-sonnet-4-5"},
    "anthropicUseAuthToken": {"apiProvider": "anthropic"},
    "enableReasoningEffort": {"reasoningEffort": "low"},
    "includeMaxTokens": {"modelMaxTokens": 100},
    "openAiUseAzure": {"openAiBaseUrl": "https://models.example/openai"},
    "openAiNativeServiceTier": {"apiProvider": "openai-native"},
    "verbosity": {"apiProvider": "openai-native"},
    "openRouterSpecificProvider": {"apiProvider": "openrouter"},
    "ollamaNumCtx": {"apiProvider": "ollama"},
    "lmStudioDraftModelId": {
        "apiProvider": "lmstudio",
        "lmStudioSpeculativeDecodingEnabled": True,
    },
    "lmStudioSpeculativeDecodingEnabled": {
        "apiProvider": "lmstudio",
        "lmStudioDraftModelId": "draft",
    },
    "mistralCodestralUrl": {"apiProvider": "mistral", "apiModelId": "codestral-latest"},
    "zaiApiLine": {"apiProvider": "zai"},
    "huggingFaceInferenceProvider": {"apiProvider": "huggingface", "huggingFaceModelId": "m"},
    "azureApiVersion": {"apiProvider": "openai", "openAiBaseUrl": "https://me.openai.azure.com"},
    "awsApiKey": {"apiProvider": "bedrock", "awsUseApiKey": True},
    "awsUseApiKey": {"apiProvider": "bedrock", "awsApiKey": "k"},
    "awsProfile": {"apiProvider": "bedrock", "awsUseProfile": True},
    "awsUseProfile": {"apiProvider": "bedrock", "awsProfile": "work"},
    "awsModelContextWindow": {"apiProvider": "bedrock", "awsCustomArn": "arn:aws:bedrock:1"},
    "awsBedrockEndpoint": {"apiProvider": "bedrock", "awsBedrockEndpointEnabled": True},
    "awsBedrockEndpointEnabled": {"apiProvider": "bedrock", "awsBedrockEndpoint": "https://a.b"},
    "awsBedrock1MContext": {
        "apiProvider": "bedrock",
        "apiModelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    },
    "awsUseCrossRegionInference": {
        "apiProvider": "bedrock",
        "apiModelId": "amazon.nova-pro-v1:0",
        "awsRegion": "us-east-1",
    },
    "awsUseGlobalInference": {"apiProvider": "bedrock", "apiModelId": "amazon.nova-2-lite-v1:0"},
    "vertex1MContext": {"apiProvider": "vertex", "apiModelId": "claude-sonnet-4-5@20250929"},
}
"""What a key needs to have an effect, where it is none of the keys of a row."""


def parse(values: dict[str, Any]) -> Profile:
    return parse_profile(Path("profiles.json"), "apiConfigs", "p", values)


def choose(values: dict[str, Any]) -> Profile:
    profiles = Profiles("p", {"p": parse(values)})
    return choose_profile(profiles=profiles, env={}, kinds=PROVIDER_SPECS)


def test_there_are_29_providers() -> None:
    assert len(set(ROO.providers)) == 29
    known = {*ROO.providers, *ROO.retired_providers}
    assert known == {*KEYS_AND_ADDRESSES, *PROVIDERS_WITHOUT_COUNTERPART, *CLOUDS}


@pytest.mark.parametrize("name", KEYS_AND_ADDRESSES)
def test_a_profile_goes_to_the_address_of_its_provider_with_its_key(name: str) -> None:
    chosen = choose(build_roo_profile(name))
    spec, (key, address) = find_provider_spec(chosen.provider), KEYS_AND_ADDRESSES[name]
    assert build_endpoint_url(spec, chosen.base_url) == address
    assert chosen.api_key == (f"key-of-{name}" if key else None)
    assert chosen.model == "the-model"


@pytest.mark.parametrize("name", PROVIDERS_WITHOUT_COUNTERPART)
def test_the_error_for_a_missing_provider_says_what_to_use_instead(name: str) -> None:
    instead = PROVIDERS_WITHOUT_COUNTERPART[name]
    with pytest.raises(ConfigError, match=instead):
        choose({"apiProvider": name, "apiModelId": "m"})
    with pytest.raises(ConfigError, match=instead):
        find_provider_spec(name)


@pytest.mark.parametrize("key", [*ROO.settings, *ROO.profile])
def test_a_key_is_read_or_named_once_as_unused(key: str) -> None:
    places = [key in SETTINGS_KEYS, key in ROO_PROFILE_KEYS, key in UNUSED_KEYS]
    if key == "currentApiConfigName":  # chooses the profile, over the WebSocket
        assert places == [False, False, True]
    assert sum(places) == 1


def test_no_key_belongs_to_settings_and_profiles() -> None:
    assert not PROFILE_KEYS & SETTINGS_KEYS


@pytest.mark.parametrize("key", sorted(ROO_PROFILE_KEYS - {"apiProvider"}))
def test_a_key_of_a_profile_has_an_effect(key: str) -> None:
    if key not in ROO.profile:
        pytest.fail(f"{key} is no key of Roo's")
    value = ROO.profile[key]
    if key == "enableReasoningEffort":
        value = False
    with_it = [
        parse({"apiProvider": name, **EXTRAS.get(key, {}), key: value})
        for name in (*KEYS_AND_ADDRESSES, *CLOUDS)
    ]
    without = [
        parse({"apiProvider": name, **EXTRAS.get(key, {})})
        for name in (*KEYS_AND_ADDRESSES, *CLOUDS)
    ]
    assert with_it != without


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"modelMaxThinkingTokens": 2048}, {"thinking_budget": 2048}),
        ({"modelMaxThinkingTokens": 2048, "enableReasoningEffort": False}, {}),
        ({"modelMaxTokens": 100, "includeMaxTokens": False}, {}),
        ({"rateLimitSeconds": 5}, {"rate_limit_seconds": 5}),
        ({"toolProtocol": "xml"}, {"protocol": ToolProtocol.XML}),
        ({"verbosity": "low"}, {}),
        (
            {"openAiCustomModelInfo": {"supportsNativeTools": False, "contextWindow": 9000}},
            {"native_tools": False, "context_window": 9000},
        ),
        (
            {"includeMaxTokens": True, "openAiCustomModelInfo": {"maxTokens": 700}},
            {"max_tokens": 700},
        ),
        ({"includeMaxTokens": True, "openAiCustomModelInfo": {"maxTokens": -1}}, {}),
        (
            {
                "openAiCustomModelInfo": {
                    "supportsImages": False,
                    "inputPrice": 2,
                    "outputPrice": 8,
                    "cacheReadsPrice": 0.5,
                }
            },
            {"images": False, "prices": Prices(2, 8, 2, 0.5)},
        ),
        (
            {"openAiCustomModelInfo": {"supportsImages": True, "inputPrice": 0, "outputPrice": 0}},
            {},
        ),
        (
            {"openAiUseAzure": True, "openAiBaseUrl": "https://proxy.example/azure"},
            {"provider": "azure", "base_url": "https://proxy.example"},
        ),
        (
            {"openAiBaseUrl": "https://me.openai.azure.com/openai/deployments/x?api-version=1"},
            {"provider": "azure", "base_url": "https://me.openai.azure.com"},
        ),
        (
            {
                "openAiBaseUrl": "https://me.openai.azure.com/openai",
                "azureApiVersion": "2024-10-21",
                "openAiApiKey": "k",
            },
            {
                "provider": "azure",
                "base_url": "https://me.openai.azure.com",
                "api_version": "2024-10-21",
                "api_key": "k",
            },
        ),
        (
            {
                "openAiBaseUrl": "https://me.services.ai.azure.com/models",
                "azureApiVersion": "2024-05-01-preview",
            },
            {"provider": "azure", "base_url": "https://me.services.ai.azure.com"},
        ),
    ],
)
def test_keys_for_an_openai_compatible_server(
    values: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert parse({"apiProvider": "openai", **values}) == Profile(
        name="p", **{"provider": "openai", **fields}
    )


_AWS_KEYS = {"awsAccessKey": "AKID", "awsSecretKey": "s", "awsSessionToken": "t"}


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (_AWS_KEYS, {"credentials": {"accessKey": "AKID", "secretKey": "s", "sessionToken": "t"}}),
        (
            _AWS_KEYS | {"awsUseProfile": True, "awsProfile": "work"},
            {"credentials": {"profile": "work"}},
        ),
        (_AWS_KEYS | {"awsUseApiKey": True, "awsApiKey": "k"}, {"api_key": "k"}),
        ({"awsApiKey": "k", "awsProfile": "work"}, {}),
        ({"awsRegion": "eu-west-1"}, {"region": "eu-west-1"}),
        (
            {"awsRegion": "eu-west-1", "awsUseCrossRegionInference": True},
            {"region": "eu-west-1", "model": "eu.anthropic.claude-x-v1:0"},
        ),
        (
            {"awsRegion": "ap-southeast-2", "awsUseCrossRegionInference": True},
            {"region": "ap-southeast-2", "model": "au.anthropic.claude-x-v1:0"},
        ),
        (
            {"awsRegion": "us-gov-west-1", "awsUseCrossRegionInference": True},
            {"region": "us-gov-west-1", "model": "us-gov.anthropic.claude-x-v1:0"},
        ),
        (
            {"awsUseGlobalInference": True, "awsUseCrossRegionInference": True},
            {"model": "global.anthropic.claude-x-v1:0"},
        ),
        (
            {"awsCustomArn": "arn:aws:bedrock:eu-west-1:1:x/y", "awsModelContextWindow": 9000},
            {"model": "arn:aws:bedrock:eu-west-1:1:x/y", "context_window": 9000},
        ),
        ({"awsBedrockEndpoint": "https://vpce.example"}, {}),
        (
            {"awsBedrockEndpoint": "https://vpce.example", "awsBedrockEndpointEnabled": True},
            {"base_url": "https://vpce.example"},
        ),
        ({"awsBedrockServiceTier": "STANDARD"}, {}),
        ({"awsBedrockServiceTier": "FLEX"}, {"extra_body": {"serviceTier": {"type": "flex"}}}),
    ],
)
def test_keys_for_bedrock(values: dict[str, Any], fields: dict[str, Any]) -> None:
    given = {"apiProvider": "bedrock", "apiModelId": "anthropic.claude-x-v1:0", **values}
    expected = {"name": "p", "provider": "bedrock", "model": "anthropic.claude-x-v1:0", **fields}
    assert parse(given) == Profile(**expected)


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"vertexJsonCredentials": "{}", "vertexKeyFile": "/k"}, {"credentials": {"key": "{}"}}),
        ({"vertexKeyFile": "/k.json"}, {"credentials": {"file": "/k.json"}}),
        ({"vertexRegion": "us-east5", "vertexProjectId": "me"}, {"region": "us-east5"}),
    ],
)
def test_keys_for_vertex(values: dict[str, Any], fields: dict[str, Any]) -> None:
    expected = {"project": values.get("vertexProjectId"), **fields}
    assert parse({"apiProvider": "vertex", **values}) == Profile(
        name="p", provider="vertex", **expected
    )


@pytest.mark.parametrize(
    ("values", "base_url"),
    [
        ({"apiProvider": "lmstudio", "lmStudioBaseUrl": "http://box:1234"}, "http://box:1234/v1"),
        ({"apiProvider": "lmstudio", "lmStudioBaseUrl": "http://box/v1/"}, "http://box/v1/"),
        (
            {"apiProvider": "gemini", "googleGeminiBaseUrl": "https://g.example/"},
            "https://g.example/v1beta/openai",
        ),
        (
            {"apiProvider": "zai", "zaiApiLine": "china_coding"},
            "https://open.bigmodel.cn/api/coding/paas/v4",
        ),
        (
            {"apiProvider": "zai", "zaiApiLine": "international_api"},
            "https://api.z.ai/api/paas/v4",
        ),
        (
            {"apiProvider": "mistral", "apiModelId": "codestral-2508", "mistralApiKey": "k"},
            "https://codestral.mistral.ai/v1",
        ),
    ],
)
def test_addresses_are_completed_as_roo_does(values: dict[str, Any], base_url: str) -> None:
    assert parse(values).base_url == base_url


@pytest.mark.parametrize("name", ["zai", "mistral"])
def test_without_a_key_the_address_is_the_one_that_the_key_of_a_variable_is_for(name: str) -> None:
    assert parse({"apiProvider": name, "apiModelId": "codestral-2508"}).base_url is None


def test_a_whole_export_of_keys_is_a_valid_profile() -> None:
    for name in KEYS_AND_ADDRESSES:
        parse(ROO.profile | {"apiProvider": name})


@pytest.mark.parametrize("name", BASE_URL_KEYS)
def test_an_address_of_another_provider_is_not_used(name: str) -> None:
    others = {key: "https://other.example" for other, key in BASE_URL_KEYS.items() if other != name}
    assert choose(build_roo_profile(name) | others) == choose(build_roo_profile(name))


def test_roo_keys_change_a_profile_in_our_names(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    ours = {"provider": "openai", "model": "one", "apiKey": "k", "temperature": 1}
    store.save_profile("p", ours, activate=True)
    store.update_settings_and_profile({"openAiModelId": "two", "modelMaxTokens": 7})
    assert store.load_profiles().profiles["p"] == Profile(
        name="p", provider="openai", model="two", api_key="k", temperature=1, max_tokens=7
    )


def test_another_provider_replaces_the_one_of_a_profile_in_our_names(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    store.save_profile("p", {"provider": "anthropic", "apiKey": "k"}, activate=True)
    store.update_settings_and_profile({"apiProvider": "xai", "apiModelId": "m", "xaiApiKey": "x"})
    assert store.load_profiles().profiles["p"] == Profile(
        name="p", provider="xai", model="m", api_key="x"
    )


def test_profiles_are_found_by_the_ids_of_roo() -> None:
    known = {"a": Profile(name="a", api_key="k"), "b": Profile(name="b", model="m", api_key="k")}
    profiles = Profiles("a", known, names_by_id={"x2": "b", "a": "b"})
    for name, expected in (("x2", "b"), ("a", "a"), ("b", "b")):
        found = choose_profile(profiles=profiles, env={}, kinds=PROVIDER_SPECS, profile=name)
        assert found.name == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"modelTemperature": 1}, Profile(provider="xai", temperature=1)),
        ({"apiKey": "k"}, Profile(provider="anthropic", api_key="k")),
        ({"apiProvider": "openai", "apiKey": "k"}, Profile(provider="openai")),
    ],
)
def test_a_first_profile_has_the_usual_provider_unless_a_key_or_a_name_says_more(
    tmp_path: Path, values: dict[str, Any], expected: Profile
) -> None:
    store = ConfigStore(tmp_path)
    store.update_settings_and_profile(values, provider="xai")
    assert store.load_profiles().profiles == {"default": expected}


def test_a_whole_settings_export_can_be_the_file_of_profiles(tmp_path: Path) -> None:
    document = {
        "providerProfiles": {
            "currentApiConfigName": "b",
            "apiConfigs": {"a": build_roo_profile("xai"), "b": build_roo_profile("zai")},
        },
        "globalSettings": {"mode": "ask"},
    }
    file = tmp_path / "profiles.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    store = ConfigStore(tmp_path)
    store.save_profile("c", {"provider": "ollama"}, activate=False)
    store.activate_profile("a")
    store.delete_profile("b")
    profiles = store.load_profiles()
    assert (profiles.active_name, list(profiles.profiles)) == ("a", ["a", "c"])
    assert profiles.profiles["a"].api_key == "key-of-xai"
    assert json.loads(file.read_text(encoding="utf-8"))["globalSettings"] == {"mode": "ask"}


def test_a_profile_corrects_what_the_catalogue_says_of_a_model() -> None:
    profile = Profile(provider="openai", model="gpt-4o", images=False, prices=Prices(2, 8, 2, 1))
    model = resolve_model(profile)
    assert (model.supports_images, model.prices) == (False, Prices(2, 8, 2, 1))


def test_parameters_of_roo_are_added_to_those_in_our_names(tmp_path: Path) -> None:
    store = ConfigStore(tmp_path)
    ours = {"apiProvider": "openai-native", "extraBody": {"seed": 1, "verbosity": "high"}}
    store.save_profile("p", ours, activate=True)
    store.update_settings_and_profile({"verbosity": "low", "openAiNativeServiceTier": "flex"})
    body = store.load_profiles().profiles["p"].extra_body
    assert body == {"seed": 1, "verbosity": "high", "service_tier": "flex"}
