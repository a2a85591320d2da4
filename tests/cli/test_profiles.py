"""`joey profiles` and `joey models`, through the real program."""

from __future__ import annotations

import asyncio
import json
import stat

import pytest

from tests.harness.cli.binary import Joey
from tests.harness.cli.small_web import OLLAMA, OPENAI, small_web
from tests.harness.cli.terminal import terminal

KEY = "sk-ant-canary-0123456789abcdefwxyz"


def document(joey: Joey) -> dict[str, object]:
    read: dict[str, object] = json.loads((joey.home / "profiles.json").read_text())
    return read


@pytest.mark.contract("cli:profiles")
async def test_a_key_comes_through_a_pipe_and_is_shown_by_its_end_alone(joey: Joey) -> None:
    added = await joey.run(
        "profiles", "add", "work", "--provider", "anthropic", "--key", stdin=f"{KEY}\n".encode()
    )
    assert added.code == 0, added.err
    assert document(joey)["profiles"] == {"work": {"provider": "anthropic", "apiKey": KEY}}
    assert stat.S_IMODE((joey.home / "profiles.json").stat().st_mode) == 0o600
    shown = await joey.run("profiles", "show", "work")
    listed = await joey.run("profiles", "list", "--json")
    assert "…wxyz" in shown.out
    assert KEY not in added.out + added.err + shown.out + listed.out
    assert listed.json == [{"name": "work", "active": True, "provider": "anthropic"}]


ADD = ("profiles", "add", "work", "--provider", "anthropic")


@pytest.mark.parametrize("flags", [(), ("--base-url", "http://127.0.0.1:9", "-m", "m", "--use")])
async def test_a_key_in_the_pipe_is_taken_without_being_asked_for(
    joey: Joey, flags: tuple[str, ...]
) -> None:
    added = await joey.run(*ADD, *flags, stdin=f"{KEY}\n".encode())
    assert added.code == 0, added.err
    assert "now the active profile, with the key …wxyz" in added.err
    shown = await joey.run("profiles", "show", "work", "--json")
    assert shown.json["apiKey"] == {"value": "…wxyz", "from": "profiles.json"}
    assert KEY not in added.out + added.err


@pytest.mark.parametrize("stdin", [b"", b"\n", None])
async def test_a_pipe_without_a_key_makes_a_profile_without_one_and_says_so(
    joey: Joey, stdin: bytes | None
) -> None:
    added = await joey.run(*ADD, stdin=stdin)
    assert added.code == 0, added.err
    assert "it has no key yet: joey profiles set work apiKey" in added.err
    assert document(joey)["profiles"] == {"work": {"provider": "anthropic"}}


async def test_a_pipe_that_nobody_fills_is_not_waited_for(joey: Joey) -> None:
    async with asyncio.timeout(60):
        adding = await joey.start(*ADD, stdin=asyncio.subprocess.PIPE)
        assert adding.stderr is not None
        printed = (await adding.stderr.read()).decode()
        assert await adding.wait() == 0, printed
    assert "it has no key yet" in printed


@pytest.mark.parametrize("arguments", [(*ADD, "--no-key"), (*ADD[:3], "--provider", "ollama")])
async def test_what_is_piped_stays_unread_where_no_key_is_wanted(
    joey: Joey, arguments: tuple[str, ...]
) -> None:
    added = await joey.run(*arguments, stdin=f"{KEY}\n".encode())
    assert added.code == 0, added.err
    assert KEY not in json.dumps(document(joey))


async def test_text_in_the_pipe_that_cannot_be_a_key_makes_no_profile(joey: Joey) -> None:
    refused = await joey.run(*ADD, stdin=b"no key at all\n")
    assert refused.code == 2
    assert "--no-key" in refused.err
    assert not (joey.home / "profiles.json").exists()


async def test_what_headers_and_addresses_hold_is_kept_and_not_repeated(joey: Joey) -> None:
    await joey.run("profiles", "add", "work", "--provider", "anthropic", "--no-key")
    for key, value in (
        ("headers", json.dumps({"Authorization": f"Bearer {KEY}"})),
        ("baseUrl", f"http://me:{KEY}@127.0.0.1/v1"),
    ):
        done = await joey.run("profiles", "set", "work", key, value)
        assert done.code == 0, done.err
        assert f"{key} of work is now" in done.err
        assert KEY not in done.out + done.err
        assert KEY in json.dumps(document(joey))


async def test_a_key_is_typed_unseen(joey: Joey) -> None:
    async with terminal(joey, "profiles", "add", "work", "--provider", "openai") as screen:
        await screen.until("Key for openai (it is not shown): ")
        screen.press(f"{KEY}\r")
        await screen.until("created the profile work, now the active profile")
        assert await screen.ended() == 0
        assert KEY not in screen.raw
    assert document(joey)["profiles"] == {"work": {"provider": "openai", "apiKey": KEY}}


