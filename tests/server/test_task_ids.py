"""Only an absent task id means the current task, in every command and on every surface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.client.remote import RemoteError
from joey.core.wire.commands import COMMANDS, CommandSpec, TaskNeed
from joey.testing.script import Turn, call
from tests.harness.client.serving import done as completing
from tests.harness.client.serving import open_harness, write
from tests.harness.server.ipc_peer import connected, new_task, serving
from tests.harness.server.server_fixture import (
    CommandFailedError,
    Peer,
    ServerFixture,
    done,
    open_server,
)

pytestmark = pytest.mark.contract("websocket:commands")

NO_IDS: tuple[Any, ...] = ("", "task_", None, 7, True, [], {}, "x" * 257)
UNKNOWN = ("nobody", "task_nobody", " ", "../../etc")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "sendMessage": {"message": "yes, go on"},
    "respond": {"askTs": 1, "response": "yesButtonClicked"},
    "switchMode": {"mode": "ask"},
    "revokePermission": {"setting": "allowedCommands", "text": "ls", "scope": "task"},
    "setApprovalLevel": {"level": "all"},
    "editQueue": {"id": "m", "remove": True},
    "killProcess": {"pid": 1},
    "rewindTask": {"messageTs": 1},
    "editMessage": {"messageTs": 1, "text": "something else"},
    "diffCheckpoint": {"checkpoint": "c"},
    "restoreCheckpoint": {"checkpoint": "c"},
}
"""What each command needs besides the task."""

ABOUT_A_TASK = [kind for kind in COMMANDS.values() if kind.task_need is not TaskNeed.NONE]


@asynccontextmanager
async def asking(tmp_path: Path) -> AsyncIterator[tuple[ServerFixture, Peer]]:
    """A server whose current task waits for an approval; none of what is sent may touch it."""
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, edit, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="write it"))["taskId"]
        ask_ts = await peer.asked("tool")
        before = (await peer.ask("getTask", task_id))["task"]
        settings = await peer.ask("getConfiguration")
        yield here, peer
        assert (await peer.ask("getTask", task_id))["task"] == before
        assert await peer.ask("getConfiguration") == settings
        view = before["ask"].pop("view")
        assert view["title"].endswith("?")
        assert before["ask"] == {"ts": ask_ts, "ask": "tool"}
        assert not (here.workspace / "a.txt").exists()
        assert (await peer.ask("respond", task_id, **yes(ask_ts)))["accepted"]
        await peer.asked("completion_result")
        assert (here.workspace / "a.txt").exists()


def yes(ask_ts: int) -> dict[str, Any]:
    return {"askTs": ask_ts, "response": "yesButtonClicked"}


async def error_of(peer: Peer, kind: CommandSpec, where: str, task_id: Any) -> dict[str, Any]:
    frame: dict[str, Any] = {"type": "command", "commandName": kind.name, "requestId": "r"}
    frame["arguments"] = dict(ARGUMENTS.get(kind.name, {}))
    (frame if where == "frame" else frame["arguments"])["taskId"] = task_id
    response = await peer.raw(json.dumps(frame))
    assert response["status"] == "error", f"{kind.name} took {task_id!r} in its {where}"
    error: dict[str, Any] = response["error"]
    return error


@pytest.mark.parametrize("where", ["frame", "arguments"])
async def test_what_is_no_task_id_never_means_the_current_task(tmp_path: Path, where: str) -> None:
    async with asking(tmp_path) as (_, peer):
        for kind in ABOUT_A_TASK:
            for no_id in NO_IDS:
                error = await error_of(peer, kind, where, no_id)
                assert error["code"] == "INVALID_PARAMETER", (kind.name, no_id, error)
                assert "taskId" in error["message"]


@pytest.mark.parametrize("where", ["frame", "arguments"])
async def test_an_unknown_task_is_not_found_by_any_command(tmp_path: Path, where: str) -> None:
    async with asking(tmp_path) as (_, peer):
        for kind in ABOUT_A_TASK:
            if kind.name == "isTaskInHistory":
                continue
            for unknown in UNKNOWN:
                error = await error_of(peer, kind, where, unknown)
                assert error["code"] == "TASK_NOT_FOUND", (kind.name, unknown, error)
        assert await peer.ask("isTaskInHistory", "nobody") == {"inHistory": False}


async def test_no_command_at_all_takes_an_empty_id_in_its_frame(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        for kind in COMMANDS.values():
            for no_id in NO_IDS:
                error = await error_of(peer, kind, "frame", no_id)
                assert error["code"] == "INVALID_PARAMETER", (kind.name, no_id, error)


async def test_a_frame_that_names_two_tasks_is_refused(tmp_path: Path) -> None:
    async with asking(tmp_path) as (here, peer):
        assert here.hub.current_task is not None
        current = here.hub.current_task.id
        await peer.ask("getTask", f"task_{current}", taskId=current)
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*taskId"):
            await peer.ask("pressPrimaryButton", "another", taskId=current)


async def test_a_new_task_gets_no_id_that_is_none(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        for no_id in (*NO_IDS, "a/b"):
            with pytest.raises(CommandFailedError, match=r"taskId|cannot be the id of a task"):
                await peer.ask("startNewTask", text="go", taskId=no_id)
        assert (await peer.ask("listTasks"))["total"] == 0


async def test_the_current_task_is_stopped_only_when_no_other_is_named(tmp_path: Path) -> None:
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, edit, done()) as here, here.peer() as peer:
        first = (await peer.ask("startNewTask", text="one"))["taskId"]
        await peer.asked("tool")
        since = len(peer.events)
        second = (await peer.ask("startNewTask", text="two"))["taskId"]
        await peer.asked("tool", since)
        await peer.ask("cancelCurrentTask", first)
        assert (await peer.event("taskAborted"))["taskId"] == first
        await peer.ask("clearCurrentTask", first)
        assert [task.id for task in here.hub.engine.tasks] == [second]
        await peer.ask("clearCurrentTask", first)
        await peer.ask("clearCurrentTask")
        assert here.hub.engine.tasks == []


async def test_what_is_no_id_stops_nothing_over_ipc(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turns = Turn(write("note", "hi\n")), Turn(completing())
    async with serving(tmp_path, *turns) as (hub, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("write", autoApprovalEnabled=False))
        await peer.asked("tool")
        sent_count = 0
        for command in ("CancelTask", "CloseTask", "ResumeTask"):
            for no_id in ("", None, 7, "nobody"):
                message = {"type": "TaskCommand", "origin": "client", "clientId": peer.client_id}
                message["data"] = {"commandName": command, "data": no_id}  # type: ignore[assignment]
                peer.write(json.dumps({"type": "message", "data": message}).encode())
                sent_count += 1
        peer.send("GetModes")
        await peer.event("modesResponse")
        assert len([each for each in caplog.records if "is dropped" in each.message]) == sent_count
        assert hub.current_task is not None
        assert hub.current_task.pending is not None


@pytest.mark.parametrize("no_id", ["", None, 7])
async def test_a_remote_engine_never_takes_up_a_task_without_an_id(
    tmp_path: Path, no_id: Any
) -> None:
    turns = Turn(write("note", "hi\n")), Turn(completing())
    async with (
        open_harness(tmp_path, turns) as (place, _),
        place.serving() as server,
        await server.connect() as engine,
    ):
        session = await engine.start("write")
        async for _ in session.events():
            if session.pending is not None:
                break
        for take in (engine.attach, engine.resume, engine.fork, session.find_subtask):
            with pytest.raises(RemoteError) as caught:
                await take(no_id)
            assert caught.value.code == "INVALID_PARAMETER"
        assert [task.id for task in await engine.tasks()] == [session.id]
        assert session.pending is not None
