"""A settings export of Roo Code: its profiles, with the real program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.config.roo_keys import (
    BASE_URL_KEYS,
    KEYS_AND_ADDRESSES,
    PROVIDERS_WITHOUT_COUNTERPART,
    build_roo_profile,
)

DONE = Turn(call("attempt_completion", {"result": "all done"}))
PATHS = {
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/openai/chat/completions",
    "lmstudio": "/v1/chat/completions",
}


def write_profiles(joey: Joey, active: str, **profiles: dict[str, Any]) -> None:
    joey.home.mkdir(exist_ok=True)
    named = {"currentApiConfigName": active, "apiConfigs": profiles, "modeApiConfigs": {}}
    document = {"providerProfiles": named, "globalSettings": {"mode": "code"}}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("name", sorted(BASE_URL_KEYS.keys() - {"ollama"}))
async def test_a_profile_of_each_provider_reaches_its_address_with_its_key(
    joey: Joey, name: str
) -> None:
    async with ModelServer([DONE]) as model:
        write_profiles(joey, "mine", mine=build_roo_profile(name, base_url=model.url))
        run = await joey.run("-p", "go")
        requests = [each for each in model.requests if each.body is not None]
    assert (run.code, run.out) == (0, "all done\n"), run.err
    (request,) = requests
    key, _ = KEYS_AND_ADDRESSES[name]
    sent = request.headers.get("x-api-key") or request.headers.get("authorization", "")
    assert sent.removeprefix("Bearer ") == (f"key-of-{name}" if key else "")
    assert request.path == PATHS.get(name, "/chat/completions")
    assert request.body["model"] == "the-model"
    assert "of-another" not in request.raw.decode() + str(request.headers)


@pytest.mark.parametrize("name", sorted(PROVIDERS_WITHOUT_COUNTERPART))
async def test_a_profile_of_a_missing_provider_says_what_to_use_instead(
    joey: Joey, name: str
) -> None:
    write_profiles(joey, "mine", mine={"apiProvider": name, "apiModelId": "m"})
    for flags in ((), ("--provider", name, "-m", "m")):
        run = await joey.run("-p", "go", *flags)
        assert run.code in (2, 78)
        assert PROVIDERS_WITHOUT_COUNTERPART[name] in run.err


async def test_a_mode_has_the_profile_whose_id_the_settings_name(joey: Joey) -> None:
    async with ModelServer([DONE]) as model:
        others = build_roo_profile("openai", base_url=f"{model.url}/v1")
        unreachable = build_roo_profile("openai", base_url="http://127.0.0.1:9/v1")
        write_profiles(
            joey, "first", first=unreachable | {"id": "a1"}, second=others | {"id": "b2"}
        )
        joey.settings(modeApiConfigs={"code": "b2"})
        run = await joey.run("-p", "go")
        assert (run.code, len(model.requests)) == (0, 1), run.err


async def test_a_name_of_roo_is_a_provider_on_the_command_line(joey: Joey) -> None:
    async with ModelServer([DONE]) as model:
        flags = ("--provider", "openai-native", "--base-url", f"{model.url}/v1", "-m", "m")
        run = await joey.run("-p", "go", *flags)
        assert (run.code, len(model.requests)) == (0, 1), run.err


async def test_a_threshold_counts_for_the_profile_with_its_id(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as model:
        mine = build_roo_profile("openai", base_url=f"{model.url}/v1")
        write_profiles(joey, "mine", mine=mine | {"id": "a1"})
        joey.settings(profileThresholds={"another": 3})
        assert "profileThresholds" not in (await joey.run("-p", "go")).err
        joey.settings(profileThresholds={"a1": 3})  # out of range, which is said
        assert "profileThresholds" in (await joey.run("-p", "go")).err
