"""Roo Code's keys over the WebSocket: what is set comes back, but for secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.config.roo_keys import ROO, build_roo_profile
from tests.harness.server.server_fixture import CommandFailedError, ServerFixture, done, open_server

pytestmark = pytest.mark.contract("websocket:commands")
SECRET_KEYS = {
    key for key, value in (ROO.settings | ROO.profile).items() if "secret-value" in str(value)
}


def read_files(here: ServerFixture) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in here.home.glob("*.json")}


async def test_every_key_is_taken_and_returned_unless_it_is_secret(tmp_path: Path) -> None:
    values = ROO.settings | ROO.profile
    async with open_server(tmp_path) as here, here.peer() as peer:
        for key, value in values.items():
            await peer.ask("setConfiguration", values={key: value})
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        for key, value in values.items():
            if key in SECRET_KEYS:
                assert key not in configuration
            else:
                assert configuration.get(key) == value, key
        assert "secret-value" not in json.dumps(configuration)
        kept = json.dumps(read_files(here))
        for number in range(1, 45):
            assert number == 4 or f"secret-value-{number}" in kept


async def test_all_keys_at_once_are_taken_and_returned(tmp_path: Path) -> None:
    values = ROO.settings | ROO.profile
    async with open_server(tmp_path) as here, here.peer() as peer:
        await peer.ask("setConfiguration", values=values)
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        returned = {key: value for key, value in configuration.items() if key in values}
        assert returned == {key: value for key, value in values.items() if key not in SECRET_KEYS}


PROFILES: list[dict[str, Any] | None] = [
    None,
    {"provider": "anthropic", "model": "m", "apiKey": "k", "headers": {"x-key": "v"}},
    {"provider": "openai", "baseUrl": "http://user:word@127.0.0.1:1/v1", "apiKey": "k"},
    ROO.profile,
    {"apiProvider": "openai-native", "id": "x1", "openAiNativeApiKey": "k", "apiModelId": "m"},
    {"apiProvider": "xai", "apiModelId": "m", "todoListEnabled": False, "mode": "ask"},
]


@pytest.mark.parametrize("profile", PROFILES)
async def test_setting_what_was_returned_changes_nothing(
    tmp_path: Path, profile: dict[str, Any] | None
) -> None:
    settings: dict[str, Any] = {
        "hooks": [{"event": "onCompletion", "command": "true"}],
        "modeApiConfigs": {"monkey": "x1"},
        "customModePrompts": {"code": {"roleDefinition": "You."}},
    }
    if profile is None:
        settings = {}
    async with open_server(tmp_path, **settings) as here, here.peer() as peer:
        if profile is not None:
            await peer.ask("createProfile", name="work", profile=profile)
        before = read_files(here)
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        assert (configuration["todoListEnabled"], configuration["mode"]) == (True, "code")
        await peer.ask("setConfiguration", values=configuration)
        assert read_files(here) == before
        assert (await peer.ask("getConfiguration"))["configuration"] == configuration


async def test_keys_of_a_profile_that_does_not_exist_yet_make_one(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        values = {"currentApiConfigName": "new", "apiProvider": "xai", "xaiApiKey": "k"}
        await peer.ask("setConfiguration", values=values)
        assert await peer.ask("getActiveProfile") == {"activeProfile": "new"}
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*no profile 'other'"):
            await peer.ask("setConfiguration", values={"currentApiConfigName": "other"})
        assert await peer.ask("getActiveProfile") == {"activeProfile": "new"}


async def test_a_model_said_to_have_no_native_tools_is_asked_for_xml(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        configuration = {
            "apiProvider": "openai",
            "openAiBaseUrl": f"{here.model.url}/v1",
            "openAiApiKey": "the-key",
            "openAiModelId": "gpt-4o",
            "openAiCustomModelInfo": {"contextWindow": 64000, "supportsNativeTools": False},
        }
        await peer.ask("startNewTask", text="go", configuration=configuration)
        await peer.asked("completion_result")
        (request,) = here.model.requests
        assert request.headers["authorization"] == "Bearer the-key"
        assert "tools" not in request.body


@pytest.mark.parametrize("shape", ["none", "ours", "roo"])
async def test_a_task_starts_with_the_whole_configuration_that_was_returned(
    tmp_path: Path, shape: str
) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        url, headers = f"{here.model.url}/v1", {"x-team": "a"}
        ours = {"provider": "openai", "baseUrl": url, "apiKey": "key", "model": "m"}
        roo = build_roo_profile("openai", base_url=url)
        if shape != "none":
            profile = ours | {"headers": headers} if shape == "ours" else roo
            await peer.ask("createProfile", name="work", profile=profile)
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        await peer.ask("startNewTask", text="go", configuration=configuration)
        await peer.asked("completion_result")
        (request,) = here.model.requests
        sent = request.headers.get("authorization") or request.headers["x-api-key"]
        keys = {
            "none": "key-of-the-environment",
            "ours": "Bearer key",
            "roo": "Bearer key-of-openai",
        }
        assert sent == keys[shape]
        assert request.headers.get("x-team") == ("a" if shape == "ours" else None)
