"""Subtasks as clients of the server see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.server.ipc import serve_ipc
from joey.testing.script import Turn, call, fail, pause
from tests.harness.engine.engine_harness import block_disk_writes
from tests.harness.scripted_conversations import by_first_message
from tests.harness.server.ipc_peer import connected
from tests.harness.server.server_fixture import (
    CommandFailedError,
    Frame,
    ServerFixture,
    done,
    open_server,
)

ALLOW: dict[str, Any] = {"autoApprovalEnabled": True, "alwaysAllowSubtasks": True}


def hand(*messages: str) -> Turn:
    return Turn(*(call("new_task", {"mode": "ask", "message": text}) for text in messages))


@asynccontextmanager
async def open_scripted_server(
    root: Path, parts: Mapping[str, Sequence[Turn]], **settings: Any
) -> AsyncIterator[ServerFixture]:
    async with open_server(root, *[by_first_message(parts)] * 4, **settings) as here:
        yield here


def list_event_names(events: Sequence[Frame], task_id: str) -> list[str]:
    """What happened to a task, without its rows."""
    return [
        e["eventName"] for e in events if e["taskId"] == task_id and e["eventName"] != "message"
    ]


@pytest.mark.contract("subtasks:events", "websocket:commands")
async def test_events_fire_around_a_subtask(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        await peer.asked("completion_result")
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        child = {"childTaskId": child_id}
        around = {
            "taskSpawned": child,
            "taskPaused": {"childTaskIds": [child_id]},
            "taskDelegated": child,
            "taskDelegationCompleted": {**child, "summary": "part"},
            "taskUnpaused": {},
            "taskDelegationResumed": child,
        }
        fired = [event for event in peer.events if event["eventName"] in around]
        assert [(e["eventName"], e["payload"]) for e in fired] == list(around.items())
        assert {event["taskId"] for event in fired} == {task_id}
        [row] = [row for row in peer.rows(task_id) if row.get("say") == "subtask_result"]
        assert (row["text"], row["taskId"]) == ("part", child_id)


@pytest.mark.contract("subtasks:events")
async def test_a_subtask_that_fails_completes_no_delegation(tmp_path: Path) -> None:
    refused = Turn(fail(400, "no"))
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [refused]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        child_id = (await peer.event("taskDelegated"))["payload"]["childTaskId"]
        await peer.asked("api_req_failed")
        await peer.ask("pressSecondaryButton", child_id)
        await peer.asked("completion_result")
        event_names = list_event_names(peer.events, task_id)
        assert "taskDelegationCompleted" not in event_names
        assert event_names.index("taskUnpaused") + 1 == event_names.index("taskDelegationResumed")


@pytest.mark.contract("subtasks:events")
async def test_a_subtask_is_reported_as_a_task_of_its_own(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        await peer.asked("completion_result")
        spawned = await peer.event("taskSpawned")
        child_id = spawned["payload"]["childTaskId"]
        event_names = list_event_names(peer.events, child_id)
        assert event_names[:3] == ["taskCreated", "taskStarted", "taskActive"]
        assert "taskCompleted" in event_names
        assert event_names[-1] == "taskFinished"
        [created] = [
            e for e in peer.events if e["eventName"] == "taskCreated" and e["taskId"] == child_id
        ]
        assert created["payload"]["parentId"] == task_id
        assert created["payload"]["mode"] == "ask"
        [completed] = [
            e for e in peer.events if e["eventName"] == "taskCompleted" and e["taskId"] == child_id
        ]
        assert completed["payload"]["isSubtask"] is True
        order = [(e["eventName"], e["taskId"]) for e in peer.events]
        assert order.index(("taskSpawned", task_id)) < order.index(("taskCreated", child_id))
        assert order.index(("taskFinished", child_id)) < order.index(("taskUnpaused", task_id))
        rows = (await peer.ask("getMessages", child_id))["messages"]
        assert [row for row in peer.rows(child_id) if not row.get("partial")] == rows


@pytest.mark.contract("subtasks:events")
async def test_questions_of_a_subtask_are_answered_under_its_id_or_as_the_current_task(
    tmp_path: Path,
) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    async with open_scripted_server(tmp_path, parts) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        await peer.asked("tool")
        await peer.ask("pressPrimaryButton")
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        finish = await peer.event(
            "message",
            where=lambda e: bool(
                e["taskId"] == child_id and e["payload"]["message"].get("ask") == "tool"
            ),
        )
        assert finish["payload"]["message"]["text"] == '{"tool":"finishTask"}'
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": [task_id, child_id]}
        info = (await peer.ask("getTask", task_id))["task"]
        assert (info["status"], info["waitsFor"]) == ("delegated", [child_id])
        assert (await peer.ask("getTask", child_id))["task"]["parentId"] == task_id
        await peer.ask("pressPrimaryButton")
        await peer.asked("completion_result")
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": [task_id]}


@pytest.mark.contract("subtasks:failure")
async def test_a_subtask_can_be_cancelled_alone(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [Turn(pause(600.0))]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="the whole")
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        await peer.event("taskStarted", where=lambda e: bool(e["taskId"] == child_id))
        await peer.ask("cancelTask", child_id)
        await peer.asked("completion_result")
        assert "was stopped by the user" in str(here.model.requests[-1].body)


@pytest.mark.contract("subtasks:failure")
async def test_cancelling_the_parent_cancels_the_tree_and_resuming_goes_on(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [Turn(pause(600.0))]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        await peer.event("taskStarted", where=lambda e: bool(e["taskId"] == child_id))
        await peer.ask("cancelTask", task_id)
        await peer.event("taskAborted", where=lambda e: bool(e["taskId"] == task_id))
        assert list_event_names(peer.events, child_id)[-1] == "taskAborted"
        parts["a part"] = [done("part after all")]
        before = len(peer.events)
        await peer.ask("resumeTask", task_id)
        await peer.asked("resume_task", since=before)
        await peer.ask("pressPrimaryButton", task_id)
        await peer.asked("completion_result", since=before)
        assert "taskSpawned" not in list_event_names(peer.events[before:], task_id)
        assert list_event_names(peer.events[before:], child_id)[0] == "taskStarted"
        assert "part after all" in str(here.model.requests[-1].body)


async def test_a_background_tree_does_not_become_the_current_task(tmp_path: Path) -> None:
    gate = asyncio.Event()
    waiting = Turn(pause(gate), *hand("a part").steps)
    parts = {
        "the whole": [waiting, done("whole")],
        "a part": [Turn(pause(600.0))],
        "another": [done("other")],
    }
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="the whole")
        other_id = (await peer.ask("startNewTask", text="another"))["taskId"]
        gate.set()
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        await peer.event("taskStarted", where=lambda e: bool(e["taskId"] == child_id))
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": [other_id]}


@pytest.mark.contract("subtasks:events")
async def test_the_events_reach_roos_own_socket_too(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    path = tmp_path / "private" / "roo.sock"
    async with (
        open_scripted_server(tmp_path, parts, **ALLOW) as here,
        serve_ipc(here.hub, path),
        connected(path) as peer,
    ):
        peer.send("StartNewTask", {"text": "the whole", "configuration": ALLOW})
        [task_id, child_id] = await peer.event("taskSpawned")
        assert await peer.event("taskPaused") == [task_id]
        assert await peer.event("taskUnpaused") == [task_id]
        [completed, *_, about] = next(p for name, p in peer.events if name == "taskCompleted")
        assert (completed, about) == (child_id, {"isSubtask": True})


@pytest.mark.contract("subtasks:events", "websocket:commands")
async def test_of_several_subtasks_the_one_that_asks_is_the_current_task(tmp_path: Path) -> None:
    question = {"question": "which?", "follow_up": [{"text": "this"}, {"text": "that"}]}
    parts = {
        "the whole": [hand("part one", "part two", "part three"), done("whole")],
        "part one": [done("one")],
        "part two": [Turn(pause(600.0))],
        "part three": [Turn(call("ask_followup_question", question)), done("three")],
    }
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        one, two, three = (await peer.event("taskPaused"))["payload"]["childTaskIds"]
        await peer.event("taskFinished", where=lambda e: bool(e["taskId"] == one))
        await peer.asked("followup")
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": [task_id, three]}
        asking = here.hub.engine.find_open_task(three)
        assert asking is not None
        with block_disk_writes(asking):
            await peer.ask("sendMessage", message="that")
            await peer.event("taskFinished", where=lambda e: bool(e["taskId"] == three))
            assert await peer.ask("getCurrentTaskStack") == {"taskStack": [task_id, two]}
        await peer.ask("cancelCurrentTask")
        await peer.event("taskAborted", where=lambda e: bool(e["taskId"] == two))
        await peer.asked("completion_result")


@pytest.mark.contract("subtasks:events", "websocket:commands")
async def test_a_message_to_the_parent_leaves_the_subtask_the_current_task(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    async with open_scripted_server(tmp_path, parts) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        await peer.asked("tool")
        before = len(peer.events)
        await peer.ask("pressPrimaryButton")
        await peer.asked("tool", since=before)
        await peer.ask("sendMessage", task_id, message="for the parent")
        await peer.ask("pressPrimaryButton")
        await peer.asked("completion_result")
        assert "for the parent" in str(here.model.requests[-1].body)


@pytest.mark.contract("subtasks:failure")
async def test_a_subtask_may_be_deleted_while_its_parent_waits(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [Turn(pause(600.0))]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="the whole")
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        await peer.event("taskStarted", where=lambda e: bool(e["taskId"] == child_id))
        await peer.ask("deleteTask", child_id)
        await peer.asked("completion_result")
        assert not (await peer.ask("isTaskInHistory", child_id))["inHistory"]


async def test_deleting_the_parent_leaves_a_subtask_that_can_go_on_alone(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [Turn(pause(600.0))]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="the whole"))["taskId"]
        child_id = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
        await peer.event("taskStarted", where=lambda e: bool(e["taskId"] == child_id))
        await peer.ask("deleteTask", task_id)
        assert here.hub.engine.tasks == []
        parts["a part"] = [done("alone")]
        await peer.ask("sendMessage", child_id, message="go on")
        await peer.asked("completion_result")
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": [child_id]}


@pytest.mark.contract("websocket:commands")
async def test_limits_that_come_with_a_task_end_it(tmp_path: Path) -> None:
    parts = {"the whole": [hand("a part"), done("whole")], "a part": [done("part")]}
    async with open_scripted_server(tmp_path, parts, **ALLOW) as here, here.peer() as peer:
        limits = {"maxTurns": 1}
        task_id = (await peer.ask("startNewTask", text="the whole", limits=limits))["taskId"]
        failed = await peer.event("taskFailed", where=lambda event: event["taskId"] == task_id)
        assert failed["payload"]["code"] == "turns"
        for wrong in ({"maxTurns": 0}, {"maxTokens": "many"}, {"maxCost": -1}):
            with pytest.raises(CommandFailedError) as error:
                await peer.ask("startNewTask", text="the whole", limits=wrong)
            assert "limits" in error.value.message