@pytest.mark.contract("cli:profiles")
async def test_a_key_on_the_command_line_is_refused(joey: Joey) -> None:
    await joey.run("profiles", "add", "work", "--provider", "openai", "--no-key")
    done = await joey.run("profiles", "set", "work", "apiKey", KEY)
    assert done.code == 2
    assert "not accepted on the command line" in done.err
    assert KEY not in (joey.home / "profiles.json").read_text() + done.err


async def test_profiles_are_made_changed_used_and_removed(joey: Joey) -> None:
    for arguments in (
        ("add", "one", "--provider", "ollama", "-m", "a"),
        ("add", "two", "--provider", "ollama", "-m", "b", "--use"),
        ("set", "one", "temperature", "0.5"),
        ("set", "one", "contextWindow", "65536"),
        ("unset", "one", "temperature"),
    ):
        done = await joey.run("profiles", *arguments)
        assert done.code == 0, done.err
    one = {"provider": "ollama", "model": "a", "contextWindow": 65536}
    assert document(joey) == {
        "profiles": {"one": one, "two": {"provider": "ollama", "model": "b"}},
        "active": "two",
    }
    assert (await joey.run("profiles", "use", "one")).code == 0
    assert (await joey.run("profiles", "remove", "one", "-y")).code == 0
    assert document(joey)["active"] == "two"


def damage(joey: Joey, *names: str) -> None:
    """As an earlier joey left it: the active one does not exist."""
    joey.home.mkdir(exist_ok=True)
    profiles = {name: {"provider": "ollama", "model": "m"} for name in names}
    given = {"active": "default", "profiles": profiles}
    (joey.home / "profiles.json").write_text(json.dumps(given))


async def test_the_first_profile_after_the_last_was_removed_is_the_active_one(joey: Joey) -> None:
    await joey.run("profiles", "add", "a", "--provider", "ollama", "-m", "x", "--use")
    removed = await joey.run("profiles", "remove", "a", "-y")
    assert "none is left" in removed.err
    assert document(joey) == {"profiles": {}}
    added = await joey.run("profiles", "add", "b", "--provider", "ollama", "-m", "y")
    assert "now the active profile" in added.err
    assert document(joey)["active"] == "b"


async def test_adding_a_profile_does_not_change_which_one_is_used(joey: Joey) -> None:
    joey.home.mkdir()
    (joey.home / "profiles.json").write_text('{"profiles": {"a": {"provider": "ollama"}}}')
    await joey.run("profiles", "add", "b", "--provider", "ollama", "-m", "y")
    assert document(joey)["active"] == "a"


async def test_a_key_is_kept_where_the_active_profile_does_not_exist(joey: Joey) -> None:
    damage(joey)
    arguments = ("profiles", "add", "work", "--provider", "anthropic", "--key")
    added = await joey.run(*arguments, stdin=KEY.encode())
    assert added.code == 0, added.err
    assert document(joey) == {
        "active": "work",
        "profiles": {"work": {"provider": "anthropic", "apiKey": KEY}},
    }


async def test_the_only_profile_is_used_and_settled_when_another_is_added(joey: Joey) -> None:
    damage(joey, "b")
    listed = await joey.run("profiles", "list")
    assert listed.code == 0
    assert "has no profile 'default'" in listed.err
    assert (await joey.run("profiles", "add", "c", "--provider", "ollama")).code == 0
    assert document(joey)["active"] == "b"


async def test_with_several_profiles_the_error_says_how_to_choose(joey: Joey) -> None:
    damage(joey, "a", "b")
    refused = await joey.run("-p", "hi")
    assert refused.code == 78
    assert "no profile is active. Choose one with joey profiles use" in refused.err
    assert (await joey.run("profiles", "use", "b")).code == 0
    assert document(joey)["active"] == "b"
    damage(joey, "a", "b")
    assert (await joey.run("profiles", "remove", "b", "-y")).code == 0
    assert document(joey)["active"] == "a"


async def test_the_doctor_settles_which_profile_is_used(joey: Joey) -> None:
    damage(joey, "a", "b")
    looked = await joey.run("doctor", "--offline", "--fix")
    assert "joey profiles use NAME: a, b" in looked.out
    assert document(joey)["active"] == "default"
    damage(joey, "a")
    assert "joey doctor --fix" in (await joey.run("doctor", "--offline")).out
    assert "fixed: a is the active profile" in (await joey.run("doctor", "--offline", "--fix")).out
    assert document(joey)["active"] == "a"


