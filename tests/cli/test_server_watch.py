"""What is told of MCP servers that are waited for, with real ones."""

from __future__ import annotations

from pathlib import Path

from joey.cli.notices import McpStartupReporter
from joey.core.events import RequestStarted
from tests.harness.mcp.hub_harness import HubHarness, tiny

ASKED = RequestStarted(ts=1, api_protocol="anthropic", content=())


async def test_servers_that_are_waited_for_are_named_and_later_those_that_are_missing(
    tmp_path: Path,
) -> None:
    house = HubHarness(tmp_path)
    house.write(deaf=tiny("--deaf"), off=tiny(disabled=True))
    lease = house.hubs.lease(house.workspace)
    messages: list[str] = []
    watch = McpStartupReporter(lease, messages.append)
    await lease.wait_until_ready(0)
    watch.report_waiting()
    watch.handle(ASKED)
    watch.handle(ASKED)
    watch.report_waiting()
    await lease.close()
    assert messages == [
        "waiting for MCP servers: deaf…",
        "the MCP server deaf is not ready; its tools are missing: it is still starting",
    ]


async def test_servers_that_are_there_are_worth_no_word(tmp_path: Path) -> None:
    lease = await HubHarness(tmp_path).open(tiny=tiny())
    messages: list[str] = []
    watch = McpStartupReporter(lease, messages.append)
    watch.report_waiting()
    watch.handle(ASKED)
    await lease.close()
    assert messages == []
