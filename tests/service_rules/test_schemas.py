"""Tools of MCP servers at strict services, with the real program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from joey.providers.catalog import PROVIDER_SPECS
from tests.front.binary import Joey
from tests.service_rules.services import SERVICES, Calls
from tests.service_rules.strict_server import StrictServer

ODD_SCHEMAS = Path(__file__).with_name("odd_schemas_server.py")
WRITE: Calls = [("mcp--odd--write", {"a_key_": "x", "_value": {"y": 1}})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]
MAX_TOOL_BYTES = 20_000


@pytest.mark.requirement("providers:services:schemas")
@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini", "moonshot", "fireworks"])
async def test_odd_schemas_of_mcp_servers_are_taken(joey: Joey, name: str) -> None:
    service = next(each for each in SERVICES if each.name == name)
    joey.home.mkdir(exist_ok=True)
    servers = {"odd": {"command": sys.executable, "args": [str(ODD_SCHEMAS)]}}
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    keys = {name: "sk-1" for spec in PROVIDER_SPECS for name in spec.key_variables[:1]}
    async with StrictServer(service, [WRITE, COMPLETE]) as server:
        done = await joey.run("-p", "-y", *server.flags, "go", env={**joey.env, **keys})
        assert server.violations == []
        assert (done.code, done.out.strip()) == (0, "All done."), done.err
        tools = [json.dumps(tool) for tool in server.requests[-1].body["tools"]]
        results = json.dumps(server.requests[-1].body["messages"])
    odd = [tool for tool in tools if "mcp--odd--" in tool]
    assert len(odd) == 3, done.err
    assert max(map(len, odd)) < MAX_TOOL_BYTES
    # The server is called by its own names.
    assert json.dumps(json.dumps({"a key!": "x", "$value": {"y": 1}}))[1:-1] in results
