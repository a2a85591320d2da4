"""What breaks on either side of the proxy reaches the other side as it is, and is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import ssl
import struct
import subprocess
import threading
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from joey.proxy.exchange import ExchangeState, Wire
from tests.harness.counts import daily
from tests.harness.proxy.proxies import (
    OK,
    answer_ok,
    build_request,
    close,
    list_names,
    open_proxy,
    read_request,
    send,
    serve,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def test_an_unreachable_service_is_a_502_that_names_it(tmp_path: Path) -> None:
    port = find_free_port()
    async with open_proxy(tmp_path, f"http://127.0.0.1:{port}") as proxy:
        answer = await send(proxy.port, build_request(body=b'{"model": "m"}'))
        head, _, body = answer.partition(b"\r\n\r\n")
        message = json.loads(body)["error"]["message"]
        assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        assert f"127.0.0.1:{port}" in message
        ((exchange, request, response),) = await proxy.wait_for_recorded()
    assert (exchange.status, exchange.state) == (502, ExchangeState.UNREACHABLE)
    assert exchange.error == message
    assert (request, response) == (b'{"model": "m"}', body)


async def test_the_request_of_an_unreachable_service_is_recorded_whole(tmp_path: Path) -> None:
    body = b'{"messages": [' + b'"x",' * 500_000 + b'""]}'
    async with open_proxy(tmp_path, f"http://127.0.0.1:{find_free_port()}") as proxy:
        answer = await send(proxy.port, build_request(body=body))
        assert answer.startswith(b"HTTP/1.1 502 ")
        ((exchange, request, _),) = await proxy.wait_for_recorded()
    assert (request, exchange.request_bytes) == (body, len(body))
    assert exchange.state is ExchangeState.UNREACHABLE


async def test_a_host_that_cannot_be_a_name_is_a_502(tmp_path: Path) -> None:
    async with open_proxy(tmp_path, f"http://{'a' * 70}.localhost") as proxy:
        assert (await send(proxy.port, build_request())).startswith(b"HTTP/1.1 502 ")
        ((exchange, *_),) = await proxy.wait_for_recorded()
    assert exchange.state is ExchangeState.UNREACHABLE


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(path.with_name("key.pem")), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    return path


@asynccontextmanager
async def serve_tls(certificate: Path) -> AsyncIterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    server = await asyncio.start_server(answer_ok, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


async def test_a_certificate_that_is_not_trusted_is_a_502(
    tmp_path: Path, certificate: Path
) -> None:
    async with serve_tls(certificate) as service, open_proxy(tmp_path, service) as proxy:
        answer = await send(proxy.port, build_request())
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"is not trusted" in answer
        ((exchange, *_),) = await proxy.wait_for_recorded()
    assert (exchange.status, exchange.state) == (502, ExchangeState.UNREACHABLE)


async def test_a_service_that_does_not_speak_tls_is_a_502(tmp_path: Path) -> None:
    async def answer_in_plain_text(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.read(1)
        writer.write(OK)

    async with (
        serve(answer_in_plain_text) as service,
        open_proxy(tmp_path, service.replace("http:", "https:")) as proxy,
    ):
        assert (await send(proxy.port, build_request())).startswith(b"HTTP/1.1 502 ")
        ((exchange, *_),) = await proxy.wait_for_recorded()
    assert exchange.state is ExchangeState.UNREACHABLE


async def test_tls_services_are_reached(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serve_tls(certificate) as service, open_proxy(tmp_path, service) as proxy:
        assert await send(proxy.port, build_request(), len(OK)) == OK
        ((exchange, _, response),) = await proxy.wait_for_recorded()
    assert (exchange.state, response) == (ExchangeState.DONE, b"ok")


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_client_that_leaves_ends_the_request(tmp_path: Path, has_begun: bool) -> None:
    ended = asyncio.Event()
    arrived = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if has_begun:
            writer.write(CHUNKED + b"5\r\nhello\r\n")
        arrived.set()
        assert await reader.read() == b""
        ended.set()

    async with serve(stream) as service, open_proxy(tmp_path, service) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(build_request().replace(b"PORT", b"%d" % proxy.port))
        await arrived.wait()
        if has_begun:
            await reader.readuntil(b"hello\r\n")
        await close(writer)
        await ended.wait()
        ((exchange, _, response),) = await proxy.wait_for_recorded()
    assert exchange.state is ExchangeState.CUT_CLIENT
    assert response == (b"hello" if has_begun else b"")


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("head", [CHUNKED, b"HTTP/1.1 200 OK\r\n\r\n", OK.replace(b": 2", b": 99")])
async def test_the_client_sees_the_cut_of_the_service(
    tmp_path: Path, head: bytes, is_reset: bool
) -> None:
    first = b"5\r\nhello\r\n" if head == CHUNKED else b"hello"

    has_arrived = asyncio.Event()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head + first)
        if is_reset:
            await has_arrived.wait()
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()

    async with serve(cut) as service, open_proxy(tmp_path, service) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(build_request(body=b"{}").replace(b"PORT", b"%d" % proxy.port))
        assert await reader.readexactly(len(head + first)) == head + first
        if is_reset:
            has_arrived.set()
            with pytest.raises(ConnectionResetError):
                await reader.read()
        else:
            assert await reader.read() == b""
        await close(writer)
        exchange, _, response = (await proxy.wait_for_recorded())[0]
    ends_cleanly = not is_reset and b"Length" not in head and head != CHUNKED
    assert exchange.state is (ExchangeState.DONE if ends_cleanly else ExchangeState.CUT_UPSTREAM)
    assert response.endswith(b"hello")


async def send_until_answered(port: int, request: bytes, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    got = b""
    with socket.socket() as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        sending = loop.create_task(loop.sock_sendall(connection, request))
        while len(got) < size and (data := await loop.sock_recv(connection, size)):
            got += data
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return got


async def test_an_early_refusal_of_a_large_request_arrives(tmp_path: Path) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await writer.drain()
        writer.transport.close()  # with most of the request unread

    async with serve(refuse) as service, open_proxy(tmp_path, service) as proxy:
        request = build_request(body=b"x" * 30_000_000).replace(b"PORT", b"%d" % proxy.port)
        assert await send_until_answered(proxy.port, request, len(refusal)) == refusal
        ((exchange, _, response),) = await proxy.wait_for_recorded()
    assert (exchange.status, response) == (413, b"big")


BIG = daily(24, 100) * 1_000_000
BLOCK = b'"' + b"x" * 65_533 + b'",'
MAX_GROWTH = 12_000_000


@pytest.mark.shortened
async def test_large_bodies_are_never_whole_in_memory(tmp_path: Path) -> None:
    blocks = BIG // len(BLOCK)
    got = 0

    async def echo_size(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        await reader.readuntil(b"\r\n\r\n")
        while got < blocks * len(BLOCK) + 3:
            got += len(await reader.read(1 << 16))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (blocks * len(BLOCK)))
        for _ in range(blocks):
            writer.write(BLOCK)
            await writer.drain()

    async with serve(echo_size) as service, open_proxy(tmp_path, service) as proxy:
        tracemalloc.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            head = build_request().replace(b"Length: 0", b"Length: %d" % (blocks * len(BLOCK) + 3))
            writer.write(head.replace(b"PORT", b"%d" % proxy.port) + b"[")
            for _ in range(blocks):
                writer.write(BLOCK)
                await writer.drain()
            writer.write(b"0]")
            await reader.readuntil(b"\r\n\r\n")
            left = blocks * len(BLOCK)
            while left:
                left -= len(await reader.read(1 << 16))
            await close(writer)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MAX_GROWTH
        await asyncio.to_thread(proxy.recorder.close)
        ((exchange, request, response),) = proxy.list_recorded()
    assert exchange.state is ExchangeState.DONE
    assert request == b"[" + BLOCK * blocks + b"0]"
    assert response == BLOCK * blocks


async def test_many_connections_need_no_threads(tmp_path: Path) -> None:
    count = 500
    waiting = asyncio.Event()
    arrived = 0
    answered = asyncio.Event()

    async def wait_for_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        await read_request(reader)
        arrived += 1
        if arrived == count:
            waiting.set()
        await answered.wait()
        writer.write(OK)
        await writer.drain()

    async with serve(wait_for_all) as service, open_proxy(tmp_path, service) as proxy:
        clients = [
            asyncio.create_task(send(proxy.port, build_request(body=b"%d" % number), len(OK)))
            for number in range(count)
        ]
        await waiting.wait()
        assert threading.active_count() < 50
        answered.set()
        assert set(await asyncio.gather(*clients)) == {OK}
        found = await proxy.wait_for_recorded(count)
    assert sorted(int(each.request) for each in found) == list(range(count))


async def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    """The limit on the size of files is the system's way to say no, without a disk to fill."""
    body = b'{"a": "' + b"x" * 3_000_000 + b'"}'
    got: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            got.append((await read_request(reader))[1])
            writer.write(OK)

    async with serve(collect) as service, open_proxy(tmp_path, service) as proxy:
        await send(proxy.port, build_request(body=b"before"), len(OK))
        await proxy.wait_for_recorded()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
        try:
            for sent in (body, b"after", body):
                assert await send(proxy.port, build_request(body=sent), len(OK)) == OK
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert got == [b"before", body, b"after", body]
        assert len(proxy.failures) == 1
        assert "cannot be written" in proxy.failures[0]
    before, cut = proxy.list_recorded()
    assert before.request == b"before"
    assert body.startswith(cut.request)
    assert cut.exchange.state is ExchangeState.CUT_KILLED


