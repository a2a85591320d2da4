"""The examples of the API's own document, played frame by frame, with two foreign clients."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, pause, say
from tests.harness.server.server_fixture import done, open_server, rows_of
from tests.harness.server.websocket_clients import Client

pytestmark = [pytest.mark.contract("websocket:commands"), pytest.mark.shortened]


async def test_a_new_task_is_answered_then_started_then_reported(
    client: Client, tmp_path: Path
) -> None:
    text = "I'll create a Python function to calculate Fibonacci numbers."
    async with (
        open_server(tmp_path, Turn(say(text), *done().steps)) as here,
        client.connect(here) as peer,
    ):
        response = await peer.raw(
            json.dumps(
                {
                    "type": "command",
                    "commandName": "startNewTask",
                    "arguments": {"text": "Create a function to calculate Fibonacci numbers"},
                    "requestId": "req1",
                }
            )
        )
        assert response["requestId"] == "req1"
        assert response["commandName"] == "startNewTask"
        task_id = response["data"]["taskId"]
        assert peer.events == []
        await peer.asked("completion_result")
        names = [name for name in peer.names() if name != "message"]
        assert names[:3] == ["taskCreated", "taskStarted", "taskActive"]
        assert {event["taskId"] for event in peer.events} == {task_id}
        said = [row for row in peer.rows() if row.get("text") == text]
        assert [(row["type"], row["say"], row["partial"]) for row in said] == [
            ("say", "text", False)
        ]


async def test_a_streamed_reply_grows_and_says_when_it_is_whole(
    client: Client, tmp_path: Path
) -> None:
    reply = "The Fibonacci function works by adding the two numbers before. " * 8
    turns = (done("first"), Turn(say(reply, chunk=8), *done("second").steps, pace=200))
    async with open_server(tmp_path, *turns) as here, client.connect(here) as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("completion_result")
        before = len(peer.events)
        sent = await peer.ask("sendMessage", task_id, message="Can you explain how it works?")
        assert sent == {"result": "success"}
        await peer.asked("completion_result", since=before)
        streamed = [
            event["payload"]
            for event in peer.events[before:]
            if event["eventName"] == "message" and event["payload"]["message"].get("say") == "text"
        ]
        first, *between, last = streamed
        assert (first["action"], first["message"]["partial"]) == ("created", True)
        assert all(p["action"] == "updated" and p["message"]["partial"] for p in between)
        assert between, "nothing was shown while it grew"
        assert (last["action"], last["message"]["partial"]) == ("updated", False)
        assert last["message"]["text"] == reply
        texts = [p["message"]["text"] for p in streamed]
        assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
        assert len({p["message"]["ts"] for p in streamed}) == 1


async def test_an_unknown_task_is_reported_as_the_document_says(
    client: Client, tmp_path: Path
) -> None:
    async with open_server(tmp_path) as here, client.connect(here) as peer:
        response = await peer.raw(
            json.dumps(
                {
                    "type": "command",
                    "commandName": "sendMessage",
                    "taskId": "non-existent-task",
                    "arguments": {"message": "Hello"},
                    "requestId": "req3",
                }
            )
        )
        assert response == {
            "type": "response",
            "status": "error",
            "requestId": "req3",
            "commandName": "sendMessage",
            "error": {
                "code": "TASK_NOT_FOUND",
                "message": "Task with ID 'non-existent-task' not found",
            },
        }


async def test_a_tool_that_needs_a_user_is_asked_answered_and_reported(
    client: Client, tmp_path: Path
) -> None:
    write = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, client.connect(here) as peer:
        task_id = (await peer.ask("startNewTask", text="write it"))["taskId"]
        ask_ts = await peer.asked("tool")
        assert await peer.ask("pressPrimaryButton", task_id) == {"result": "success"}
        responded = await peer.event("taskAskResponded")
        assert responded["payload"] == {
            "askTs": ask_ts,
            "response": "yesButtonClicked",
            "by": "person",
        }
        await peer.asked("completion_result")
        assert (here.workspace / "a.txt").read_text() == "one\n"
        [row] = [row for row in peer.rows() if row["ts"] == ask_ts]
        assert (row["ask"], row["tool"], row["approvalState"]) == (
            "tool",
            "write_to_file",
            "approved",
        )


@pytest.mark.contract("websocket:commands")
async def test_commands_without_a_task_act_on_the_current_one(
    client: Client, tmp_path: Path
) -> None:
    async with (
        open_server(tmp_path, done("one"), done("two")) as here,
        client.connect(here) as peer,
    ):
        first = (await peer.ask("startNewTask", text="first"))["taskId"]
        await peer.asked("completion_result")
        second = (await peer.ask("startNewTask", text="second"))["taskId"]
        await peer.event("taskIdle", where=lambda event: event["taskId"] == second)
        assert (await peer.ask("getCurrentTaskStack"))["taskStack"] == [second]
        before = len(peer.events)
        await peer.ask("sendMessage", message="and now?")
        event = await peer.event("taskUserMessage", since=before)
        assert event["taskId"] == second
        await peer.ask("clearCurrentTask")
        assert (await peer.ask("getCurrentTaskStack"))["taskStack"] == [first]
        messages = (await peer.ask("getMessages"))["messages"]
        assert messages[0]["text"] == "first"


async def test_a_message_sent_while_the_model_streams_waits_and_is_delivered(
    client: Client, tmp_path: Path
) -> None:
    turns = (Turn(say("Working. " * 20, chunk=4), pace=100), done("with your words"))
    async with open_server(tmp_path, *turns) as here, client.connect(here) as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.event("message", where=lambda e: e["payload"]["message"].get("partial") is True)
        await peer.ask("sendMessage", task_id, message="look at the tests too")
        queued = await peer.event("queuedMessagesUpdated")
        [waiting] = queued["payload"]["queue"]
        assert waiting["text"] == "look at the tests too"
        await peer.ask("editQueue", task_id, id=waiting["id"], text="look at all tests")
        await peer.asked("completion_result")
        request = json.dumps(here.model.requests[-1].body)
        assert "look at all tests" in request
        assert "look at the tests too" not in request
        last = [e for e in peer.events if e["eventName"] == "queuedMessagesUpdated"][-1]
        assert last["payload"] == {"queue": []}


async def test_cancel_ends_a_streaming_task_and_resume_asks_whether_to_go_on(
    client: Client, tmp_path: Path
) -> None:
    turns = (Turn(say("a"), pause(60.0)), done())
    async with open_server(tmp_path, *turns) as here, client.connect(here) as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.event("message", where=lambda e: e["payload"]["message"].get("partial") is True)
        assert await peer.ask("cancelTask", task_id) == {"result": "success"}
        aborted = await peer.event("taskAborted")
        assert aborted["payload"] == {"reason": "user_cancelled"}
        assert await peer.ask("resumeTask", task_id) == {"result": "success"}
        await peer.asked("resume_task")
        await peer.ask("pressPrimaryButton", task_id)
        await peer.asked("completion_result")
        rows = (await peer.ask("getMessages", task_id))["messages"]
        finished_rows = [row for row in rows_of(peer.events) if not row.get("partial")]
        assert finished_rows == rows
