"""Commands of a task share one loopback network, where the sandbox can give them one."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from joey.core.settings import Settings
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel
from joey.tools.execute_command import ExecuteCommand
from joey.tools.read_command_output import ReadCommandOutput
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import LEVELS, USERS, SandboxHarness
from tests.harness.tools.tool_context import make_context

SERVE = (
    "import http.server as h\n"
    "s = h.HTTPServer(('127.0.0.1', 5055), h.SimpleHTTPRequestHandler)\n"
    "print('ready', flush=True)\n"
    "s.serve_forever()"
)
SERVER = CommandStep(f'python3 -c "{SERVE}"', until="ready", then="leave")
FETCH = "curl -sS -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:5055/"

full = pytest.mark.parametrize(
    ("harness", "user"), [("full", user) for user in USERS], indirect=True
)


@full
@pytest.mark.contract("sandbox:shared-loopback")
async def test_a_server_in_the_background_is_reached_by_the_next_commands(
    harness: SandboxHarness,
) -> None:
    _, first, second, loopback = await harness.run(
        SERVER, FETCH, FETCH, "cat /proc/net/dev | grep -c :"
    )
    assert [first.output, second.output] == ["200\n", "200\n"]
    assert loopback.output == "1\n", "there is no other interface"


@full
@pytest.mark.contract("sandbox:shared-loopback")
async def test_a_server_that_was_started_later_is_reached_too(harness: SandboxHarness) -> None:
    *_, fetched = await harness.run("true", "true", SERVER, "true", FETCH)
    assert fetched.output == "200\n"


@full
async def test_a_server_is_gone_after_it_was_stopped(harness: SandboxHarness) -> None:
    stopped = CommandStep(SERVER.command, until="ready", then="kill")
    _, fetched = await harness.run(stopped, FETCH)
    assert fetched.exit_code == 7


@full
async def test_no_network_is_shared_between_tasks(harness: SandboxHarness) -> None:
    serving = await harness.start(SERVER, lingers=True)
    assert serving.stdout is not None
    assert b"ready" in await serving.stdout.readline()
    (fetched,) = await harness.run(FETCH)
    serving.kill()
    await serving.wait()
    async with asyncio.timeout(60):  # its sandbox removes what it put into the workspace
        while (harness.workspace / ".roo").exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(0.02)
    assert fetched.exit_code == 7


@full
async def test_a_command_cannot_change_the_network_that_it_shares(harness: SandboxHarness) -> None:
    answers = await harness.run("true", "ip link set lo down", "ip addr add 10.0.0.1/8 dev lo")
    assert all(answer.exit_code for answer in answers[1:])


@full
async def test_with_allowed_hosts_each_command_has_its_own_network(harness: SandboxHarness) -> None:
    settings = Settings(sandbox_network=("example.org",))
    _, fetched = await harness.run(SERVER, FETCH, settings=settings)
    assert fetched.exit_code == 7


@pytest.mark.parametrize(("harness", "user"), [(LEVELS[0], USERS[1])], indirect=True)
async def test_files_of_later_commands_belong_to_the_same_user(harness: SandboxHarness) -> None:
    first, second = await harness.run(
        "id -u; id -g; touch a; stat -c '%u %g' a", "id -u; id -g; touch b; stat -c '%u %g' b"
    )
    assert first.output == second.output


@pytest.mark.contract("sandbox:shared-loopback")
async def test_the_model_starts_reaches_and_stops_a_server(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    execute, output = ExecuteCommand(), ReadCommandOutput()
    number = 0

    async def use(tool: Any, **arguments: Any) -> str:
        nonlocal number
        number += 1
        ctx = make_context(tmp_path, terminal, row_ts=number)
        prepared = await tool.prepare(tool.parse(arguments), ctx)
        outcome = await tool.run_prepared(prepared, ctx, None)
        return str(outcome.text)

    started = await use(execute, command=SERVER.command, timeout=2)
    report = await terminal.get_sandbox_report()
    assert report is not None
    if report.level is SandboxLevel.LANDLOCK:
        fetched = await use(execute, command=FETCH)
        piped = await use(execute, command=f"{SERVER.command} 2>&1 | tail -3")
        for text in (started, fetched, piped):
            assert "once bubblewrap is installed" in text
        return
    assert "still running" in started
    assert "Output:\n200\n" in await use(execute, command=FETCH)
    (artifact,) = re.findall(r"cmd-\d+\.txt", started)
    stopped = await use(output, artifact_id=artifact, stop=True)
    assert stopped.startswith("The command and all its processes were stopped (")
    assert "Exit code: 7" in await use(execute, command=FETCH)
