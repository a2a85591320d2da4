"""What the model is told: system prompt, tools and the rest of the first request of `joey -p`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.golden import check_text
from tests.golden.homes import ModelServer, Request
from tests.golden.masks import Masks
from tests.golden.program import Program, reach
from tests.golden.scripts import finish

MODES = ("architect", "ask", "code", "debug", "orchestrator")
PROTOCOLS = ("native", "xml")
STABLE_HEADERS = ("accept", "anthropic-version", "anthropic-beta", "content-type", "x-api-key")


async def first_request(
    program: Program, mode: str, protocol: str, wire: str = "anthropic"
) -> Request:
    async with ModelServer([finish(protocol, 1)]) as server:
        run = await program.run(
            *("-p", "--mode", mode, "--protocol", protocol, *reach(server.url, wire)), "Say hello."
        )
    assert run.code == 0, run.err
    (request,) = server.requests
    return request


def format_request(body: Any) -> str:
    """The system prompt, the tools as they are sent, and the first message."""
    system = body["system"]
    prompt = system if isinstance(system, str) else "".join(block["text"] for block in system)
    tools = json.dumps(body.get("tools"), indent=1, ensure_ascii=False)
    messages = [block["text"] for each in body["messages"] for block in each["content"]]
    parts = ["=== system ===", prompt, "=== tools ===", tools, "=== messages ===", *messages]
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
async def test_the_prompt_and_the_tools_are_the_same(
    tmp_path: Path, mode: str, protocol: str
) -> None:
    program = Program(tmp_path, sandbox="off")  # machines differ in what they can do
    request = await first_request(program, mode, protocol)
    text = format_request(request.body)
    check_text(f"prompts/{mode}_{protocol}.txt", Masks(text, program.paths).text(text))


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_request_is_the_same_on_each_wire(tmp_path: Path, wire: str) -> None:
    """All of its body, in the order of its keys, and the headers that have a meaning."""
    program = Program(tmp_path, sandbox="off")  # machines differ in what they can do
    request = await first_request(program, "ask", "native", wire)
    headers = {name: request.headers.get(name) for name in STABLE_HEADERS}
    value = {"path": request.path, "headers": headers, "body": request.body}
    masked = Masks(value, program.paths).mask(value)
    text = json.dumps(masked, indent=1, ensure_ascii=False) + "\n"
    check_text(f"requests/{wire}.json", text)
