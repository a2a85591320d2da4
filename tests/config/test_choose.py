from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from joey.config.profiles import Profiles, choose_profile
from joey.core.models import ApiProtocol, ProviderSpec
from joey.core.settings import Profile
from joey.errors import ConfigError

SECRET = "sk-canary-7f3a"


KIND = partial(ProviderSpec, api_protocol=ApiProtocol.OPENAI, base_url="http://unused")
KINDS = (
    KIND(
        "anthropic",
        key_variables=("ANTHROPIC_API_KEY",),
        base_url_variable="ANTHROPIC_BASE_URL",
        default_model="claude",
    ),
    KIND(
        "openai",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        default_model="gpt",
    ),
    KIND("openrouter", key_variables=("OPENROUTER_API_KEY",), default_model="auto"),
    KIND("ollama", base_url_variable="OLLAMA_HOST", is_local=True),
)
WORK = Profile(name="work", provider="openai", model="own", api_key=SECRET, base_url="http://w/v1")
BARE = Profile(name="bare", provider="anthropic")
PROFILES = Profiles("work", {"work": WORK, "bare": BARE})
NONE = Profiles()


def choose(profiles: Profiles = NONE, env: dict[str, str] | None = None, **flags: Any) -> Profile:
    return choose_profile(profiles=profiles, env=env or {}, kinds=KINDS, **flags)


@pytest.mark.contract("models:keys")
def test_the_first_key_found_in_the_environment_decides() -> None:
    env = {"OPENROUTER_API_KEY": "r", "OPENAI_API_KEY": " o\n", "ANTHROPIC_API_KEY": "  "}
    assert choose(env=env) == Profile(provider="openai", model="gpt", api_key="o")


@pytest.mark.contract("models:keys")
def test_a_key_in_the_environment_comes_with_the_address_there() -> None:
    env = {"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "http://proxy"}
    assert choose(env=env).base_url == "http://proxy"


def test_an_address_without_a_key_is_enough_for_a_server_of_ones_own() -> None:
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}
    chosen = choose(env=env, model="local")
    assert chosen == Profile(provider="openai", model="local", base_url="http://127.0.0.1:8080/v1")


def test_a_base_url_alone_is_taken_for_an_openai_compatible_server() -> None:
    chosen = choose(base_url="http://127.0.0.1:8080/v1", model="local")
    assert (chosen.provider, chosen.base_url) == ("openai", "http://127.0.0.1:8080/v1")


def test_the_active_profile_comes_before_the_environment() -> None:
    env = {"ANTHROPIC_API_KEY": "a", "OPENAI_BASE_URL": "http://elsewhere", "OPENAI_API_KEY": "o"}
    assert choose(PROFILES, env) == WORK


def test_a_named_profile_comes_before_the_active_one_and_takes_its_key_from_the_environment() -> (
    None
):
    chosen = choose(PROFILES, {"ANTHROPIC_API_KEY": "a"}, profile="bare")
    assert chosen == Profile(name="bare", provider="anthropic", model="claude", api_key="a")


def test_flags_come_before_everything() -> None:
    chosen = choose(PROFILES, model="m", base_url="http://flag", provider="openai")
    assert (chosen.model, chosen.base_url, chosen.api_key) == ("m", "http://flag", SECRET)


def test_another_provider_leaves_the_key_and_address_of_the_profile_behind() -> None:
    chosen = choose(PROFILES, {"ANTHROPIC_API_KEY": "a"}, provider="anthropic", profile="work")
    assert chosen == Profile(provider="anthropic", model="claude", api_key="a")


def test_a_key_from_a_profile_is_not_sent_to_an_address_from_the_environment() -> None:
    profile = Profile(name="p", provider="anthropic", api_key=SECRET)
    env = {"ANTHROPIC_BASE_URL": "http://elsewhere"}
    assert choose(Profiles("p", {"p": profile}), env).base_url is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":9000", "http://127.0.0.1:9000"),
        ("[::]:9000", "http://127.0.0.1:9000"),
        ("[::1]", "http://[::1]:11434"),
        ("box", "http://box:11434"),
        ("https://box.example/ollama/", "https://box.example/ollama"),
        ("http://box:1", "http://box:1"),
        ("::1", "::1"),
    ],
)
def test_the_host_of_ollama_becomes_an_address_to_call(host: str, url: str) -> None:
    assert choose(env={"OLLAMA_HOST": host}, model="qwen").base_url == url


def test_a_local_provider_needs_no_key_but_a_model() -> None:
    assert choose(provider="ollama", model="qwen") == Profile(provider="ollama", model="qwen")
    with pytest.raises(ConfigError, match="Name a model of ollama"):
        choose(provider="ollama")


@pytest.mark.contract("models:keys")
def test_nothing_found_says_the_three_ways_to_go_on() -> None:
    with pytest.raises(ConfigError) as caught:
        choose()
    for text in ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "Ollama", "joey demo", "joey doctor"):
        assert text in str(caught.value)


def test_a_missing_key_is_named_by_its_variable() -> None:
    with pytest.raises(ConfigError, match=r"no key for anthropic\. Set ANTHROPIC_API_KEY"):
        choose(provider="anthropic")


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"named 'x'. Choose one of: anthropic, openai"):
        choose(provider="x")
    with pytest.raises(ConfigError, match=r"no profile 'x'. Known ones: bare, work"):
        choose(PROFILES, profile="x")
    with pytest.raises(ConfigError, match="no profiles yet"):
        choose(profile="x")


@pytest.mark.contract("models:keys")
def test_a_dot_env_file_in_the_workspace_is_never_read() -> None:
    Path(".env").write_text(f"ANTHROPIC_API_KEY={SECRET}\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        choose()


@pytest.mark.parametrize(
    "flags", [{"provider": "x"}, {"profile": "x"}, {"provider": "ollama"}, {"profile": "odd"}]
)
def test_no_error_shows_a_key(flags: dict[str, str]) -> None:
    odd = Profile(name="odd", provider="nowhere", api_key=SECRET)
    profiles = Profiles("odd", {"odd": odd, "work": WORK})
    with pytest.raises(ConfigError) as caught:
        choose(profiles, {"ANTHROPIC_API_KEY": SECRET}, **flags)
    assert SECRET not in str(caught.value)


def test_an_address_of_ones_own_is_not_asked_for_somebody_elses_usual_model() -> None:
    with pytest.raises(ConfigError, match=r"Name a model at http://127\.0\.0\.1:8080/v1"):
        choose(base_url="http://127.0.0.1:8080/v1")


def test_a_base_url_alone_leaves_a_profile_and_keys_of_others_alone() -> None:
    bare = Profiles("bare", {"bare": BARE})
    for profiles, env in ((bare, {}), (PROFILES, {}), (NONE, {"ANTHROPIC_API_KEY": SECRET})):
        chosen = choose(profiles, env, base_url="http://127.0.0.1:8080/v1", model="local")
        assert (chosen.provider, chosen.api_key) == ("openai", None)


def test_a_base_url_at_the_host_of_the_active_profile_belongs_to_it() -> None:
    chosen = choose(PROFILES, base_url="http://W/v2")
    assert (chosen.name, chosen.base_url, chosen.api_key) == ("work", "http://W/v2", SECRET)
