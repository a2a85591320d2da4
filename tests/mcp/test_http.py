"""Servers behind an address."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from joey.errors import ToolError, UserError
from joey.mcp.leases import HubConfig
from joey.mcp.login import open_callback_server
from joey.mcp.server_admin import ServerAdmin
from tests.harness.mcp.hub_harness import HubHarness, names, server, settled, until
from tests.harness.mcp.web_server import Web, serving


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with serving() as running:
        yield running


def entry(web: Web, **more: Any) -> dict[str, Any]:
    return {"type": "streamable-http", "url": f"{web.url}/mcp", **more}


@pytest.mark.contract("mcp:transports")
async def test_a_server_behind_an_address_is_used_with_its_headers(
    harness: HubHarness, web: Web
) -> None:
    lease = await harness.open(web=entry(web, headers={"X-Key": "${env:NAME}"}))
    assert server(lease, "web").error == ""
    assert names(lease, "web") == ["hello", "json", "sse", "zip"]
    assert (await lease.call_tool("web", "hello", {})).text == "hello"
    assert all(headers["x-key"] == "value" for _, headers in web.requests)
    assert server(lease, "web").command_or_url == f"{web.url}/mcp"
    await lease.close()


@pytest.mark.contract("mcp:bounded")
@pytest.mark.parametrize("tool", ["json", "sse"])
async def test_an_answer_of_fifty_megabytes_is_cut(
    harness: HubHarness, web: Web, tool: str
) -> None:
    lease = await harness.open(web=entry(web))
    before = psutil.Process().memory_info().rss
    answer = await lease.call_tool("web", tool, {})
    assert "The answer was cut: it had 50,000,0" in answer.text[-200:]
    assert len(answer.text) < 11 * 1024 * 1024
    assert psutil.Process().memory_info().rss - before < 120_000_000
    assert (await lease.call_tool("web", "hello", {})).text == "hello"
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_an_answer_that_would_unfold_to_any_size_is_refused(
    harness: HubHarness, web: Web
) -> None:
    lease = await harness.open(web=entry(web))
    with pytest.raises(ToolError, match=r"died during the call|compresses"):
        await lease.call_tool("web", "zip", {})
    await until(lambda: server(lease, "web").status == "connected")
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_session_that_the_server_forgot_is_begun_again(
    harness: HubHarness, web: Web
) -> None:
    lease = await harness.open(web=entry(web))
    web.sessions.clear()
    with pytest.raises(ToolError, match="web"):
        await lease.call_tool("web", "hello", {})
    await until(lambda: bool(web.sessions) and server(lease, "web").status == "connected")
    assert (await lease.call_tool("web", "hello", {})).text == "hello"
    await lease.close()


async def test_an_address_where_nobody_listens_is_named_as_such(harness: HubHarness) -> None:
    lease = await harness.open(web={"type": "sse", "url": "http://127.0.0.1:9/sse"})
    assert "no server listens" in server(lease, "web").error
    await lease.close()


@pytest.mark.contract("mcp:login")
async def test_a_server_that_wants_a_login_says_how_and_nobody_is_registered(
    harness: HubHarness, web: Web
) -> None:
    web.login = True
    lease = await harness.open(web=entry(web))
    assert "joey mcp login web" in server(lease, "web").error
    assert web.registered == {}
    await lease.close()


def make_server_admin(harness: HubHarness) -> ServerAdmin:
    around = HubConfig(
        joey_home=harness.home,
        env={},
        server_environment={},
        trust_file=harness.home / "trust.json",
        is_trusted=lambda workspace, wanted: True,
    )
    return ServerAdmin(harness.workspace, around)


async def visit(url: str) -> str:
    """What a browser does with a link that redirects."""
    from urllib.parse import urlsplit

    while True:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        target = f"{parts.path}?{parts.query}"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        response = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        head, _, body = response.partition("\r\n\r\n")
        location = [line[10:] for line in head.splitlines() if line.lower().startswith("location:")]
        if not location:
            return body
        url = location[0]


async def log_in(harness: HubHarness) -> int:
    visits: list[asyncio.Task[str]] = []
    server_admin = make_server_admin(harness)
    tools = await server_admin.log_in(
        "web", lambda url: visits.append(asyncio.create_task(visit(url)))
    )
    pages = await asyncio.gather(*visits)
    assert "Logged in" in pages[0]
    return tools


@pytest.mark.contract("mcp:login")
async def test_a_login_is_kept_privately_and_used_by_tasks(harness: HubHarness, web: Web) -> None:
    web.login = True
    lease = await harness.open(web=entry(web))
    assert await log_in(harness) == 4
    (kept,) = (harness.home / "mcp-auth").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    await lease.wait_until_ready(0)
    await until(lambda: server(lease, "web").status == "connected")
    assert (await lease.call_tool("web", "hello", {})).text == "hello"
    await lease.close()


@pytest.mark.contract("mcp:login")
async def test_a_token_that_ran_out_is_renewed_without_a_user(
    harness: HubHarness, web: Web
) -> None:
    web.login = True
    harness.write(web=entry(web))
    await log_in(harness)
    (kept,) = (harness.home / "mcp-auth").iterdir()
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps(document | {"expiresAt": 1}))
    web.tokens.clear()
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    assert server(lease, "web").error == ""
    assert web.refreshed == 1
    assert len(web.registered) == 1
    await lease.close()


@pytest.mark.contract("mcp:login")
async def test_renewing_a_token_disturbs_nobody_but_a_new_login_is_noticed(
    harness: HubHarness, web: Web
) -> None:
    web.login = True
    harness.write(web=entry(web))
    await log_in(harness)
    (kept,) = (harness.home / "mcp-auth").iterdir()
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps(document | {"expiresAt": 1}))
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    assert web.refreshed == 1
    for _ in range(3):
        await settled(lease)
        assert (await lease.call_tool("web", "hello", {})).text == "hello"
    greetings = [method for method, _ in web.requests].count("initialize")
    await log_in(harness)
    await settled(lease)
    await until(lambda: [m for m, _ in web.requests].count("initialize") >= greetings + 2)
    await until(lambda: server(lease, "web").status == "connected")
    assert make_server_admin(harness).discard_login("web")
    await settled(lease)
    await until(lambda: "requires a login" in server(lease, "web").error)
    await lease.close()


@pytest.mark.contract("mcp:login")
async def test_a_login_that_is_worth_nothing_any_more_asks_for_another(
    harness: HubHarness, web: Web
) -> None:
    web.login = True
    harness.write(web=entry(web))
    await log_in(harness)
    web.tokens.clear()
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    assert "log in again: joey mcp login web" in server(lease, "web").error
    await lease.close()


@pytest.mark.contract("mcp:login")
async def test_a_refused_login_is_reported_with_its_reason(harness: HubHarness, web: Web) -> None:
    web.login, web.refuse = True, True
    harness.write(web=entry(web))
    visits: list[asyncio.Task[str]] = []
    server_admin = make_server_admin(harness)
    with pytest.raises(UserError, match="not today"):
        await server_admin.log_in("web", lambda url: visits.append(asyncio.create_task(visit(url))))
    assert "refused" in (await asyncio.gather(*visits))[0]
    assert web.tokens == set()


@pytest.mark.contract("mcp:login")
async def test_strangers_at_the_callback_get_nothing_and_change_nothing() -> None:
    async with open_callback_server() as callback:
        callback.expected_state = "ours"
        for target in ("/callback?code=1&state=theirs", "/callback?code=1", "/other?state=ours"):
            assert "only works for a login" in await visit(
                callback.redirect_url.replace("/callback", target)
            )
        answer = asyncio.create_task(callback.wait_for_parameters())
        await visit(f"{callback.redirect_url}?code=right&state=ours")
        assert (await answer)["code"] == "right"
        assert "only works for a login" in await visit(
            f"{callback.redirect_url}?code=late&state=ours"
        )
