"""Neither key nor profile: what a user and a script are told."""

from __future__ import annotations

import json

import pytest

from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import finish, local_model_server, refuse
from tests.harness.cli.small_web import OLLAMA, small_web
from tests.harness.cli.terminal import terminal


class JoeyWithOllama(Joey, frozen=True):
    """With Ollama at an address of its own."""

    ollama: str

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "OLLAMA_HOST": self.ollama, "JOEY_PLAIN": "1"}


def with_ollama(joey: Joey, url: str) -> JoeyWithOllama:
    return JoeyWithOllama(home=joey.home, workspace=joey.workspace, ollama=url)


async def test_a_script_is_shown_three_ways_to_go_on(joey: Joey) -> None:
    done = await joey.run("-p", "do it")
    assert done.code == 78
    for way in ("1. set an API key", "2. start a model server", "3. run `joey demo`"):
        assert way in done.err


@pytest.mark.parametrize("flags", [(), ("--provider", "ollama")])
async def test_a_script_is_shown_the_server_that_runs_and_the_flags_for_it(
    joey: Joey, flags: tuple[str, ...]
) -> None:
    async with small_web(OLLAMA) as web:
        done = await with_ollama(joey, web.url).run(
            "-p", "--output-format", "json", *flags, "do it"
        )
    assert done.code == done.json["exitCode"] == 78
    message = "ollama runs on this machine and offers qwen3-coder:30b, llama4:8b."
    assert f"{message} To use it, add: --provider ollama -m qwen3-coder:30b" in done.err
    assert message in done.json["reason"]


async def test_a_key_for_a_service_without_a_usual_model_names_the_list_of_models(
    joey: Joey,
) -> None:
    done = await joey.run("-p", "do it", env={**joey.env, "MISTRAL_API_KEY": "k"})
    assert done.code == 78
    assert "--model; `joey models --provider mistral` lists them." in done.err


@pytest.mark.contract("local:first-contact")
@pytest.mark.parametrize(
    ("key", "model"), [("\r", "qwen3-coder:30b"), ("y", "qwen3-coder:30b"), ("2", "llama4:8b")]
)
async def test_one_key_uses_a_found_server_from_now_on(joey: Joey, key: str, model: str) -> None:
    async with (
        small_web(OLLAMA) as web,
        terminal(with_ollama(joey, web.url), columns=120) as screen,
    ):
        await screen.until("n for none.")
        screen.press(key)
        await screen.until(f"{model} is saved as a profile")
        await screen.until(f"{model} (ollama at {web.url}/v1)")
        await screen.until("What should I do?")
    document = json.loads((joey.home / "profiles.json").read_text())
    kept = {"provider": "ollama", "model": model, "baseUrl": f"{web.url}/v1"}
    assert document == {"profiles": {"default": kept}, "active": "default"}


@pytest.mark.parametrize("key", ["n", "\x1b", "\x03", "7"])
async def test_declining_shows_the_other_ways_and_saves_nothing(joey: Joey, key: str) -> None:
    async with small_web(OLLAMA) as web, terminal(with_ollama(joey, web.url)) as screen:
        await screen.until("n for none.")
        screen.press(key)
        assert await screen.ended() == 78
    assert not (joey.home / "profiles.json").exists()


async def test_whoever_names_a_model_is_not_asked(joey: Joey) -> None:
    async with (
        small_web(OLLAMA) as web,
        terminal(with_ollama(joey, web.url), "--provider", "ollama", "-m", "mine") as screen,
    ):
        seen = await screen.until("What should I do?")
        assert "\x1b]" not in screen.raw  # nor is the title of the window touched
    assert "n for none" not in seen


def serve(*names: str) -> dict[str, object]:
    """Of LM Studio, which always lists a model that cannot chat."""
    listed = [*names, "text-embedding-nomic-embed-text-v1.5"]
    models = [{"id": name, "object": "model", "owned_by": "organization_owner"} for name in listed]
    return {"/v1/models": {"object": "list", "data": models}}


@pytest.mark.contract("local:first-contact")
async def test_the_only_model_of_the_named_server_is_used(joey: Joey) -> None:
    async with local_model_server(serve("only-one"), [finish()]) as server:
        flags = ("--provider", "lmstudio", "--base-url", f"{server.url}/v1")
        done = await joey.run("-p", *flags, "do it")
        assert [chat["model"] for chat in server.chats] == ["only-one"]
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert "joey: using only-one, the only model that lmstudio serves\n" in done.err


