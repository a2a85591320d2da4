"""Servers that are programs, most of which do not behave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from joey.errors import ToolError
from tests.harness.mcp.hub_harness import (
    TIMEOUT_S,
    HubHarness,
    is_alive,
    names,
    server,
    settled,
    tiny,
    until,
)
from tests.harness.paths import ROOT


@pytest.mark.contract("mcp:transports")
async def test_a_server_is_started_greeted_and_listed(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny())
    found = server(lease, "tiny")
    assert (found.status, found.source, found.instructions) == ("connected", "global", "Be gentle.")
    assert names(lease, "tiny")[:3] == ["big", "die", "echo"]
    assert (await lease.call_tool("tiny", "echo", {"text": "hi"})).text == "hi"
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_server_sees_a_bare_environment_and_what_its_entry_sets(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    lease = await harness.open(tiny=tiny(env={"MINE": "${env:NAME} in ${workspaceFolder}"}))
    seen = json.loads((await lease.call_tool("tiny", "environment", {})).text)
    assert "SOME_API_KEY" not in seen
    assert seen["MINE"] == f"value in {harness.workspace}"
    assert set(seen) <= {"PATH", "MINE", "LC_CTYPE"}
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_what_is_no_message_on_its_output_is_passed_over(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny("--garbage"))
    assert (await lease.call_tool("tiny", "echo", {"text": "still here"})).text == "still here"
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_command_that_does_not_exist_is_named(harness: HubHarness) -> None:
    lease = await harness.open(gone={"command": "surely-not-installed"})
    found = server(lease, "gone")
    assert found.status == "disconnected"
    assert "surely-not-installed" in found.error
    with pytest.raises(ToolError, match=r"not connected: .*tried again in \d+ s"):
        await lease.read_resource("gone", "x:y")
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_server_that_ends_at_once_is_quoted(harness: HubHarness) -> None:
    script = "import sys; print('no licence found', file=sys.stderr); sys.exit(3)"
    lease = await harness.open(bad={"command": sys.executable, "args": ["-c", script]})
    assert "exit code 3" in server(lease, "bad").error
    assert "no licence found" in server(lease, "bad").error
    await lease.close()


@pytest.mark.contract("tool:mcp:failure:died", "mcp:transports")
async def test_a_server_that_dies_in_a_call_says_so_and_is_started_again(
    harness: HubHarness,
) -> None:
    lease = await harness.open(tiny=tiny())
    first = (await lease.call_tool("tiny", "pid", {})).text
    with pytest.raises(ToolError, match=r"died during the call(.|\n)*exit code 7") as error:
        await lease.call_tool("tiny", "die", {})
    assert "something is very wrong" in str(error.value)
    assert "tried again in" in str(error.value)
    assert names(lease, "tiny"), "its tools stay known while it is away"
    await until(lambda: server(lease, "tiny").status == "connected")
    assert (await lease.call_tool("tiny", "pid", {})).text != first
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_server_that_is_killed_is_started_again(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny())
    os.kill(int((await lease.call_tool("tiny", "pid", {})).text), signal.SIGKILL)
    await until(lambda: server(lease, "tiny").status != "connected")
    await until(lambda: server(lease, "tiny").status == "connected")
    assert (await lease.call_tool("tiny", "echo", {"text": "again"})).text == "again"
    await lease.close()


@pytest.mark.contract("tool:mcp:failure:timeout", "mcp:calls")
async def test_a_call_that_is_never_answered_ends_in_time_and_tells_the_server(
    harness: HubHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    lease = await harness.open(tiny=tiny("--log", str(log), timeout=2))
    with pytest.raises(ToolError, match="no answer within 2 s"):
        await lease.call_tool("tiny", "never", {})
    await until(lambda: "cancelled" in log.read_text())
    assert (await lease.call_tool("tiny", "echo", {"text": "fine"})).text == "fine"
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_cancelling_a_call_is_prompt_and_tells_the_server(
    harness: HubHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    lease = await harness.open(tiny=tiny("--log", str(log)))
    calling = asyncio.create_task(lease.call_tool("tiny", "never", {}))
    await until(lambda: "never was called" in log.read_text())
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: "cancelled" in log.read_text())
    await lease.close()


@pytest.mark.contract("mcp:calls")
async def test_an_error_of_the_server_is_not_taken_for_its_death(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny())
    with pytest.raises(ToolError, match="it does not want to"):
        await lease.call_tool("tiny", "fail", {})
    assert server(lease, "tiny").status == "connected"
    await lease.close()


@pytest.mark.contract("mcp:bounded")
async def test_a_result_of_a_hundred_megabytes_is_cut_and_leaves_little_memory_used(
    harness: HubHarness,
) -> None:
    lease = await harness.open(tiny=tiny())
    before = psutil.Process().memory_info().rss
    answer = await lease.call_tool("tiny", "big", {"megabytes": 100})
    grown = psutil.Process().memory_info().rss - before
    assert len(answer.text) < 11 * 1024 * 1024
    assert "The answer was cut: it had 100,000,0" in answer.text[-200:]
    assert grown < 90_000_000
    assert (await lease.call_tool("tiny", "big", {"megabytes": 2})).text == "x" * 2_000_000
    await lease.close()


@pytest.mark.contract("mcp:bounded")
async def test_a_flood_of_news_does_not_keep_others_from_working(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny("--flood"), other=tiny())
    assert (await lease.call_tool("other", "echo", {"text": "calm"})).text == "calm"
    assert (
        await lease.call_tool("tiny", "echo", {"text": "after all that"})
    ).text == "after all that"
    await lease.close()


@pytest.mark.contract("mcp:bounded")
async def test_a_server_that_asks_without_end_and_reads_no_answer_is_let_go(
    harness: HubHarness,
) -> None:
    lease = await harness.open(tiny=tiny("--asks"))
    await until(lambda: "faster than it reads" in server(lease, "tiny").error)
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_tools_that_appear_later_are_noticed(harness: HubHarness) -> None:
    lease = await harness.open(tiny=tiny())
    before = lease.servers
    assert lease.servers is before
    await lease.call_tool("tiny", "grow", {})
    await until(lambda: "grown_1" in names(lease, "tiny"))
    assert lease.servers is not before
    await lease.close()


@pytest.mark.contract("mcp:transports")
async def test_a_server_that_ignores_everything_is_gone_with_its_last_task(
    harness: HubHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    lease = await harness.open(tiny=tiny("--stubborn", "--log", str(log)))
    pid = int((await lease.call_tool("tiny", "pid", {})).text)
    async with asyncio.timeout(TIMEOUT_S):
        await lease.close()
    assert not is_alive(pid)
    assert "its input ended" in log.read_text()


_HOST = """
import asyncio, sys
from pathlib import Path
from tests.harness.mcp.hub_harness import HubHarness, tiny

