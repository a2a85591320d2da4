"""`joey tasks rewind` and `fork`, `--fork`, and `/rewind`, `/undo`, `/fork` in a conversation."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal

pytestmark = pytest.mark.contract("rewind:any-row")

ACCEPT = "say what to change › "
PROMPT = "\n › "


def done(result: str = "All done.") -> Turn:
    return Turn(say("Nearly."), call("attempt_completion", {"result": result}))


def write(content: str) -> Turn:
    return Turn(say("I write."), call("write_to_file", {"path": "a.txt", "content": content}))


async def play(joey: Joey) -> str:
    """A task that wrote `one`, and after more words `two`."""
    async with ModelServer([write("one\n"), done("First."), write("two\n"), done("Second.")]) as s:
        first = await joey.run("-p", "-y", "--output-format", "json", *reach(s.url), "write one")
        task_id: str = first.json["taskId"]
        again = await joey.run("-p", "-y", *reach(s.url), "-r", task_id, "now two")
        assert (first.code, again.code) == (0, 0)
    assert content(joey) == "two\n"
    return task_id


def content(joey: Joey) -> str:
    return (joey.workspace / "a.txt").read_text(encoding="utf-8")


async def rows(joey: Joey, task_id: str) -> list[dict[str, Any]]:
    shown = await joey.run("tasks", "show", task_id, "--rows", "--json")
    listed: list[dict[str, Any]] = shown.json
    return listed


async def test_messages_are_listed_with_numbers_from_the_end(joey: Joey) -> None:
    task_id = await play(joey)
    shown = await joey.run("tasks", "show", task_id[:13], "--rows")
    heading, *lines = shown.out.splitlines()
    assert heading.split()[:2] == ["number", "message"]
    assert [line.split()[0] for line in lines] == [str(n) for n in range(len(lines), 0, -1)]
    assert re.search(r" you +write one$", lines[0])
    assert re.search(r"^1 +\d{13} +\S+ \S+ +result +Second\.$", lines[-1])
    assert any(re.search(r" write_to_file +a\.txt$", line) for line in lines)
    assert [row["kind"] for row in await rows(joey, task_id)].count("you") == 2


async def test_by_default_the_latest_message_is_taken_back(joey: Joey) -> None:
    task_id = await play(joey)
    gone = await joey.run("tasks", "rewind", task_id, "-y")
    assert gone.code == 0, gone.err
    assert "messages go" in gone.out
    assert f"to undo it: joey tasks rewind {task_id[:13]} --undo" in gone.err
    listed = await rows(joey, task_id)
    assert "now two" not in [row["text"] for row in listed]
    assert listed[-1]["text"] == "First."
    assert content(joey) == "two\n"
    on_disk = json.loads((joey.tasks[0] / "ui_messages.json").read_text(encoding="utf-8"))
    assert "now two" not in [row.get("text") for row in on_disk]
    assert (await joey.run("tasks", "search", "now")).out == ""
    back = await joey.run("tasks", "rewind", task_id, "--undo", "-y")
    assert "messages are restored" in back.out
    assert "now two" in [row["text"] for row in await rows(joey, task_id)]


async def test_files_come_back_when_asked_for(joey: Joey) -> None:
    task_id = await play(joey)
    looked = await joey.run("tasks", "rewind", task_id, "--with-files", "--preview")
    assert looked.code == 0
    assert "  1 file is restored:\n    a.txt\n" in looked.out
    assert content(joey) == "two\n"
    (joey.workspace / "a.txt").write_text("by hand\n", encoding="utf-8")
    refused = await joey.run("tasks", "rewind", task_id, "--with-files", "-y")
    assert refused.code == 1
    assert "--force" in refused.err
    assert content(joey) == "by hand\n"
    as_json = await joey.run("tasks", "rewind", task_id, "--with-files", "-y", "--json")
    assert (as_json.code, as_json.json["done"]) == (1, False)
    assert as_json.json["changes"]["conflicts"] == ["a.txt"]
    assert "--force" in as_json.json["error"] and "--force" in as_json.err
    forced = await joey.run("tasks", "rewind", task_id, "--with-files", "-y", "--force", "--json")
    assert forced.json["done"] is True
    assert forced.json["changes"]["conflicts"] == ["a.txt"]
    assert content(joey) == "one\n"
    assert (await joey.run("tasks", "rewind", task_id, "--undo", "-y")).code == 0
    assert content(joey) == "by hand\n"


async def test_files_that_do_not_come_back_are_named(joey: Joey) -> None:
    (joey.workspace / ".gitignore").write_text("*.log\n", encoding="utf-8")
    note = Turn(call("write_to_file", {"path": "own.log", "content": "x\n"}))
    async with ModelServer([write("one\n"), note, done()]) as server:
        run = await joey.run("-p", "-y", "--output-format", "json", *reach(server.url), "write")
    looked = await joey.run("tasks", "rewind", run.json["taskId"], "--with-files", "--preview")
    assert "  1 file is deleted:\n    a.txt\n" in looked.out
    assert "  1 file is not restored (ignored by git):\n    own.log\n" in looked.out
    async with ModelServer([]) as server, terminal(joey, *reach(server.url), "-c") as screen:
        await screen.until(PROMPT)
        screen.press("/rewind files\n")
        drawn = await screen.until("/undo undoes it")
        assert "1 file is not restored (ignored by git):\n  own.log\n" in drawn
    assert (joey.workspace / "own.log").exists()


async def test_a_message_is_named_by_number_or_by_its_ts(joey: Joey) -> None:
    task_id = await play(joey)
    listed = await rows(joey, task_id)
    first = listed[0]
    by_ts = await joey.run("tasks", "rewind", task_id, str(first["ts"]), "--preview", "--json")
    by_number = await joey.run(
        "tasks", "rewind", task_id, str(first["number"]), "--preview", "--json"
    )
    assert by_ts.json == by_number.json
    assert by_ts.json["changes"]["messageTs"] == first["ts"]
    second = str(listed[1]["number"])
    before = await joey.run("tasks", "rewind", task_id, second, "--before", "--preview", "--json")
    assert before.json["changes"]["messageTs"] <= listed[1]["ts"]
    assert listed[1]["ts"] in before.json["changes"]["rows"]


async def test_messages_are_counted_and_named_as_they_are_listed(joey: Joey) -> None:
    task_id = await play(joey)
    listed = await rows(joey, task_id)
    two = await joey.run("tasks", "rewind", task_id, "--preview", "2")
    assert f"message {listed[-2]['ts']} (" in two.out
    assert "  1 message goes\n" in two.out
    index = [row["text"] for row in listed].index("now two")
    gone = await joey.run("tasks", "rewind", task_id, "-y")
    count = len(listed) - index
    assert f"the last message is message {listed[index - 1]['ts']} (First.)" in gone.out
    assert f"  {count} messages go\n" in gone.out
    assert (
        f"  {count} messages are restored\n"
        in (await joey.run("tasks", "rewind", task_id, "--undo", "-y")).out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rewind", "ID"), "confirm with --yes"),
        (("rewind", "ID", "999", "-y"), "there is no message '999'"),
        (("rewind", "ID", "3", "--undo"), "no other arguments"),
        (("rewind", "nobody"), "there is no task"),
        (("fork", "ID", "--before"), "--before needs"),
        (("fork", "ID", "x"), "there is no message 'x'"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_line(
    joey: Joey, arguments: tuple[str, ...], message: str
) -> None:
    async with ModelServer([done()]) as server:
        run = await joey.run("-p", "--output-format", "json", *reach(server.url), "do it")
        await joey.run("-p", *reach(server.url), "-r", run.json["taskId"], "more")
    given = [run.json["taskId"] if word == "ID" else word for word in arguments]
    refused = await joey.run("tasks", *given)
    assert refused.code == 2
    assert message in refused.err.replace("\n", " ")


async def test_the_only_message_of_a_user_is_gone_back_to_by_default(joey: Joey) -> None:
    async with ModelServer([write("one\n"), done()]) as server:
        run = await joey.run("-p", "-y", "--output-format", "json", *reach(server.url), "write one")
    task_id = run.json["taskId"]
    looked = await joey.run("tasks", "rewind", task_id, "--preview", "--with-files")
    assert looked.code == 0, looked.err
    assert "(write one)" in looked.out
    assert "  1 file is deleted:\n    a.txt\n" in looked.out
    gone = await joey.run("tasks", "rewind", task_id, "--with-files", "-y")
    assert gone.code == 0, gone.err
    assert not (joey.workspace / "a.txt").exists()
    back = await joey.run("tasks", "rewind", task_id, "--undo", "--preview")
    assert "  1 file is created:\n    a.txt\n" in back.out
    assert [row["text"] for row in await rows(joey, task_id)] == ["write one"]


async def test_nothing_to_undo(joey: Joey) -> None:
    async with ModelServer([done()]) as server:
        run = await joey.run("-p", "--output-format", "json", *reach(server.url), "do it")
    task_id = run.json["taskId"]
    undo = await joey.run("tasks", "rewind", task_id, "--undo", "-y")
    assert (undo.code, "nothing to undo" in undo.err) == (1, True)


async def test_on_a_terminal_a_user_is_asked(joey: Joey) -> None:
    task_id = await play(joey)
    async with terminal(joey, "tasks", "rewind", task_id) as screen:
        assert "messages go" in await screen.until("Rewind? [y/N] ")
        screen.press("n\n")
        assert await screen.ended() == 3
    assert "now two" in [row["text"] for row in await rows(joey, task_id)]
    async with terminal(joey, "tasks", "rewind", task_id) as screen:
        await screen.until("Rewind? [y/N] ")
        screen.press("y\n")
        assert await screen.ended() == 0
    assert "now two" not in [row["text"] for row in await rows(joey, task_id)]


@pytest.mark.contract("fork:any-row")
async def test_a_copy_goes_on_and_the_task_stays(joey: Joey) -> None:
    task_id = await play(joey)
    forked = await joey.run("tasks", "fork", task_id, "1")
    fork_id = forked.out.strip()
    assert re.search(r"to continue it: joey -r \S+", forked.err)
    assert {task["id"] for task in (await joey.run("tasks", "list", "--json")).json} == {
        task_id,
        fork_id,
    }
    before = await rows(joey, task_id)
    assert await rows(joey, fork_id) == before
    async with ModelServer([done("Third.")]) as server:
        went = await joey.run("-p", "-y", *reach(server.url), "-r", fork_id, "and three")
    assert went.out == "Third.\n"
    assert await rows(joey, task_id) == before


@pytest.mark.contract("fork:any-row")
async def test_a_flag_goes_on_in_a_copy(joey: Joey) -> None:
    task_id = await play(joey)
    before = await rows(joey, task_id)
    async with ModelServer([done("Elsewhere.")]) as server:
        went = await joey.run(
            *("-p", "-y", "--output-format", "json", *reach(server.url)),
            *("-c", "--fork", "in another way"),
        )
        alone = await joey.run("-p", *reach(server.url), "--fork", "x")
    assert went.json["content"] == "Elsewhere."
    assert went.json["taskId"] != task_id
    assert await rows(joey, task_id) == before
    assert (alone.code, "--fork needs" in alone.err) == (2, True)


async def test_a_conversation_goes_back_and_on(joey: Joey) -> None:
    turns = [done("First."), done("Second."), done("Third.")]
    async with ModelServer(turns) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/undo\n")
            await screen.until("nothing to undo")
            screen.press("paint it red\n")
            await screen.until(ACCEPT)
            screen.press("\n")
            await screen.until(PROMPT)
            screen.press("/rewind\n")
            shown = await screen.until("/undo undoes it")
            assert "your message was: paint it red" in shown
            screen.press("/undo\n")
            await screen.until("the rewind is undone")
            screen.press("/rewind 99\n")
            await screen.until("there is no message '99'")
            screen.press("/rewind\n")
            await screen.until("/undo undoes it")
            screen.press("/fork\n")
            await screen.until("this is a copy now")
            await screen.until(PROMPT)
            screen.press("paint it blue\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "paint it blue" in said and "paint it red" not in said
    assert len(joey.tasks) == 2


async def test_a_conversation_with_an_earlier_task_can_begin_by_going_back(joey: Joey) -> None:
    await play(joey)
    async with ModelServer([done("Third.")]) as server:
        async with terminal(joey, *reach(server.url), "-c") as screen:
            await screen.until(PROMPT)
            screen.press("/rewind files\n")
            await screen.until("/undo undoes it")
            assert content(joey) == "one\n"
            screen.press("now three\n")
            await screen.until(ACCEPT)
        said = json.dumps(server.requests[-1].body["messages"])
    assert "now three" in said and "now two" not in said


async def test_in_a_conversation_changes_of_others_are_named_and_given_up_by_force(
    joey: Joey,
) -> None:
    await play(joey)
    (joey.workspace / "a.txt").write_text("by hand\n", encoding="utf-8")
    async with (
        ModelServer([]) as server,
        terminal(joey, *reach(server.url), "-c", columns=200) as screen,
    ):
        await screen.until(PROMPT)
        screen.press("/rewind files\n")
        drawn = await screen.until("`/rewind files force` restores anyway")
        assert "some files were modified outside joey: a.txt" in drawn
        assert content(joey) == "by hand\n"
        screen.press("/rewind force\n")
        await screen.until("`force` goes with `files`")
        screen.press("/rewind files force\n")
        await screen.until("/undo undoes it")
        assert content(joey) == "one\n"
        (joey.workspace / "a.txt").write_text("by hand again\n", encoding="utf-8")
        screen.press("/undo\n")
        await screen.until("`/undo force` restores anyway")
        screen.press("/undo force\n")
        await screen.until("the rewind is undone")
    assert content(joey) == "by hand\n"