@pytest.mark.contract("local:first-contact")
async def test_of_several_models_those_of_the_named_server_are_listed(joey: Joey) -> None:
    async with small_web(OLLAMA) as ollama, local_model_server(serve("a", "b", "c", "d")) as server:
        flags = ("--provider", "lmstudio", "--base-url", f"{server.url}/v1")
        done = await with_ollama(joey, ollama.url).run("-p", *flags, "do it")
    assert done.code == 78
    assert "lmstudio runs on this machine and offers a, b, c and 1 more." in done.err
    assert "To use it, add: --provider lmstudio -m a" in done.err
    assert "ollama" not in done.err


@pytest.mark.contract("local:first-contact")
async def test_a_profile_with_an_address_of_its_own_does_not_mean_a_model_of_openai(
    joey: Joey,
) -> None:
    async with local_model_server(serve("a", "b"), [finish()]) as server:
        url = f"{server.url}/v1"
        added = await joey.run(
            *("profiles", "add", "own", "--provider", "openai", "--base-url", url, "--use"),
            stdin=b"sk-canary-0123456789abcdef\n",
        )
        assert added.code == 0, added.err
        done = await joey.run("-p", "do it")
        assert (done.code, server.chats) == (78, [])
        assert "openai offers a, b." in done.err
        server.pages.update(serve("only-one"))
        done = await joey.run("-p", "do it")
        assert [chat["model"] for chat in server.chats] == ["only-one"], done.err


@pytest.mark.contract("local:first-contact")
async def test_a_profile_without_a_model_uses_the_only_one_of_its_server(joey: Joey) -> None:
    async with local_model_server(serve("only-one"), [finish()]) as server:
        joey.home.mkdir()
        profile = {"provider": "vllm", "baseUrl": f"{server.url}/v1"}
        (joey.home / "profiles.json").write_text(json.dumps({"profiles": {"own": profile}}))
        done = await joey.run("-p", "do it")
        assert [chat["model"] for chat in server.chats] == ["only-one"]
    assert done.code == 0, done.err


@pytest.mark.contract("local:first-contact")
async def test_without_a_model_a_server_that_is_not_running_is_named(joey: Joey) -> None:
    async with local_model_server({}) as server:
        pass
    flags = ("--provider", "lmstudio", "--base-url", f"{server.url}/v1")
    done = await joey.run("-p", *flags, "do it")
    assert done.code == 78
    assert f"lmstudio is not running at 127.0.0.1:{server.port}" in done.err
    assert "`lms server start --port" in done.err


@pytest.mark.contract("local:first-contact")
async def test_the_only_model_is_used_at_a_terminal_too(joey: Joey) -> None:
    async with (
        local_model_server(serve("only-one"), [finish()]) as server,
        terminal(
            joey, "--plain", "--provider", "lmstudio", "--base-url", f"{server.url}/v1", columns=120
        ) as screen,
    ):
        await screen.until("using only-one, the only model that lmstudio serves")
        await screen.until("What should I do?")


WRONG_KEY = refuse(401, {"error": {"message": "Incorrect API key provided."}})
KEY_IS_REFUSED = (
    "does not accept the API key. It comes from the variable OPENAI_API_KEY: set another one there."
    " (401: Incorrect API key provided.)"
)


@pytest.mark.parametrize("model", [(), ("-m", "some-model")])
async def test_a_key_that_is_refused_is_named_with_and_without_a_model(
    joey: Joey, model: tuple[str, ...]
) -> None:
    env = {**joey.env, "OPENAI_API_KEY": "sk-wrong"}
    async with local_model_server({"/v1/models": WRONG_KEY}, [WRONG_KEY]) as server:
        done = await joey.run("-p", "--base-url", f"{server.url}/v1", *model, "hi", env=env)
    assert done.code == 78
    assert f"joey: openai (127.0.0.1:{server.port}) {KEY_IS_REFUSED}" in done.err
    assert "--model" not in done.err


async def test_a_server_that_wants_a_key_says_so_without_a_model(joey: Joey) -> None:
    async with local_model_server({"/v1/models": WRONG_KEY}) as server:
        done = await joey.run("-p", "--base-url", f"{server.url}/v1", "hi")
    assert done.code == 78
    assert "requires an API key, and none is set. Set OPENAI_API_KEY." in done.err


async def test_models_of_a_server_that_refuses_the_key_are_not_made_up(joey: Joey) -> None:
    async with local_model_server({"/v1/models": WRONG_KEY}) as server:
        env = {"OPENAI_API_KEY": "sk-wrong", "OPENAI_BASE_URL": f"{server.url}/v1"}
        profile = ("--provider", "openai", "-m", "my-model", "--base-url", f"{server.url}/v1")
        assert (await joey.run("profiles", "add", "mine", *profile, "--use")).code == 0
        done = await joey.run("models", env={**joey.env, **env})
    assert [line.split("\t")[0] for line in done.out.splitlines()] == ["my-model"]
    assert KEY_IS_REFUSED in " ".join(done.err.split())
