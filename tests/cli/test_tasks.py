from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path

import pytest

from joey.cli.exit_codes import UsageError
from joey.cli.task_lookup import find_task_by_prefix, shorten_task_id
from joey.ports.storage import TaskMetadata
from joey.storage.task_directory import TaskLock
from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.terminal import terminal

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All done."}))


async def play(joey: Joey, prompt: str) -> str:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    look = Turn(say("I look."), call("read_file", {"path": "a.txt"}))
    async with ModelServer([look, DONE]) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), prompt)
    assert done.code == 0
    task_id: str = done.json["taskId"]
    return task_id


@pytest.mark.contract("cli:tasks", "store:listing")
async def test_tasks_are_listed_the_latest_first(joey: Joey) -> None:
    first, second = await play(joey, "the first"), await play(joey, "the second")
    listed = await joey.run("tasks", "list")
    assert listed.code == 0
    heading, *rows = listed.out.splitlines()
    assert re.match(r"id +changed \(\S+\) +status +model +cost +task$", heading)
    assert [row.split()[0] for row in rows] == [second[:13], first[:13]]
    assert re.search(r" \d\d:\d\d +completed +scripted +the second$", rows[0])
    one = await joey.run("tasks", "list", "-n", "1", "--json")
    assert [task["id"] for task in one.json] == [second]
    cut = await joey.run("tasks", "list", "-n", "1")
    assert cut.err.startswith("and 1 more")


async def test_a_task_at_work_is_distinguished_from_one_whose_process_died(joey: Joey) -> None:
    turn = Turn(say("I begin", chunk=7), pause(asyncio.Event()))
    flags = ("-p", "--output-format", "stream-json")
    async with ModelServer([turn]) as server, asyncio.timeout(LIMIT):
        process = await joey.start(*flags, *reach(server.url), "do it")
        assert process.stdout is not None
        while b"I begin" not in (line := await process.stdout.readline()):
            assert line
        assert " running " in (await joey.run("tasks", "list")).out
        process.kill()
        await process.communicate()
    assert " interrupted " in (await joey.run("tasks", "list")).out
    (task,) = (await joey.run("tasks", "list", "--json")).json
    assert task["status"] == "interrupted"
    assert "- Status: interrupted\n" in (await joey.run("tasks", "show", task["id"])).out
    exported = await joey.run("tasks", "export", "--format", "json", task["id"])
    assert exported.json["status"] == "interrupted"


def test_a_short_id_means_one_task() -> None:
    tasks = [TaskMetadata(id=f"0123456789abcde{end}") for end in ("f0", "f1", "00")]
    ids = [task.id for task in tasks]
    assert shorten_task_id(tasks[2].id, ids) == "0123456789abcde0"
    assert shorten_task_id(tasks[0].id, ids) == "0123456789abcdef0"
    assert shorten_task_id("0123456789abcdef0", ()) == "0123456789abc"


