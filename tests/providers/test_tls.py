from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from joey.core.messages import Message, TextChunk
from joey.core.models import ModelRequest
from joey.core.settings import Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Turn, say
from joey.testing.server import ModelServer
from tests.harness.providers.sockets import Proxy, Reader, Writer, relay_bytes, run_server

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs the openssl command to make a certificate"
)


@pytest.fixture(scope="module")
def certificate() -> Iterator[tuple[Path, Path]]:
    with TemporaryDirectory() as directory:
        key, cert = Path(directory, "key.pem"), Path(directory, "cert.pem")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", "/CN=model.test", "-keyout", str(key), "-out", str(cert)]
        command += ["-addext", "subjectAltName=DNS:model.test,DNS:localhost"]
        subprocess.run(command, check=True, capture_output=True)
        yield key, cert


@pytest.fixture
def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@pytest.fixture
def client_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[1]))


async def ask(url: str, http: HttpClient) -> str:
    profile = Profile(provider="anthropic", base_url=url, model="any", api_key="k")
    provider = make_provider(profile, http)
    request = ModelRequest("Be brief.", [Message("user", "Hello?")])
    text = ""
    async for chunk in provider.stream(request):
        if isinstance(chunk, TextChunk):
            text += chunk.text
    return text


async def test_a_model_is_reached_over_tls_and_the_connection_is_kept(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    connections = 0
    turns = [Turn(say("Hello over TLS.", chunk=2)), Turn(say("Again."))]
    async with asyncio.timeout(20), ModelServer(turns) as model:

        async def handler(reader: Reader, writer: Writer) -> None:
            nonlocal connections
            connections += 1
            await relay_bytes(reader, writer, int(model.url.rpartition(":")[2]))

        async with run_server(handler, server_tls) as port:
            http = HttpClient(environ={}, tls=client_tls)
            url = f"https://localhost:{port}"
            assert [await ask(url, http), await ask(url, http)] == ["Hello over TLS.", "Again."]
            await http.close()
    assert connections == 1


async def test_tls_goes_through_a_tunnel_of_a_proxy(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with asyncio.timeout(20), ModelServer([Turn(say("Hello there."))]) as model:

        async def handler(reader: Reader, writer: Writer) -> None:
            await relay_bytes(reader, writer, int(model.url.rpartition(":")[2]))

        async with run_server(handler, server_tls) as port:
            proxy = Proxy(port)
            async with run_server(proxy.serve) as proxy_port:
                environ = {"HTTPS_PROXY": f"http://me:secret@127.0.0.1:{proxy_port}"}
                http = HttpClient(environ=environ, tls=client_tls)
                assert await ask("https://model.test", http) == "Hello there."
                await http.close()
        assert "authorization" not in model.requests[0].headers
        assert "proxy-authorization" not in model.requests[0].headers
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in proxy.request_heads[0]


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    server_tls: ssl.SSLContext,
) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with asyncio.timeout(20), run_server(handler, server_tls) as port:
        http = HttpClient(environ={})
        with pytest.raises(ProviderError, match="not trusted") as caught:
            await ask(f"https://localhost:{port}", http)
    assert caught.value.failure is ProviderFailureKind.NETWORK
    assert "SSL_CERT_FILE" in str(caught.value)


async def test_a_certificate_for_another_name_is_refused(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with asyncio.timeout(20), run_server(handler, server_tls) as port:
        http = HttpClient(environ={}, tls=client_tls)
        with pytest.raises(ProviderError, match="not trusted"):
            await ask(f"https://127.0.0.1:{port}", http)
