"""Commands that may reach some hosts, in the real sandbox."""

from __future__ import annotations

import pytest

from joey.core.settings import Settings
from tests.harness.execution.sandbox import SandboxHarness
from tests.harness.execution.site import site

FETCH = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=10).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
    except OSError as error:
        print("failed", error)
"""
STRAIGHT = """
import socket, sys
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as s:
            try:
                s.connect((address, int(sys.argv[1])))
                s.send(b"GET /straight HTTP/1.1\\r\\n\\r\\n")
                print("sent", s.recv(9) if kind == socket.SOCK_STREAM else "")
            except OSError as error:
                print(error)
"""


@pytest.mark.contract("sandbox:network")
async def test_listed_hosts_are_reached_and_no_others(harness: SandboxHarness) -> None:
    (harness.workspace / "fetch.py").write_text(FETCH, encoding="utf-8")
    (harness.workspace / "straight.py").write_text(STRAIGHT, encoding="utf-8")
    with site() as (port, asked), site() as (other, others_asked):
        settings = Settings(sandbox_network=(f"localhost:{port}",))
        fetch = f"/usr/bin/python3 fetch.py http://localhost:{port}/a http://localhost:{other}/b"
        straight = f"/usr/bin/python3 straight.py {port}"
        fetched, went = await harness.run(
            f"{fetch} http://evil.example/", straight, settings=settings
        )
    if not harness.is_full:
        assert "sandboxNetwork names hosts" in fetched.error
        assert not asked
        return
    assert fetched.output.startswith("hello\n403 joey: ")
    assert fetched.output.endswith(
        f"[joey: network: refused localhost:{other}: sandboxNetwork has this host, but not"
        f" with this port (list localhost:{other} to allow it)]\n"
        "[joey: network: refused evil.example: it is not in sandboxNetwork]\n"
    )
    assert asked == ["/a"]
    assert others_asked == []
    assert "sent b" not in went.output


async def test_a_server_of_the_commands_own_is_reached_without_the_proxy(
    harness: SandboxHarness,
) -> None:
    if not harness.is_full:
        pytest.skip("there is no loopback at this level")
    (harness.workspace / "fetch.py").write_text(FETCH, encoding="utf-8")
    (harness.workspace / "served").write_text("mine", encoding="utf-8")
    line = (
        "/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 2>/dev/null & server=$!\n"
        "until (: < /dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.05; done\n"
        "/usr/bin/python3 fetch.py http://127.0.0.1:8123/served http://localhost:8123/served\n"
        "kill $server"
    )
    said = await harness.output(line, settings=Settings(sandbox_network=("packages.example",)))
    assert said.count("mine") == 2


async def test_each_command_has_its_own_way_out_and_background_ones_keep_it(
    harness: SandboxHarness,
) -> None:
    if not harness.is_full:
        pytest.skip("hosts cannot be told apart at this level")
    (harness.workspace / "fetch.py").write_text(FETCH, encoding="utf-8")
    with site() as (port, asked):
        url = f"http://localhost:{port}/late"
        late = f"(until [ -e go ]; do sleep 0.05; done; /usr/bin/python3 fetch.py {url} > got) &"
        await harness.run(
            late,
            f"/usr/bin/python3 fetch.py http://localhost:{port}/early",
            "touch go; until [ -s got ]; do sleep 0.05; done; cat got",
            settings=Settings(sandbox_network=(f"localhost:{port}",)),
        )
    assert asked == ["/early", "/late"]


async def test_commands_reach_configured_registries_and_no_others(harness: SandboxHarness) -> None:
    with site() as (port, asked), site() as (other, not_asked):
        (harness.workspace / "fetch.py").write_text(FETCH, encoding="utf-8")
        (harness.home / ".npmrc").write_text(f"registry=http://localhost:{port}/\n")
        line = f"/usr/bin/python3 fetch.py http://localhost:{port}/a http://localhost:{other}/b"
        (fetched,) = await harness.run(line, settings=Settings(sandbox_network="registries"))
    assert not not_asked
    if not harness.is_full:
        assert "sandboxNetwork names hosts" in fetched.error
        return
    assert asked == ["/a"] and "hello" in fetched.output and "refused localhost" in fetched.output
