"""MCP servers that the editor names for a session."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from acp.exceptions import RequestError
from acp.schema import AcpMcpServer, EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer, by_conversation
from tests.harness.acp.editor import connected, done, tools
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import Joey
from tests.harness.mcp.web_server import serving
from tests.harness.paths import MCP_SERVER_SCRIPT


def tiny(name: str = "tiny", **env: str) -> McpServerStdio:
    variables = [EnvVariable(name=key, value=value) for key, value in env.items()]
    return McpServerStdio(
        name=name, command=sys.executable, args=[str(MCP_SERVER_SCRIPT)], env=variables
    )


@pytest.mark.contract("acp:task")
async def test_a_server_of_the_editor_is_used_in_its_session_alone(
    joey: Joey, schema: ProtocolSchema | None, tmp_path: Path
) -> None:
    turns = [Turn(call("mcp--tiny--environment", {})), done()]
    async with (
        ModelServer(by_conversation(turns)) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace, [tiny(FROM_EDITOR="${env:HOME} it is")])
        assert await here.prompt(session, "go") == "end_turn"
        assert "mcp--tiny--echo" in tools(server.requests[0].body)
        sent = json.dumps(server.requests[1].body["messages"][-1])
        assert "${env:HOME} it is" in sent, "nothing is filled in"
        assert "ANTHROPIC_API_KEY" not in sent
        (asked,) = here.editor.asked
        assert asked["call"]["title"] == "MCP tool tiny: environment"
        plain = await here.new(joey.workspace)
        await here.prompt(plain, "go")
        assert "mcp--tiny--echo" not in tools(server.requests[2].body)


async def test_a_server_of_the_editor_starts_in_the_directory_of_its_session(joey: Joey) -> None:
    given = McpServerStdio(name="odd", command="sh", args=["-c", "pwd > started.txt"], env=[])
    async with ModelServer([done()]) as server, connected(joey, server.url, None) as here:
        session = await here.new(joey.workspace, [given])
        assert await here.prompt(session, "go") == "end_turn"
    started = (joey.workspace / "started.txt").read_text(encoding="utf-8")
    assert started.strip() == str(joey.workspace)


async def test_a_server_behind_an_address_gets_its_headers(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with serving() as web, ModelServer([done()]) as model:
        async with connected(joey, model.url, schema) as here:
            header = HttpHeader(name="X-Key", value="value")
            given = HttpMcpServer(type="http", name="web", url=f"{web.url}/mcp", headers=[header])
            session = await here.new(joey.workspace, [given])
            assert await here.prompt(session, "go") == "end_turn"
            assert "mcp--web--hello" in tools(model.requests[0].body)
        assert all(headers["x-key"] == "value" for _, headers in web.requests)


async def test_a_server_of_the_editor_hides_the_projects_of_the_same_name(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    (joey.workspace / ".roo").mkdir()
    theirs = {"mcpServers": {"tiny": {"command": "touch", "args": ["started.txt"]}}}
    (joey.workspace / ".roo" / "mcp.json").write_text(json.dumps(theirs), encoding="utf-8")
    async with (
        ModelServer([done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace, [tiny()])
        await here.prompt(session, "go")
        assert "mcp--tiny--echo" in tools(server.requests[0].body)
    assert not (joey.workspace / "started.txt").exists()


async def test_a_kind_of_server_that_is_not_known_is_refused(joey: Joey) -> None:
    async with connected(joey, "http://127.0.0.1:9", None) as here:
        given = AcpMcpServer(type="acp", name="odd", server_id="x")
        with pytest.raises(RequestError, match="'odd' can be reached by stdio, http or sse only"):
            await here.new(joey.workspace, [given])