async def test_two_proxies_share_a_book(tmp_path: Path) -> None:
    async with (
        serve(answer_ok) as service,
        open_proxy(tmp_path, service) as one,
        open_proxy(tmp_path, service) as other,
    ):
        for number in range(20):
            for proxy in (one, other):
                body = b"%d %d" % (number, proxy.port)
                await send(proxy.port, build_request(body=body), len(OK))
        found = await one.wait_for_recorded(40)
    assert len(found) == len({each.request for each in found}) == 40
    assert list_names(tmp_path / "book.sqlite-spool") == []


async def test_a_request_that_is_no_json_is_kept_as_it_is(tmp_path: Path) -> None:
    body = os.urandom(5000) + b'"key":"x"'
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as proxy:
        await send(proxy.port, build_request(body=body), len(OK))
        ((exchange, request, _),) = await proxy.wait_for_recorded()
    assert (request, exchange.wire) == (body, Wire.ANTHROPIC)


async def test_a_reset_between_two_requests_is_passed_on(tmp_path: Path) -> None:
    has_arrived = asyncio.Event()

    async def answer_and_reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_ok(reader, writer)
        await has_arrived.wait()
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()

    async with serve(answer_and_reset) as service, open_proxy(tmp_path, service) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(build_request(body=b"{}").replace(b"PORT", b"%d" % proxy.port))
        assert await reader.readexactly(len(OK)) == OK
        has_arrived.set()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await close(writer)
        ((exchange, *_),) = await proxy.wait_for_recorded()
    assert exchange.state is ExchangeState.DONE


