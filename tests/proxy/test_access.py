"""Programs on this machine may use the proxy; web pages and strangers may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from joey.errors import ConfigError
from joey.proxy.access import AccessRefusal, ProxyAccess
from joey.proxy.exchange import Wire
from joey.proxy.http_messages import parse_request_head
from joey.proxy.routes import Routes, make_upstream
from joey.server.auth import Token
from tests.harness.proxy.proxies import OK, Proxy, answer_ok, build_request, open_proxy, send, serve

TOKEN = Token("a-token-of-this-test")


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as opened:
        yield opened


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Proxy]:
    async with (
        serve(answer_ok) as service,
        open_proxy(tmp_path, service, token=TOKEN) as opened,
    ):
        yield opened


def request_with(fields: dict[str, str], port: int) -> bytes:
    all_fields = {"Host": "localhost:PORT", "Content-Length": "0", **fields}
    lines = [f"{name}: {text}\r\n" for name, text in all_fields.items()]
    return f"POST /v1/messages HTTP/1.1\r\n{''.join(lines)}\r\n".replace("PORT", str(port)).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:PORT"},
        {"Host": "127.0.0.1.evil.example:PORT"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "null"},
        {"Origin": "file://"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
async def test_web_pages_are_refused(proxy: Proxy, fields: dict[str, str]) -> None:
    answer = await send(proxy.port, request_with(fields, proxy.port))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert proxy.list_recorded() == []


async def test_a_request_with_two_hosts_or_none_is_refused(proxy: Proxy) -> None:
    for lines in (b"", b"Host: localhost:PORT\r\nHost: localhost:PORT\r\n"):
        answer = await send(proxy.port, b"GET / HTTP/1.1\r\n" + lines + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "fields",
    [
        {"Host": "127.0.0.1:PORT"},
        {"Host": "[::1]:PORT"},
        {"Host": "localhost"},
        {"Host": "localhost:9000"},
        {"Origin": "http://localhost:5173"},
        {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_programs_and_pages_of_this_machine_are_served(
    proxy: Proxy, fields: dict[str, str]
) -> None:
    assert await send(proxy.port, request_with(fields, proxy.port), len(OK)) == OK


async def test_the_token_is_needed_in_the_path_or_a_header(guarded: Proxy) -> None:
    for request in (
        build_request(),
        build_request("/~wrong/v1/messages"),
        build_request(f"/~{TOKEN.value}x/v1/messages"),
        build_request(f"/v1/~{TOKEN.value}/messages"),
        build_request(X_Joey_Token="wrong"),
        build_request(X_Joey_Token=""),
        build_request(Authorization=f"Bearer {TOKEN.value}"),
    ):
        assert (await send(guarded.port, request)).startswith(b"HTTP/1.1 401 ")
    assert guarded.list_recorded() == []
    assert guarded.url.endswith(f"/~{TOKEN.value}")
    for request in (
        build_request(f"/~{TOKEN.value}/v1/messages"),
        build_request("/v1/messages", X_Joey_Token=TOKEN.value),
    ):
        assert await send(guarded.port, request, len(OK)) == OK
    found = await guarded.wait_for_recorded(2)
    assert {each.exchange.path for each in found} == {"/v1/messages"}


@pytest.mark.parametrize(
    ("fields", "target", "expected"),
    [
        ("Host: host.docker.internal:7801\r\n", f"/~{TOKEN.value}/v1/models", b"/v1/models"),
        ("Host: 10.0.0.5:7801\r\n", f"/~{TOKEN.value}/v1/models", b"/v1/models"),
        ("Host: evil.example\r\n", "/v1/models", AccessRefusal.NO_TOKEN),
        (
            "Host: box:7801\r\nOrigin: http://evil.example\r\n",
            f"/~{TOKEN.value}/v1/models",
            AccessRefusal.FOREIGN,
        ),
    ],
)
def test_other_machines_come_by_any_name_with_the_token(
    fields: str, target: str, expected: bytes | AccessRefusal
) -> None:
    access = ProxyAccess(TOKEN, is_remote=True)
    head = parse_request_head(f"GET {target} HTTP/1.1\r\n{fields}"[:-2].encode())
    assert access.check(head) == expected


async def test_the_token_is_neither_passed_on_nor_recorded(tmp_path: Path) -> None:
    got: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)

    async with serve(keep) as service, open_proxy(tmp_path, service, token=TOKEN) as proxy:
        await send(proxy.port, build_request(f"/~{TOKEN.value}/v1/messages"), len(OK))
        await send(proxy.port, build_request(X_Joey_Token=TOKEN.value), len(OK))
        found = await proxy.wait_for_recorded(2)
    assert not any(TOKEN.value.encode() in head for head in got)
    assert not any(TOKEN.value in str(each.exchange) for each in found)


@pytest.mark.parametrize(
    ("url", "target", "joined"),
    [
        ("http://h", "/v1/messages", "/v1/messages"),
        ("http://h/", "/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("http://h/v1", "/v1/messages", "/v1/messages"),
        ("http://h/v1/", "/v1/messages", "/v1/messages"),
        ("http://h/v1", "/v1", "/v1"),
        ("http://h/v1", "/v1?x=1", "/v1?x=1"),
        ("http://h/v1", "/v10/messages", "/v1/v10/messages"),
        ("http://h/v1", "/chat/completions", "/v1/chat/completions"),
        ("http://h/v10", "/v1/messages", "/v10/v1/messages"),
        ("http://h/api/v1", "/v1/chat/completions", "/api/v1/chat/completions"),
        ("http://h/api/v1", "/v1/v1/x", "/api/v1/v1/x"),
        ("http://h/some/path", "/v1/messages", "/some/path/v1/messages"),
    ],
)
def test_targets_are_appended_to_the_path_of_the_service(
    url: str, target: str, joined: str
) -> None:
    assert make_upstream(url, "address").join(target.encode()) == joined.encode()


@pytest.mark.parametrize("url", ["", "h", "ftp://h", "http://h?key=x", "http://h/v1?key=x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        make_upstream(url, "address")


@pytest.mark.parametrize(
    ("target", "fields", "expected"),
    [
        ("/v1/messages", "", "anthropic"),
        ("/v1/messages?beta=true", "", "anthropic"),
        ("/v1/messages/count_tokens", "", "anthropic"),
        ("/messages", "", "anthropic"),
        ("/v1/models", "anthropic-version: 2023-06-01\r\n", "anthropic"),
        ("/v1/models", "", "openai"),
        ("/v1/threads/x/messages", "", "openai"),
        ("/v1/chat/completions", "", "openai"),
        ("/v1/responses", "", "openai"),
        ("/v1/embeddings?to=/messages", "", "openai"),
        ("/@named/v1/responses", "", "named"),
        ("/@nobody/v1/responses", "", None),
    ],
)
def test_requests_find_their_service(target: str, fields: str, expected: str | None) -> None:
    upstreams = {
        name: make_upstream(f"http://{name}", "address")
        for name in ("anthropic", "openai", "named")
    }
    routes = Routes(
        {Wire.ANTHROPIC: upstreams["anthropic"], Wire.OPENAI: upstreams["openai"]},
        {"named": upstreams["named"]},
    )
    head = parse_request_head(f"POST {target} HTTP/1.1\r\n{fields}Host: a".encode())
    route = routes.find(head, head.target)
    assert (route and route.upstream) == (expected and upstreams[expected])
    if expected == "named":
        assert route is not None
        assert route.target == b"/v1/responses"