async def main():
    lease = await HubHarness(Path(sys.argv[1])).open(tiny=tiny("--stubborn"))
    print((await lease.call_tool("tiny", "pid", {})).text, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.contract("mcp:transports")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of the killed")
def test_a_server_that_ignores_everything_is_gone_when_joey_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOST, str(tmp_path)]
    root = ROOT
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        process = psutil.Process(pid)
        host.kill()
        psutil.wait_procs([process], timeout=TIMEOUT_S)
        assert not is_alive(pid)


@pytest.mark.contract("tasks:isolated")
async def test_tasks_of_one_directory_share_their_servers_until_the_last_is_done(
    harness: HubHarness, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    harness.write(tiny=tiny("--log", str(log)))
    leases = [harness.hubs.lease(harness.workspace) for _ in range(50)]
    await asyncio.gather(*map(settled, leases))
    pids = {(await lease.call_tool("tiny", "pid", {})).text for lease in leases}
    assert len(pids) == 1
    assert log.read_text().count("started") == 1
    for lease in leases[1:]:
        await lease.close()
    assert (await leases[0].call_tool("tiny", "echo", {"text": "last"})).text == "last"
    await leases[0].close()
    assert not is_alive(int(pids.pop()))


@pytest.mark.contract("mcp:transports")
async def test_a_server_that_knows_only_the_newer_handshake_is_met_in_it(
    harness: HubHarness,
) -> None:
    lease = await harness.open(tiny=tiny("--modern"))
    assert server(lease, "tiny").error == ""
    assert "echo" in names(lease, "tiny")
    await lease.close()


@pytest.mark.contract("mcp:config")
async def test_waiting_for_a_server_that_never_greets_is_bounded_and_not_repeated(
    harness: HubHarness,
) -> None:
    harness.write(deaf=tiny("--deaf"), tiny=tiny())
    lease = harness.hubs.lease(harness.workspace)
    async with asyncio.timeout(TIMEOUT_S):
        await lease.wait_until_ready(1)
        for _ in range(100):
            await lease.wait_until_ready(1)
    assert server(lease, "deaf").status == "connecting"
    await until(lambda: server(lease, "tiny").status == "connected")
    with pytest.raises(ToolError, match="still starting"):
        await lease.read_resource("deaf", "a:b")
    await lease.close()