@pytest.mark.parametrize("second", ["gzip", "identity, br"])
async def test_a_compressed_request_is_counted_and_not_kept(tmp_path: Path, second: str) -> None:
    fields = f"identity\r\nContent-Encoding: {second}"
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as proxy:
        await send(proxy.port, build_request(body=b"key=x", Content_Encoding=fields), len(OK))
        ((exchange, request, _),) = await proxy.wait_for_recorded()
    assert (request, exchange.request_bytes) == (b"", 5)


@pytest.mark.parametrize("size", [270_000, 300_000, 3_000_000])
async def test_a_head_of_300_kb_is_refused(tmp_path: Path, size: int) -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("the service gets nothing")

    async with serve(never) as service, open_proxy(tmp_path, service) as proxy:
        answer = await send(proxy.port, build_request(X_Long="x" * size))
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost:PORT\r\n\r\n",
        b"CONNECT a:443 HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
        build_request(Transfer_Encoding="chunked"),
        b"POST / HTTP/1.1\r\nHost: localhost:PORT\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
async def test_a_request_that_cannot_be_passed_on_is_refused(tmp_path: Path, data: bytes) -> None:
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as proxy:
        assert (await send(proxy.port, data)).startswith(b"HTTP/1.1 400 ")


async def test_a_body_waits_for_its_100_continue(tmp_path: Path) -> None:
    async def ask_for_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Expect: 100-continue" in head
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(OK)
        await writer.drain()

    async with serve(ask_for_body) as service, open_proxy(tmp_path, service) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        whole = build_request(body=b"body", Expect="100-continue")
        writer.write(whole.removesuffix(b"body").replace(b"PORT", b"%d" % proxy.port))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"body")
        assert await reader.readexactly(len(OK)) == OK
        await close(writer)
        ((exchange, request, response),) = await proxy.wait_for_recorded()
    assert (exchange.status, request, response) == (200, b"body", b"ok")


async def test_a_websocket_upgrade_becomes_a_tunnel(tmp_path: Path) -> None:
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(switching + b"hello")
        while data := await reader.read(100):
            writer.write(data.upper())

    async with serve(echo) as service, open_proxy(tmp_path, service) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        request = build_request("/v1/responses", method="GET", Upgrade="websocket")
        writer.write(request.replace(b"PORT", b"%d" % proxy.port) + b"early")
        assert await reader.readexactly(len(switching) + 10) == switching + b"helloEARLY"
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
        writer.write_eof()
        assert await reader.read() == b""
        await close(writer)
        ((exchange, _, response),) = await proxy.wait_for_recorded()
    assert (exchange.status, exchange.state) == (101, ExchangeState.DONE)
    assert response == b"helloEARLYGET / HTTP/1.1\r\n\r\n"
