"""`joey prompt`: what a new task would be sent, and its size."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.local_server import local_model_server
from tests.harness.cli.served_models import list_vllm, props_llamacpp
from tests.harness.cli.terminal import terminal

MAX_TOKENS = 5_000
DONE = Turn(call("attempt_completion", {"result": "All done."}))
XML_DONE = Turn(say("<attempt_completion>\n<result>All done.</result>\n</attempt_completion>"))


async def preview(joey: Joey, *flags: str) -> dict[str, Any]:
    shown = await joey.run("prompt", "--json", *flags)
    assert shown.code == 0, shown.err
    found: dict[str, Any] = shown.json
    return found


@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_the_prompt_is_what_a_task_is_sent(joey: Joey, protocol: str) -> None:
    flags = ("--mode", "ask", "--protocol", protocol)
    async with (
        ModelServer([DONE]) as server,
        terminal(joey, *flags, *reach(server.url), "hello") as screen,
    ):
        await screen.until("All done.")
    (request,) = server.requests
    sent = "".join(block["text"] for block in request.body["system"])
    found = await preview(joey, *flags)
    assert (found["mode"], found["protocol"]) == ("ask", protocol)
    assert found["system"] == sent
    assert [tool["name"] for tool in found["tools"]] == [
        tool["name"] for tool in request.body.get("tools", ())
    ]


async def test_text_sizes_and_json_agree(joey: Joey) -> None:
    text = await joey.run("prompt")
    sizes = await joey.run("prompt", "--tokens")
    found = await preview(joey)
    assert text.out.startswith(found["system"])
    assert json.loads(text.out.splitlines()[-1]) == found["tools"][-1]
    rows = [line.split("\t") for line in sizes.out.splitlines()]
    assert rows[-1] == ["total", "", str(found["tokens"])]
    assert rows[0][:2] == ["section", "ROLE"]
    assert [row[1] for row in rows if row[0] == "tool"] == [t["name"] for t in found["tools"]]
    assert found["tokens"] == sum(int(row[2]) for row in rows[:-1])


async def test_it_needs_no_model_and_leaves_nothing_behind(joey: Joey) -> None:
    assert (await preview(joey))["model"] is None
    assert list(joey.workspace.iterdir()) == []


async def test_an_unknown_mode_is_wrong_usage(joey: Joey) -> None:
    shown = await joey.run("prompt", "--mode", "cod")
    assert shown.code == 2
    assert "there is no mode 'cod'" in shown.err


@pytest.mark.contract("prompt:sections")
@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_prompt_and_tools_of_code_mode_stay_small(joey: Joey, protocol: str) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q"], cwd=joey.workspace, check=True)
    await joey.run("config", "set", "browserToolEnabled", "false")
    found = await preview(joey, "--mode", "code", "--protocol", protocol)
    tools = [{"type": "function", "function": tool} for tool in found["tools"]]
    sent = json.dumps(tools, ensure_ascii=False, separators=(",", ":")) if tools else ""
    assert not any("browser" in tool["name"] for tool in found["tools"])
    assert (len(found["system"]) + len(sent)) / 4 <= MAX_TOKENS


SERVICES = {
    "anthropic": ("--provider", "anthropic", "--model", "claude-sonnet-4-5"),
    "openai": ("--provider", "openai", "--model", "gpt-4.1"),
    "compatible": ("--provider", "openai", "--model", "my-model"),
}


@pytest.mark.parametrize("service", SERVICES)
async def test_native_requests_are_smaller_than_xml_ones(joey: Joey, service: str) -> None:
    is_openai = service == "openai"
    joey.settings(browserToolEnabled=False)
    sizes: dict[str, int] = {}
    for protocol in ("native", "xml"):
        async with ModelServer([DONE if protocol == "native" else XML_DONE]) as server:
            # Only OpenAI's own address gets strict schemas; a proxy leads it to the server.
            path = "" if service == "anthropic" else "/v1"
            url = f"{'http://api.openai.com' if is_openai else server.url}{path}"
            env = {**joey.env, "HTTP_PROXY": server.url, "OPENAI_API_KEY": "k"}
            flags = (*SERVICES[service], "--base-url", url, "--protocol", protocol)
            done = await joey.run("-p", "-y", "--mode", "code", *flags, "go", env=env)
        assert done.code == 0, done.err
        (request,) = server.requests
        encoded = json.dumps(request.body, ensure_ascii=False, separators=(",", ":"))
        sizes[protocol] = len(encoded.encode())
        assert ('"strict":true' in encoded) is (is_openai and protocol == "native")
    assert sizes["native"] <= sizes["xml"]


@pytest.mark.contract("local:lean")
async def test_model_flags_mean_what_they_mean_in_a_run(joey: Joey) -> None:
    pages = {"/v1/models": list_vllm(16384), "/props": props_llamacpp(16384)}
    async with local_model_server(pages) as server:
        address = ("--base-url", f"{server.url}/v1")
        lean = await preview(joey, *address, "-m", "my-model")
        only = await preview(joey, "--provider", "llamacpp", *address)
        table = await joey.run("prompt", "--tokens", *address, "-m", "my-model")
    assert (lean["model"], lean["contextWindow"]) == ("my-model", 16384)
    assert lean["tokens"] < 1500
    assert (only["model"], only["tokens"]) == ("my-model", lean["tokens"])
    rows = [line.split("\t") for line in table.out.splitlines()]
    assert max(len(name) for _, name, _ in rows) <= 40
    assert rows[-1] == ["total", "", str(lean["tokens"])]


async def test_a_profile_that_does_not_exist_is_wrong_usage(joey: Joey) -> None:
    shown = await joey.run("prompt", "--profile", "none")
    assert (shown.code, "there is no profile 'none'" in shown.err) == (2, True)
