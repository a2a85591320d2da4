"""`kill -9` after records of a delegation, the parent's and its children's, and within some.

Records are what steps are made of, so `make soak` has a death between every two of them, and
`make test` at every third. Whoever resumes the parent finds a tree that goes on to its end, with
one result for each call. Subtasks in worktrees also die before each run of git and before each file
that is brought back; all of these steps with `JOEY_KILLS` set, else some.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from joey.app import make_options, open_engine
from joey.core.messages import Message, ToolResultBlock, ToolUseBlock
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.counts import daily
from tests.harness.paths import ROOT
from tests.harness.scripted_conversations import by_first_message
from tests.harness.workspace.git import git

pytestmark = pytest.mark.usefixtures("on_disk")

AT_ONCE = 2
LIMIT = 60.0


def parts() -> dict[str, list[Turn]]:
    def hand(*messages: str) -> Turn:
        todos = "[ ] look\n[ ] tell"
        arguments = [{"mode": "code", "message": text, "todos": todos} for text in messages]
        return Turn(*(call("new_task", each) for each in arguments))

    def done(result: str) -> Turn:
        return Turn(call("attempt_completion", {"result": result}))

    return {
        "the whole": [hand("part one", "part two"), done("whole"), done("whole")],
        "part one": [hand("part three"), done("result one"), done("result one")],
        "part two": [done("result two"), done("result two")],
        "part three": [done("result three"), done("result three")],
    }


def records(directory: Path) -> list[dict[str, Any]]:
    """Whole lines of a journal."""
    data = (
        (directory / "journal.jsonl").read_bytes()
        if (directory / "journal.jsonl").exists()
        else b""
    )
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def workspace(directory: Path) -> str:
    (directory / "work").mkdir(parents=True, exist_ok=True)
    return str(directory / "work")


async def run_until_killed(url: str, directory: Path, last: int, way: str = "") -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.e2e.crash_after_record",
        str(last), *([way] if way else []),
        "-p", "-y", "--provider", "anthropic", "--base-url", url, "-m", "test",
        "-w", workspace(directory), "do the whole",
        cwd=ROOT, env={**os.environ, "JOEY_HOME": str(directory / "home")},
        stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(LIMIT):
        return await process.wait()


def root_of(directory: Path) -> Path:
    """The folder of the task that nobody handed on."""
    for task in (directory / "home" / "tasks").iterdir():
        found = records(task)
        if found and "parent_id" not in found[0]["event"]:
            return task
    raise AssertionError("no task was begun")


async def check(url: str, directory: Path) -> Path:
    """Resume the whole; the folder of its task."""
    root = root_of(directory)
    options = make_options(
        workspace=directory / "work", home=directory / "home", env={}, provider="anthropic",
        base_url=url, model="test", yes=True, policy=Unattended(),
    )  # fmt: skip
    async with open_engine(home=directory / "home", env={}) as engine, asyncio.timeout(LIMIT):
        task = await engine.resume(root.name.removeprefix("task_"), "go on", options=options)
        assert await task.wait() == Completed("whole")
        check_pairs(list(task.messages))
        tasks = {each.id: each for each in engine.history()}
    for each in tasks.values():
        check_task(directory / "home" / "tasks" / f"task_{each.id}", set(tasks))
        assert each.status == TaskState.COMPLETED
        assert each.parent_id is None or each.id in tasks[each.parent_id].child_ids
    return root


def check_task(directory: Path, known: set[str]) -> None:
    events = [record["event"] for record in records(directory)]
    spawned = {e["call_id"]: e["child_id"] for e in events if e["event"] == "taskSpawned"}
    outcomes = [e for e in events if e["event"] == "toolFinished"]
    answered = [e["call_id"] for e in outcomes]
    assert len(answered) == len(set(answered))
    for call_id, child_id in spawned.items():
        assert child_id in known
        [outcome] = [e for e in outcomes if e["call_id"] == call_id]
        assert outcome["content"].startswith(f"Subtask {child_id} completed.\n\nResult:\nresult ")
    rows = {e["ts"] for e in events if e["event"] == "said" and e["say"] == "subtask_result"}
    assert len(rows) == len(spawned)
    paused = [e["event"] for e in events if e["event"] in ("taskPaused", "taskUnpaused")]
    assert paused == ["taskPaused", "taskUnpaused"] * (len(paused) // 2)


def check_pairs(messages: list[Message]) -> None:
    for before, after in pairwise(messages):
        assert before.role != after.role
        uses = [block.id for block in before.content if isinstance(block, ToolUseBlock)]
        results = [b.tool_use_id for b in after.content if isinstance(b, ToolResultBlock)]
        assert results == uses


@pytest.mark.shortened
@pytest.mark.contract("subtasks:crash")
@pytest.mark.timeout(300)
async def test_a_tree_survives_the_death_of_its_process_at_every_step(tmp_path: Path) -> None:
    turn = asyncio.Semaphore(AT_ONCE)
    async with ModelServer(by_first_message(parts())) as server:
        assert await run_until_killed(server.url, tmp_path / "whole", 10_000) == 0
        tasks = list((tmp_path / "whole" / "home" / "tasks").iterdir())
        assert len(tasks) == 4
        written = sum(len(records(task)) for task in tasks)
        before = [r["event"]["event"] for r in records(root_of(tmp_path / "whole"))]
        first = before.index("taskSpawned")

        async def die_and_resume(last: int, torn: bool) -> None:
            directory = tmp_path / f"{last}{'-torn' if torn else ''}"
            async with turn:
                assert (
                    await run_until_killed(server.url, directory, last, "torn" if torn else "")
                    == -9
                )
                try:
                    await check(server.url, directory)
                except BaseException as error:
                    error.add_note(f"killed {'in' if torn else 'after'} record {last}")
                    raise

        async with asyncio.TaskGroup() as group:
            for last in range(first, written, daily(3, 1)):
                group.create_task(die_and_resume(last, torn=last % 4 == 0))


BEFORE = "one\ntwo\nthree\nfour\nfive\n"
CHANGES = {"part one": ("one", "ONE"), "part two": ("five", "FIVE")}


def worktree_parts() -> dict[str, list[Turn]]:
    def done(result: str) -> Turn:
        return Turn(call("attempt_completion", {"result": result}))

    hands = [
        call("new_task", {"mode": "code", "message": part, "worktree": True}) for part in CHANGES
    ]
    parts = {"the whole": [Turn(*hands), done("whole"), done("whole")]}
    for part, (old, new) in CHANGES.items():
        # An edit of one line: a subtask may begin when the work of the other is there already.
        change = {"file_path": "a.txt", "old_string": old, "new_string": new}
        written = Turn(
            call("edit", change), call("write_to_file", {"path": f"{new}.txt", "content": new})
        )
        parts[part] = [written, done(f"result {part}"), done(f"result {part}")]
    return parts


def repository(directory: Path) -> Path:
    work = Path(workspace(directory))
    (work / "a.txt").write_text(BEFORE)
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    (work / "mine.txt").write_text("not committed\n")
    return work


def check_worktrees(directory: Path, root: Path) -> None:
    """Each subtask's work is in the files once, or was never done; nothing is left lying about."""
    work = directory / "work"
    expected = BEFORE
    for task in (directory / "home" / "tasks").iterdir():
        events = [record["event"] for record in records(task)]
        said = next(e["text"] for e in events if e["event"] == "userSaid")
        if task == root or said not in CHANGES:
            continue
        old, new = CHANGES[said]
        wrote = [
            e
            for e in events
            if e["event"] == "toolFinished" and e["tool"] in ("edit", "write_to_file")
        ]
        is_there = (work / f"{new}.txt").exists()
        assert is_there or len(wrote) < 2
        if wrote or new in (work / "a.txt").read_text():
            expected = expected.replace(old, new)
    assert (work / "a.txt").read_text() == expected
    assert (work / "mine.txt").read_text() == "not committed\n"
    root_events = [record["event"] for record in records(root)]
    spawned = [e["child_id"] for e in root_events if e["event"] == "taskSpawned"]
    merged = [(e["child_id"], e["clean"]) for e in root_events if e["event"] == "worktreeMerged"]
    assert merged == [(name, True) for name in spawned]
    worktrees = directory / "home" / "worktrees"  # not there when it died before it had any
    assert not worktrees.exists() or list(worktrees.iterdir()) == []
    assert git(work, "branch", "--list", "joey/*") == ""
    assert len(git(work, "worktree", "list").splitlines()) == 1
    assert git(work, "diff", "--cached") == ""
    assert not list(work.glob(".joey-*"))


