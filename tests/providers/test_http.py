from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.http_client import HttpClient
from joey.providers.http_connection import describe_connection_failure, parse_url
from tests.harness.providers.sockets import (
    OK_RESPONSE,
    Proxy,
    Reader,
    Writer,
    read_request,
    run_server,
)


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient(environ={}, connect_timeout=5)
    async with asyncio.timeout(60):
        yield client
    await client.close()


async def fetch(http: HttpClient, port: int, body: bytes = b"{}") -> bytes:
    async with await http.post(
        f"http://127.0.0.1:{port}/path", {"X-Name": "v"}, [body]
    ) as response:
        return await response.read_all(1 << 20)


async def test_a_request_states_host_length_and_headers(http: HttpClient) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def handler(reader: Reader, writer: Writer) -> None:
        seen.append(await read_request(reader))
        writer.write(OK_RESPONSE)

    async with run_server(handler) as port:
        assert await fetch(http, port, b'{"a":1}') == b"ok"
    head, body = seen[0]
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /path HTTP/1.1"
    assert {f"host: 127.0.0.1:{port}", "content-length: 7", "x-name: v"} < set(lines)
    assert "accept-encoding: identity" in lines
    assert body == b'{"a":1}'


async def test_a_connection_is_used_again(http: HttpClient) -> None:
    connections = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(OK_RESPONSE)

    async with run_server(handler) as port:
        for _ in range(3):
            assert await fetch(http, port) == b"ok"
        await http.close()
    assert connections == 1


async def test_a_server_that_wants_to_close_is_left_in_peace(http: HttpClient) -> None:
    connections = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(OK_RESPONSE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

    async with run_server(handler) as port:
        assert [await fetch(http, port) for _ in range(2)] == [b"ok", b"ok"]
    assert connections == 2


async def test_a_kept_connection_that_died_is_replaced_without_a_word(http: HttpClient) -> None:
    requests: list[int] = []

    async def handler(reader: Reader, writer: Writer) -> None:
        number = len(requests)
        await read_request(reader)
        requests.append(number)
        writer.write(OK_RESPONSE)
        await reader.readuntil(b"\r\n\r\n")  # the next request gets no answer

    async with run_server(handler) as port:
        assert await fetch(http, port) == b"ok"
        assert await fetch(http, port) == b"ok"
        await http.close()
    assert len(requests) == 2


async def test_a_request_is_not_repeated_once_its_answer_has_begun(http: HttpClient) -> None:
    connections = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(OK_RESPONSE)
        await read_request(reader)
        writer.write(b"HTTP/1.1 2")

    async with run_server(handler) as port:
        assert await fetch(http, port) == b"ok"
        with pytest.raises(ProviderError, match="middle of the answer") as caught:
            await fetch(http, port)
    assert caught.value.failure is ProviderFailureKind.NETWORK
    assert connections == 1


@pytest.mark.contract("services:errors")
async def test_a_connection_that_ends_before_an_answer_is_an_error(http: HttpClient) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)

    async with run_server(handler) as port:
        with pytest.raises(ProviderError, match=f"127.0.0.1:{port} closed") as caught:
            await fetch(http, port)
    assert caught.value.failure is ProviderFailureKind.NETWORK


async def test_a_refused_connection_names_the_address(http: HttpClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ProviderError, match=f"127.0.0.1:{port}.*refused") as caught:
            await fetch(http, port)
        with pytest.raises(ProviderError, match=f"localhost:{port}.*refused"):
            await http.post(f"http://localhost:{port}/", {}, [b""])
    assert caught.value.failure is ProviderFailureKind.NETWORK


async def test_a_server_of_another_kind_is_distinguished(http: HttpClient) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await reader.read()

    async with run_server(handler) as port:
        with pytest.raises(ProviderError, match="does not answer in HTTP") as caught:
            await fetch(http, port)
    assert caught.value.failure is ProviderFailureKind.MALFORMED_STREAM


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", OK_RESPONSE[:-1]])
async def test_silence_for_too_long_is_an_error(http: HttpClient, sent: bytes) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        writer.write(sent)
        await reader.read()

    async with run_server(handler) as port:
        with pytest.raises(ProviderError, match=r"sent nothing for 0\.05 seconds") as caught:
            async with await http.post(
                f"http://127.0.0.1:{port}/", {}, [b""], read_timeout=0.05
            ) as response:
                await response.read_all(100)
    assert caught.value.failure is ProviderFailureKind.NETWORK


