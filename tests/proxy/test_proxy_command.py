"""`joey proxy` as programs and people use it: its lines, its files, its ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from joey.config.config_store import ConfigStore
from joey.proxy.book import open_book
from joey.testing.script import Turn, say, usage
from joey.testing.server import ModelServer
from tests.harness.proxy.proxies import (
    OK,
    WAIT_S,
    answer_ok,
    build_request,
    list_names,
    list_recorded,
    open_proxy,
    run_joey,
    send,
    serve,
    start_proxy,
)

MODEL = "claude-sonnet-4-5"
BODY = json.dumps(
    {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hi \u00e9"}]},
    ensure_ascii=False,
    indent=1,
).encode()
TURN = Turn(say("Hello."), usage(input=100_000, output=10_000))
DOLLARS = "$0.4500"
CLIENT = """\
import os, sys, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"]
assert os.environ["OPENAI_BASE_URL"] == url + "/v1"
request = urllib.request.Request(url + "/v1/messages", sys.stdin.buffer.read(), {"x-api-key": "k"})
print(len(urllib.request.urlopen(request).read()))
print("a warning", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.parametrize("as_json", [False, True])
async def test_the_address_is_one_line_as_soon_as_the_proxy_listens(
    tmp_path: Path, as_json: bool
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "joey", "proxy", "--port", "0", "--db", str(tmp_path / "b.sqlite")),
        *(["--json"] if as_json else []),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        line = (await process.stdout.readline()).decode()
        url = json.loads(line)["url"] if as_json else line.strip()
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.close()
        process.send_signal(signal.SIGINT)
        assert await process.stdout.read() == b""
        assert await process.wait() == 130
    assert url.startswith("http://127.0.0.1:")


@pytest.mark.smoke
async def test_what_went_through_can_be_read_back_byte_for_byte(tmp_path: Path) -> None:
    book = tmp_path / "own.sqlite"
    async with ModelServer([TURN]) as server, start_proxy(book, f"{server.url}/v1") as proxy:
        request = build_request("/v1/messages?beta=true", body=BODY, X_Api_Key="sk-secret")
        answer = await send(proxy.port, request, 100)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        (got,) = server.requests
        assert (got.raw, got.path) == (BODY, "/v1/messages?beta=true")
        assert got.headers["x-api-key"] == "sk-secret"
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.process.wait() == 143
    assert list_names(tmp_path / "own.sqlite-spool") == []
    ended = await run_joey("proxy", "list", "--json", "--db", str(book))
    (session,) = json.loads(ended.stdout)
    assert (session["requests"], session["model"]) == (1, MODEL)
    name = f"{session['id']}.1"
    ended = await run_joey("proxy", "show", name, "--raw", "request", "--db", str(book))
    assert ended.stdout.encode() == BODY
    ended = await run_joey("proxy", "show", name, "--json", "--db", str(book))
    shown: dict[str, Any] = json.loads(ended.stdout)
    assert (shown["method"], shown["path"], shown["wire"]) == (
        "POST",
        "/v1/messages?beta=true",
        "anthropic",
    )


async def test_a_program_that_is_run_is_recorded_and_its_cost_printed(tmp_path: Path) -> None:
    book = str(tmp_path / "b.sqlite")
    async with ModelServer([TURN]) as server:
        ended = await run_joey(
            *("proxy", "run", "--anthropic", server.url, "--db", book, "--"),
            *(sys.executable, "-c", CLIENT),
            given=BODY,
        )
    assert ended.code == 7
    assert int(ended.stdout) > 100
    assert ended.stderr.splitlines() == ["a warning", f"joey: 1 request recorded, {DOLLARS}"]


async def test_a_run_passes_on_to_the_address_that_the_client_had(tmp_path: Path) -> None:
    async with ModelServer([TURN]) as server:
        ended = await run_joey(
            *("proxy", "run", "--db", str(tmp_path / "b.sqlite"), "--"),
            *(sys.executable, "-c", CLIENT),
            given=BODY,
            env={"ANTHROPIC_BASE_URL": server.url},
        )
        assert (ended.code, len(server.requests)) == (7, 1)


async def test_a_run_names_models_without_a_price(tmp_path: Path) -> None:
    body = BODY.replace(MODEL.encode(), b"my-model")
    async with ModelServer([TURN]) as server:
        ended = await run_joey(
            *("proxy", "run", "--anthropic", server.url, "--db", str(tmp_path / "b.sqlite"), "--"),
            *(sys.executable, "-c", CLIENT),
            given=body,
        )
    assert "1 request recorded, $0.0000 without my-model, whose price is not known" in ended.stderr


async def test_a_run_without_requests_says_what_the_program_did_not_use(tmp_path: Path) -> None:
    book = str(tmp_path / "b.sqlite")
    ended = await run_joey("proxy", "run", "--db", book, "--", sys.executable, "-c", "")
    assert "no request was recorded, $0.0000: the program did not use ANTHROPIC" in ended.stderr


async def test_a_run_ends_as_its_program_does(tmp_path: Path) -> None:
    book = ("--db", str(tmp_path / "b.sqlite"))
    killed = await run_joey("proxy", "run", *book, "--", "sh", "-c", "kill -9 $$")
    assert killed.code == 128 + 9
    missing = await run_joey("proxy", "run", *book, "--", "no-such-program-here")
    assert missing.code != 0
    assert "no-such-program-here cannot be started: No such file or directory" in missing.stderr
    nothing = await run_joey("proxy", "run", *book)
    assert "name the program to record" in nothing.stderr


async def test_sessions_are_forgotten_for_good(tmp_path: Path) -> None:
    book = tmp_path / "b.sqlite"
    async with ModelServer([TURN, TURN]) as server, start_proxy(book, server.url) as proxy:
        for word in (b"first words", b"other words"):
            body = BODY.replace(b"Hi", word)
            await send(proxy.port, build_request(body=body, User_Agent="claude-cli/2.0"), 100)
        flag = ("--db", str(book))
        sessions = json.loads((await run_joey("proxy", "list", "--all", "--json", *flag)).stdout)
        assert len(sessions) == 2
        unknown = await run_joey("proxy", "forget", "77", *flag)
        assert (unknown.code, unknown.stderr.count("session 77 does not exist")) == (1, 1)
        assert (await run_joey("proxy", "forget", "x", *flag)).code == 1
        ended = await run_joey("proxy", "forget", str(sessions[0]["id"]), *flag)
        assert ended.stdout == "1 request removed\n"
        (left,) = json.loads((await run_joey("proxy", "list", "--all", "--json", *flag)).stdout)
        assert left["title"].startswith("other words")
        ended = await run_joey("proxy", "forget", "--before", "1m", *flag)
        assert ended.stdout == "0 requests removed\n"


@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "qwen", "pi", "aider"])
async def test_every_client_can_be_pointed_at_a_port(tmp_path: Path, client: str) -> None:
    ended = await run_joey("proxy", "env", client, "--port", "4711", "--db", str(tmp_path / "b"))
    assert ended.code == 0
    assert "http://127.0.0.1:4711" in ended.stdout
    assert list_names(tmp_path) == []


