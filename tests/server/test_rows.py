"""Rows to the letter of the API's document: events folded by a client give what the server has."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, disconnect, pause, say
from tests.harness.paths import MCP_SERVER_SCRIPT
from tests.harness.server.event_folding import ALLOW, fold, read_history
from tests.harness.server.server_fixture import Frame, Peer, ServerFixture, done, open_server

pytestmark = [pytest.mark.contract("websocket:rows")]

PROTOCOLS = pytest.mark.parametrize("protocol", ["native", "xml"])


async def check_rows(here: ServerFixture, peer: Peer, task_id: str) -> list[Frame]:
    """The same rows by events, by `getMessages` and on disk, and all of them whole."""
    rows: list[Frame] = (await peer.ask("getMessages", task_id))["messages"]
    assert fold(peer.events, task_id) == rows
    assert [row["ts"] for row in rows if row.get("partial")] == []
    task = here.hub.engine.find_open_task(task_id)
    assert task is not None
    await task.save()
    assert read_history(here, task_id) == rows
    return rows


async def start(peer: Peer, protocol: str, text: str = "go") -> str:
    settings = {"toolProtocol": protocol}
    started = await peer.ask("startNewTask", text=text, configuration=settings)
    return str(started["taskId"])


@PROTOCOLS
async def test_the_output_of_a_command_comes_after_the_checkpoint_before_it(
    tmp_path: Path, protocol: str
) -> None:
    turns = (Turn(call("execute_command", {"command": "echo one > a.txt; echo out"})), done())
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)

    said = [row.get("say") for row in rows]
    assert said.index("checkpoint_saved") < said.index("command_output")


FAILURES = {
    "missing parameter": call("write_to_file", {"content": "x"}),
    "unknown tool": call("write_to_flie", {"path": "a.txt"}),
    "failed edit": call("apply_diff", {"path": "none.txt", "diff": "nothing"}),
    "refused path": call("list_files", {"path": "/proc/../../x\0y"}),
}


@PROTOCOLS
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_call_that_fails_keeps_its_row(tmp_path: Path, protocol: str, failure: str) -> None:
    turns = (Turn(say("Let me."), FAILURES[failure]), done())
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)
        opened = {
            e["payload"]["message"]["ts"]
            for e in peer.events
            if e["eventName"] == "message" and e["payload"]["message"].get("partial")
        }
        assert opened <= {row["ts"] for row in rows}
        assert await peer.event("taskToolFailed")


@PROTOCOLS
async def test_a_stream_that_breaks_inside_a_call_ends_its_rows(
    tmp_path: Path, protocol: str
) -> None:
    cut = Turn(
        say("Writing."), call("write_to_file", '{"path":"a.txt","content":"li'), disconnect()
    )
    async with (
        open_server(tmp_path, cut, maxRetryWaitSeconds=0, **ALLOW) as here,
        here.peer() as peer,
    ):
        task_id = await start(peer, protocol)
        await peer.asked("api_req_failed")
        rows = await check_rows(here, peer, task_id)
        if protocol == "native":
            [row] = [row for row in rows if row.get("tool") == "write_to_file"]
            assert json.loads(row["text"]) == {
                "tool": "write_to_file",
                "path": "a.txt",
                "content": "li",
            }


@PROTOCOLS
@pytest.mark.parametrize("tool", ["write_to_file", "attempt_completion"])
async def test_a_cancel_inside_a_call_ends_its_rows(
    tmp_path: Path, protocol: str, tool: str
) -> None:
    key = "content" if tool == "write_to_file" else "result"
    long = call(tool, {"path": "a.txt", key: "line\n" * 400}, chunk=8)
    async with (
        open_server(tmp_path, Turn(say("Now."), long, pace=100), **ALLOW) as here,
        here.peer() as peer,
    ):
        task_id = await start(peer, protocol)
        await peer.event(
            "message", where=lambda e: "line" in (e["payload"]["message"].get("text") or "")
        )
        growing: list[Frame] = (await peer.ask("getMessages", task_id))["messages"]
        assert growing[-1]["partial"] is True
        kind = "tool" if tool == "write_to_file" else "completion_result"
        assert growing[-1]["say"] == kind
        await peer.ask("cancelTask", task_id)
        await peer.event("taskAborted")
        rows = await check_rows(here, peer, task_id)
        [cut] = [row for row in rows if row["ts"] == growing[-1]["ts"]]
        assert (cut["say"], cut["partial"]) == (kind, False)
        assert "line" in cut["text"]


@PROTOCOLS
async def test_calls_skipped_after_a_rejection_keep_their_rows(
    tmp_path: Path, protocol: str
) -> None:
    def write(name: str) -> Any:
        return call("write_to_file", {"path": name, "content": "x\n"})

    turns = (Turn(write("a"), write("b"), write("c")), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        ask_ts = await peer.asked("tool")
        while_asked: list[Frame] = (await peer.ask("getMessages", task_id))["messages"]
        assert [row.get("partial") for row in while_asked[-3:]] == [False, True, True]
        await peer.ask("respond", task_id, askTs=ask_ts, response="noButtonClicked", text="no")
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)
        calls = [row for row in rows if row.get("tool") == "write_to_file"]
        assert [(row["type"], row.get("approvalState")) for row in calls] == [
            ("ask", "rejected"),
            ("say", None),
            ("say", None),
        ]
        assert [json.loads(row["text"])["path"] for row in calls] == ["a", "b", "c"]
        assert [row["path"] for row in calls] == ["a", "b", "c"]


async def test_a_client_that_joins_in_the_middle_knows_every_row_that_changes(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    turn = Turn(say("one "), pause(gate), say("two"), *done().steps)
    async with open_server(tmp_path, turn, **ALLOW) as here, here.peer() as first:
        task_id = await start(first, "native")
        await first.event("message", where=lambda e: e["payload"]["message"].get("text") == "one ")
        async with here.peer() as late:
            known = {row["ts"]: row for row in (await late.ask("getMessages", task_id))["messages"]}
            assert [row["text"] for row in known.values() if row.get("partial")] == ["one "]
            gate.set()
            await late.asked("completion_result")
            for event in late.events:
                if event["eventName"] == "message":
                    row = event["payload"]["message"]
                    assert event["payload"]["action"] == "created" or row["ts"] in known
                    known[row["ts"]] = row
            rows = (await late.ask("getMessages", task_id))["messages"]
            assert [known[ts] for ts in sorted(known)] == rows


@PROTOCOLS
async def test_a_command_that_the_rules_allow_has_json_in_its_row(
    tmp_path: Path, protocol: str
) -> None:
    turns = (Turn(call("execute_command", {"command": "echo 'a \"b\"'"})), done())
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)
        [row] = [row for row in rows if row.get("tool") == "execute_command"]
        assert (row["type"], row["say"]) == ("say", "tool")
        command = {"tool": "execute_command", "command": "echo 'a \"b\"'"}
        assert json.loads(row["text"]) == command
        assert row["summary"]["subject"] == "echo 'a \"b\"'"


async def test_a_command_that_waits_for_a_user_is_plain_text(tmp_path: Path) -> None:
    turns = (Turn(call("execute_command", {"command": "touch hello"})), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer, "native")
        await peer.asked("command")
        await peer.ask("pressPrimaryButton", task_id)
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)
        [row] = [row for row in rows if row.get("tool") == "execute_command"]
        assert (row["ask"], row["text"]) == ("command", "touch hello")


@PROTOCOLS
async def test_a_result_streams_as_what_it_is(tmp_path: Path, protocol: str) -> None:
    edit = call("write_to_file", {"path": "a.txt", "content": "x\n"})
    result = call("attempt_completion", {"result": "all is done " * 30}, chunk=8)
    turns = (Turn(edit, result, pace=400), Turn(result, pace=400))
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("completion_result")
        await check_rows(here, peer, task_id)
        kinds: dict[int, set[str]] = {}
        for event in peer.events:
            if event["eventName"] == "message":
                row = event["payload"]["message"]
                if row.get("say") in ("tool", "text", "completion_result"):
                    kinds.setdefault(row["ts"], set()).add(row["say"])
        results = [kind for kind in kinds.values() if "completion_result" in kind]
        assert results == [{"completion_result"}] * 2


@PROTOCOLS
async def test_messages_have_rising_times_also_at_rest(tmp_path: Path, protocol: str) -> None:
    listing = Turn(say("Look."), call("list_files", {"path": "."}))
    turns = (listing, Turn(call("execute_command", {"command": "sleep 60"})), done())
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.event("message", where=lambda e: "sleep" in str(e["payload"]["message"]))
        await peer.ask("cancelTask", task_id)
        await peer.event("taskAborted")
        await check_rows(here, peer, task_id)
        messages = read_history(here, task_id, "api_conversation_history.json")
        times = [message["ts"] for message in messages]
        assert len(messages) == 5
        assert times == sorted(set(times))
        assert "interrupted" in json.dumps(messages[-1])


@PROTOCOLS
async def test_a_call_that_waits_for_approval_is_not_called_interrupted(
    tmp_path: Path, protocol: str
) -> None:
    turns = (Turn(call("write_to_file", {"path": "a.txt", "content": "x\n"})), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("tool")
        task = here.hub.engine.find_open_task(task_id)
        assert task is not None
        await task.save()
        messages = read_history(here, task_id, "api_conversation_history.json")
        assert [message["role"] for message in messages] == ["user", "assistant"]
        await peer.ask("cancelTask", task_id)
        await peer.event("taskAborted")
        await task.save()
        messages = read_history(here, task_id, "api_conversation_history.json")
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert "interrupted" in json.dumps(messages[-1])


async def test_a_failure_of_an_mcp_server_is_one_for_everybody(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(MCP_SERVER_SCRIPT), "--wrong"]}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mcp.json").write_text(json.dumps({"mcpServers": {"tiny": server}}))
    turns = (Turn(call("mcp--tiny--wrong")), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = await start(peer, "native")
        await peer.asked("use_mcp_server")
        await peer.ask("pressPrimaryButton", task_id)
        failed = await peer.event("taskToolFailed")
        assert failed["payload"]["toolName"] == "mcp--tiny--wrong"
        assert failed["payload"]["error"] == "Error:\nno tool wrong"
        await peer.asked("completion_result")
        rows = await check_rows(here, peer, task_id)
        assert [row["text"] for row in rows if row.get("say") == "error"] == [
            "mcp--tiny--wrong: Error:\nno tool wrong"
        ]


@PROTOCOLS
@pytest.mark.parametrize("path", ["none.txt", "."])
async def test_a_file_that_cannot_be_read_is_a_failure_for_everybody(
    tmp_path: Path, protocol: str, path: str
) -> None:
    turns = (Turn(call("read_file", {"path": path})), done())
    async with open_server(tmp_path, *turns, **ALLOW) as here, here.peer() as peer:
        task_id = await start(peer, protocol)
        await peer.asked("completion_result")
        failed = await peer.event("taskToolFailed")
        assert failed["payload"]["toolName"] == "read_file"
        assert "error" in [row.get("say") for row in await check_rows(here, peer, task_id)]
        completed = await peer.event("taskCompleted")
        assert completed["payload"]["toolUsage"]["read_file"] == {"attempts": 1, "failures": 1}
