"""`models.json`, and `joey models --refresh`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.app.application import Application
from joey.core.settings import ModelRoute
from joey.testing.script import Turn, usage
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Finished, Joey
from tests.harness.cli.playing import DONE, reach_openai
from tests.harness.cli.small_web import small_web

COST = {"input": 1, "output": 4}
DOCUMENT = {
    "openai": {
        "id": "openai",
        "models": {
            "gpt-6.1-sol": {"cost": {"input": 1, "output": 5}, "limit": {"context": 900_000}},
            "gpt-next": {"cost": COST, "limit": {"context": 300_000, "output": 9_000}},
            "gpt-image": {"modalities": {"input": ["text"], "output": ["image"]}},
        },
    },
    "google": {"models": {"gemini-next": {"cost": COST}}},
    "ollama-cloud": {"models": {"x": {"cost": "not looked at"}}},
}


def write_models(joey: Joey, document: object) -> None:
    joey.home.mkdir(exist_ok=True)
    (joey.home / "models.json").write_text(json.dumps(document))


async def list_models(joey: Joey, provider: str = "openai") -> dict[str, Any]:
    done = await joey.run("models", "--provider", provider, "--offline", "--json")
    return {model["id"]: model for model in done.json}


async def refresh(joey: Joey, document: object, *flags: str) -> Finished:
    async with small_web({"/api.json": document}) as web:
        return await joey.run("models", "--refresh", "--from", f"{web.url}/api.json", *flags)


# models.json


@pytest.mark.contract("services:prices")
async def test_a_model_of_models_json_has_its_window_tools_and_prices(joey: Joey) -> None:
    tier = {"tier": {"type": "context", "size": 20_000}, "input": 20, "output": 40}
    entry = {
        "limit": {"context": 100_000, "output": 3_000},
        "cost": {"input": 10, "output": 20, "tiers": [tier]},
        "tool_call": False,
    }
    turn = Turn(*DONE.steps, usage(input=30_000, output=1_000))
    async with ModelServer([turn]) as server:
        flags = (*reach_openai(server.url), "-m", "own", "--max-budget-usd", "5")
        unknown = await joey.run("-p", *flags, "do it")
        assert (unknown.code, "price of 'own' is not known" in unknown.err) == (78, True)
        write_models(joey, {"openai": {"models": {"own": entry}}})
        done = await joey.run("-p", "--output-format", "json", *flags, "do it")
        body = server.requests[0].body
    assert done.code == 0, done.err
    assert done.json["cost"]["totalCost"] == 0.64
    assert "tools" not in body
    assert "attempt_completion" in json.dumps(body["messages"])


@pytest.mark.contract("services:prices")
async def test_a_wrong_value_ends_the_run_before_any_request(joey: Joey) -> None:
    write_models(joey, {"openai": {"models": {"own": {"limit": {"context": "large"}}}}})
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach_openai(server.url), "-m", "own", "do it")
        assert server.requests == []
    assert done.code == 78
    assert f"{joey.home}/models.json: `openai.models.own.limit.context`" in done.err
    assert "Expected `float`, got `str`" in done.err
    checked = await joey.run("doctor", "--offline", "--json")
    rows = {row["name"]: row for row in checked.json["findings"]}
    assert "models.json" in json.dumps(rows["Model catalogue"])


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{"cost": {"input": 1e308, "output": 1}}', "own.cost.input`: Expected `float` <= 1"),
        ('{"limit": {"context": 1e30}}', "own.limit.context`: Expected `float` <= 1"),
        (r'{"status": "\ud800"}', "`openai` is not valid JSON"),
    ],
)
async def test_amounts_and_texts_that_cannot_be_stored_are_named(
    joey: Joey, entry: str, problem: str
) -> None:
    joey.home.mkdir()
    text = f'{{"openai": {{"models": {{"own": {entry}}}}}}}'
    (joey.home / "models.json").write_text(text)
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach_openai(server.url), "-m", "own", "do it")
        assert server.requests == []
    assert done.code == 78
    assert problem in done.err


async def test_models_lists_those_of_models_json_with_their_date(joey: Joey) -> None:
    write_models(joey, DOCUMENT)
    os.utime(joey.home / "models.json", (1_790_000_000, 1_790_000_000))
    models = await list_models(joey)
    assert models["gpt-next"]["contextWindow"] == 300_000
    assert models["gpt-next"]["prices"] == {
        "input": 1,
        "output": 4,
        "cacheReads": 1,
        "cacheWrites": 1,
        "asOf": "2026-09-21",
    }
    assert models["gpt-6.1-sol"]["prices"]["input"] == 1
    assert models["gpt-6-sol"]["prices"]["longContext"] == [
        {"above": 272_000, "input": 4, "output": 15, "cacheReads": 0.4, "cacheWrites": 5}
    ]
    assert models["gpt-6-sol"]["prices"]["asOf"] == "2026-11-18"
    assert "gpt-image" not in models
    assert "gemini-next" in await list_models(joey, "gemini")


def test_clients_are_offered_models_of_the_files(joey: Joey) -> None:
    write_models(joey, DOCUMENT)
    services = Application(workspace=joey.workspace, home=joey.home, env={})
    assert services.list_models("openai")["gpt-next"].context_window == 300_000
    found = services.find_task_model(ModelRoute(provider="openai", model="gpt-next"))
    assert found is not None
    assert found.prices is not None


# --refresh


@pytest.mark.contract("services:prices")
async def test_a_refresh_stores_the_catalogue_and_says_what_changed(joey: Joey) -> None:
    first = await refresh(joey, DOCUMENT)
    assert first.code == 0
    assert "4 models of 2 providers from 127.0.0.1:" in first.out
    assert "4 added, 0 with another price, 0 removed" in first.out
    assert (await list_models(joey))["gpt-next"]["prices"]["input"] == 1
    models = {
        "gpt-6.1-sol": {"cost": {"input": 2, "output": 5}},
        "gpt-next": DOCUMENT["openai"]["models"]["gpt-next"],  # type: ignore[index]
        "gpt-later": {"cost": COST},
    }
    changed = {"openai": {"models": models}}
    second = await refresh(joey, changed)
    assert "1 added, 1 with another price, 2 removed" in second.out
    assert "  openai/gpt-6.1-sol: 1/5 → 2/5\n" in second.out
    third = await refresh(joey, changed, "--json")
    assert third.json["models"] == 3
    assert (third.json["added"], third.json["priceChanges"]) == ([], [])


async def test_the_address_comes_from_the_settings(joey: Joey) -> None:
    nowhere = await joey.run("models", "--refresh")
    assert nowhere.code == 78
    assert "joey config set modelCatalogUrl https://models.dev/api.json" in nowhere.err
    async with small_web({"/models": DOCUMENT}) as web:
        await joey.run("config", "set", "modelCatalogUrl", f"{web.url}/models")
        done = await joey.run("models", "--refresh")
    assert done.code == 0
    assert "4 added" in done.out


async def test_a_project_does_not_choose_the_address(joey: Joey) -> None:
    (joey.workspace / ".roo").mkdir()
    async with small_web({"/models": DOCUMENT}) as web:
        settings = json.dumps({"modelCatalogUrl": f"{web.url}/models"})
        (joey.workspace / ".roo" / "settings.json").write_text(settings)
        done = await joey.run("models", "--refresh")
        assert web.request_heads == []
    assert done.code == 78


@pytest.mark.contract("services:prices")
async def test_models_json_is_neither_changed_nor_beaten_by_a_refresh(joey: Joey) -> None:
    write_models(joey, {"openai": {"models": {"gpt-next": {"cost": {"input": 7, "output": 8}}}}})
    before = (joey.home / "models.json").read_bytes()
    await refresh(joey, DOCUMENT)
    assert (joey.home / "models.json").read_bytes() == before
    model = (await list_models(joey))["gpt-next"]
    assert (model["prices"]["input"], model["contextWindow"]) == (7, 300_000)


@pytest.mark.contract("services:prices")
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (["no", "object"], "is invalid: Expected `object`, got `array`"),
        ({"openai": {"models": {"m": {"limit": 5}}}}, "is invalid at `openai.models.m.limit`"),
        (
            {"openai": {"models": {"a": {}, "b": {"cost": {"input": -1, "output": 1}}}}},
            "is invalid at `openai.models.b.cost.input`: Expected `float` >= 0",
        ),
        ({"nobody": {"models": {"m": {}}}}, "has no models of supported providers"),
        ({"openai/gpt-5": {"limit": {}}}, "has no models of supported providers"),
    ],
)
async def test_a_document_that_is_wrong_changes_nothing(
    joey: Joey, document: object, message: str
) -> None:
    await refresh(joey, DOCUMENT)
    before = read_files(joey.home)
    done = await refresh(joey, document)
    assert done.code == 1
    assert message in done.err
    assert "Nothing was changed." in done.err
    assert read_files(joey.home) == before


def read_files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}


@asynccontextmanager
async def answer_with(*pieces: bytes) -> AsyncIterator[str]:
    """A server that sends these bytes and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass  # the reader had enough
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api.json"


