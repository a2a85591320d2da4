"""Real coding agents through `joey proxy run`, unchanged but for their base URL, and a scripted
model. Not collected by itself: `make npmclients` installs the agents and runs it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from scripts.npm_clients import PACKAGES, PROGRAMS, is_installed

from joey.proxy.filing import open_filed_book
from joey.testing.script import Turn, call, say, usage
from joey.testing.server import ModelServer, Request
from tests.harness.proxy.proxies import run_joey

ANSWER = "The answer is 4217."
TURN = Turn(say(ANSWER), usage(input=1200, output=9))
RESULT = Turn(call("attempt_completion", {"result": ANSWER}), usage(input=1200, output=9))
MODEL = "claude-sonnet-4-5"
LIMIT_S = 240
CODEX = (
    "exec codex exec --skip-git-repo-check -c model_provider=joey -c"
    ' "model_providers.joey={name=\\"joey\\",base_url=\\"$OPENAI_BASE_URL\\",'
    'wire_api=\\"responses\\",env_key=\\"OPENAI_API_KEY\\"}" "what is it"'
)
OPENCODE = (
    'echo "{\\"provider\\":{\\"anthropic\\":{\\"options\\":{\\"baseURL\\":'
    '\\"$ANTHROPIC_BASE_URL/v1\\"}}}}" > opencode.json;'
    f" exec opencode run -m anthropic/{MODEL} 'what is it'"
)
PI = (
    'mkdir -p "$HOME/.pi/agent"; echo "{\\"providers\\":{\\"anthropic\\":{\\"baseUrl\\":'
    '\\"$ANTHROPIC_BASE_URL\\"}}}" > "$HOME/.pi/agent/models.json";'
    f" exec pi -p --provider anthropic --model {MODEL} 'what is it'"
)


class Client(NamedTuple):
    reported_as: str
    command: tuple[str, ...]
    env: Mapping[str, str] = {}


CLIENTS = {
    "@anthropic-ai/claude-code": Client(
        "claude-code",
        ("claude", "-p", "what is it", "--model", MODEL),
        {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    "@openai/codex": Client("codex", ("sh", "-c", CODEX)),
    "opencode-ai": Client("opencode", ("sh", "-c", OPENCODE)),
    "@qwen-code/qwen-code": Client(
        "qwen-code", ("qwen", "-p", "what is it"), {"OPENAI_MODEL": "qwen3-coder"}
    ),
    "@mariozechner/pi-coding-agent": Client("pi", ("sh", "-c", PI)),
    "joey": Client(
        "joey",
        (sys.executable, "-m", "joey", "-p", "what is it", "--provider", "anthropic", "-m", MODEL),
    ),
}


def test_every_pinned_package_has_a_client() -> None:
    assert is_installed(), "no clients: python -m scripts.npm_clients"
    assert CLIENTS.keys() == {*PACKAGES, "joey"}


@pytest.mark.timeout(2 * LIMIT_S + 60)
@pytest.mark.parametrize("package", CLIENTS)
async def test_a_real_client_works_and_is_recorded_byte_for_byte(
    tmp_path: Path, package: str
) -> None:
    client = CLIENTS[package]
    book = tmp_path / "book.sqlite"
    work, home = tmp_path / "work", tmp_path / "home"
    for directory in (work, home):
        directory.mkdir()
    env = {
        **os.environ,
        **client.env,
        "HOME": str(home),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "sk-of-this-test",
        "OPENAI_API_KEY": "sk-of-this-test",
    }
    turn = RESULT if package == "joey" else TURN
    async with ModelServer(lambda _: turn) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "joey", "proxy", "run", "--db", str(book)),
            *("--anthropic", server.url, "--openai", f"{server.url}/v1", "--", *client.command),
            env=env,
            cwd=work,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(LIMIT_S):
            stdout, stderr = await process.communicate()
        assert ANSWER in stdout.decode(), stderr.decode()
        assert process.returncode == 0
        sent = list(server.requests)
    recorded = read_recorded(book, sent)
    assert recorded == [each.raw for each in sent]
    assert b"sk-of-this-test" not in book.read_bytes()
    report = await run_joey("proxy", "report", "--format", "json", "--db", str(book))
    names = [each["name"] for each in json.loads(report.stdout)["clients"]]
    assert names == [client.reported_as]
    assert ANSWER in await play(book, tmp_path / "session.json", client, env, work)
    size = sum(map(len, recorded))
    sys.stdout.write(f"{package}: {len(sent)} requests, {size} bytes the same in the book\n")


async def play(
    book: Path, fixture: Path, client: Client, env: Mapping[str, str], work: Path
) -> str:
    """What the same program says when its recorded session is played to it."""
    exported = await run_joey("proxy", "export", "1", "-o", str(fixture), "--db", str(book))
    assert exported.code == 0, exported.stderr
    flags = ("--loose",) if client.reported_as == "joey" else ()  # it tells the model the time
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "joey", "proxy", "serve", str(fixture), *flags),
        stdout=PIPE,
    )
    assert server.stdout is not None
    url = (await server.stdout.readline()).decode().strip()
    urls = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1"}
    program = await asyncio.create_subprocess_exec(
        *client.command, env={**env, **urls}, cwd=work, stdin=DEVNULL, stdout=PIPE
    )
    async with asyncio.timeout(LIMIT_S):
        stdout, _ = await program.communicate()
    server.terminate()
    await server.wait()
    return stdout.decode()


def read_recorded(book: Path, sent: list[Request]) -> list[bytes]:
    """The bodies of the requests that reached the model, in its order."""
    with open_filed_book(book) as opened:
        bodies = [opened.request_body(each.id) for each in opened.exchanges() if each.status == 200]
    order = [each.raw for each in sent]
    return sorted(bodies, key=lambda body: order.index(body) if body in order else -1)