@pytest.mark.contract("worktrees:changes")
@pytest.mark.timeout(600)
async def test_subtasks_in_worktrees_survive_the_death_of_their_process(tmp_path: Path) -> None:
    turn = asyncio.Semaphore(AT_ONCE)
    most = int(os.environ.get("JOEY_KILLS", "8"))
    async with ModelServer(by_first_message(worktree_parts())) as server:

        async def die_and_resume(last: int, way: str) -> bool:
            directory = tmp_path / f"{way}{last}"
            async with turn:
                repository(directory)
                if await run_until_killed(server.url, directory, last, way) == 0:
                    return False
                try:
                    check_worktrees(directory, await check(server.url, directory))
                except BaseException as error:
                    error.add_note(f"killed at {way or 'record'} {last}")
                    raise
                return True

        whole = tmp_path / "whole"
        repository(whole)
        assert await run_until_killed(server.url, whole, 10_000) == 0
        root = root_of(whole)
        check_worktrees(whole, root)
        before = [r["event"]["event"] for r in records(root)]
        written = sum(len(records(task)) for task in root.parent.iterdir())
        first = before.index("taskSpawned") + 1
        steps = 1
        while await die_and_resume(steps * 20, "git"):
            steps += 1
        async with asyncio.TaskGroup() as group:
            for last in range(first, written, max(1, (written - first) // most)):
                group.create_task(die_and_resume(last, ""))
            for last in range(1, steps * 20, max(1, steps * 20 // most)):
                group.create_task(die_and_resume(last, "git"))
