"""Roo's IPC socket, over a real one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
from pathlib import Path

import pytest

from joey.core.wire.frames import EventFrame
from joey.errors import ConfigError
from joey.server.feed import Broadcast
from joey.server.ipc import MAX_UNREAD_BYTES, serve_ipc
from joey.server.ipc_protocol import MAX_FRAME_BYTES
from joey.testing.script import Turn, pause, say
from tests.harness.client.serving import ALLOW_ALL, done, open_harness, write
from tests.harness.server.ipc_peer import TIMEOUT_S, Peer, connected, new_task, serving


async def _said(peer: Peer, text: str) -> None:
    """Return when the model has begun with these words."""
    while text not in json.dumps(await peer.event("message")):
        pass


def names(peer: Peer, task_id: str) -> list[str]:
    return [name for name, payload in peer.events if payload[0] == task_id]


@pytest.mark.contract("ipc:frames")
async def test_a_client_is_welcomed_with_its_id_and_the_process(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):
        reader, writer = await asyncio.open_unix_connection(path)
        ack = (await Peer(reader, writer).message())["data"]
        assert re.fullmatch(r"[0-9a-f]{12}", ack["clientId"])
        assert (ack["pid"], ack["ppid"]) == (os.getpid(), os.getppid())
        writer.close()


@pytest.mark.contract("ipc:frames")
async def test_a_task_is_reported_from_its_creation_to_its_result(tmp_path: Path) -> None:
    turns = Turn(say("Writing."), write("note", "hi\n")), Turn(done("written"))
    async with serving(tmp_path, *turns) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("write a note", **ALLOW_ALL))
        [task_id, usage, tools, about] = await peer.event("taskCompleted")
        assert (tmp_path / "work" / "note").read_text() == "hi\n"
        assert names(peer, task_id)[:3] == ["taskCreated", "taskFocused", "taskStarted"]
        assert usage["totalTokensIn"] == 20
        assert tools["write_to_file"] == {"attempts": 1, "failures": 0}
        assert about == {"isSubtask": False}
        texts = [p[0]["message"].get("text") for name, p in peer.events if name == "message"]
        assert texts[0] == "write a note"
        assert "Writing." in texts


@pytest.mark.contract("ipc:commands")
async def test_a_message_answers_an_approval_with_no(tmp_path: Path) -> None:
    turns = Turn(write("note", "hi\n")), Turn(done("as you wish"))
    async with serving(tmp_path, *turns) as (hub, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("write", autoApprovalEnabled=False))
        await peer.asked("tool")
        peer.send("SendMessage", {"text": "rather not"})
        await peer.event("taskAskResponded")
        await peer.event("taskCompleted")
        assert not (tmp_path / "work" / "note").exists()
        assert hub.current_task is not None
        assert "rather not" in str(hub.current_task.messages)


@pytest.mark.contract("ipc:commands")
async def test_a_cancelled_task_is_resumed_by_its_id_and_a_message(tmp_path: Path) -> None:
    never = asyncio.Event()
    turns = Turn(say("Wait."), pause(never)), Turn(done("after all"))
    async with serving(tmp_path, *turns) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("go"))
        [task_id] = await peer.event("taskStarted")
        await _said(peer, "Wait.")
        peer.send("CancelTask")
        assert await peer.event("taskAborted") == [task_id]
        peer.send("ResumeTask", task_id)
        await peer.asked("resume_task")
        assert await peer.event("taskResumable") == [task_id]
        peer.send("SendMessage", {"text": "go on"})
        assert (await peer.event("taskCompleted"))[0] == task_id


async def test_a_task_that_is_opened_again_does_not_tell_its_past_again(tmp_path: Path) -> None:
    async with serving(tmp_path, Turn(done("one"))) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("the beginning"))
        [task_id, *_] = await peer.event("taskCompleted")
    async with serving(tmp_path, Turn(done("two"))) as (_, path), connected(path) as peer:
        peer.send("ResumeTask", task_id)
        await peer.asked("resume_task")
        peer.send("SendMessage", {"text": "go on"})
        await peer.event("taskCompleted")
        assert "the beginning" not in str(peer.events)
        assert names(peer, task_id)[0] == "taskStarted"


@pytest.mark.contract("ipc:commands")
async def test_january_names_the_task_that_it_cancels_and_closes(tmp_path: Path) -> None:
    never = asyncio.Event()
    first, second = Turn(say("one"), pause(never)), Turn(say("two"), pause(never))
    async with serving(tmp_path, first, second) as (hub, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("first"))
        [one] = await peer.event("taskStarted")
        await _said(peer, "one")
        peer.send("StartNewTask", new_task("second"))
        [two] = await peer.event("taskStarted")
        await _said(peer, "two")
        peer.send("CancelTask", one)
        assert await peer.event("taskAborted") == [one]
        peer.send("CloseTask", two)
        assert await peer.event("taskAborted") == [two]
        peer.send("GetModes")
        await peer.event("modesResponse")
        assert [task.id for task in hub.engine.tasks] == [one]
        peer.send("CloseTask")
        peer.send("GetModes")
        await peer.event("modesResponse")
        assert hub.engine.tasks == []


@pytest.mark.contract("ipc:commands")
async def test_a_queued_message_can_be_taken_back(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = Turn(say("Wait."), pause(gate), done("one")), Turn(done("two"))
    async with serving(tmp_path, *turns) as (hub, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("go"))
        await _said(peer, "Wait.")
        peer.send("SendMessage", {"text": "  and this  "})
        [_, [queued]] = await peer.event("queuedMessagesUpdated")
        assert queued["text"] == "and this"
        peer.send("DeleteQueuedMessage", queued["id"])
        [_, queue] = await peer.event("queuedMessagesUpdated")
        assert queue == []
        gate.set()
        await peer.event("taskCompleted")
        assert hub.current_task is not None
        assert "and this" not in str(hub.current_task.messages)


@pytest.mark.contract("ipc:commands")
async def test_answers_go_to_the_client_that_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path), connected(path) as peer, connected(path) as other:
        peer.send("GetModes")
        [modes] = await peer.event("modesResponse")
        assert {"slug": "code", "name": "💻 Code"} in modes
        peer.send("GetCommands")
        [commands] = await peer.event("commandsResponse")
        assert [command["name"] for command in commands] == ["init", "review"]
        peer.send("GetModels")
        [models] = await peer.event("modelsResponse")
        assert all(
            {"contextWindow", "supportsPromptCache"} <= info.keys() for info in models.values()
        )
        other.send("GetCommands")
        await other.event("commandsResponse")
        assert [name for name, _ in other.events] == ["commandsResponse"]


@pytest.mark.contract("ipc:commands")
async def test_every_client_gets_the_events_of_every_task(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, Turn(done())) as (_, path),
        connected(path) as one,
        connected(path) as two,
    ):
        one.send("StartNewTask", new_task("go"))
        completed = await one.event("taskCompleted")
        assert await two.event("taskCompleted") == completed
        assert one.events == two.events


@pytest.mark.contract("ipc:frames")
async def test_what_cannot_be_done_is_logged_and_the_client_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (_, path), connected(path) as peer:
        peer.write(b"no json at all")
        peer.write(b"\xff\xfe")
        peer.send("Explode")
        peer.send("ResumeTask", "no-such-task")
        peer.send("ResumeTask", "../../etc")
        peer.send("SendMessage", {"text": "to nobody"})
        peer.send("SendMessage", {"text": "   "})
        peer.send("DeleteQueuedMessage", "none")
        peer.send("StartNewTask", new_task("go", mode="no-such-mode"))
        peer.send("GetCommands")
        [commands] = await peer.event("commandsResponse")
        assert [command["name"] for command in commands] == ["init", "review"]
    dropped = [record for record in caplog.records if "is dropped" in record.message]
    assert len(dropped) == 8
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.contract("ipc:frames")
async def test_a_client_that_sends_without_end_is_cut(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path), connected(path) as peer:
        piece = b"x" * (1024 * 1024)
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(TIMEOUT_S):
                for _ in range(2 * MAX_FRAME_BYTES // len(piece)):
                    peer.writer.write(piece)
                    await peer.writer.drain()


@pytest.mark.contract("ipc:frames")
async def test_a_client_that_does_not_read_is_cut_and_others_are_not(tmp_path: Path) -> None:
    text = "x" * 100_000
    count = 3 * MAX_UNREAD_BYTES // len(text)
    row = {"ts": 1, "type": "say", "say": "text", "text": text}
    frame = EventFrame(
        event_name="message", task_id="t", payload={"action": "updated", "message": row}, seq=1
    )
    async with (
        serving(tmp_path) as (hub, path),
        connected(path, limit=1024) as deaf,
        connected(path) as peer,
    ):
        for _ in range(count):
            hub.broadcast(Broadcast(frame))
            await peer.event("message")
        async with asyncio.timeout(TIMEOUT_S):
            unread = await _all_that_is_left(deaf)
        assert len(unread) < count * len(text)
        peer.send("GetCommands")
        await peer.event("commandsResponse")


async def _all_that_is_left(peer: Peer) -> bytes:
    read = bytearray()
    try:
        while data := await peer.reader.read(1024 * 1024):
            read += data
    except ConnectionResetError:
        return bytes(read)
    return bytes(read)


@pytest.mark.contract("ipc:clients")
async def test_the_socket_is_its_owners_alone_and_gone_at_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_a_socket_that_a_dead_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "private" / "roo.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(tmp_path), connected(path) as peer:
        assert peer.client_id


async def test_the_place_of_a_live_server_is_left_to_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (hub, path):
        with pytest.raises(ConfigError, match="another program listens there"):
            async with serve_ipc(hub, path):
                pass
        async with connected(path) as peer:
            assert peer.client_id


async def test_a_file_that_is_no_socket_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "private" / "roo.sock"
    path.parent.mkdir()
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a socket"):
        async with serving(tmp_path):
            pass
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("mode", [0o777, 0o757])
async def test_a_directory_where_anybody_may_swap_files_is_refused(
    tmp_path: Path, mode: int
) -> None:
    directory = tmp_path / "private"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(ConfigError, match="everybody may write there"):
        async with serving(tmp_path):
            pass


async def test_a_name_that_is_too_long_for_a_socket_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    async with open_harness(tmp_path, ()) as (place, _):
        with pytest.raises(ConfigError, match="too long"):
            async with serve_ipc(place.hub(), tmp_path / ("x" * 200)):
                pass
