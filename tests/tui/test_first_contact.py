"""First contact: keys that are checked and replaced, servers that are started, small windows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct, structs

from joey.app import models
from joey.providers import catalog
from joey.testing.script import Turn, call, fail
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import Answer, finish, local_model_server, refuse
from tests.harness.cli.served_models import (
    ADVICE,
    N_KEEP,
    OVERFLOWS,
    pages_of,
    run_ollama,
    show_ollama,
)
from tests.harness.cli.small_web import OLLAMA, small_web
from tests.harness.tui.headless import screen
from tests.harness.tui.tmux import needs_tmux, terminal
from tests.harness.tui.turns import done

REFUSAL = {
    "error": {
        "message": "Incorrect API key provided",
        "type": "invalid_request_error",
        "code": "invalid_api_key",
    }
}


class Gateway(Struct):
    """A service that speaks OpenAI's protocol, with keys of its own."""

    url: str
    accepted_key: str
    requests: list[tuple[str, str, dict[str, Any]]]
    """Path, key and body of each."""

    @property
    def chats(self) -> list[dict[str, Any]]:
        return [body for path, _, body in self.requests if path.endswith("/chat/completions")]


@asynccontextmanager
async def gateway(accepted_key: str) -> AsyncIterator[Gateway]:
    made = Gateway("", accepted_key, [])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        fields = {name.lower(): value for name, value in fields.items()}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        key = fields.get("authorization", "").removeprefix("Bearer ")
        made.requests.append((path, key, json.loads(body or b"{}")))
        listed = {"object": "list", "data": [{"id": "model-a"}, {"id": "model-b"}]}
        answer = refuse(200, listed) if path.endswith("/models") else finish()
        if key != made.accepted_key:
            answer = refuse(401, REFUSAL)
        writer.write(
            b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
            % (answer.status, answer.content_type.encode(), len(answer.body))
        )
        writer.write(answer.body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield made


def read_profiles(joey: Joey) -> Any:
    return json.loads((joey.home / "profiles.json").read_text(encoding="utf-8"))


@needs_tmux
@pytest.mark.contract("screen:keys")
async def test_a_key_is_checked_before_it_is_kept(joey: Joey) -> None:
    async with gateway("good-key") as service, terminal(joey) as shown:
        await shown.until("There are three ways to continue:", "joey demo", "Where is your model?")
        await shown.type("another address")
        await shown.press("Enter")
        await shown.until("Address")
        await shown.send("foo bar")
        await shown.until("is not an http:// or https:// address")
        await shown.send(service.url.removeprefix("http://").removesuffix("/v1"))
        await shown.until(f"Key for {service.url}")
        await shown.send("bad-key")
        await shown.until(f"{service.url} does not accept this key (status 401)")
        assert not (joey.home / "profiles.json").exists()
        await shown.send("good-key")
        await shown.until("The key is accepted.", "› model-a", "model-b")
        await shown.press("Enter")
        await shown.until("joey talks to model-a", "code · model-a")
    assert [path for path, _, _ in service.requests] == ["/v1/models", "/v1/models"]
    kept = {
        "provider": "openai",
        "model": "model-a",
        "baseUrl": service.url,
        "apiKey": "good-key",
    }
    assert read_profiles(joey) == {"profiles": {"default": kept}, "active": "default"}


async def test_an_address_where_nothing_answers_is_not_kept(joey: Joey) -> None:
    async with gateway("any") as service:
        pass
    async with screen(joey) as shown:
        await shown.until("Where is your model?")
        await shown.type("another address")
        await shown.press("Enter")
        await shown.until("Address")
        await shown.send(service.url)
        await shown.until("Enter alone: no key")
        await shown.press("Enter")
        await shown.until("Nothing answers at", "Key for")
        await shown.press("Escape")
        await shown.until("Where is your model?")
        await shown.press("Escape")
    assert not (joey.home / "profiles.json").exists()


async def test_an_error_of_one_provider_is_gone_once_another_is_chosen(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway("any") as closed:
        pass
    move_service(monkeypatch, "openai", closed.url)
    async with gateway("good-key") as service, screen(joey) as shown:
        await shown.until("Where is your model?")
        await shown.type("openai")
        await shown.press("Enter")
        await shown.until("Key for openai")
        await shown.send("bogus")
        await shown.until("The key could not be checked.", "Model of openai")
        await shown.press("Escape")
        await shown.until("Where is your model?", "The key could not be checked.")
        await shown.type("custom url")
        await shown.press("Enter")
        assert "could not be checked" not in await shown.until("Address")
        await shown.send(service.url)
        await shown.until(f"Key for {service.url}")
        await shown.send("good-key")
        await shown.until(f"Model at {service.url}", "› model-a")
        await shown.press("Enter")
        assert "could not be checked" not in await shown.until("joey talks to model-a")


@pytest.mark.parametrize("name", ["custom", "url", "compatible", "another address"])
async def test_an_own_address_is_found_by_any_name_for_it(joey: Joey, name: str) -> None:
    async with screen(joey, size=(100, 40)) as shown:
        await shown.until("Where is your model?", "another address")
        await shown.type(name)
        await shown.until("› another address")
        await shown.press("Escape")


async def test_the_page_where_keys_are_made_is_named(joey: Joey) -> None:
    async with screen(joey) as shown:
        await shown.until("Where is your model?")
        await shown.type("anthropic")
        await shown.press("Enter")
        await shown.until("Key for anthropic", "https://console.anthropic.com/settings/keys")
        await shown.press("Escape")
        await shown.until("Where is your model?")
        await shown.press("Escape")


def move_service(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    spec = structs.replace(catalog.find_provider_spec(name), base_url=url)
    monkeypatch.setitem(catalog._SPECS_BY_NAME, name, spec)


@pytest.mark.contract("screen:keys")
async def test_a_key_in_a_variable_is_one_key_press_away(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway("good-key") as service:
        move_service(monkeypatch, "mistral", service.url)
        async with screen(joey, env={"MISTRAL_API_KEY": "good-key"}) as shown:
            await shown.until("› mistral", "key in MISTRAL_API_KEY")
            await shown.press("Enter")
            await shown.until("The key in MISTRAL_API_KEY is accepted.", "› model-a", "model-b")
            await shown.press("Down", "Enter")
            await shown.until("joey talks to model-b of mistral")
    kept = {"provider": "mistral", "model": "model-b"}
    assert read_profiles(joey) == {"profiles": {"default": kept}, "active": "default"}


@pytest.mark.contract("screen:keys")
async def test_where_the_key_in_a_variable_is_refused_another_is_asked_for(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway("good-key") as service:
        move_service(monkeypatch, "mistral", service.url)
        async with screen(joey, env={"MISTRAL_API_KEY": "old-key"}) as shown:
            await shown.until("› mistral")
            await shown.press("Enter")
            await shown.until("mistral does not accept this key (status 401)", "Key for mistral")
            await shown.send("good-key")
            await shown.until("The key is accepted.", "› model-a")
            await shown.press("Enter")
            await shown.until("joey talks to model-a of mistral")
    assert read_profiles(joey)["profiles"]["default"]["apiKey"] == "good-key"


async def test_a_server_that_is_not_running_is_found_once_it_is_started(joey: Joey) -> None:
    async with small_web({}) as web:
        port = web.port
    env = {"OLLAMA_HOST": f"127.0.0.1:{port}"}
    async with screen(joey, env=env, size=(140, 30)) as shown:
        await shown.until("Where is your model?", "ollama           on this machine; not running")
        await shown.type("ollama")
        await shown.press("Enter")
        await shown.until("ollama is not running at", f"OLLAMA_HOST=127.0.0.1:{port} ollama serve")
        async with local_model_server(OLLAMA, port=port):
            await shown.type("ollama")
            await shown.press("Enter")
            await shown.until("› qwen3-coder:30b")
            await shown.press("Enter")
            await shown.until("joey talks to qwen3-coder:30b of ollama")


@needs_tmux
@pytest.mark.contract("screen:keys")
@pytest.mark.parametrize("source", ["profile", "variable"])
async def test_a_refused_key_is_replaced_in_place(joey: Joey, source: str) -> None:
    async with gateway("good-key") as service:
        env = {}
        if source == "variable":
            env = {"OPENAI_API_KEY": "old-key", "OPENAI_BASE_URL": service.url}
            advice = "It comes from the variable OPENAI_API_KEY"
        else:
            profile = {
                "provider": "openai",
                "model": "model-a",
                "baseUrl": service.url,
                "apiKey": "old-key",
            }
            (joey.home / "profiles.json").write_text(json.dumps({"profiles": {"own": profile}}))
            advice = "It is `apiKey` of the profile 'own'"
        async with terminal(joey, "-m", "model-a", "do it", env=env) as shown:
            await shown.until(advice, "The request failed", "› 3 Enter another key")
            await shown.answer("Enter")
            await shown.until("Key for")
            await shown.send("wrong-key")
            await shown.until("does not accept this key (status 401)")
            await shown.send("good-key")
            await shown.until("The key is stored in profiles.json.", "All done.")
    [kept] = read_profiles(joey)["profiles"].values()
    assert (kept["apiKey"], kept["baseUrl"]) == ("good-key", service.url)
    first, last = service.chats[0], service.chats[-1]
    assert first["messages"][0] == last["messages"][0]
    # The model is not told that anything went wrong, and gets the list of files again.
    assert "RESUMPTION" not in json.dumps(last)
    assert "Workspace Directory" in json.dumps(last)


@pytest.mark.contract("screen:keys")
async def test_after_a_failed_request_another_model_or_provider_goes_on(joey: Joey) -> None:
    async with gateway("good-key") as service, gateway("other-key") as other:
        env = {"OPENAI_API_KEY": "old-key", "OPENAI_BASE_URL": service.url}
        async with screen(joey, "-m", "model-a", "do it", env=env) as shown:
            await shown.until("The request failed", "4 Choose another model")
            await shown.answer("4")
            await shown.until("› model-a", "another provider or server…")
            await shown.press("Escape")
            await shown.until("The request failed")
            await shown.send("/model")
            await shown.until("another provider or server…")
            await shown.press("Down", "Enter")
            await shown.until("Where is your model?", "anthropic")
            await shown.type("another address")
            await shown.press("Enter")
            await shown.until("Address")
            await shown.send(other.url)
            await shown.until(f"Key for {other.url}")
            await shown.send("other-key")
            await shown.until("› model-a", "model-b")
            await shown.press("Down", "Enter")
            await shown.until("from now on with model-b", "All done.", "code · model-b")
    assert [chat["model"] for chat in other.chats] == ["model-b"]
    assert read_profiles(joey)["active"] == "default"


async def test_a_second_provider_gets_a_profile_of_its_own(joey: Joey) -> None:
    profile = {"provider": "openai", "model": "m", "apiKey": "k", "baseUrl": "http://127.0.0.1:9"}
    profiles = {"profiles": {"default": profile}, "active": "default"}
    (joey.home / "profiles.json").write_text(json.dumps(profiles))
    async with (
        local_model_server(OLLAMA) as server,
        screen(joey, env={"OLLAMA_HOST": server.url}) as shown,
    ):
        await shown.until("What should I do?")
        await shown.send("/model")
        await shown.until("› m ✓", "another provider or server…")
        await shown.press("Down", "Enter")
        await shown.until("› qwen3-coder:30b")
        await shown.press("Enter")
        await shown.until("from now on with qwen3-coder:30b")
    kept = read_profiles(joey)
    assert kept["profiles"]["default"] == profile
    assert kept["profiles"]["ollama"]["model"] == "qwen3-coder:30b"
    assert kept["active"] == "ollama"


# Four servers as they are started by default --------------------------------------------------

SMALL_WINDOW = 4096


def serve_with_defaults(kind: str, window: int) -> dict[str, Any]:
    """Also the pages on which the server is found."""
    pages = pages_of(kind, window)
    if kind == "ollama":
        return pages | {"/api/tags": {"models": [{"name": "my-model"}]}}
    return {"/v1/models": {"object": "list", "data": [{"id": "my-model"}]}} | pages


def move_server(monkeypatch: pytest.MonkeyPatch, kind: str, url: str) -> None:
    """Look for one server at this address, and for the others at ports that nobody listens on."""
    moved = (
        structs.replace(each, base_url=url if each.name == kind else "http://127.0.0.1:9/v1")
        for each in models.LOCAL_PROVIDERS
    )
    monkeypatch.setattr(models, "LOCAL_PROVIDERS", tuple(moved))


@pytest.mark.contract("local:first-contact")
async def test_ollama_with_a_small_window_works_with_one_key(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = serve_with_defaults("ollama", SMALL_WINDOW)
    assert pages["/api/ps"] == run_ollama(SMALL_WINDOW)
    async with local_model_server(pages, [finish()]) as server:
        move_server(monkeypatch, "ollama", f"{server.url}/v1")
        async with screen(joey, "do it") as shown:
            await shown.until("› my-model", "ollama, running here")
            await shown.press("Enter")
            await shown.until("All done.")
        [chat] = server.chats
    assert chat["options"]["num_ctx"] == 32768


@pytest.mark.contract("local:first-contact")
@pytest.mark.parametrize("kind", ADVICE)
async def test_a_small_window_is_reported_with_what_to_change_and_asked_again(
    joey: Joey, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pages = serve_with_defaults(kind, SMALL_WINDOW)
    async with local_model_server(pages, [finish()]) as server:
        move_server(monkeypatch, kind, f"{server.url}/v1")
        async with screen(joey, size=(160, 40)) as shown:
            await shown.until("› my-model", f"{kind}, running here")
            await shown.press("Enter")
            await shown.until("has a window of 4,096 tokens", ADVICE[kind])
            await shown.send("do it")
            await shown.until("joey needs about 4,", "what next?")
            assert server.chats == []
            server.pages.update(serve_with_defaults(kind, 65536))  # it was started again
            await shown.send("try again")
            await shown.until("All done.")


@pytest.mark.contract("local:first-contact")
async def test_the_first_advice_names_the_profile_that_was_just_made(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {**serve_with_defaults("ollama", SMALL_WINDOW), "/api/show": show_ollama(SMALL_WINDOW)}
    async with local_model_server(pages, [finish()]) as server:
        move_server(monkeypatch, "ollama", f"{server.url}/v1")
        async with screen(joey, size=(160, 40)) as shown:
            await shown.until("› my-model", "ollama, running here")
            await shown.press("Enter")
            await shown.until("run `joey profiles set default contextWindow 32768`")


@pytest.mark.contract("local:first-contact")
async def test_ollama_that_is_started_after_the_first_request_gets_a_large_window(
    joey: Joey,
) -> None:
    async with local_model_server({}) as server:
        pass
    flags = ("--provider", "ollama", "--base-url", server.url, "-m", "my-model", "do it")
    async with screen(joey, *flags) as shown:
        await shown.until("ollama is not running at", "The request failed", "1 Retry")
        pages = serve_with_defaults("ollama", SMALL_WINDOW)
        async with local_model_server(pages, [finish()], port=server.port) as server:
            await shown.answer("1")
            await shown.until("All done.")
            assert server.chat_paths == ["/api/chat"]
            assert server.chats[0]["options"]["num_ctx"] == 32768


@pytest.mark.contract("local:first-contact")
async def test_a_small_window_is_seen_when_the_server_is_started_late(joey: Joey) -> None:
    async with local_model_server({}) as server:
        pass
    flags = ("--provider", "vllm", "--base-url", f"{server.url}/v1", "-m", "my-model", "do it")
    async with screen(joey, *flags, size=(160, 40)) as shown:
        await shown.until("vllm is not running at", "The request failed", "1 Retry")
        pages = serve_with_defaults("vllm", SMALL_WINDOW)
        async with local_model_server(pages, [finish()], port=server.port) as server:
            await shown.answer("1")
            await shown.until("has a window of 4,096 tokens", ADVICE["vllm"])
            assert server.chats == []


def list_unloaded() -> dict[str, Any]:
    """LM Studio loads a model with its default window when the first request comes."""
    pages = serve_with_defaults("lmstudio", SMALL_WINDOW)
    [entry] = pages["/api/v0/models"]["data"]
    del entry["loaded_context_length"]
    entry["state"] = "not-loaded"
    return pages


@pytest.mark.contract("local:first-contact")
@pytest.mark.parametrize("said", [OVERFLOWS["lmstudio"], N_KEEP])
async def test_lm_studio_that_loads_a_model_with_a_small_window(
    joey: Joey, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    text = json.dumps(said).replace("9216", str(SMALL_WINDOW))
    pages = list_unloaded()

    def load(_: dict[str, Any]) -> Answer:
        pages.update(serve_with_defaults("lmstudio", SMALL_WINDOW))
        server.pages.update(pages)
        return refuse(400, json.loads(text))

    async with local_model_server(pages, load) as server:
        move_server(monkeypatch, "lmstudio", f"{server.url}/v1")
        async with screen(joey, "do it", size=(160, 40)) as shown:
            await shown.until("› my-model", "lmstudio, running here")
            await shown.press("Enter")
            await shown.until("has a window of 4,096 tokens", ADVICE["lmstudio"])
            assert len(server.chats) == 1


@pytest.mark.contract("screen:keys")
async def test_the_key_of_a_subtask_is_replaced_in_place(joey: Joey) -> None:
    joey.settings(sandbox="off", autoApprovalEnabled=True, alwaysAllowSubtasks=True)
    delegate = call("new_task", {"mode": "code", "message": "a part of it"})
    turns = [Turn(delegate), Turn(fail(401, "invalid x-api-key")), done("The part."), done()]
    async with ModelServer(turns) as server:
        profile = {
            "provider": "anthropic",
            "model": "m",
            "baseUrl": server.url,
            "apiKey": "old-key",
        }
        (joey.home / "profiles.json").write_text(json.dumps({"profiles": {"own": profile}}))
        async with screen(joey, "do it", size=(120, 40)) as shown:
            await shown.until("The request failed", "for a subtask", "3 Enter another key")
            await shown.answer("3")
            await shown.until("Key for")
            await shown.send("new-key")
            await shown.until("All done.")
        keys = [request.headers.get("x-api-key") for request in server.requests]
    assert keys[:2] == ["old-key", "old-key"]
    assert set(keys[2:]) == {"new-key"}