async def test_what_cannot_be_added_is_refused_before_a_key_is_asked_for(joey: Joey) -> None:
    damage(joey, "a")
    async with terminal(joey, "profiles", "add", "a", "--provider", "openai") as screen:
        await screen.until("exists already")
        assert await screen.ended() == 2
        assert "Key for" not in screen.raw


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "nobody"), "there is no profile 'nobody'. Known ones: one."),
        (("use", "nobody"), "there is no profile 'nobody'"),
        (("remove", "nobody", "-y"), "there is no profile 'nobody'"),
        (("add", "one", "--provider", "ollama"), "the profile 'one' exists already"),
        (("add", "x", "--provider", "olama"), "there is no provider named 'olama'"),
        (("set", "one", "temprature", "1"), "Did you mean `temperature`?"),
        (("set", "one", "temperature", "warm"), "`temperature` must be a number"),
        (("set", "one", "protocol", "smtp"), "`protocol` can be native or xml"),
        (("set", "one", "model"), "give a value"),
        (("remove", "one"), "add -y"),
    ],
)
async def test_what_cannot_be_done_is_named(
    joey: Joey, arguments: tuple[str, ...], complaint: str
) -> None:
    await joey.run("profiles", "add", "one", "--provider", "ollama", "-m", "a")
    before = document(joey)
    done = await joey.run("profiles", *arguments)
    assert done.code == 2
    assert complaint in done.err
    assert document(joey) == before


async def test_a_profile_of_roos_keeps_its_key_under_roos_name(joey: Joey) -> None:
    joey.home.mkdir()
    configs = {"a": {"apiProvider": "openrouter", "openRouterModelId": "m"}}
    given = {"currentApiConfigName": "a", "apiConfigs": configs}
    (joey.home / "profiles.json").write_text(json.dumps(given))
    done = await joey.run("profiles", "set", "a", "apiKey", stdin=KEY.encode())
    assert done.code == 0, done.err
    shown = await joey.run("profiles", "show", "a", "--json")
    assert shown.json["apiKey"] == {"value": "…wxyz", "from": "profiles.json"}


@pytest.mark.parametrize(
    "entry",
    [
        {"provider": "anthropic", "requestTimeout": 600},
        {"apiProvider": "anthropic", "requestTimeout": 600},
    ],
)
async def test_a_default_is_not_said_to_be_in_the_file(
    joey: Joey, entry: dict[str, object]
) -> None:
    joey.home.mkdir()
    without = {key: value for key, value in entry.items() if key != "requestTimeout"}
    profiles = {"a": without, "b": entry}
    (joey.home / "profiles.json").write_text(json.dumps({"profiles": profiles, "active": "a"}))
    origins = {}
    for name in profiles:
        shown = (await joey.run("profiles", "show", name, "--json")).json
        assert shown["provider"]["from"] == "profiles.json"
        origins[name] = shown["requestTimeout"]["from"]
    assert origins == {"a": "default", "b": "profiles.json"}


async def test_what_would_be_used_without_a_profile_is_shown(joey: Joey) -> None:
    env = {**joey.env, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    shown = await joey.run("profiles", "show", "--json", env=env)
    assert shown.json["apiKey"] == {"value": "…wxyz", "from": "OPENAI_API_KEY"}
    assert shown.json["baseUrl"]["from"] == "OPENAI_BASE_URL"


# joey models --------------------------------------------------------------------------------------


async def test_models_of_the_catalogue_and_of_the_server_are_listed(joey: Joey) -> None:
    async with small_web(OPENAI) as web:
        env = {**joey.env, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{web.url}/v1"}
        done = await joey.run("models", "--json", env=env)
        assert f"authorization: Bearer {KEY}" in web.request_heads[0]
    models = {model["id"]: model for model in done.json}
    assert models["my-model"]["from"] == ["server"]
    assert models["gpt-6.1-sol"]["from"] == ["catalogue"]
    assert models["gpt-6.1-sol"]["chosen"] is True
    assert models["gpt-6.1-sol"]["contextWindow"] > 0


async def test_models_of_a_local_server_are_listed_without_a_key(joey: Joey) -> None:
    pages = {**OLLAMA, "/v1/models": {"data": [{"id": "qwen3-coder:30b"}]}}
    async with small_web(pages) as web:
        env = {**joey.env, "OLLAMA_HOST": web.url}
        done = await joey.run("models", "--provider", "ollama", env=env)
    assert done.out.split("\t")[0] == "qwen3-coder:30b"


async def test_a_server_that_is_not_there_costs_only_its_own_list(joey: Joey) -> None:
    env = {**joey.env, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    done = await joey.run("models", env=env)
    assert done.code == 0
    assert "claude-sonnet-5-5" in done.out
    assert "the server did not list its models: Nothing answers at 127.0.0.1:9" in done.err
    quiet = await joey.run("models", "--offline", env=env)
    assert (quiet.out, quiet.err) == (done.out, "")


async def test_an_unknown_provider_is_named(joey: Joey) -> None:
    done = await joey.run("models", "--provider", "nobody")
    assert done.code == 2
    assert "'nobody'" in done.err


async def test_without_an_action_profiles_tasks_and_settings_are_listed(joey: Joey) -> None:
    for command in ("profiles", "tasks", "config"):
        bare, listed = await joey.run(command), await joey.run(command, "list")
        assert (bare.code, bare.out, bare.err) == (0, listed.out, listed.err)
