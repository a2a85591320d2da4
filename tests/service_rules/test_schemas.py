"""Tools of MCP servers at strict services, with the real program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec import structs

from joey.providers.catalog import PROVIDER_SPECS
from joey.testing.server import Request
from tests.harness.cli.binary import Joey
from tests.service_rules import rules as r
from tests.service_rules.services import OPENAI, SERVICES, Calls
from tests.service_rules.strict_server import StrictServer, log_in

ODD_SCHEMAS = Path(__file__).with_name("odd_schemas_server.py")
WRITE: Calls = [("mcp--odd--write", {"a_key_": "x", "_value": {"y": 1}})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]
MAX_TOOL_BYTES = 20_000


async def run_with_odd_tools(joey: Joey, server: StrictServer) -> Request:
    """The last request of a task that calls one of them."""
    joey.home.mkdir(exist_ok=True)
    servers = {"odd": {"command": sys.executable, "args": [str(ODD_SCHEMAS)]}}
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    specs = (spec for spec in PROVIDER_SPECS if not spec.login)
    keys = {name: "sk-1" for spec in specs for name in spec.key_variables[:1]}
    env = {**joey.env, **keys, **server.env}
    done = await joey.run("-p", "-y", *server.flags, "go", env=env)
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    return server.requests[-1]


@pytest.mark.contract("services:rules")
@pytest.mark.parametrize(
    "name", ["anthropic", "openai", "gemini", "moonshot", "fireworks", "azure", "bedrock"]
)
async def test_odd_tools_of_mcp_servers_are_taken(joey: Joey, name: str) -> None:
    service = next(each for each in SERVICES if each.name == name)
    async with (
        log_in(service, joey.home.parent) as login,
        StrictServer(service, [WRITE, COMPLETE], login) as server,
    ):
        last = (await run_with_odd_tools(joey, server)).body
        assert server.violations == []
    tools = last["toolConfig"]["tools"] if name == "bedrock" else last["tools"]
    odd = [tool for tool in map(json.dumps, tools) if "mcp--odd--" in tool]
    assert len(odd) == 3
    assert max(map(len, odd)) < MAX_TOOL_BYTES
    # The server is called by its own names.
    called = json.dumps(json.dumps({"a key!": "x", "$value": {"y": 1}}))[1:-1]
    assert called in json.dumps(last["messages"])


async def test_a_limit_of_descriptions_is_learnt_from_a_refusal(joey: Joey) -> None:
    rules = (*(rule for rule in OPENAI.rules if rule.name != "sampling"), r.DESCRIPTION_LENGTHS)
    service = structs.replace(OPENAI, rules=rules)
    async with StrictServer(service, [WRITE, COMPLETE, WRITE, COMPLETE]) as server:
        for _ in range(2):
            await run_with_odd_tools(joey, server)
        assert len(server.violations) == 1
