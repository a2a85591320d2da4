"""Commands that look at tasks: open ones, those at rest, all of them, and those with some words."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from joey.ports.storage import TaskMetadata
from joey.storage.task_directory import TaskLock
from joey.testing.script import Turn, call, fail, pause, say
from tests.harness.server.server_fixture import CommandFailedError, done, open_server

pytestmark = pytest.mark.contract("websocket:commands")


async def test_a_finished_task_can_be_looked_at_in_every_way(tmp_path: Path) -> None:
    todos = call("update_todo_list", {"todos": "[x] look\n[ ] tell"})
    async with open_server(tmp_path, Turn(todos), done("ready")) as here, here.peer() as peer:
        assert (await peer.ask("isReady")) == {"ready": True}
        assert (await peer.ask("ping"))["pong"] > 0
        task_id = (await peer.ask("startNewTask", text="look around"))["taskId"]
        await peer.asked("completion_result")
        info = (await peer.ask("getTask", task_id))["task"]
        assert (info["title"], info["live"], info["status"]) == ("look around", True, "waiting")
        assert info["ask"]["ask"] == "completion_result"
        assert info["contextWindow"] > 0
        await peer.ask("pressPrimaryButton", task_id)
        await peer.event("taskFinished")
        completed = await peer.event("taskCompleted")
        assert completed["payload"]["isSubtask"] is False
        assert completed["payload"]["toolUsage"]["update_todo_list"] == {
            "attempts": 1,
            "failures": 0,
        }
        usage = (await peer.ask("getTokenUsage", task_id))["usage"]
        assert (usage["totalTokensIn"], usage["totalCacheReads"]) == (20, 0)
        assert [t["content"] for t in (await peer.ask("getTodos", task_id))["todos"]] == [
            "look",
            "tell",
        ]
        live = [await peer.ask(name, task_id) for name in ("getMessages", "getEvents")]
        await peer.ask("clearCurrentTask")
        assert (await peer.ask("isTaskInHistory", task_id)) == {"inHistory": True}
        assert (await peer.ask("isTaskInHistory", "another")) == {"inHistory": False}
        closed = [await peer.ask(name, task_id) for name in ("getMessages", "getEvents")]
        assert live == closed
        assert (await peer.ask("getTokenUsage", task_id))["usage"] == usage
        assert len((await peer.ask("getTodos", task_id))["todos"]) == 2
        info = (await peer.ask("getTask", task_id))["task"]
        assert (info["live"], info["status"]) == (False, "completed")


async def test_tasks_are_listed_searched_and_deleted(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        ids = []
        for title in ("mend the roof", "paint the door", "paint the roof"):
            before = len(peer.events)
            ids.append((await peer.ask("startNewTask", text=title))["taskId"])
            await peer.asked("completion_result", since=before)
        listed = await peer.ask("listTasks", limit=2)
        assert listed["total"] == 3
        assert [task["id"] for task in listed["tasks"]] == ids[::-1][:2]
        rest = await peer.ask("listTasks", limit=2, offset=2)
        assert [task["id"] for task in rest["tasks"]] == ids[:1]
        assert (await peer.ask("listTasks", workspace="/elsewhere"))["total"] == 0
        assert (await peer.ask("listTasks", workspace=str(here.workspace)))["total"] == 3
        found = (await peer.ask("searchTasks", query="ROOF paint"))["tasks"]
        assert [task["id"] for task in found] == [ids[2]]
        await peer.ask("deleteTask", ids[2])
        assert (await peer.event("taskDeleted"))["taskId"] == ids[2]
        assert not list((here.home / "tasks").glob(f"*{ids[2]}*"))
        with pytest.raises(CommandFailedError, match="TASK_NOT_FOUND"):
            await peer.ask("deleteTask", ids[2])
        with pytest.raises(CommandFailedError, match="TASK_NOT_FOUND"):
            await peer.ask("getMessages", ids[2])
        assert (await peer.ask("listTasks"))["total"] == 2


async def test_events_may_be_had_piece_by_piece(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("completion_result")
        whole = await peer.ask("getEvents", task_id)
        pieces = []
        for since in range(whole["seq"]):
            piece = await peer.ask("getEvents", task_id, since=since, until=since + 1)
            assert piece["seq"] == whole["seq"]
            pieces += piece["events"]
        named = [(event["eventName"], event["seq"]) for event in whole["events"]]
        assert [(event["eventName"], event["seq"]) for event in pieces] == named
        assert (await peer.ask("getEvents", task_id, since=5, until=3))["events"] == []


@pytest.mark.contract("asks:queue")
async def test_a_task_tells_what_waits_for_it_while_it_works_and_at_rest(tmp_path: Path) -> None:
    turns = (Turn(say("a"), pause(60.0)), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.event("message", where=lambda e: e["payload"]["message"].get("partial") is True)
        assert "queue" not in (await peer.ask("getTask", task_id))["task"]
        await peer.ask("sendMessage", task_id, message="and the tests")
        queued = (await peer.event("queuedMessagesUpdated"))["payload"]["queue"]
        assert [message["text"] for message in queued] == ["and the tests"]
        assert (await peer.ask("getTask", task_id))["task"]["queue"] == queued
        await peer.ask("clearCurrentTask")
        info = (await peer.ask("getTask", task_id))["task"]
        assert (info["live"], info["queue"]) == (False, queued)


@pytest.mark.contract("websocket:commands")
async def test_a_task_tells_why_it_failed_until_it_goes_on(tmp_path: Path) -> None:
    refusal = Turn(fail(401, "This key opens nothing."))
    async with open_server(tmp_path, refusal) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("api_req_failed")
        await peer.ask("pressSecondaryButton", task_id)
        failed = (await peer.event("taskFailed"))["payload"]
        assert "This key opens nothing." in failed["message"]
        assert (await peer.ask("getTask", task_id))["task"]["failure"] == failed
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        assert (await peer.ask("getTask", task_id))["task"]["failure"] == failed
        await peer.ask("sendMessage", task_id, message="once more")
        await peer.asked("completion_result")
        assert "failure" not in (await peer.ask("getTask", task_id))["task"]


async def test_a_task_at_rest_still_knows_the_room_that_its_model_has(tmp_path: Path) -> None:
    profile = {"provider": "anthropic", "model": "own-model", "contextWindow": 43210}
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        rooms = {}
        for name in ("default", "own"):
            if name == "own":
                await peer.ask("createProfile", name="own", profile=profile)
            before = len(peer.events)
            task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
            await peer.asked("completion_result", since=before)
            live = (await peer.ask("getTask", task_id))["task"]
            await peer.ask("clearCurrentTask")
            resting = (await peer.ask("getTask", task_id))["task"]
            assert resting["live"] is False
            assert resting["contextWindow"] == live["contextWindow"]
            assert resting["contextTokens"] == live["contextTokens"] > 0
            rooms[name] = resting["contextWindow"]
        assert rooms["own"] == 43210 < rooms["default"]


@pytest.mark.contract("tasks:search")
async def test_text_of_the_conversation_is_found_in_open_tasks_and_closed_ones(
    tmp_path: Path,
) -> None:
    write = call("write_to_file", {"path": "poem.txt", "content": "Ein Schmetterling"})
    turns = (Turn(say("I look for the Größte"), write), done("it flutters"))
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as peer:

        async def found(query: str, **arguments: object) -> list[str]:
            answer = await peer.ask("searchTasks", query=query, **arguments)
            return [task["id"] for task in answer["tasks"]]

        task_id = (await peer.ask("startNewTask", text="write a poem"))["taskId"]
        await peer.asked("completion_result")
        for round in ("open", "closed"):
            for query in ("GRÖSSTE", "schmetterling", "poem FLUTTERS", task_id[:8], "poem.txt"):
                assert await found(query) == [task_id], (round, query)
            for query in ("größte nothing", "apiProtocol", "tokensIn"):
                assert await found(query) == [], (round, query)
            assert await found("schmetterling", workspace="/elsewhere") == []
            await peer.ask("clearCurrentTask")
            await peer.ask("ping")


@pytest.mark.contract("tasks:search")
async def test_a_search_finds_the_newest_first_and_passes_over_what_cannot_be_read(
    tmp_path: Path,
) -> None:
    async with open_server(tmp_path, done("needle")) as here, here.peer() as peer:
        ids = []
        for _ in range(4):
            before = len(peer.events)
            ids.append((await peer.ask("startNewTask", text="go"))["taskId"])
            await peer.asked("completion_result", since=before)
            await peer.ask("clearCurrentTask")
        (here.home / "tasks" / f"task_{ids[1]}" / "ui_messages.json").write_bytes(b'[{"text": 5')
        found = (await peer.ask("searchTasks", query="needle"))["tasks"]
        assert [task["id"] for task in found] == [ids[3], ids[2], ids[0]]
        found = (await peer.ask("searchTasks", query="needle", limit=2))["tasks"]
        assert [task["id"] for task in found] == [ids[3], ids[2]]


async def test_what_a_process_that_is_gone_left_unfinished_is_aborted(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="go")
        await peer.asked("completion_result")
        [directory] = (path.parent for path in here.home.rglob("journal.jsonl"))
        left = directory.with_name("0196e6b5-4fb2-7391-b6a7-2b7a4b4f7c10")
        left.mkdir()
        # The task still writes snapshots; its journal is only appended to.
        shutil.copy(directory / "journal.jsonl", left)
        about = TaskMetadata(id=left.name, title="go", status="created")
        (left / "task_metadata.json").write_bytes(msgspec.json.encode(about))

        async def statuses() -> list[tuple[bool, str]]:
            one = (await peer.ask("getTask", left.name))["task"]
            listed = (await peer.ask("listTasks"))["tasks"]
            found = [one, *(task for task in listed if task["id"] == left.name)]
            return [(task["live"], task["status"]) for task in found]

        assert await statuses() == [(False, "aborted")] * 2
        lock = TaskLock.acquire(left, left.name)
        assert await statuses() == [(False, "running")] * 2, "somebody works on it"
        lock.release()


async def test_tools_are_counted_under_one_name_with_the_completing_call(tmp_path: Path) -> None:
    edits = {"path": "a.txt", "old_string": "one", "new_string": "two"}
    turns = [
        Turn(call("write_file", {"path": "a.txt", "content": "one\n"})),
        Turn(call("write_to_file", {"path": "b.txt", "content": "x\n"})),
        Turn(call("search_and_replace", edits)),
        Turn(call("write_file", {"path": "c.txt"})),
        done("first"),
        done("second"),
    ]
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        configuration = {"alwaysAllowWrite": True}
        await peer.ask("startNewTask", text="go", configuration=configuration)
        await peer.asked("completion_result")
        first = (await peer.event("taskCompleted"))["payload"]["toolUsage"]
        seen = len(peer.events)
        await peer.ask("sendMessage", message="again")
        second = (await peer.event("taskCompleted", since=seen))["payload"]["toolUsage"]
    expected = {
        "write_to_file": {"attempts": 3, "failures": 1},
        "edit": {"attempts": 1, "failures": 0},
        "attempt_completion": {"attempts": 1, "failures": 0},
    }
    assert first == expected
    assert second == {**expected, "attempt_completion": {"attempts": 2, "failures": 0}}
