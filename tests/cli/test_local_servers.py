"""Model servers of this machine are found by what they answer, and can be chosen for good."""

from __future__ import annotations

import json
import os
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import structs

from joey.app import models
from joey.app.models import LOCAL_PROVIDERS, find_local_servers
from joey.app.profiles import (
    is_first_run,
    parse_pasted_key,
    save_first_profile,
    save_server_profile,
)
from joey.errors import ConfigError
from tests.harness.cli.small_web import OLLAMA, OPENAI, small_web


async def find_at(monkeypatch: pytest.MonkeyPatch, *urls: str) -> list[models.LocalServer]:
    """With the servers' own places moved to these."""
    moved = (
        structs.replace(kind, base_url=url) for kind, url in zip(LOCAL_PROVIDERS, urls, strict=True)
    )
    monkeypatch.setattr(models, "LOCAL_PROVIDERS", tuple(moved))
    return await find_local_servers({})


@pytest.mark.contract("local:first-contact")
async def test_all_that_answer_are_found_with_their_models(monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as stack:
        ollama = await stack.enter_async_context(small_web(OLLAMA))
        others = [await stack.enter_async_context(small_web(OPENAI)) for _ in range(3)]
        urls = [f"{web.url}/v1" for web in (ollama, *others)]
        found = await find_at(monkeypatch, *urls)
    assert [server.provider for server in found] == ["ollama", "lmstudio", "llamacpp", "vllm"]
    assert [server.base_url for server in found] == urls
    assert found[0].models == ("qwen3-coder:30b", "llama4:8b")
    assert found[0].flags == ("--provider", "ollama", "-m", "qwen3-coder:30b")
    assert found[3].models == ("my-model",)


async def test_other_programs_on_these_ports_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with AsyncExitStack() as stack:
        webs = [
            await stack.enter_async_context(small_web({"/": "hello"})),
            await stack.enter_async_context(small_web(OPENAI, status=500)),
            await stack.enter_async_context(small_web({"/v1/models": ["a", "b"]})),
            await stack.enter_async_context(small_web({}, silent=True)),
        ]
        assert await find_at(monkeypatch, *(f"{web.url}/v1" for web in webs)) == []


async def test_a_server_whose_model_takes_all_processors_is_found() -> None:
    async with small_web(OLLAMA, delay=1.1) as web:
        found = await find_local_servers({"OLLAMA_HOST": web.url})
    assert [server.provider for server in found] == ["ollama"]


@pytest.mark.parametrize("written", ["127.0.0.1:{}", "http://127.0.0.1:{}", "0.0.0.0:{}"])
async def test_ollama_is_looked_for_where_its_variable_says(written: str) -> None:
    async with small_web(OLLAMA) as web:
        found = await find_local_servers({"OLLAMA_HOST": written.format(web.port)})
    assert (found[0].provider, found[0].base_url) == ("ollama", f"{web.url}/v1")


async def test_a_model_whose_name_could_command_the_terminal_is_left_out() -> None:
    pages = {"/api/tags": {"models": [{"name": "a\x1b[2J"}, {"name": "good"}, {"name": 5}, "x"]}}
    async with small_web(pages) as web:
        found = await find_local_servers({"OLLAMA_HOST": web.url})
    assert found[0].models == ("good",)


# A choice that lasts ------------------------------------------------------------------------------


def test_the_first_profile_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    env = {"JOEY_HOME": str(tmp_path / "home")}
    assert is_first_run(env=env)
    made = save_first_profile(provider="anthropic", key=" sk-ant-123456\n", env=env)
    assert (made.api_key, made.model) == ("sk-ant-123456", "claude-sonnet-5-5")
    assert not is_first_run(env=env)
    file = tmp_path / "home/profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {
        "profiles": {"default": {"provider": "anthropic", "apiKey": "sk-ant-123456"}},
        "active": "default",
    }


async def test_a_found_server_becomes_a_profile_with_its_address(tmp_path: Path) -> None:
    env = {"JOEY_HOME": str(tmp_path / "home")}
    async with small_web(OLLAMA) as web:
        [server, *_] = await find_local_servers(env | {"OLLAMA_HOST": web.url})
    made = save_server_profile(server, env=env)
    assert (made.provider, made.model) == ("ollama", "qwen3-coder:30b")
    assert made.base_url == f"{web.url}/v1"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"provider": "nobody", "key": "k"}, "There is no provider named 'nobody'"),
        ({"provider": "anthropic"}, "There is no key for anthropic"),
        ({"provider": "ollama"}, "Name a model of ollama"),
        ({"provider": "anthropic", "key": "two words"}, "This cannot be a key"),
    ],
)
def test_what_could_not_be_used_is_not_written(
    tmp_path: Path, given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        save_first_profile(**given, env={"JOEY_HOME": str(tmp_path / "home")})  # type: ignore[arg-type]
    assert not (tmp_path / "home/profiles.json").exists()


def test_a_profile_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    env = {"JOEY_HOME": str(tmp_path / "home")}
    save_first_profile(provider="anthropic", key="first-key", env=env)
    with pytest.raises(ConfigError, match="exists already"):
        save_first_profile(provider="openai", key="second-key", env=env)
    assert "first-key" in (tmp_path / "home/profiles.json").read_text()


def test_a_key_in_the_environment_is_no_first_run(tmp_path: Path) -> None:
    assert not is_first_run(tmp_path, {"OPENAI_API_KEY": "k"})
    assert is_first_run(tmp_path, {"PATH": os.environ["PATH"]})


def test_a_key_is_taken_without_the_quotes_around_it() -> None:
    assert parse_pasted_key(' "sk-123"\n') == "sk-123"
