"""Who is let in, and what becomes of those who misbehave."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from joey.server.commands import HANDLERS
from joey.server.serve import ServeOptions
from joey.server.websocket import ConnectionLimits
from joey.testing.script import Turn, pause, say
from tests.harness.server.http_requests import get
from tests.harness.server.server_fixture import TOKEN, Peer, ServerFixture, done, open_server

WRONG = "not-the-token-0123456789"
QUICK = ServeOptions(port=0, limits=ConnectionLimits(failed_auth_delay_s=0))
IMPATIENT = ServeOptions(port=0, limits=ConnectionLimits(auth_timeout_s=0.1, failed_auth_delay_s=0))
ROUTES = ("/", "/health", "/metrics", "/schema.json", "/assets/index.js")


async def refused(here: ServerFixture, **options: Any) -> int:
    """The status of a request for an upgrade that was not let in."""
    with pytest.raises(InvalidStatus) as caught:
        async with here.socket(**options):
            pass
    return int(caught.value.response.status_code)


async def test_the_token_may_come_in_three_ways(tmp_path: Path) -> None:
    async with open_server(tmp_path, options=QUICK) as here:
        async with here.peer() as peer:
            assert await peer.ask("isReady") == {"ready": True}
        async with here.peer(token=None, subprotocol=f"joey.token.{TOKEN}") as peer:
            assert peer.socket.subprotocol == f"joey.token.{TOKEN}"
        async with here.peer(path="/") as peer:
            assert await peer.ask("isReady") == {"ready": True}
        async with here.socket(token=None) as socket:
            peer = Peer(socket)
            answer = await peer.raw(json.dumps({"type": "auth", "token": TOKEN}))
            assert (answer["requestId"], answer["status"]) == ("auth", "success")
            assert (await peer.frame())["requestId"] == "welcome"


async def test_a_wrong_token_is_refused_in_each_of_them(tmp_path: Path) -> None:
    async with open_server(tmp_path, options=QUICK) as here:
        assert await refused(here, token=WRONG) == 401
        assert await refused(here, token=None, subprotocol=f"joey.token.{WRONG}") == 401
        for first in (
            {"type": "auth", "token": WRONG},
            {"type": "auth"},
            {"type": "command", "commandName": "isReady", "requestId": "1"},
        ):
            async with here.socket(token=None) as socket:
                peer = Peer(socket)
                answer = await peer.raw(json.dumps(first))
                assert answer["error"]["code"] == "PERMISSION_DENIED"
                with pytest.raises(ConnectionClosed) as closed:
                    await peer.frame()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 4401
        assert here.hub.counters.refused_count == 5
        assert here.hub.counters.accepted_count == 0


async def test_whoever_says_nothing_is_not_kept(tmp_path: Path) -> None:
    async with open_server(tmp_path, options=IMPATIENT) as here, here.socket(token=None) as socket:
        answer = await Peer(socket).frame()
        assert answer["error"]["code"] == "PERMISSION_DENIED"
        await socket.wait_closed()
        assert socket.close_code == 4401


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost", "https://127.0.0.1:{port}", "file://"],
)
async def test_a_page_from_elsewhere_is_refused_even_with_the_token(
    tmp_path: Path, origin: str
) -> None:
    async with open_server(tmp_path) as here:
        origin = origin.format(port=here.listening.port)
        assert await refused(here, origin=origin) == 403
        for path in ROUTES:
            assert (await get(here, path, origin=origin))[0] == 403


async def test_our_own_page_and_a_page_that_was_allowed_are_let_in(tmp_path: Path) -> None:
    options = ServeOptions(port=0, allow_origins=("https://joey.example.org",))
    async with open_server(tmp_path, options=options) as here:
        port = here.listening.port
        for origin in (f"http://127.0.0.1:{port}", "https://joey.example.org"):
            async with here.peer(origin=origin) as peer:
                await peer.ask("ping")
        assert await refused(here, origin="https://joey.example.org.evil.example") == 403


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "127.0.0.1.evil.example:{port}", ""]
)
async def test_a_name_that_was_bent_to_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    async with open_server(tmp_path) as here:
        host = host.format(port=here.listening.port)
        for path in ROUTES:
            assert (await get(here, path, host=host))[0] == 403
        head = {
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "sec-websocket-version": "13",
            "authorization": f"Bearer {TOKEN}",
        }
        assert (await get(here, "/ws", host=host, **head))[0] == 403


async def test_two_hosts_or_two_origins_are_not_one_good_one(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here:
        port = here.listening.port
        good, evil = f"127.0.0.1:{port}", "evil.example"
        for second in (f"host: {evil}", f"origin: http://{good}\r\norigin: http://{evil}"):
            status, _, _ = await get(here, "/health", host=f"{good}\r\n{second}")
            assert status in (400, 403)


async def test_pages_are_closed_to_scripts_from_elsewhere_and_change_nothing(
    tmp_path: Path,
) -> None:
    async with open_server(tmp_path) as here:
        status, head, _ = await get(here, "/")
        assert status == 200
        assert "content-security-policy: default-src 'none'; script-src 'self'" in head
        assert "unsafe-inline" not in head
        assert "access-control-allow-origin" not in head
        assert "x-content-type-options: nosniff" in head
        assert "frame-ancestors 'none'" in head
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await get(here, "/", method))[0] == 405
        for path in (
            "/assets/../../auth.py",
            "/assets/%2e%2e/%2e%2e/auth.py",
            "/assets//etc/passwd",
        ):
            assert (await get(here, path))[0] == 404


async def test_health_is_for_all_and_numbers_are_for_those_with_the_token(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="go")
        bearer = f"Bearer {TOKEN}"
        _, _, body = await get(here, "/health")
        assert set(json.loads(body)) == {"status", "version"}
        _, _, body = await get(here, "/health", authorization=bearer)
        assert (json.loads(body)["tasks"], json.loads(body)["connections"]) == (1, 1)
        assert (await get(here, "/metrics"))[0] == 401
        _, _, body = await get(here, "/metrics", authorization=bearer)
        assert 'joey_commands_total{command="startNewTask",outcome="success"} 1' in body
        assert "joey_connections 1" in body
        _, _, body = await get(here, "/schema.json")
        assert json.loads(body)["$defs"]["event"]


async def test_too_many_connections_are_refused_and_the_others_stay(tmp_path: Path) -> None:
    options = ServeOptions(port=0, limits=ConnectionLimits(max_connections=2))
    async with open_server(tmp_path, options=options) as here, here.peer() as peer:
        async with here.peer():
            assert await refused(here) == 503
        await peer.ask("ping")
        async with here.peer():
            pass


def command(name: str = "ping", **fields: Any) -> str:
    return json.dumps({"type": "command", "commandName": name, "requestId": "r", **fields})


MISTAKES: list[tuple[str | bytes, str, str]] = [
    ("not json", "INVALID_COMMAND", "not JSON"),
    ("[1, 2]", "INVALID_COMMAND", "object"),
    ('{"type": "event"}', "INVALID_COMMAND", "`type`"),
    (b'{"type": "command"}', "INVALID_COMMAND", "text"),
    ("[" * 200_000, "INVALID_PARAMETER", "deeper than 64"),
    (command(arguments={"a": json.loads("[" * 70 + "]" * 70)}), "INVALID_PARAMETER", "deeper"),
    (command("flyTask"), "INVALID_COMMAND", "flyTask"),
    ('{"type": "command", "commandName": "ping"}', "INVALID_PARAMETER", "requestId"),
    (command(requestId=5), "INVALID_PARAMETER", "requestId"),
    (command(arguments=[]), "INVALID_PARAMETER", "arguments"),
    (command(taskId=7), "INVALID_PARAMETER", "taskId"),
    (command("cancelTask"), "INVALID_PARAMETER", "taskId"),
    (command("resumeTask", taskId=""), "INVALID_PARAMETER", "taskId"),
    (command("getMessages"), "INVALID_PARAMETER", "taskId"),
    (command("getMessages", arguments={"taskId": 7}), "INVALID_PARAMETER", "taskId"),
    (command("getMessages", taskId="../../etc"), "TASK_NOT_FOUND", "../../etc"),
    (command("startNewTask"), "INVALID_PARAMETER", "text"),
    (command("startNewTask", arguments={"text": 5}), "INVALID_PARAMETER", "arguments.text"),
    (command("startNewTask", arguments={"text": "x", "taskId": "../x"}), "INVALID_PARAMETER", "ta"),
    (command("startNewTask", arguments={"text": "x", "mode": "?"}), "INVALID_PARAMETER", "mode"),
    (
        command("startNewTask", arguments={"text": "x", "workspace": "/nowhere/at/all"}),
        "INVALID_PARAMETER",
        "workspace",
    ),
    (
        command("startNewTask", arguments={"text": "x", "configuration": {"maxRetries": "x"}}),
        "INVALID_PARAMETER",
        "maxRetries",
    ),
    *(
        (
            command("startNewTask", arguments={"text": "x", "configuration": {name: value}}),
            "INVALID_PARAMETER",
            name,
        )
        for name in ("mode", "currentApiConfigName")
        for value in ({"a": 1}, [1], 5)
    ),
    *(
        (command("setConfiguration", arguments={"values": {name: value}}), "INVALID_PARAMETER", "")
        for name in ("mode", "currentApiConfigName")
        for value in ({"a": 1}, [1], 5)
    ),
    (command("createProfile"), "INVALID_PARAMETER", "arguments.name"),
    (command("setConfiguration"), "INVALID_PARAMETER", "arguments.values"),
    (command("subscribe", arguments={"since": -1}), "INVALID_PARAMETER", "arguments.since"),
    (command("respond", arguments={"askTs": 1, "response": "maybe"}), "INVALID_PARAMETER", "resp"),
]


@pytest.mark.contract("websocket:commands")
async def test_whatever_is_wrong_with_a_frame_is_named_and_hurts_nobody(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        for frame, code, named in MISTAKES:
            response = await peer.raw(frame)
            assert response["status"] == "error", frame[:200]
            assert response["error"]["code"] == code, (frame[:200], response)
            assert named in response["error"]["message"], (frame[:200], response)
        await peer.ask("ping")


async def test_a_huge_frame_costs_its_sender_the_connection(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as other, here.peer() as peer:
        with pytest.raises(ConnectionClosed):
            await peer.socket.send(command(arguments={"a": "x" * 10_000_000}))
            await peer.frame()
        assert peer.socket.close_code == 1009
        await other.ask("ping")


async def test_a_flood_is_read_slowly_and_answered_whole(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as flooder, here.peer() as other:
        for number in range(260):
            await flooder.socket.send(command(requestId=str(number)))
        await other.ask("ping")
        answered = [(await flooder.frame())["requestId"] for _ in range(260)]
        assert answered == [str(number) for number in range(260)]


async def test_a_server_that_stops_says_so_and_leaves_its_tasks_to_be_resumed(
    tmp_path: Path,
) -> None:
    turns = (Turn(say("a"), pause(60.0)), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.event("message", where=lambda e: e["payload"]["message"].get("partial") is True)
        await here.hub.close()
        await peer.event("taskAborted")
        answer = await peer.raw(command("startNewTask", arguments={"text": "x"}))
        assert answer["error"]["code"] == "API_NOT_READY"
        assert await peer.ask("isReady") == {"ready": False}
        here.listening.connections.close()
        with pytest.raises(ConnectionClosed):
            await peer.frame()
        assert peer.socket.close_code == 1001
    async with open_server(tmp_path, done(), done()) as again, again.peer() as peer:
        await peer.ask("sendMessage", task_id, message="go on")
        await peer.asked("completion_result")


async def test_a_defect_is_answered_and_logged_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def defect(hub: object, call: object) -> Any:
        raise RuntimeError("a secret of the server")

    monkeypatch.setitem(HANDLERS, "getModes", defect)
    async with open_server(tmp_path) as here, here.peer() as peer:
        answer = await peer.raw(command("getModes"))
        assert answer["error"]["code"] == "SERVER_ERROR"
        assert "secret" not in answer["error"]["message"]
        await peer.ask("ping")
    assert "a secret of the server" in caplog.text


async def test_a_caller_that_never_asks_for_anything_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        monkeypatch.setattr("joey.server.websocket.HANDSHAKE_TIMEOUT_S", 0.05)
        for said in (b"", b"GET / HTTP/1.1\r\nHost: x"):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.listening.port)
            writer.write(said)
            async with asyncio.timeout(60):
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
            writer.close()
        await peer.ask("ping")
