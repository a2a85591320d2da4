"""Turns that are not calls and results: what services refuse in them, whatever their wire."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from joey.providers.catalog import PROVIDER_SPECS
from joey.testing.script import Turn, call, say, stop, think
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import Joey
from tests.service_rules.services import SERVICES, Service

PIXEL_TEXT = (
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5"
    b"ErkJggg=="
)
LABELS = ("anthropic", "openai", "mistral", "gemini", "moonshot", "vllm", "sambanova")
"""One for each way in which conversations are arranged."""
TOOL_NAME_RE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MAX_CACHE_MARKS = 4
TURNS = [
    Turn(think("I think about it."), stop("stop")),
    Turn(say("  \n\n"), stop("stop")),
    Turn(call("read_file", '{"files": [{"path": "a.txt"')),
    Turn(call("no_such_tool", {"path": "a.txt"})),
    Turn(call("execute_command", {"command": "true"})),
    Turn(call("read_file", {"files": [{"path": "a.png"}, {"path": "odd.txt"}]})),
    Turn(say("It is a pixel."), call("attempt_completion", {"result": " \n"})),
    Turn(call("attempt_completion", {"result": "All done."})),
]


def find_odd_content(service: Service, body: dict[str, Any]) -> Iterator[str]:
    """What no service takes in a conversation, or some services do not."""
    ids: list[str] = []
    messages = [each for each in body["messages"] if each["role"] not in ("system", "developer")]
    if messages[0]["role"] != "user":
        yield "the first message is not the user's"
    if messages[-1]["role"] == "assistant":
        yield "the last message is the model's"
    for place, message in enumerate(messages):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        calls = message.get("tool_calls") or []
        is_empty = not any(text and text.strip() for text in texts)
        kinds = {block.get("type") for block in blocks}
        if is_empty and not calls and kinds <= {"text", "thinking"}:
            yield f"message {place} ({message['role']}) is empty"
        if service.is_anthropic and any(not (text or "").strip() for text in texts):
            yield f"message {place} has a blank text"
        if message["role"] != "user" and "image_url" in kinds:
            yield f"message {place} ({message['role']}) has an image"
        for each in calls:
            if not isinstance(json.loads(each["function"]["arguments"]), dict):
                yield f"message {place} has arguments that are no object"
        names = [each["function"]["name"] for each in calls]
        names += [block["name"] for block in blocks if block.get("type") == "tool_use"]
        if any(TOOL_NAME_RE.fullmatch(name) is None for name in names):
            yield f"message {place} calls {names}"
        ids += [each["id"] for each in calls]
        ids += [block["id"] for block in blocks if block.get("type") == "tool_use"]
    if len(set(ids)) < len(ids):
        yield f"ids of calls occur twice: {ids}"
    if json.dumps(body).count('"cache_control"') > MAX_CACHE_MARKS:
        yield "too many marks for the cache"
    if "\\u0000" in json.dumps(body):
        yield "a null character"


@pytest.mark.parametrize(
    "service", [s for s in SERVICES if s.label in LABELS], ids=lambda service: service.label
)
async def test_odd_turns_leave_a_conversation_that_services_take(
    joey: Joey, service: Service
) -> None:
    (joey.workspace / "a.txt").write_text("hello\n")
    (joey.workspace / "a.png").write_bytes(base64.b64decode(PIXEL_TEXT))
    (joey.workspace / "odd.txt").write_text("\n \n\x00\x1b[0m\ud83d\n", errors="surrogatepass")
    found: list[str] = []
    turns = iter(TURNS)

    def answer(request: Request) -> Turn:
        found.extend(find_odd_content(service, request.body))
        return next(turns, TURNS[-1])

    keys = {name: "sk-1" for spec in PROVIDER_SPECS for name in spec.key_variables[:1]}
    async with ModelServer(answer) as server:
        flags = ["--provider", service.name, "--base-url", server.url + service.base_path]
        flags += ["-m", service.model, "--protocol", "native"]
        done = await joey.run("-p", "-y", *flags, "go", env={**joey.env, **keys})
        assert len(server.requests) == len(TURNS)
        assert any(PIXEL_TEXT in request.raw for request in server.requests)
    assert found == []
    assert done.out.strip() == "All done.", done.err
