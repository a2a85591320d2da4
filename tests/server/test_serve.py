"""`joey serve` as a program."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import stat
import subprocess
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import joey
from joey.app import Application, open_engine, open_store
from joey.errors import ConfigError
from joey.server.auth import Token, load_or_create_token
from joey.server.hub import ServerHub
from joey.server.serve import ServeOptions, run_server
from joey.testing.script import Turn, pause, say
from joey.testing.server import ModelServer, by_conversation
from tests.harness.cli.binary import Joey
from tests.harness.cli.terminal import CTRL_C, terminal
from tests.harness.server.binary import Served
from tests.harness.server.server_fixture import TIMEOUT_S, TOKEN, done


@pytest.mark.smoke
async def test_a_terminated_server_says_goodbye_and_its_tasks_can_go_on(tmp_path: Path) -> None:
    turns = [Turn(say("some words"), pause(60.0)), done()]
    async with ModelServer(by_conversation(turns)) as model:
        served = Served(tmp_path, model.url)
        async with served.running() as program, program.peer() as peer:
            task_id = (await peer.ask("startNewTask", text="my secret plan"))["taskId"]
            await peer.event(
                "message", where=lambda e: e["payload"]["message"].get("text") == "some words"
            )
            stopping = asyncio.create_task(program.stop())
            await peer.event("taskAborted")
            with pytest.raises(ConnectionClosed):
                await peer.frame()
            assert peer.socket.close_code == 1001
            code, log = await stopping
            assert code == 143
        async with served.running() as program, program.peer() as peer:
            await peer.ask("sendMessage", task_id, message="go on")
            await peer.asked("completion_result")
        said, *logged = sorted(log.splitlines(), key=lambda line: line.startswith("{"))
        assert said.startswith("joey: listening on http://127.0.0.1:")
        lines = [json.loads(line) for line in logged]  # all but what is said to a user
        assert {"connected", "command"} <= {line["message"] for line in lines}
        [started] = [line for line in lines if line.get("command") == "startNewTask"]
        assert {"time", "level", "client", "request", "ms"} <= set(started)
        assert "my secret plan" not in log
        assert TOKEN not in log
        assert "key-of-the-environment" not in log


@pytest.mark.contract("websocket:commands")
async def test_every_command_and_every_refusal_is_logged_without_contents(tmp_path: Path) -> None:
    secret = "my secret plan"
    frames = {
        "success": ("ping", {}),
        "INVALID_COMMAND": ("fly" * 1000, {}),
        "INVALID_PARAMETER": ("startNewTask", {"text": {"of": secret}}),
        "TASK_NOT_FOUND": ("sendMessage", {"taskId": "none", "message": secret}),
        "EXECUTION_ERROR": ("killProcess", {"pid": 1, "why": secret}),
        "SURROGATE": ("half \ud83d", {"text": secret}),
    }
    async with Served(tmp_path, "http://127.0.0.1:1").running(debug=False) as program:
        async with program.peer() as peer:
            for request_id, (name, arguments) in frames.items():
                frame = {"type": "command", "commandName": name, "requestId": request_id}
                await peer.raw(json.dumps(frame | {"arguments": arguments}))
            await peer.raw(f"{{{secret}")
            await peer.raw(json.dumps({"type": "auth", "token": secret}))
            await peer.raw(json.dumps({"type": "auth", "token": TOKEN}))
        async with connect(program.url) as stranger:
            frame = {"type": "command", "commandName": "ping", "requestId": "no token"}
            await stranger.send(json.dumps(frame))
            assert json.loads(await stranger.recv())["status"] == "error"
        _, log = await program.stop()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    logged = [line for line in lines if line["message"] == "command"]
    assert {line["level"] for line in logged} == {"info"}
    found = [
        (each["command"], each["request"], each["outcome"], each.get("code")) for each in logged
    ]
    assert found == [
        ("ping", "success", "success", None),
        (("fly" * 1000)[:200], "INVALID_COMMAND", "error", "INVALID_COMMAND"),
        ("startNewTask", "INVALID_PARAMETER", "error", "INVALID_PARAMETER"),
        ("sendMessage", "TASK_NOT_FOUND", "error", "TASK_NOT_FOUND"),
        ("killProcess", "EXECUTION_ERROR", "error", "EXECUTION_ERROR"),
        ("half ?", "SURROGATE", "error", "INVALID_COMMAND"),
        ("", "", "error", "INVALID_COMMAND"),
        ("auth", "auth", "error", "PERMISSION_DENIED"),
        ("auth", "auth", "success", None),
        ("ping", "no token", "error", "PERMISSION_DENIED"),
    ]
    assert secret not in log
    assert TOKEN not in log


@pytest.mark.contract("websocket:commands")
@pytest.mark.parametrize("debug", [False, True])
async def test_a_terminal_shows_the_links_and_the_log_only_with_debug(
    tmp_path: Path, debug: bool
) -> None:
    joey_home = Joey(tmp_path / "home", tmp_path)
    async with terminal(joey_home, "serve", "--port", "0", *["--debug"] * debug) as screen:
        await screen.until("Ctrl-C stops.")
        link = screen.text.split()[0]
        address, _, code = link.partition("/#code=")
        async with connect(f"{address.replace('http', 'ws', 1)}/ws") as browser:
            await browser.send(json.dumps({"type": "auth", "token": code}))
            assert json.loads(await browser.recv())["status"] == "success"
            await screen.until(f"For another browser: {address}/#code=")
            ping = {"type": "command", "commandName": "ping", "requestId": "1", "arguments": {}}
            await browser.send(json.dumps(ping))
            assert json.loads(await browser.recv())["status"] == "success"
        screen.press(CTRL_C)
        await screen.ended()
    assert ('"message":"command"' in screen.text) is debug
    assert ('{"time"' in screen.text) is debug
    assert code not in screen.text.partition(link)[2]


def page_at(link: str) -> str:
    with closing(HTTPConnection(urlsplit(link).netloc, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()


async def test_a_copy_without_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    """At the terminal, and to who opens the link all the same."""
    package = Path(joey.__file__).parent
    bare = shutil.ignore_patterns("web", "__pycache__")
    shutil.copytree(package, tmp_path / "copy" / "joey", ignore=bare)
    served = Served(tmp_path, "http://127.0.0.1:1")
    served.env["PYTHONPATH"] = str(tmp_path / "copy")
    async with served.running() as program:
        page = await asyncio.to_thread(page_at, program.link)
        _, said = await program.stop()
    assert "`make web`" in page
    assert "`make web`" in said
    assert "Open the link" not in said


@pytest.mark.parametrize(
    ("flags", "code", "named"),
    [
        (["--host", "0.0.0.0"], 78, "--allow-remote"),
        (["--host", "no.such.host.invalid"], 78, "no.such.host.invalid"),
        (["--allow-origin", "evil"], 78, "'evil'"),
        (["--tls-cert", "x.pem"], 78, "--tls-key"),
        (["--token-file", "nowhere"], 78, "nowhere"),
        (["--port", "66000"], 2, "66000"),
        (["-w", "nowhere"], 2, "nowhere"),
    ],
)
async def test_what_cannot_be_served_is_refused_with_a_reason(
    tmp_path: Path, flags: list[str], code: int, named: str
) -> None:
    served = Served(tmp_path, "http://127.0.0.1:1")
    if "--token-file" in flags:
        del served.env["JOEY_TOKEN"]
    process = await served.start(*(["--port", "0"] if "--port" not in flags else []), *flags)
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == code, err.decode()
    assert named in err.decode()
    assert "Traceback" not in err.decode()


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    served = Served(tmp_path, "http://127.0.0.1:1")
    async with served.running() as program:
        port = program.link.partition("/#")[0].rpartition(":")[2]
        process = await served.start("--port", port)
        async with asyncio.timeout(20):
            _, err = await process.communicate()
        assert process.returncode == 78
        assert f"127.0.0.1:{port}" in err.decode()


async def test_of_two_that_begin_on_one_port_at_once_one_serves_and_one_is_refused(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    setup = Application(workspace=tmp_path, home=tmp_path / "home", env={})
    over = asyncio.Event()

    async def serve() -> None:
        hub = ServerHub(open_engine(home=setup.home, env={}), open_store(setup.home), setup)
        async with run_server(hub, Token(TOKEN), ServeOptions(port=unused_tcp_port)):
            await over.wait()

    both = {asyncio.create_task(serve()), asyncio.create_task(serve())}
    async with asyncio.timeout(20):
        refused, (serving_on,) = await asyncio.wait(both, return_when="FIRST_COMPLETED")
        over.set()
        await serving_on
    with pytest.raises(ConfigError, match=f"127.0.0.1:{unused_tcp_port}"):
        refused.pop().result()


def certificate(directory: Path) -> tuple[Path, Path]:
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-out", str(cert), "-keyout", str(key)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return cert, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
async def test_the_same_over_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    served = Served(tmp_path, "http://127.0.0.1:1")
    async with served.running("--tls-cert", str(cert), "--tls-key", str(key)) as program:
        assert program.link.startswith("https://127.0.0.1:")
        async with program.peer(ssl=ssl.create_default_context(cafile=str(cert))) as peer:
            assert await peer.ask("isReady") == {"ready": True}


def test_a_token_is_made_once_and_kept_to_its_owner(tmp_path: Path) -> None:
    made = load_or_create_token(tmp_path / "home", {})
    assert len(made.value) >= 43
    assert stat.S_IMODE((tmp_path / "home" / "server.token").stat().st_mode) == 0o600
    assert load_or_create_token(tmp_path / "home", {}).value == made.value
    assert made.value not in repr(made)
    assert load_or_create_token(tmp_path / "home", {"JOEY_TOKEN": TOKEN}).value == TOKEN


def test_a_token_that_is_short_or_open_to_others_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="JOEY_TOKEN"):
        load_or_create_token(tmp_path, {"JOEY_TOKEN": "short"})
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_or_create_token(tmp_path, {}, file)
    file.chmod(0o600)
    assert load_or_create_token(tmp_path, {}, file).matches(TOKEN)
    assert not load_or_create_token(tmp_path, {}, file).matches(f"{TOKEN}x")
