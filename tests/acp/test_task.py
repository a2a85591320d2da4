"""A whole task in an editor: what it is told, what it is asked, and what is left on disk."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from joey.testing.script import Turn, call, say, think
from joey.testing.server import ModelServer, by_conversation
from tests.harness.acp.editor import TODOS, Editor, connected, done, model_at
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.scripted_conversations import by_first_message


@pytest.mark.contract("acp:task")
@pytest.mark.smoke
async def test_a_whole_task(joey: Joey, schema: ProtocolSchema | None) -> None:
    (joey.workspace / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    change = {"path": "notes.txt", "content": "one\n2\nthree\n"}
    turns = [
        Turn(
            think("Let me look.", signature="s", chunk=4),
            say("I read it first.", chunk=5),
            call("read_file", {"files": [{"path": "notes.txt"}]}),
            call("update_todo_list", {"todos": TODOS}),
        ),
        Turn(call("write_to_file", change, chunk=7)),
        Turn(call("execute_command", {"command": "echo hello && cat notes.txt && touch seen"})),
        done(),
    ]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, schema) as here,
    ):
        editor = here.editor
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "change it") == "end_turn"

    assert editor.text(session) == "I read it first.All is well."
    assert editor.text(session, "agent_thought_chunk") == "Let me look."
    (plan,) = editor.updates(session, "plan")
    assert [(one["content"], one["status"]) for one in plan["entries"]] == [
        ("look", "completed"),
        ("write", "in_progress"),
        ("tell", "pending"),
    ]
    read, write, run = editor.calls(session).values()
    assert (read["kind"], read["status"], read["title"]) == ("read", "completed", "Read notes.txt")
    assert "two" in read["content"][0]["content"]["text"]
    assert read["locations"] == [{"path": str(joey.workspace / "notes.txt")}]
    assert (write["kind"], write["status"]) == ("edit", "completed")
    assert write["content"] == [
        {
            "type": "diff",
            "path": str(joey.workspace / "notes.txt"),
            "oldText": "one\ntwo\nthree\n",
            "newText": "one\n2\nthree\n",
        }
    ]
    assert write["locations"] == [{"path": str(joey.workspace / "notes.txt"), "line": 2}]
    assert (run["kind"], run["status"]) == ("execute", "completed")
    assert run["title"] == "Run `echo hello && cat notes.txt && touch seen`"
    assert "hello\none\n2" in run["content"][-1]["content"]["text"]
    assert run["rawOutput"] == {"exitCode": 0}
    assert [each["call"]["kind"] for each in editor.asked] == ["edit", "execute"]
    assert editor.asked[0]["call"]["content"][0] == write["content"][0]
    usage_update = editor.updates(session, "usage_update")[-1]
    assert usage_update["used"] == 940
    titles = [each["title"] for each in editor.updates(session, "session_info_update")]
    assert titles == ["change it", "change it"]

    listed = await joey.run("tasks", "list", "--json")
    assert [(each["id"], each["status"]) for each in listed.json] == [(session, "completed")]
    for name in ("ui_messages.json", "api_conversation_history.json"):
        assert json.loads((joey.tasks[0] / name).read_text(encoding="utf-8"))


async def test_statuses_go_from_pending_over_in_progress_to_the_end(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    turns = [
        Turn(call("execute_command", {"command": "echo one; exit 3"})),
        Turn(call("list_files", {"path": "."})),
        done(),
        done(),
    ]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        statuses: dict[str, list[str]] = {}
        for update in here.editor.updates(session, "tool_call", "tool_call_update"):
            if "status" in update:
                statuses.setdefault(update["toolCallId"], []).append(update["status"])
    run, look = statuses.values()
    assert run == ["pending", "pending", "in_progress", "failed"]
    assert look == ["pending", "in_progress", "completed"]


@pytest.mark.parametrize("ending", ["", "\n"])
async def test_a_new_file_is_sent_to_the_letter(
    joey: Joey, schema: ProtocolSchema | None, ending: str
) -> None:
    text = f"first\n\n  third{ending}"
    turns = [Turn(call("write_to_file", {"path": "a/new.txt", "content": text})), done()]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        (write,) = here.editor.calls(session).values()
    path = joey.workspace / "a" / "new.txt"
    assert write["content"] == [{"type": "diff", "path": str(path), "newText": text}]
    assert path.read_text(encoding="utf-8") == text


async def test_a_change_in_two_places_is_sent_as_two_pairs(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    before = [f"line {number}" for number in range(60)]
    after = [*before[:5], "new", *before[6:50], *before[52:]]
    path = joey.workspace / "long.txt"
    path.write_text("\n".join(before) + "\n", encoding="utf-8")
    change = {"path": "long.txt", "content": "\n".join(after) + "\n"}
    async with (
        ModelServer([Turn(call("write_to_file", change)), done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        (write,) = here.editor.calls(session).values()
    replaced = "\n".join(before) + "\n"
    for pair in write["content"]:
        assert replaced.count(pair["oldText"]) == 1
        replaced = replaced.replace(pair["oldText"], pair["newText"])
    assert replaced == path.read_text(encoding="utf-8") == "\n".join(after) + "\n"
    assert [place["line"] for place in write["locations"]] == [6, 51]


async def test_a_prompt_goes_on_after_the_result(joey: Joey, schema: ProtocolSchema | None) -> None:
    async with (
        ModelServer([done("first"), done("second")]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "one") == "end_turn"
        assert await here.prompt(session, "two") == "end_turn"
        assert here.editor.text(session) == "firstsecond"
        sent = json.dumps(server.requests[1].body["messages"])
        assert "one" in sent and "two" in sent


@pytest.mark.contract("acp:task")
async def test_two_sessions_work_side_by_side(
    joey: Joey, schema: ProtocolSchema | None, tmp_path: Path
) -> None:
    """Each waits in the middle of its turn for the other one to be asked."""
    other = tmp_path / "other"
    other.mkdir()
    turns = [Turn(call("execute_command", {"command": "touch here"})), done()]
    editor = Editor()

    async def when_both_are_asked(_: object) -> str:
        await editor.until(lambda: len(editor.asked) == 2)
        return "allow"

    editor.choose = when_both_are_asked
    async with (
        ModelServer(by_conversation(turns)) as server,
        connected(joey, server.url, schema, editor) as here,
    ):
        first, second = await here.new(joey.workspace), await here.new(other)
        stops = tuple(await asyncio.gather(here.prompt(first, "go"), here.prompt(second, "go")))
        assert stops == ("end_turn", "end_turn")
    for directory in (joey.workspace, other):
        assert (directory / "here").exists()
    assert {each["session"] for each in editor.asked} == {first, second}


async def test_a_subtask_is_shown_while_it_works(joey: Joey, schema: ProtocolSchema | None) -> None:
    parts = {
        "the big thing": [
            Turn(call("new_task", {"mode": "code", "message": "the small thing"})),
            done("Both are done."),
        ],
        "the small thing": [
            Turn(say("I am small."), call("execute_command", {"command": "touch small.txt"})),
            done("Small is done."),
        ],
    }
    async with (
        ModelServer(by_first_message(parts)) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "the big thing") == "end_turn"
        editor = here.editor
        assert editor.text(session) == "Both are done."
        assert "I am small." in editor.text(session, "agent_thought_chunk")
        delegated, run, handed = editor.calls(session).values()
        assert (delegated["kind"], delegated["status"]) == ("think", "completed")
        assert "Small is done." in delegated["content"][-1]["content"]["text"]
        assert (run["kind"], run["status"]) == ("execute", "completed")
        assert handed["title"] == "Finish subtask"
        assert len(editor.asked) == 3
    assert (joey.workspace / "small.txt").exists()


LONG = " ".join(map(str, range(11_000)))


async def test_an_editor_that_does_not_read_holds_nobody_up(joey: Joey) -> None:
    """The task goes on to its end; what it said is told when somebody reads again."""
    (joey.workspace / "long.txt").write_text("a line of text\n" * 2000, encoding="utf-8")
    look = Turn(call("read_file", {"files": [{"path": "long.txt"}]}))
    turns = [Turn(say(f"{LONG}{n}", chunk=50), *look.steps) for n in range(2)]
    turns = [look, *turns, done("Over.")]
    async with ModelServer(turns) as server:
        process = await joey.start("acp", stdin=PIPE, env={**joey.env, **model_at(server.url)})
        assert process.stdin and process.stdout
        frames = RawClient(process.stdin, process.stdout)
        await frames.ask("initialize", {"protocolVersion": 1})
        made = await frames.ask("session/new", {"cwd": str(joey.workspace), "mcpServers": []})
        process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        said = [{"type": "text", "text": "go"}]
        frames.send("session/prompt", {"sessionId": made["sessionId"], "prompt": said})
        async with asyncio.timeout(LIMIT):
            await server.wait_for_requests(len(turns))
            process.stdout._transport.resume_reading()  # type: ignore[attr-defined]
            assert (await frames.answer())["stopReason"] == "end_turn"
            process.stdin.close()
            assert await process.wait() == 0
    assert f"{LONG}0" in frames.text and frames.text.endswith("Over.")


class RawClient:
    """Frames by hand, for what the library would not let happen."""

    def __init__(self, input: asyncio.StreamWriter, output: asyncio.StreamReader) -> None:
        self._input = input
        self._output = output
        self._asked = 0
        self.text = ""

    def send(self, method: str, params: dict[str, Any]) -> None:
        self._asked += 1
        frame = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._input.write(json.dumps(frame).encode() + b"\n")

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send(method, params)
        return await self.answer()

    async def answer(self) -> dict[str, Any]:
        while True:
            frame = json.loads(await self._output.readline())
            if frame.get("id") == self._asked:
                result: dict[str, Any] = frame["result"]
                return result
            update = frame["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                self.text += update["content"]["text"]


@pytest.mark.contract("acp:task")
async def test_the_published_schema_judges_every_frame(joey: Joey, sdk: Path) -> None:
    """All tests here ask it where it is at hand; this one says when it is not."""
    judge = ProtocolSchema(sdk)
    async with (
        ModelServer([Turn(call("execute_command", {"command": "true"})), done()]) as server,
        connected(joey, server.url, judge) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "go") == "end_turn"
    with pytest.raises(ValidationError):
        judge.check([("client", {"id": 1, "method": "session/prompt", "params": {"prompt": 1}})])


@pytest.mark.contract("loop:plain-reply")
async def test_a_plain_answer_ends_the_turn_and_is_sent_once(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    turns = [Turn(say("The linker.", chunk=3)), Turn(say("Install lld.", chunk=3)), done()]
    async with ModelServer(turns) as server, connected(joey, server.url, schema) as here:
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "why does it fail?") == "end_turn"
        assert here.editor.text(session) == "The linker.\n\nInstall lld."
        assert await here.prompt(session, "then install it") == "end_turn"
        assert "then install it" in json.dumps(server.requests[2].body["messages"][-1])
