from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from joey.core.settings import Profile
from joey.errors import ConfigError, ProviderError, ProviderFailureKind
from joey.providers.embeddings import (
    MAX_ATTEMPTS,
    MAX_BATCH_CHARS,
    MAX_BATCH_TEXTS,
    EmbeddingClient,
)
from joey.providers.http_client import HttpClient
from tests.harness.providers.sockets import Reader, Writer, read_request, run_server

PROFILE = Profile(name="vectors", provider="openai", model="embed-small", api_key="k3y-secret")

Answer = tuple[int, dict[str, str], bytes]
Answering = Callable[[dict[str, Any]], Answer]


def vectors(body: dict[str, Any]) -> Answer:
    data = [
        {"object": "embedding", "index": number, "embedding": [float(len(text)), 1]}
        for number, text in enumerate(body["input"])
    ]
    answer = {"object": "list", "data": data[::-1], "usage": {"prompt_tokens": 3}}
    return 200, {}, json.dumps(answer).encode()


class RequestLog:
    """What arrived at the server."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []


@asynccontextmanager
async def serving(
    answering: Answering = vectors,
) -> AsyncIterator[tuple[EmbeddingClient, RequestLog]]:
    desk = RequestLog()

    async def handler(reader: Reader, writer: Writer) -> None:
        while True:
            head, raw = await read_request(reader)
            desk.heads.append(head.decode())
            desk.bodies.append(json.loads(raw))
            status, headers, body = answering(desk.bodies[-1])
            lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    async with run_server(handler) as port, asyncio.timeout(20):
        profile = structs.replace(PROFILE, base_url=f"http://127.0.0.1:{port}/v1")
        embeddings = EmbeddingClient(profile, HttpClient(environ={}), first_retry_delay=0.001)
        yield embeddings, desk
        await embeddings.close()


@pytest.mark.contract("index:search")
async def test_texts_become_vectors_in_their_order() -> None:
    async with serving() as (embeddings, desk):
        assert await embeddings.embed(["a", "bcd"]) == [[1.0, 1.0], [3.0, 1.0]]
        assert embeddings.model_id.startswith("embed-small at 127.0.0.1:")
    (head,) = desk.heads
    assert head.startswith("POST /v1/embeddings HTTP/1.1\r\n")
    assert "authorization: Bearer k3y-secret\r\n" in head
    assert desk.bodies == [
        {"model": "embed-small", "input": ["a", "bcd"], "encoding_format": "float"}
    ]


@pytest.mark.contract("index:search")
async def test_many_texts_go_in_several_requests() -> None:
    texts = ["x" * number for number in range(1, 2 * MAX_BATCH_TEXTS + 2)]
    async with serving() as (embeddings, desk):
        found = await embeddings.embed(texts)
        assert await embeddings.embed([]) == []
    assert [vector[0] for vector in found] == list(range(1, 2 * MAX_BATCH_TEXTS + 2))
    assert [len(body["input"]) for body in desk.bodies] == [MAX_BATCH_TEXTS, MAX_BATCH_TEXTS, 1]


async def test_long_texts_go_in_requests_of_their_own() -> None:
    texts = ["x" * (MAX_BATCH_CHARS - 10), "y" * 20, "z" * (MAX_BATCH_CHARS * 2)]
    async with serving() as (embeddings, desk):
        assert len(await embeddings.embed(texts)) == 3
    assert [len(body["input"]) for body in desk.bodies] == [1, 1, 1]


@pytest.mark.contract("index:search")
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_transient_errors_are_waited_out(status: int) -> None:
    left = 2

    def answering(body: dict[str, Any]) -> Answer:
        nonlocal left
        left -= 1
        return vectors(body) if left < 0 else (status, {"retry-after-ms": "1"}, b"{}")

    async with serving(answering) as (embeddings, desk):
        assert await embeddings.embed(["a"]) == [[1.0, 1.0]]
    assert len(desk.bodies) == 3


@pytest.mark.contract("index:search")
@pytest.mark.parametrize(
    ("answer", "expected_failure", "attempts"),
    [
        ((503, {}, b"{}"), ProviderFailureKind.OVERLOAD, MAX_ATTEMPTS),
        ((429, {"retry-after": "3600"}, b"{}"), ProviderFailureKind.RATE_LIMIT, 1),
        ((401, {}, b'{"error": {"message": "bad key k3y-secret"}}'), ProviderFailureKind.AUTH, 1),
        ((404, {}, b"{}"), ProviderFailureKind.NOT_FOUND, 1),
        (
            (400, {}, b'{"error": {"message": "input is too long"}}'),
            ProviderFailureKind.CONTEXT_OVERFLOW,
            1,
        ),
        ((200, {}, b"not json"), ProviderFailureKind.MALFORMED_STREAM, 1),
        ((200, {}, b'{"data": [{"embedding": ["a"]}]}'), ProviderFailureKind.MALFORMED_STREAM, 1),
        ((200, {}, b'{"data": []}'), ProviderFailureKind.MALFORMED_STREAM, 1),
    ],
)
async def test_other_errors_are_reported(
    answer: Answer, expected_failure: ProviderFailureKind, attempts: int
) -> None:
    async with serving(lambda body: answer) as (embeddings, desk):
        with pytest.raises(ProviderError) as caught:
            await embeddings.embed(["a"])
    assert caught.value.failure is expected_failure
    assert "k3y-secret" not in str(caught.value)
    assert len(desk.bodies) == attempts


@pytest.mark.contract("index:search")
async def test_nobody_there_is_reported_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    profile = structs.replace(PROFILE, base_url=url)
    embeddings = EmbeddingClient(profile, HttpClient(environ={}), first_retry_delay=3600)
    async with asyncio.timeout(20):
        with pytest.raises(ProviderError):
            await embeddings.embed(["a"])
    await embeddings.close()


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (structs.replace(PROFILE, provider="anthropic"), "anthropic makes none"),
        (structs.replace(PROFILE, model=""), "names no model"),
        (structs.replace(PROFILE, base_url="ftp://x"), "base URL"),
    ],
)
def test_a_profile_that_cannot_make_vectors_is_refused(profile: Profile, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        EmbeddingClient(profile, HttpClient(environ={}))
