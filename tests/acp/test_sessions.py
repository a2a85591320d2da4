"""Sessions are tasks: loaded, resumed, forked, listed and closed, whoever began them."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest
from acp.exceptions import RequestError

from joey.testing.script import Turn, call, pause, say, think
from joey.testing.server import ModelServer
from tests.harness.acp.editor import TODOS, Editor, connected, done, summarize_updates
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import LIMIT, Joey, reach

SCRIPT = [
    Turn(
        think("Hm.", signature="s", chunk=2),
        say("I look around.", chunk=3),
        call("list_files", {"path": "."}),
        call("update_todo_list", {"todos": TODOS}),
    ),
    Turn(call("write_to_file", {"path": "a.txt", "content": "one\ntwo"}, chunk=5)),
    Turn(say("Now a command."), call("execute_command", {"command": "cat a.txt; exit 4"})),
    Turn(call("switch_mode", {"mode_slug": "ask", "reason": "enough"})),
    done("It works."),
    done("That was **it**."),
]


@pytest.mark.contract("acp:task")
async def test_a_loaded_session_tells_the_same_as_the_live_one(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer(SCRIPT) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "tell me") == "end_turn"
        live = summarize_updates(here.editor.updates(session))
    async with connected(joey, "http://127.0.0.1:9", schema) as again:
        loaded = await again.agent.load_session(
            session_id=session, cwd=str(joey.workspace), mcp_servers=[]
        )
        updates = again.editor.updates(session)
        assert again.editor.text(session, "user_message_chunk") == "tell me"
        assert loaded.modes and loaded.modes.current_mode_id == "ask"
    assert summarize_updates(updates) == live
    assert len(live["calls"]) == 4 and len(live["others"]) == 2


async def test_a_resumed_session_tells_nothing_of_the_past_and_goes_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with ModelServer([done("first"), done("second")]) as server:
        async with connected(joey, server.url, schema) as here:
            session = await here.new(joey.workspace)
            await here.prompt(session, "one")
        async with connected(joey, server.url, schema) as again:
            await again.agent.resume_session(session_id=session, cwd=str(joey.workspace))
            assert again.editor.text(session) == ""
            assert await again.prompt(session, "two") == "end_turn"
            assert again.editor.text(session) == "second"
        assert "one" in json.dumps(server.requests[1].body["messages"])


async def test_a_task_of_the_command_line_is_listed_and_loaded(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with ModelServer([done("from the shell"), done("from the editor")]) as server:
        ran = await joey.run("-p", *reach(server.url), "begin here")
        assert ran.code == 0
        async with connected(joey, server.url, schema) as here:
            listed = await here.agent.list_sessions(cwd=str(joey.workspace))
            (found,) = listed.sessions
            assert (found.title, found.cwd) == ("begin here", str(joey.workspace))
            elsewhere = await here.agent.list_sessions(cwd="/nowhere")
            assert elsewhere.sessions == []
            id = found.session_id
            await here.agent.load_session(session_id=id, cwd=str(joey.workspace), mcp_servers=[])
            assert here.editor.text(id) == "from the shell"
            assert here.editor.text(id, "user_message_chunk") == "begin here"
            assert await here.prompt(id, "go on") == "end_turn"
            assert server.requests[1].body["model"] == "scripted"
    listed_tasks = await joey.run("tasks", "list", "--json")
    assert [task["id"] for task in listed_tasks.json] == [id]


ROO_ROWS = [
    {"ts": 1000, "type": "say", "say": "text", "text": "port it"},
    {"ts": 1001, "type": "say", "say": "api_req_started", "text": "{}"},
    {"ts": 1002, "type": "say", "say": "reasoning", "text": "Where is it?"},
    {"ts": 1003, "type": "say", "say": "text", "text": "I look."},
    {"ts": 1004, "type": "ask", "ask": "tool", "text": '{"tool":"readFile","path":"a.py"}'},
    {"ts": 1005, "type": "ask", "ask": "command", "text": "ls"},
    {"ts": 1006, "type": "say", "say": "command_output", "text": "a.py"},
    {"ts": 1007, "type": "say", "say": "completion_result", "text": "Ported."},
]
ROO_MESSAGES = [
    {"role": "user", "content": [{"type": "text", "text": "<task>port it</task>"}], "ts": 1001},
    {"role": "assistant", "content": [{"type": "text", "text": "Ported."}], "ts": 1006},
]


async def test_a_task_of_roo_is_loaded_and_goes_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    id = "0190a3b2-1111-7000-8000-000000000001"
    directory = joey.home / "tasks" / f"task_{id}"
    directory.mkdir(parents=True)
    for name, content in (
        ("ui_messages.json", ROO_ROWS),
        ("api_conversation_history.json", ROO_MESSAGES),
    ):
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    async with (
        ModelServer([done("More.")]) as server,
        connected(joey, server.url, schema) as here,
    ):
        await here.agent.load_session(session_id=id, cwd=str(joey.workspace), mcp_servers=[])
        editor = here.editor
        assert editor.text(id, "user_message_chunk") == "port it"
        assert editor.text(id, "agent_thought_chunk") == "Where is it?"
        assert editor.text(id).split("\n\n") == ["I look.", "Ported.", ""]
        read, run = editor.calls(id).values()
        assert (read["kind"], read["title"]) == ("read", "Read a.py")
        assert (run["kind"], run["status"]) == ("execute", "completed")
        assert "a.py" in run["content"][1]["content"]["text"]
        assert await here.prompt(id, "and now the tests") == "end_turn"
        assert "Ported." in json.dumps(server.requests[0].body["messages"])


@pytest.mark.contract("acp:task")
async def test_after_kill_9_a_session_is_loaded_and_goes_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    never = asyncio.Event()
    turns = [
        Turn(say("I write."), call("write_to_file", {"path": "a.txt", "content": "one\n"})),
        Turn(say("I run."), call("execute_command", {"command": "touch b.txt"})),
        done("After all."),
    ]

    async def only_edits(call: dict[str, Any]) -> str | None:
        if call["call"]["kind"] == "execute":
            await never.wait()
        return "allow"

    async with ModelServer(turns) as server:
        editor = Editor(only_edits)
        with pytest.raises(ProcessLookupError):
            async with connected(joey, server.url, None, editor) as here:
                session = await here.new(joey.workspace)
                turn = asyncio.ensure_future(here.prompt(session, "go"))
                await editor.until(lambda: len(editor.asked) == 2)
                here.process.send_signal(signal.SIGKILL)
                await here.process.wait()
                with pytest.raises(ConnectionError):
                    await turn
                raise ProcessLookupError
        async with connected(joey, server.url, schema) as again:
            await again.agent.load_session(
                session_id=session, cwd=str(joey.workspace), mcp_servers=[]
            )
            write, run = again.editor.calls(session).values()
            assert (write["status"], run["status"]) == ("completed", "failed")
            assert again.editor.text(session) == "I write.I run."
            assert await again.prompt(session, "go on") == "end_turn"
            assert again.editor.text(session).endswith("After all.")
    assert (joey.workspace / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert not (joey.workspace / "b.txt").exists()


async def test_a_fork_leaves_its_origin_alone(joey: Joey, schema: ProtocolSchema | None) -> None:
    async with ModelServer([done("first"), done("second")]) as server:
        async with connected(joey, server.url, schema) as here:
            session = await here.new(joey.workspace)
            await here.prompt(session, "one")
            fork = await here.agent.fork_session(session_id=session, cwd=str(joey.workspace))
            assert fork.session_id != session
            assert await here.prompt(fork.session_id, "two") == "end_turn"
            assert here.editor.text(fork.session_id) == "second"
            assert here.editor.text(session) == "first"
        assert "one" in json.dumps(server.requests[1].body["messages"])


async def test_a_closed_session_is_left_to_others(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (  # noqa: SIM117
        ModelServer([done("first"), done("second")]) as server
    ):
        async with connected(joey, server.url, schema) as here:
            session = await here.new(joey.workspace)
            await here.prompt(session, "one")
            held = await joey.run("-p", *reach(server.url), "-r", session, "two")
            assert held.code == 1 and "process" in held.err
            await here.agent.close_session(session_id=session)
            with pytest.raises(RequestError, match="There is no session"):
                await here.prompt(session, "three")
            ran = await joey.run("-p", *reach(server.url), "-r", session, "two")
            assert ran.code == 0, ran.err


async def test_a_session_that_is_not_there(joey: Joey, schema: ProtocolSchema | None) -> None:
    async with connected(joey, "http://127.0.0.1:9", schema) as here:
        for ask in (here.agent.load_session, here.agent.resume_session):
            with pytest.raises(RequestError) as caught:
                await ask(session_id="nope", cwd=str(joey.workspace), mcp_servers=[])
            assert caught.value.code == -32002


@pytest.mark.parametrize("cwd", ["relative", "/does/not/exist", ""])
async def test_a_directory_that_cannot_be_used(
    joey: Joey, schema: ProtocolSchema | None, cwd: str
) -> None:
    async with connected(joey, "http://127.0.0.1:9", schema) as here:
        with pytest.raises(RequestError, match="cwd") as caught:
            await here.agent.new_session(cwd=cwd, mcp_servers=[])
        assert caught.value.code == -32602


@pytest.mark.parametrize("way", ["eof", "term"])
async def test_the_end_of_the_connection_leaves_both_histories_valid(joey: Joey, way: str) -> None:
    gate = asyncio.Event()
    slow = Turn(say("I begin"), pause(gate), say("never"))
    editor = Editor()
    async with ModelServer([slow]) as server:
        with pytest.raises(ProcessLookupError):
            async with connected(joey, server.url, None, editor) as here:
                session = await here.new(joey.workspace)
                turn = asyncio.ensure_future(here.prompt(session, "go"))
                await editor.until(lambda: "I begin" in editor.text(session))
                assert here.process.stdin is not None
                if way == "eof":
                    here.process.stdin.close()
                else:
                    here.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(LIMIT):
                    code = await here.process.wait()
                assert code == (0 if way == "eof" else 143)
                assert await turn == "cancelled"
                raise ProcessLookupError
        gate.set()
    (task,) = joey.tasks
    rows = json.loads((task / "ui_messages.json").read_text(encoding="utf-8"))
    assert "I begin" in [row.get("text") for row in rows]
    messages = json.loads((task / "api_conversation_history.json").read_text(encoding="utf-8"))
    assert [message["role"] for message in messages][:2] == ["user", "assistant"]
    metadata = json.loads((task / "task_metadata.json").read_text(encoding="utf-8"))
    assert metadata["status"] == "aborted"
