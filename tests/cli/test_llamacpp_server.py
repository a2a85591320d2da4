"""A real llama.cpp server with a tiny model: a turn, what it says about itself, what it refuses.

Skipped unless `python -m scripts.llamacpp` has installed it, as `.ci/run` does.
"""

from __future__ import annotations

import json

import pytest
from scripts.llamacpp import is_installed

from joey.core.messages import Message
from joey.core.models import ModelRequest
from joey.core.settings import Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from tests.harness.cli.binary import Joey
from tests.harness.cli.llamacpp import (
    MODEL_WINDOW,
    ScriptedReplies,
    llamacpp_server,
    scripted_proxy,
)
from tests.harness.cli.served_models import reach

SMALL_WINDOW = 4096
RESULT_GRAMMAR = (
    'root ::= "<attempt_completion>\\n<result>" [A-Za-z ]{8,40} "</result>\\n</attempt_completion>"'
)
pytestmark = [
    pytest.mark.skipif(not is_installed(), reason="no llama.cpp: python -m scripts.llamacpp"),
    pytest.mark.timeout(300),
]


async def test_a_real_model_completes_a_task(joey: Joey) -> None:
    """The model is too small to find the form of a call by itself: a grammar prescribes it."""
    async with llamacpp_server(MODEL_WINDOW) as url:
        profile = {
            "provider": "llamacpp",
            "baseUrl": f"{url}/v1",
            "model": "my-model",
            "extraBody": {"grammar": RESULT_GRAMMAR},
        }
        joey.home.mkdir()
        profiles = {"active": "own", "profiles": {"own": profile}}
        (joey.home / "profiles.json").write_text(json.dumps(profiles))
        done = await joey.run("-p", "--output-format", "json", "Say hello.", limit=240)
    assert done.code == 0, done.err
    assert 8 <= len(done.json["content"]) <= 40
    assert 1000 < done.json["usage"]["totalTokensIn"] < 2000


async def test_a_window_of_4k_is_refused_before_any_request(joey: Joey) -> None:
    async with llamacpp_server(SMALL_WINDOW) as url:
        async with scripted_proxy(ScriptedReplies(url, ()), url) as server:
            done = await joey.run(*reach("llamacpp", server), "do it")
            assert server.chats == []
        assert done.code == 78, done.err
        assert "has a window of 4,096 tokens" in done.err
        remembered = json.loads((joey.home / "served-models.json").read_text())
        ((entry,),) = (each.values() for each in remembered["models"].values())
        assert entry["said"] == {"contextWindow": 4096, "nativeTools": False, "images": False}

        http = HttpClient(environ={})
        profile = Profile(provider="llamacpp", base_url=f"{url}/v1", model="my-model")
        provider = make_provider(profile, http)
        long = Message(role="user", content="some words of a long message " * 2000)
        request = ModelRequest(system_prompt="You answer.", messages=(long,))
        with pytest.raises(ProviderError) as refusal:
            async for _ in provider.stream(request):
                pass
        await http.close()
    assert refusal.value.failure is ProviderFailureKind.CONTEXT_OVERFLOW
    assert refusal.value.context_window == SMALL_WINDOW
