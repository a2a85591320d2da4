"""Programs that joey starts can tell that an agent started them."""

from __future__ import annotations

import json

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

EXPECTED_OUTPUT = "JOEY_ACTIVE=1 ROO_ACTIVE=true\n"
SAY = 'echo "JOEY_ACTIVE=$JOEY_ACTIVE ROO_ACTIVE=$ROO_ACTIVE"'


async def test_commands_and_hooks_can_tell(joey: Joey) -> None:
    joey.settings(hooks=[{"event": "beforeTool", "command": f"{SAY} > hook.txt"}])
    turns = [
        Turn(call("execute_command", {"command": f"{SAY} > command.txt"})),
        Turn(call("attempt_completion", {"result": "done"})),
    ]
    async with ModelServer(turns) as server:
        await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
    assert (joey.workspace / "command.txt").read_text() == EXPECTED_OUTPUT
    assert (joey.workspace / "hook.txt").read_text() == EXPECTED_OUTPUT


async def test_an_mcp_server_can_tell(joey: Joey) -> None:
    server = {"command": "sh", "args": ["-c", f"{SAY} > seen.txt"]}
    joey.home.mkdir()
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": {"one": server}}))
    await joey.run("mcp", "test", "one")
    assert (joey.home / "mcp" / "seen.txt").read_text() == EXPECTED_OUTPUT