OK = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "code", "message"),
    [
        ([b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"], 1, "answers with status 404"),
        (
            [b"HTTP/1.1 301 X\r\nlocation: https://else.example/a\r\ncontent-length: 0\r\n\r\n"],
            1,
            "redirects to https://else.example/a: use that address",
        ),
        ([OK % 5, b"<html"], 1, "is not JSON"),
        ([OK % 50, b'{"openai": {'], 75, "127.0.0.1"),
        ([OK % (64 << 20), *[b" " * (1 << 20)] * 64], 1, "sends more than 32 MB"),
    ],
)
async def test_an_answer_that_is_no_catalogue_changes_nothing(
    joey: Joey, pieces: list[bytes], code: int, message: str
) -> None:
    async with answer_with(*pieces) as url:
        done = await joey.run("models", "--refresh", "--from", url)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert not (joey.home / "models-refreshed.json").exists()


async def test_a_stored_catalogue_that_cannot_be_read_is_replaced(joey: Joey) -> None:
    joey.home.mkdir()
    stored = joey.home / "models-refreshed.json"
    stored.write_text(f'{{"read": {"[" * 20_000}')
    assert (await refresh(joey, DOCUMENT)).code == 0
    stored.unlink()
    os.mkfifo(stored)
    assert (await refresh(joey, DOCUMENT)).code == 0
    assert "gpt-next" in await list_models(joey)


async def test_an_address_that_is_none_is_refused(joey: Joey) -> None:
    done = await joey.run("models", "--refresh", "--from", "models.dev/api.json")
    assert done.code == 78
    assert "is not an http:// or https:// address" in done.err
    gone = await joey.run("models", "--refresh", "--from", "http://127.0.0.1:9/api.json")
    assert (gone.code, "othing answers at 127.0.0.1:9" in gone.err) == (75, True)


@pytest.mark.parametrize(
    "flags",
    [("--from", "http://x"), ("--refresh", "--offline"), ("--refresh", "--provider", "xai")],
)
async def test_flags_that_do_not_go_together_are_refused(
    joey: Joey, flags: tuple[str, ...]
) -> None:
    assert (await joey.run("models", *flags)).code == 2


async def test_a_refresh_goes_through_the_proxy_of_the_environment(joey: Joey) -> None:
    async with small_web({"http://catalogue.example/api.json": DOCUMENT}) as proxy:
        env = {**joey.env, "HTTP_PROXY": proxy.url}
        url = "http://catalogue.example/api.json"
        done = await joey.run("models", "--refresh", "--from", url, env=env)
    assert done.code == 0, done.err
    assert "from catalogue.example, prices of" in done.out