async def test_a_slow_reader_is_not_taken_for_a_silent_server(http: HttpClient) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK_RESPONSE[:-1])
        await read_request(reader)

    async with run_server(handler) as port:
        response = await http.post(f"http://127.0.0.1:{port}/", {}, [b""], read_timeout=0.5)
        async with response:
            await asyncio.sleep(0.75)  # longer than the silence, spent on something else
            assert await response.read() == b"o"


@pytest.mark.contract("services:streams")
async def test_closing_a_response_closes_its_socket(http: HttpClient) -> None:
    gone = asyncio.Event()

    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(OK_RESPONSE[:-1])
        try:
            await reader.read()
        finally:
            gone.set()

    async with run_server(handler) as port:
        response = await http.post(f"http://127.0.0.1:{port}/", {}, [b""])
        assert await response.read() == b"o"
        response.close()
        await gone.wait()
        assert await response.read() == b""


@pytest.mark.contract("services:streams")
async def test_cancelling_a_request_that_waits_for_its_answer_closes_its_socket(
    http: HttpClient,
) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        arrived.set()
        try:
            await reader.read()
        finally:
            gone.set()

    async with run_server(handler) as port:
        request = asyncio.create_task(fetch(http, port))
        await arrived.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await gone.wait()


async def test_a_big_body_is_read_whole_while_the_sender_waits(http: HttpClient) -> None:
    size = 8 * 1024 * 1024

    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()

    async with run_server(handler) as port:
        response = await http.post(f"http://127.0.0.1:{port}/", {}, [b""])
        async with response:
            assert len(await response.read_all(2 * size)) == size


async def test_a_header_cannot_smuggle_another_and_its_value_stays_secret(
    http: HttpClient,
) -> None:
    with pytest.raises(ProviderError, match="authorization") as caught:
        await http.post("http://127.0.0.1:1/", {"Authorization": "Bearer k3y\nX: y"}, [b""])
    assert "k3y" not in str(caught.value)


async def test_plain_requests_go_through_a_proxy_with_the_whole_address() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        while True:
            head, _ = await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(head), head))

    async with asyncio.timeout(60), run_server(handler) as port:
        proxy = Proxy(port)
        async with run_server(proxy.serve) as proxy_port:
            environ = {"HTTP_PROXY": f"http://me:secret@127.0.0.1:{proxy_port}"}
            http = HttpClient(environ=environ)
            async with await http.post("http://model.test/v1/messages", {}, [b""]) as response:
                assert b"host: model.test\r\n" in await response.read_all(1000)
            await http.close()
    assert proxy.request_heads[0].startswith(b"POST http://model.test/v1/messages HTTP/1.1\r\n")
    assert b"proxy-authorization: Basic bWU6c2VjcmV0\r\n" in proxy.request_heads[0]


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "407.*user"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused to connect to model.test:443"),
        (b"", "proxy closed the connection"),
        (b"220 mail.test ESMTP\r\n\r\n", "does not respond like a proxy"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named(refusal: bytes, text: str) -> None:
    proxy = Proxy(0, refusal)
    async with asyncio.timeout(60), run_server(proxy.serve) as port:
        http = HttpClient(environ={"HTTPS_PROXY": f"http://127.0.0.1:{port}"})
        with pytest.raises(ProviderError, match=text) as caught:
            await http.post("https://model.test/", {}, [b""])
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert caught.value.failure is ProviderFailureKind.NETWORK
    assert proxy.request_heads[0].startswith(b"CONNECT model.test:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "No connection to model.test:443 within 10 seconds"),
        (socket.gaierror(-2, "Name or service not known"), "no host named 'model.test'"),
        (ConnectionRefusedError(111, "refused"), "Nothing answers at model.test:443"),
        (OSError("Multiple exceptions: [Errno 111] a, [Errno 111] b"), "refused"),
        (OSError(113, "No route to host"), "No route to host"),
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), "SSL_CERT_FILE"),
    ],
)
def test_every_failure_to_connect_has_a_message_of_its_own(error: OSError, text: str) -> None:
    assert text in describe_connection_failure(error, parse_url("https://model.test"), 10)
