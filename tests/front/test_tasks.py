from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from joey.cli.exit_codes import UsageError
from joey.cli.launch import find_task, short_id
from joey.ports import TaskMetadata
from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.front.binary import LIMIT, Joey, reach

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All done."}))


async def play(joey: Joey, prompt: str) -> str:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    look = Turn(say("I look."), call("read_file", {"path": "a.txt"}))
    async with ModelServer([look, DONE]) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), prompt)
    assert done.code == 0
    task_id: str = done.json["taskId"]
    return task_id


@pytest.mark.requirement("front:tasks", "store:listing")
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


async def test_a_task_at_work_is_told_from_one_whose_process_died(joey: Joey) -> None:
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


def test_a_short_id_means_one_task() -> None:
    tasks = [TaskMetadata(id=f"0123456789abcde{end}") for end in ("f0", "f1", "00")]
    assert short_id(tasks[2].id, tasks) == "0123456789abcde0"
    assert short_id(tasks[0].id, tasks) == "0123456789abcdef0"
    assert short_id("0123456789abcdef0", ()) == "0123456789abc"


async def test_tasks_of_other_folders_are_listed_only_when_asked_for(
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


@pytest.mark.requirement("front:tasks")
async def test_a_task_is_shown_by_the_start_of_its_id(joey: Joey) -> None:
    task_id = await play(joey, "look at it")
    shown = await joey.run("tasks", "show", task_id[:13])
    assert shown.code == 0
    for words in ("# look at it", task_id, "## Assistant\n\nI look.", "read_file", "All done."):
        assert words in shown.out
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


async def test_an_unknown_task_is_a_clear_error(joey: Joey) -> None:
    done = await joey.run("tasks", "show", "nothing")
    assert done.code == 2
    assert "nothing" in done.err
    assert "Traceback" not in done.err


def test_the_start_of_an_id_must_mean_one_task() -> None:
    tasks = [TaskMetadata(id=name) for name in ("abc", "abd", "ab")]
    assert find_task(tasks, "abc").id == "abc"
    assert find_task(tasks, "task_abd").id == "abd"
    assert find_task(tasks, "ab").id == "ab"
    with pytest.raises(UsageError, match=r"3 tasks.*abc, abd"):
        find_task(tasks, "a")
    for wrong in ("x", "", "abcd"):
        with pytest.raises(UsageError, match="no task"):
            find_task(tasks, wrong)
