from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Turn, say
from joey.testing.server import ModelServer
from tests.harness.providers.provider_connection import MODEL_REQUEST, PROFILES


@pytest.mark.parametrize(("seconds", "waits"), [(None, 0), (0.0, 0), (1000.0, 2)])
async def test_requests_start_the_seconds_of_the_profile_apart(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, waits: int
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def sleep_at_once(delay: float) -> None:
        if delay > 10:
            slept.append(delay)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", sleep_at_once)
    async with ModelServer([Turn(say("hi"))] * 3) as server:
        http = HttpClient(environ={})
        profile = structs.replace(
            PROFILES["openai"], base_url=f"{server.url}/v1", rate_limit_seconds=seconds
        )
        provider = make_provider(profile, http)
        for _ in range(3):
            async for _chunk in provider.stream(MODEL_REQUEST):
                pass
        await http.close()
    assert len(slept) == waits
