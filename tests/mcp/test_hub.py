"""All servers of a workspace: what changes on disk, what is trusted, what is pinned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from joey.errors import ToolError
from tests.harness.mcp.hub_harness import HubHarness, names, server, settled, tiny, until
from tests.harness.paths import ROOT


@pytest.mark.contract("mcp:config")
def test_where_no_server_is_named_the_library_is_not_loaded(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from tests.harness.mcp.hub_harness import HubHarness, settled

async def main():
    house = HubHarness(Path(sys.argv[1]))
    lease = house.hubs.lease(house.workspace)
    await settled(lease)
    house.write(off={"command": "x", "disabled": True})
    await settled(lease)
    print([str(server.status) for server in lease.servers], "mcp" in sys.modules)
    await lease.close()

asyncio.run(main())
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "['disabled'] False"


@pytest.mark.contract("mcp:config")
async def test_servers_follow_their_files_while_tasks_are_at_work(harness: HubHarness) -> None:
    lease = await harness.open(stays=tiny(), goes=tiny())
    pid = (await lease.call_tool("stays", "pid", {})).text
    harness.write(stays=tiny(), comes=tiny())
    await settled(lease)
    assert [found.name for found in lease.servers] == ["stays", "comes"]
    assert server(lease, "comes").status == "connected"
    assert (await lease.call_tool("stays", "pid", {})).text == pid
    harness.write(stays=tiny("--garbage"), comes=tiny())
    await settled(lease)
    assert (await lease.call_tool("stays", "pid", {})).text != pid
    await lease.close()


@pytest.mark.contract("mcp:config")
async def test_settings_that_need_no_new_connection_get_none(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny())
    pid = (await lease.call_tool("tiny", "pid", {})).text
    harness.write(tiny=tiny(alwaysAllow=["echo"], disabledTools=["big"], timeout=5))
    await settled(lease)
    flags = {tool.name: (tool.always_allowed, tool.enabled) for tool in server(lease, "tiny").tools}
    assert (flags["echo"], flags["big"], flags["pid"]) == (
        (True, True),
        (False, False),
        (False, True),
    )
    assert (await lease.call_tool("tiny", "pid", {})).text == pid
    with pytest.raises(ToolError, match="no tool 'big'"):
        await lease.call_tool("tiny", "big", {})
    await lease.close()


@pytest.mark.contract("mcp:config")
async def test_a_server_is_started_anew_when_what_it_watches_changes(harness: HubHarness) -> None:
    built = harness.workspace / "built.js"
    built.write_text("1")
    lease = await harness.open(tiny=tiny(watchPaths=["built.js"]))
    pid = (await lease.call_tool("tiny", "pid", {})).text
    built.write_text("22")
    await settled(lease)
    await until(lambda: server(lease, "tiny").status != "connected")
    await until(lambda: server(lease, "tiny").status == "connected")
    assert (await lease.call_tool("tiny", "pid", {})).text != pid
    await lease.close()


async def test_a_server_that_changes_while_it_starts_is_ready_once_it_was_started_anew(
    harness: HubHarness, tmp_path: Path
) -> None:
    built, begun, go = harness.workspace / "built.js", tmp_path / "begun", tmp_path / "go"
    built.write_text("1")
    waits = f'echo >> {begun}; until [ -e {go} ]; do sleep 0.01; done; exec "$@"'
    quick = tiny()
    slow = {"command": "/bin/sh", "args": ["-c", waits, "sh", quick["command"], *quick["args"]]}
    harness.write(tiny=slow | {"watchPaths": ["built.js"]})
    lease = harness.hubs.lease(harness.workspace)
    await lease.wait_until_ready(0)
    await until(begun.exists)
    built.write_text("22")
    await lease.wait_until_ready(0)
    go.touch()
    await until(lambda: server(lease, "tiny").status == "connected")
    assert begun.read_text() == "\n\n"
    assert (await lease.call_tool("tiny", "pid", {})).text.isdecimal()
    await lease.close()


@pytest.mark.contract("trust:bytes")
async def test_a_projects_server_does_not_start_before_it_is_trusted(
    tmp_path: Path,
) -> None:
    harness = HubHarness(tmp_path, trusted=False)
    log = tmp_path / "log"
    harness.write(project=True, theirs=tiny("--log", str(log)))
    harness.write(mine=tiny())
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    assert server(lease, "theirs").status == "untrusted"
    assert server(lease, "mine").status == "connected"
    assert not log.exists()
    with pytest.raises(ToolError, match="joey trust"):
        await lease.read_resource("theirs", "a:b")
    harness.trusted = True
    (harness.home / "trust.json").write_text("{}")
    await settled(lease)
    await until(lambda: server(lease, "theirs").status == "connected")
    harness.trusted = False
    (harness.home / "trust.json").write_text('{"workspaces": {}}')
    await settled(lease)
    await until(lambda: server(lease, "theirs").status == "untrusted")
    assert server(lease, "theirs").tools == ()
    await lease.close()


@pytest.mark.contract("trust:bytes")
async def test_any_change_of_a_projects_entry_is_a_new_question(harness: HubHarness) -> None:
    harness.write(project=True, theirs=tiny())
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    assert server(lease, "theirs").status == "connected"
    harness.trusted = False
    harness.write(project=True, theirs=tiny(alwaysAllow=["*"]))
    await settled(lease)
    await until(lambda: server(lease, "theirs").status == "untrusted")
    assert json.loads(harness.asked[-1]["mcp:theirs"].splitlines()[0])["alwaysAllow"] == ["*"]
    await lease.close()


@pytest.mark.contract("mcp:pins")
async def test_an_allowed_tool_whose_description_changes_is_asked_about_again(
    harness: HubHarness,
) -> None:
    lease = await harness.open(tiny=tiny(alwaysAllow=["echo"]))

    def echo() -> tuple[bool, bool]:
        found = next(tool for tool in server(lease, "tiny").tools if tool.name == "echo")
        return found.always_allowed, found.has_changed

    assert echo() == (True, False)
    await lease.call_tool("tiny", "redescribe", {})
    await until(lambda: echo() == (False, True))
    await lease.call_tool("tiny", "echo", {"text": "allowed by a person"})
    assert echo() == (True, False)
    await lease.close()


@pytest.mark.contract("mcp:pins")
async def test_what_a_tool_looked_like_is_remembered_between_runs(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny(alwaysAllow=["*"]))
    await lease.close()
    pins = harness.home / "mcp-pins.json"
    known = json.loads(pins.read_text())
    (key,) = known
    known[key]["echo"] = "something else"
    pins.write_text(json.dumps(known))
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    changed = [tool.name for tool in server(lease, "tiny").tools if tool.has_changed]
    assert changed == ["echo"]
    await lease.close()


async def test_servers_and_tools_always_come_in_the_same_order(harness: HubHarness) -> None:
    harness.write(project=True, zebra=tiny())
    lease = await harness.open(beta=tiny(), alpha=tiny())
    assert [found.name for found in lease.servers] == ["zebra", "beta", "alpha"]
    assert names(lease, "beta") == sorted(names(lease, "beta"))
    await lease.close()
