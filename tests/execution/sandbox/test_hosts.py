"""Which hosts are meant by a list, and what the proxy makes of requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.config.settings import load_settings
from joey.core.permissions.hosts import (
    AllowedHost,
    NetworkSetting,
    intersect_hosts,
    is_public_address,
    normalize_host,
    parse_address,
    parse_host,
)
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.execution.sandbox.network_proxy import (
    BadProxyRequestError,
    HostProxy,
    HostResolver,
    ProxyEndpoint,
    UpstreamProxy,
    find_upstream_proxy,
    parse_request,
)

LABELS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
NAMES = (
    st.lists(LABELS, min_size=2, max_size=4)
    .map(".".join)
    .filter(lambda name: normalize_host(name) == name and parse_address(name) is None)
)


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("packages.example", "packages.example", 443, True),
        ("packages.example", "packages.example", 80, True),
        ("packages.example", "packages.example", 22, False),
        ("Packages.Example.", "packages.example", 443, True),
        ("packages.example", "evilpackages.example", 443, False),
        ("packages.example", "packages.example.evil.example", 443, False),
        ("packages.example", "files.packages.example", 443, False),
        ("*.mirror.example", "registry.mirror.example", 443, True),
        ("*.mirror.example", "a.b.mirror.example", 443, True),
        ("*.mirror.example", "mirror.example", 443, False),
        ("*.mirror.example", "evilmirror.example", 443, False),
        ("localhost:8080", "localhost", 8080, True),
        ("localhost:8080", "localhost", 80, False),
        ("localhost:8080", "127.0.0.1", 8080, False),
        ("127.0.0.1", "127.0.0.1", 80, True),
        ("[::1]:9", "::1", 9, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
    ],
)
@pytest.mark.contract("sandbox:network")
def test_a_host_is_compared_part_by_part(entry: str, host: str, port: int, allowed: bool) -> None:
    assert parse_host(entry).allows(host, port) is allowed


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "*.com", "http://x.example", "a b", "127.1", "0x7f.1", "2130706433", "a..b"),
        *("x.example:99999", "x.example:0", "x.example:", "straße.example", "[::ffff:127.0.0.1]"),
        *("-a.example", "*.*.a.b", "fe80::1%eth0", "a\nb.example", "a/../b", "u@h.x"),
    ],
)
def test_an_entry_that_is_no_host_is_named_in_the_error(entry: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sandboxNetwork"):
        Settings(sandbox_network=(entry,))
    (tmp_path / "settings.json").write_text('{"sandboxNetwork": ["packages.example", "a b"]}')
    with pytest.raises(ConfigError, match=r"`a b` in `sandboxNetwork`"):
        load_settings(tmp_path)


@given(NAMES, NAMES, st.integers(1, 65535))
def test_only_the_host_itself_is_allowed(listed: str, asked: str, port: int) -> None:
    assert parse_host(listed).allows(asked, port) is (listed == asked and port in (80, 443))
    below = parse_host(f"*.{listed}")
    assert below.allows(f"x.{listed}", 443)
    assert not below.allows(listed, 443)
    assert not below.allows(f"x{listed}", 443)


@given(st.text(max_size=40))
def test_a_host_has_one_spelling(text: str) -> None:
    found = normalize_host(text)
    assert found is None or normalize_host(found) == found


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "::1", "fe80::1", "fd00:ec2::254", "ff02::1"),
        *("::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1"),
    ],
)
def test_addresses_of_this_machine_and_of_private_nets_are_not_public(address: str) -> None:
    assert not is_public_address(ip_address(address))


@pytest.mark.parametrize(
    ("own", "requested", "both"),
    [
        ("off", ("a.example",), "off"),
        ("all", ("a.example",), ("a.example",)),
        (("a.example",), "off", "off"),
        (("a.example", "b.example"), ("b.example", "c.example"), ("b.example",)),
        (("*.a.example",), ("x.a.example",), ("x.a.example",)),
        (("x.a.example:8080",), ("*.a.example",), "off"),
        (("x.a.example:80",), ("*.a.example",), ("x.a.example:80",)),
        ("all", "registries", "registries"),
        ("registries", "registries", "registries"),
        ("registries", ("a.example",), "off"),
        (("a.example",), "registries", "off"),
        (("registries", "a.example"), ("a.example", "b.example"), ("a.example",)),
        (("registries", "a.example"), "registries", "registries"),
    ],
)
def test_a_project_can_only_take_away(
    own: NetworkSetting, requested: NetworkSetting, both: NetworkSetting
) -> None:
    assert intersect_hosts(own, requested) == both


@given(st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3), NAMES)
def test_what_two_lists_allow_together_both_allow(
    own: list[str], requested: list[str], host: str
) -> None:
    both = intersect_hosts(tuple(own), tuple(requested))
    for each in () if isinstance(both, str) else both:
        for others in (own, requested):
            assert any(parse_host(other).covers(parse_host(each)) for other in others)


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET https://a.example/ HTTP/1.1",
        "GET http://a.example@evil.example/ HTTP/1.1",
        "GET http://a.example\\.evil.example/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "CONNECT a.example HTTP/1.1",
        "CONNECT a.example:0 HTTP/1.1",
        "CONNECT a.example:443:80 HTTP/1.1",
        "CONNECT ::1:443 HTTP/1.1",
        "CONNECT 127.1:443 HTTP/1.1",
        "CONNECT a.example:443 HTTP/2",
        "CONNECT a.example:443 HTTP/1.1\r\n folded: x",
        "CONNECT a.example:443 HTTP/1.1\nHost: x",
        "connect a.example:443 HTTP/1.1",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(head: str) -> None:
    with pytest.raises(BadProxyRequestError):
        parse_request(f"{head}\r\n\r\n".encode())


def test_the_host_of_the_address_counts_and_not_that_of_the_header() -> None:
    headers = b"Host: evil.example\r\nProxy-Authorization: z\r\nA: b\r\n\r\n"
    request = parse_request(b"GET http://A.Example./x?y HTTP/1.1\r\n" + headers)
    assert (request.host, request.port) == ("a.example", 80)
    expected = b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nA: b\r\n\r\n"
    assert request.forwarded_head == expected


class Site:
    """A server on loopback that says what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    found = Site()
    server = await asyncio.start_server(found, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


@asynccontextmanager
async def opened(proxy: HostProxy) -> AsyncIterator[tuple[ProxyEndpoint, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    door = await proxy.start_endpoint(listening)
    yield door, listening.getsockname()[1]
    door.close()
    await door.server.wait_closed()


async def ask(port: int, head: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n".encode())
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


async def nowhere(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} need not be looked up")


async def unknown(host: str, port: int) -> Sequence[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def empty(host: str, port: int) -> Sequence[str]:
    return []


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


async def here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.contract("sandbox:network")
async def test_a_listed_host_is_reached_in_both_ways() -> None:
    async with site() as found:
        hosts = [AllowedHost("localhost", found.port)]
        async with opened(HostProxy(hosts, nowhere)) as (door, port):
            plain = await ask(port, f"GET http://localhost:{found.port}/a HTTP/1.1")
            tunnel = f"CONNECT LOCALHOST:{found.port} HTTP/1.1\r\n\r\nGET /b HTTP/1.1"
            through = await ask(port, tunnel)
            assert door.take_denial_messages() == []
    assert plain.endswith(b"hello")
    assert through.startswith(b"HTTP/1.1 200")
    assert through.endswith(b"hello")
    assert [each.split(b" ")[1] for each in found.asked] == [b"/a", b"/b"]


@pytest.mark.contract("sandbox:network")
async def test_a_door_is_closed_when_its_command_is_given_up_while_it_opens() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    opening = asyncio.ensure_future(HostProxy([], nowhere).start_endpoint(listening))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert listening.fileno() < 0


async def test_others_are_refused_with_the_setting_and_reported_once() -> None:
    async with (
        site() as found,
        opened(HostProxy([AllowedHost("a.example")], nowhere)) as (door, port),
    ):
        for _ in range(2):
            answer = await ask(port, f"CONNECT localhost:{found.port} HTTP/1.1")
        other = await ask(port, "GET http://evil.example/ HTTP/1.1")
        strange = await ask(port, "GET / HTTP/1.1")
        assert door.take_denial_messages() == [
            f"network: refused localhost:{found.port}: it is not in sandboxNetwork",
            "network: refused evil.example: it is not in sandboxNetwork",
        ]
        assert door.take_denial_messages() == []
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"sandboxNetwork" in answer
    assert other.startswith(b"HTTP/1.1 403")
    assert strange.startswith(b"HTTP/1.1 400")
    assert found.asked == []


@pytest.mark.contract("sandbox:network")
async def test_a_name_that_leads_to_this_machine_is_refused_unless_its_address_is_listed() -> None:
    async with site() as found:
        name = AllowedHost("rebound.example", found.port)
        line = f"GET http://rebound.example:{found.port}/ HTTP/1.1"
        async with opened(HostProxy([name], here)) as (door, port):
            refused = await ask(port, line)
            (note,) = door.take_denial_messages()
        reason = (
            f"refused rebound.example:{found.port}: it leads to 127.0.0.1, which is not a public"
            f" address (list 127.0.0.1:{found.port} in sandboxNetwork to allow it)"
        )
        assert refused.startswith(b"HTTP/1.1 403")
        assert reason in refused.decode()
        assert note == f"network: {reason}"
        both = [name, AllowedHost("127.0.0.1", found.port)]
        async with opened(HostProxy(both, here)) as (_, port):
            assert (await ask(port, line)).endswith(b"hello")
    assert len(found.asked) == 1


REASONS: list[tuple[HostResolver, str, int, str]] = [
    (nowhere, "b.example", 443, "refused b.example: it is not in sandboxNetwork"),
    (
        nowhere,
        "a.example",
        22,
        "refused a.example:22: sandboxNetwork has this host, but not with this port"
        " (list a.example:22 to allow it)",
    ),
    (
        nowhere,
        "localhost",
        8000,
        "refused localhost:8000: sandboxNetwork has this host, but not with this port"
        " (list localhost:8000 to allow it)",
    ),
    (unknown, "a.example", 443, "a.example was not found: Name or service not known"),
    (empty, "a.example", 443, "a.example was not found: it has no address"),
]


@pytest.mark.parametrize(("resolve", "host", "port", "reason"), REASONS)
async def test_the_reason_is_in_the_answer_and_in_the_note(
    resolve: HostResolver, host: str, port: int, reason: str
) -> None:
    proxy = HostProxy([AllowedHost("a.example"), AllowedHost("localhost", 8099)], resolve)
    async with opened(proxy) as (door, here):
        answer = (await ask(here, f"CONNECT {host}:{port} HTTP/1.1")).decode()
        assert door.take_denial_messages() == [f"network: {reason}"]
    assert f"joey: {reason}" in answer
    assert answer.startswith("HTTP/1.1 403" if "refused" in reason else "HTTP/1.1 502")


async def test_a_host_that_does_not_answer_is_reported_as_not_reached(closed_port: int) -> None:
    proxy = HostProxy([AllowedHost("localhost", closed_port)], nowhere)
    async with opened(proxy) as (door, port):
        answer = (await ask(port, f"CONNECT localhost:{closed_port} HTTP/1.1")).decode()
        (note,) = door.take_denial_messages()
    assert answer.startswith("HTTP/1.1 502")
    assert note.startswith(f"network: localhost:{closed_port} was not reached: ")
    assert note.removeprefix("network: ") in answer


async def test_a_proxy_of_the_users_own_is_used_and_gets_its_password() -> None:
    async with site() as found:
        upstream = find_upstream_proxy({"HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{found.port}"})
        assert upstream == UpstreamProxy("127.0.0.1", found.port, "me:p@ss")
        async with opened(HostProxy([AllowedHost("far.example")], nowhere, upstream)) as (_, port):
            answer = await ask(port, "CONNECT far.example:443 HTTP/1.1")
            refused = await ask(port, "CONNECT evil.example:443 HTTP/1.1")
    assert answer.endswith(b"hello")
    assert refused.startswith(b"HTTP/1.1 403")
    (head,) = found.asked
    assert head.startswith(b"CONNECT far.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in head


async def test_a_head_without_end_and_a_crowd_are_turned_away() -> None:
    async with site() as found, opened(HostProxy([AllowedHost("localhost")], nowhere)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET http://localhost/ HTTP/1.1\r\nA: " + b"x" * 200_000)
        async with asyncio.timeout(10):
            assert (await reader.read(12)) == b"HTTP/1.1 400"
        writer.close()
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(64)]
        answer = await ask(port, f"CONNECT localhost:{found.port} HTTP/1.1")
        for _, each in crowd:
            each.close()
    assert answer.startswith(b"HTTP/1.1 503")


def test_programs_are_given_the_proxy_and_reach_themselves_without() -> None:
    hosts = [parse_host("packages.example"), parse_host("localhost:8080")]
    env = HostProxy(hosts, nowhere).environment
    assert env["HTTPS_PROXY"] == env["http_proxy"] == env["npm_config_proxy"]
    assert env["NO_PROXY"] == env["no_proxy"] == "127.0.0.1,::1"