async def test_tasks_of_other_directories_are_listed_only_when_asked_for(
    joey: Joey, tmp_path: Path
) -> None:
    task_id = await play(joey, "here")
    elsewhere = Joey(home=joey.home, workspace=tmp_path)
    nothing = await elsewhere.run("tasks", "list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "--all" in nothing.err
    everything = await elsewhere.run("tasks", "list", "--all")
    assert task_id[:13] in everything.out
    assert str(joey.workspace)[:39] in everything.out
    named = await elsewhere.run("tasks", "list", "-w", str(joey.workspace))
    assert task_id[:13] in named.out


@pytest.mark.contract("cli:tasks")
async def test_a_task_is_shown_by_the_start_of_its_id(joey: Joey) -> None:
    task_id = await play(joey, "look at it")
    shown = await joey.run("tasks", "show", task_id[:13])
    assert shown.code == 0
    for text in (
        "# look at it",
        task_id,
        "## Assistant\n\nI look.",
        "### Read `a.txt`",
        "All done.",
    ):
        assert text in shown.out
    whole = await joey.run("tasks", "show", f"task_{task_id}", "--json")
    assert whole.json["id"] == task_id
    assert whole.json["messages"][0]["text"] == "look at it"


async def test_a_task_is_exported_as_a_document_or_as_json(joey: Joey) -> None:
    task_id = await play(joey, "look at it")
    await joey.run("tasks", "export", task_id, "-o", "out.md")
    document = (joey.workspace / "out.md").read_text(encoding="utf-8")
    assert document.startswith("# look at it\n")
    assert "## Result\n\nAll done." in document
    exported = await joey.run("tasks", "export", task_id, "--format", "json")
    on_disk = json.loads((joey.tasks[0] / "ui_messages.json").read_text(encoding="utf-8"))
    texts = [(row["ts"], row.get("text")) for row in on_disk]
    assert [(row["ts"], row.get("text")) for row in exported.json["messages"]] == texts
    unwritable = await joey.run("tasks", "export", task_id, "-o", "none/out.md")
    assert unwritable.code == 2
    assert "none/out.md" in unwritable.err


async def test_a_todo_list_is_listed_with_its_boxes_and_found_by_its_text(joey: Joey) -> None:
    plan = Turn(say("I plan."), call("update_todo_list", {"todos": "[x] look\n[ ] paint it"}))
    edit = Turn(say("I write."), call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with ModelServer([plan, edit, DONE]) as server:
        ran = await joey.run("-p", "-y", "--output-format", "json", *reach(server.url), "begin")
    shown = await joey.run("tasks", "show", ran.json["taskId"], "--rows")
    assert re.search(r" update_todo_list +\[x\] look \[ \] paint it$", shown.out, re.MULTILINE)
    found = await joey.run("tasks", "search", "paint")
    assert "paint" in found.out
    assert not re.search(r"\b[0-9a-f]{32,40}\b", found.out)


async def test_an_unknown_task_is_a_clear_error(joey: Joey) -> None:
    done = await joey.run("tasks", "show", "nothing")
    assert done.code == 2
    assert "nothing" in done.err
    assert "Traceback" not in done.err


def test_the_start_of_an_id_must_mean_one_task() -> None:
    tasks = [TaskMetadata(id=name) for name in ("abc", "abd", "ab")]
    assert find_task_by_prefix(tasks, "abc").id == "abc"
    assert find_task_by_prefix(tasks, "task_abd").id == "abd"
    assert find_task_by_prefix(tasks, "ab").id == "ab"
    with pytest.raises(UsageError, match=r"3 tasks.*abc, abd"):
        find_task_by_prefix(tasks, "a")
    for wrong in ("x", "", "abcd"):
        with pytest.raises(UsageError, match="no task"):
            find_task_by_prefix(tasks, wrong)


async def test_a_result_that_was_never_answered_is_a_completed_task(joey: Joey) -> None:
    async with (
        ModelServer([DONE]) as server,
        terminal(joey, *reach(server.url), "do it") as screen,
    ):
        await screen.until("say what to change › ")
        screen.press("\x04")
        assert await screen.ended() == 0
    [task] = (await joey.run("tasks", "list", "--json")).json
    assert task["status"] == "completed"
    assert await listed(joey, "list", "--status", "interrupted") == []


async def test_a_run_that_lacked_a_user_is_not_a_completed_task(joey: Joey) -> None:
    edit = Turn(say("I write."), call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with ModelServer([edit, DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == 3
    assert len(await listed(joey, "list", "--status", "failed")) == 1
    assert await listed(joey, "list", "--status", "completed") == []


def put(joey: Joey, task_id: str, *texts: str, **facts: object) -> Path:
    """A task as joey leaves it at rest."""
    directory = joey.home / "tasks" / f"task_{task_id}"
    directory.mkdir(parents=True)
    rows = [{"ts": n, "type": "say", "say": "text", "text": text} for n, text in enumerate(texts)]
    (directory / "ui_messages.json").write_text(json.dumps(rows), encoding="utf-8")
    (directory / "journal.jsonl").touch()
    known = {"id": task_id, "workspace": str(joey.workspace), "status": "completed", **facts}
    (directory / "task_metadata.json").write_text(json.dumps(known), encoding="utf-8")
    return directory


async def listed(joey: Joey, *flags: str) -> list[str]:
    return [task["id"] for task in (await joey.run("tasks", *flags, "--json")).json]


@pytest.mark.contract("cli:tasks")
async def test_lists_are_narrowed_by_status_and_time(joey: Joey) -> None:
    day = 24 * 3600 * 1000
    now = int(time.time() * 1000)
    put(joey, "old", updated=now - 30 * day)
    put(joey, "failed", updated=now - 3 * day, status="failed")
    put(joey, "left", updated=now - day, status="running")
    put(joey, "elsewhere", updated=now, workspace="/nowhere")
    assert await listed(joey, "list") == ["left", "failed", "old"]
    assert await listed(joey, "list", "--all", "-n", "1") == ["elsewhere"]
    assert await listed(joey, "list", "--status", "failed") == ["failed"]
    assert await listed(joey, "list", "--status", "interrupted") == ["left"]
    assert await listed(joey, "list", "--since", "7d") == ["left", "failed"]
    assert await listed(joey, "list", "--since", "2000-01-31", "--refresh") == [
        *("left", "failed", "old"),
    ]
    nothing = await joey.run("tasks", "list", "--status", "waiting")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no such tasks in this folder" in nothing.err
    wrong = await joey.run("tasks", "list", "--since", "yesteryear")
    assert wrong.code == 2
    assert "'yesteryear' is not a date" in wrong.err


@pytest.mark.contract("tasks:search")
async def test_a_search_tells_pipes_and_programs_where_the_matches_are(joey: Joey) -> None:
    put(joey, "first", "Repair the\tlogin test", title="Login", updated=1_000)
    put(joey, "second", "write a \x1b[31mpoem", title="Poem", updated=2_000)
    put(joey, "third", "the login again", workspace="/nowhere", updated=3_000)
    found = await joey.run("tasks", "search", "login")
    (line,) = found.out.splitlines()
    fields = line.split("\t")
    assert [fields[0], *fields[2:]] == [
        *("first", "completed", str(joey.workspace), "Login", "Repair the login test"),
    ]
    assert "\x1b" not in (await joey.run("tasks", "search", "poem")).out
    whole = await joey.run("tasks", "search", '"login again"', "--all", "--json")
    assert [(task["id"], task["snippet"]) for task in whole.json] == [("third", "the login again")]
    assert (await joey.run("tasks", "search", "--all", "--", "-login")).out.count("\n") == 2
    nothing = await joey.run("tasks", "search", "absent")
    assert (nothing.code, nothing.out) == (0, "")
    wordless = await joey.run("tasks", "search", '"*"')
    assert wordless.code == 2


@pytest.mark.contract("tasks:search", "cli:tasks")
async def test_on_a_terminal_matches_are_bright_and_progress_is_seen(joey: Joey) -> None:
    for number in range(250):
        put(joey, f"t{number}", "nothing much", updated=number)
    put(joey, "needle", "look at the login test", title="Needle", parentId="t1")
    async with terminal(joey, "tasks", "search", "LOGIN") as screen:
        assert await screen.ended() == 0
    assert re.search(r"indexing [\d,]+ of 251…", screen.text)
    assert "    look at the \x1b[1;33mlogin\x1b[0m test" in screen.raw
    lines = [line for line in screen.lines if line]
    assert re.match(r"id +changed", lines[0])
    assert lines[1].startswith("needle ")
    assert lines[1].endswith("↳ Needle")
    assert lines[2] == "    look at the login test"


@pytest.mark.contract("cli:tasks", "tasks:index")
async def test_deleting_needs_a_yes_and_is_complete(joey: Joey) -> None:
    task_id = await play(joey, "secretplan")
    assert await listed(joey, "search", "secretplan") == [task_id]
    refused = await joey.run("tasks", "delete", task_id[:13])
    assert refused.code == 2
    assert "--yes" in refused.err
    async with terminal(joey, "tasks", "delete", task_id[:13]) as screen:
        await screen.until("[y/N]")
        screen.press("\n")
        assert await screen.ended() == 3
    assert await listed(joey, "list") == [task_id]
    async with terminal(joey, "tasks", "delete", task_id[:13]) as screen:
        await screen.until("[y/N]")
        screen.press("y\n")
        assert await screen.ended() == 0
    assert f"deleted {task_id}  secretplan" in screen.text
    assert await listed(joey, "search", "--all", "secretplan") == await listed(joey, "list") == []
    assert joey.tasks == []
    assert not [path for path in joey.home.glob("index.sqlite*") if _holds(path, b"secretplan")]
    assert (await joey.run("tasks", "delete", task_id, "--yes")).code == 2


@pytest.mark.contract("cli:tasks")
async def test_deleting_a_parent_names_its_subtasks(joey: Joey) -> None:
    for family in ("a", "b"):
        put(joey, f"{family}1", "x", title="parent", childIds=[f"{family}2"])
        put(joey, f"{family}2", "x", title="child", parentId=f"{family}1")
        put(joey, f"{family}3", "x", title="grandchild", parentId=f"{family}2")
    alone = await joey.run("tasks", "delete", "a1", "--yes")
    assert alone.out == "deleted a1  parent\n"
    assert "--with-subtasks" in alone.err
    assert "a2  child" in alone.err
    assert "a3  grandchild" in alone.err
    whole = await joey.run("tasks", "delete", "b1", "--with-subtasks", "--yes")
    assert whole.code == 0
    assert set(whole.out.splitlines()) == {
        *("deleted b1  parent", "deleted b2  child", "deleted b3  grandchild"),
    }
    assert sorted(await listed(joey, "list")) == ["a2", "a3"]


@pytest.mark.contract("cli:tasks")
async def test_a_task_that_is_open_is_not_deleted_nor_any_below_it(joey: Joey) -> None:
    put(joey, "parent", "x", title="parent")
    directory = put(joey, "child", "x", title="child", parentId="parent")
    held = TaskLock.acquire(directory, "child")
    try:
        refused = await joey.run("tasks", "delete", "parent", "--with-subtasks", "--yes")
    finally:
        held.release()
    assert refused.code == 1
    assert f"task child is open in process {os.getpid()} since" in refused.err
    assert "If it is joey serve, use joey attach child" in " ".join(refused.err.split())
    assert refused.out == ""
    assert len(joey.tasks) == 2


async def test_a_damaged_index_is_reported_in_a_line(joey: Joey) -> None:
    put(joey, "one", "x")
    (joey.home / "index.sqlite").write_bytes(b"noise" * 1000)
    done = await joey.run("tasks", "list", "--json")
    assert [task["id"] for task in done.json] == ["one"]
    assert done.err.count("\n") == 1
    assert "is rebuilt" in done.err
    assert (await joey.run("tasks", "list", "--json")).err == ""


def _holds(path: Path, text: bytes) -> bool:
    return text in path.read_bytes()


async def test_a_table_of_tasks_fits_the_terminal_and_is_whole_in_a_pipe(joey: Joey) -> None:
    prompt = "a very long wish " * 10
    await play(joey, prompt)
    async with terminal(joey, "tasks", "list", "--all", columns=80) as screen:
        assert await screen.ended() == 0
        heading, row, *_ = screen.lines
    assert heading.startswith("id ")
    assert row.endswith("…")
    assert len(row) <= 80
    assert prompt.strip() in (await joey.run("tasks", "list", "--all")).out
