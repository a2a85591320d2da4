"""A whole task in an editor: what it is told, what it is asked, and what is left on disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, say, think, usage
from joey.testing.server import ModelServer, by_conversation
from tests.acp.editor import Editor, connected
from tests.acp.rules import Rules
from tests.front.binary import Joey

TODOS = "[x] look\n[-] write\n[ ] tell"


def done(result: str = "All is well.") -> Turn:
    return Turn(call("attempt_completion", {"result": result}), usage(input=900, output=40))


async def test_a_whole_task(joey: Joey, rules: Rules | None) -> None:
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
        Turn(call("execute_command", {"command": "echo hello && cat notes.txt"})),
        done(),
    ]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, rules) as here,
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
    assert run["title"] == "`echo hello && cat notes.txt`"
    assert "hello\none\n2" in run["content"][-1]["content"]["text"]
    assert run["rawOutput"] == {"exitCode": 0}
    assert [each["call"]["kind"] for each in editor.asked] == ["edit", "execute"]
    assert editor.asked[0]["call"]["content"][0] == write["content"][0]
    usage_told = editor.updates(session, "usage_update")[-1]
    assert usage_told["used"] == 940
    (info,) = editor.updates(session, "session_info_update")
    assert info["title"] == "change it"

    listed = await joey.run("tasks", "list", "--json")
    assert [(each["id"], each["status"]) for each in listed.json] == [(session, "completed")]
    for name in ("ui_messages.json", "api_conversation_history.json"):
        assert json.loads((joey.tasks[0] / name).read_text(encoding="utf-8"))


async def test_statuses_go_from_pending_over_in_progress_to_the_end(
    joey: Joey, rules: Rules | None
) -> None:
    turns = [
        Turn(call("execute_command", {"command": "echo one; exit 3"})),
        Turn(call("list_files", {"path": "."})),
        done(),
    ]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, rules) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        told: dict[str, list[str]] = {}
        for update in here.editor.updates(session, "tool_call", "tool_call_update"):
            if "status" in update:
                told.setdefault(update["toolCallId"], []).append(update["status"])
    run, look = told.values()
    assert run == ["pending", "pending", "in_progress", "failed"]
    assert look == ["pending", "in_progress", "completed"]


@pytest.mark.parametrize("ending", ["", "\n"])
async def test_a_new_file_is_told_to_the_letter(
    joey: Joey, rules: Rules | None, ending: str
) -> None:
    text = f"first\n\n  third{ending}"
    turns = [Turn(call("write_to_file", {"path": "a/new.txt", "content": text})), done()]
    async with (
        ModelServer(turns) as server,
        connected(joey, server.url, rules) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        (write,) = here.editor.calls(session).values()
    path = joey.workspace / "a" / "new.txt"
    assert write["content"] == [{"type": "diff", "path": str(path), "newText": text}]
    assert path.read_text(encoding="utf-8") == text


async def test_a_change_in_two_places_is_told_as_two_pairs(joey: Joey, rules: Rules | None) -> None:
    before = [f"line {number}" for number in range(60)]
    after = [*before[:5], "new", *before[6:50], *before[52:]]
    path = joey.workspace / "long.txt"
    path.write_text("\n".join(before) + "\n", encoding="utf-8")
    change = {"path": "long.txt", "content": "\n".join(after) + "\n"}
    async with (
        ModelServer([Turn(call("write_to_file", change)), done()]) as server,
        connected(joey, server.url, rules) as here,
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


async def test_a_prompt_goes_on_after_the_result(joey: Joey, rules: Rules | None) -> None:
    async with (
        ModelServer([done("first"), done("second")]) as server,
        connected(joey, server.url, rules) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "one") == "end_turn"
        assert await here.prompt(session, "two") == "end_turn"
        assert here.editor.text(session) == "firstsecond"
        sent = json.dumps(server.requests[1].body["messages"])
        assert "one" in sent and "two" in sent


async def test_two_sessions_work_side_by_side(
    joey: Joey, rules: Rules | None, tmp_path: Path
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
        connected(joey, server.url, rules, editor) as here,
    ):
        first, second = await here.new(joey.workspace), await here.new(other)
        stops = tuple(await asyncio.gather(here.prompt(first, "go"), here.prompt(second, "go")))
        assert stops == ("end_turn", "end_turn")
    for folder in (joey.workspace, other):
        assert (folder / "here").exists()
    assert {each["session"] for each in editor.asked} == {first, second}