async def test_the_book_is_in_the_home_unless_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = await run_joey("proxy", "list", env={"JOEY_HOME": str(home)})
    assert ended.code == 0
    assert (home / "proxy" / "book.sqlite").stat().st_mode & 0o777 == 0o600
    assert (home / "proxy").stat().st_mode & 0o777 == 0o700


async def test_a_port_that_is_taken_and_a_circle_are_refused(tmp_path: Path) -> None:
    book = ("--db", str(tmp_path / "b.sqlite"))
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as proxy:
        taken = await run_joey("proxy", "--port", str(proxy.port), *book)
        assert taken.code == 78
        assert f"port {proxy.port} cannot be used: Address already in use" in taken.stderr
    url = "http://127.0.0.1:4711"
    circle = await run_joey("proxy", "--port", "4711", "--openai", url, *book)
    assert circle.code == 78
    assert "is the proxy itself" in circle.stderr


async def test_the_key_of_a_profile_is_sent_only_with_the_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    profile = {"provider": "anthropic", "apiKey": "sk-of-the-profile", "model": MODEL}
    ConfigStore(home).save_profile("p", profile, activate=True)
    env = {"JOEY_HOME": str(home)}
    book = tmp_path / "b.sqlite"
    async with (
        ModelServer([TURN]) as server,
        start_proxy(book, server.url, "--key-from", "p", env=env) as proxy,
    ):
        prefix = proxy.url.split("/")[3]
        assert prefix.startswith("~")
        refused = await send(proxy.port, build_request(body=BODY))
        assert refused.startswith(b"HTTP/1.1 401 ")
        request = build_request(f"/{prefix}/v1/messages", body=BODY, X_Api_Key="of-the-client")
        await send(proxy.port, request, 100)
        (got,) = server.requests
    assert got.headers["x-api-key"] == "sk-of-the-profile"
    assert prefix not in got.path


async def test_a_book_that_breaks_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    book = tmp_path / "book.sqlite"
    async with serve(answer_ok) as service, start_proxy(book, service) as proxy:
        with open_book(book) as opened:
            opened.connection.execute("DROP TABLE answer")
        for _ in range(3):
            assert await send(proxy.port, build_request(body=BODY), len(OK)) == OK
        proxy.process.send_signal(signal.SIGINT)
        _, stderr = await proxy.process.communicate()
    (line,) = (each for each in stderr.decode().splitlines() if "STOPPED" in each)
    assert "no such table: answer. Requests are still passed on. Restart joey proxy" in line


async def test_the_locks_of_the_database_survive_all_that_a_process_does(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the locks that its process holds on it."""
    async with serve(answer_ok) as service, open_proxy(tmp_path, service) as proxy:
        for _ in range(3):
            await send(proxy.port, build_request(body=BODY), len(OK))
        await proxy.wait_for_recorded(3)
        list_recorded(proxy.book)
        assert is_locked_by_us(proxy.book)
        assert is_locked_by_us(proxy.book.with_name(f"{proxy.book.name}-shm"))


def is_locked_by_us(path: Path) -> bool:
    owner, inode = str(os.getpid()), str(path.stat().st_ino)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        fields[1] == "POSIX" and fields[4] == owner and fields[5].split(":")[2] == inode
        for fields in locks
        if len(fields) > 5
    )
