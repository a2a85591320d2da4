"""The process dies between any two steps of a delegation; whoever comes next puts it right.

A folder is brought to the state that a dead process leaves by cutting its journal: records are
only ever added, so every earlier state of a task is a beginning of its journal.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from joey.core.events import ToolFinished
from joey.core.task import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call
from tests.engine.engine_harness import (
    EngineHarness,
    check_history,
    durable,
    finish,
    results,
    rows,
    settled,
)
from tests.engine.scripted_subtasks import ALLOW_ALL_WITH_SUBTASKS, ScriptedSubtasks, hand

PARTS = {
    "the whole": [Turn(hand("part 1", todos="[ ] look"), hand("part 2")), finish("whole")],
    "part 1": [
        Turn(call("write_to_file", {"path": "1.txt", "content": "1"})),
        finish("result 1"),
    ],
    "part 2": [finish("result 2")],
}
OPTIONS = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())


class CrashedTree:
    """A finished tree on disk, to be cut back."""

    def __init__(self, workshop: EngineHarness, task: Task) -> None:
        self.workshop = workshop
        self.parent = task.id
        self.children = list(task.recorder.projection.children)

    def find_directory(self, task_id: str) -> Path:
        return self.workshop.home / "tasks" / f"task_{task_id}"

    def cut(self, task_id: str, after: str, count: int = 1) -> None:
        """Keep the journal up to the `count`-th record of a kind."""
        path = self.find_directory(task_id) / "journal.jsonl"
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            kept.append(line)
            count -= json.loads(line)["event"]["event"] == after
            if not count:
                break
        assert not count, f"there are too few {after}"
        path.write_text("".join(kept), encoding="utf-8")
        for name in ("ui_messages.json", "api_conversation_history.json", "task_metadata.json"):
            (self.find_directory(task_id) / name).unlink(missing_ok=True)

    def remove(self, task_id: str) -> None:
        shutil.rmtree(self.find_directory(task_id))

    async def resume(self) -> tuple[Task, ScriptedSubtasks]:
        self.workshop.provider = cast = ScriptedSubtasks(PARTS)
        task = await self.workshop.engine.resume(self.parent, "go on", options=OPTIONS)
        assert await settled(task) == Completed("whole")
        self._check(task)
        return task, cast

    def _check(self, task: Task) -> None:
        check_history(task.messages)
        assert list(task.recorder.projection.children) == self.children
        one, two = results(task.messages[2])
        assert one == f"Subtask {self.children[0]} completed.\n\nResult:\nresult 1"
        assert two == f"Subtask {self.children[1]} completed.\n\nResult:\nresult 2"
        outcomes = [e.call_id for e in durable(task) if isinstance(e, ToolFinished)]
        assert len(outcomes) == len(set(outcomes)) == 2
        assert [row.text for row in rows(task, "subtask_result")] == ["result 1", "result 2"]
        known = {entry.id: entry for entry in self.workshop.engine.history()}
        assert set(known) == {self.parent, *self.children}
        for child in self.children:
            assert known[child].status == TaskState.COMPLETED
            assert known[child].parent_id == self.parent


@pytest.fixture
async def wreck(workshop: EngineHarness) -> CrashedTree:
    workshop.provider = ScriptedSubtasks(PARTS)
    task = await workshop.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await settled(task) == Completed("whole")
    await workshop.engine.release(task)
    return CrashedTree(workshop, task)


pytestmark = pytest.mark.requirement("subtasks:crash")


async def test_before_the_first_child_is_made(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskSpawned", 2)
    for child in wreck.children:
        wreck.remove(child)
    await wreck.resume()


async def test_before_the_second_child_is_made(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskSpawned", 2)
    wreck.cut(wreck.children[0], "userSaid")
    wreck.remove(wreck.children[1])
    await wreck.resume()


@pytest.mark.parametrize("left", [b"", b'{"seq":1,"event":{"eve'])
async def test_before_the_first_record_of_a_child_is_whole(wreck: CrashedTree, left: bytes) -> None:
    wreck.cut(wreck.parent, "taskSpawned", 2)
    for child in wreck.children:
        wreck.cut(child, "taskCreated")
        (wreck.find_directory(child) / "journal.jsonl").write_bytes(left)
    await wreck.resume()


async def test_when_only_the_directory_of_a_child_is_there(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskSpawned", 2)
    for child in wreck.children:
        wreck.cut(child, "taskCreated")
        (wreck.find_directory(child) / "journal.jsonl").unlink()
    await wreck.resume()


async def test_before_a_child_knows_what_to_do(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskSpawned", 2)
    for child in wreck.children:
        wreck.cut(child, "taskCreated")
    await wreck.resume()


async def test_before_a_child_has_its_todos(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    for child in wreck.children:
        wreck.cut(child, "userSaid")
    _, cast = await wreck.resume()
    assert "look" in cast.join_last_request("part 1")


async def test_while_the_children_work(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    wreck.cut(wreck.children[0], "toolFinished")
    wreck.cut(wreck.children[1], "requestStarted")
    (wreck.workshop.root / "1.txt").unlink()
    _, cast = await wreck.resume()
    assert [part for part, _ in cast.requests].count("part 1") == 1
    assert not (wreck.workshop.root / "1.txt").exists()


async def test_after_one_child_has_finished(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    wreck.cut(wreck.children[1], "requestStarted")
    _, cast = await wreck.resume()
    assert "part 1" not in [part for part, _ in cast.requests]


async def test_after_a_result_was_accepted_and_before_the_last_word(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    for child in wreck.children:
        wreck.cut(child, "toolAnnounced", 2 if child == wreck.children[0] else 1)
    _, cast = await wreck.resume()
    assert {part for part, _ in cast.requests} == {"the whole"}


async def test_before_the_first_result_is_written(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    _, cast = await wreck.resume()
    assert {part for part, _ in cast.requests} == {"the whole"}


async def test_between_a_row_and_its_result(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "said")
    await wreck.resume()


async def test_between_two_results(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "toolFinished")
    await wreck.resume()


async def test_after_all_results_and_before_going_on(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "toolFinished", 2)
    task, _ = await wreck.resume()
    kinds = [type(event).__name__ for event in durable(task)]
    assert kinds.count("TaskPaused") == kinds.count("TaskUnpaused") == 1


async def test_a_child_that_somebody_else_has_open_is_not_lost(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    wreck.cut(wreck.children[1], "requestStarted")
    wreck.workshop.provider = ScriptedSubtasks(PARTS)
    held, _ = JsonFileStore(wreck.workshop.home).open(wreck.children[1])
    task = await wreck.workshop.engine.resume(wreck.parent, "go on", options=OPTIONS)
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert "already open" in ending.message
    held.close()
    await wreck.workshop.engine.release(task)
    await wreck.resume()


@pytest.mark.parametrize("line", [0, 5])
async def test_when_the_journal_of_a_child_was_damaged(wreck: CrashedTree, line: int) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    for child in wreck.children:
        journal = wreck.find_directory(child) / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        lines[line] = b"\0 what is this?\n"
        journal.write_bytes(b"".join(lines))
    again = {f"part {n}": [finish(f"result {n}")] * 3 for n in (1, 2)}
    wreck.workshop.provider = ScriptedSubtasks(PARTS | again)
    task = await wreck.workshop.engine.resume(wreck.parent, "go on", options=OPTIONS)
    assert await settled(task) == Completed("whole")
    check_history(task.messages)
    one, two = results(task.messages[2])
    assert "result 1" in one and "result 2" in two


async def test_another_task_in_the_directory_of_a_child_is_left_alone(wreck: CrashedTree) -> None:
    wreck.cut(wreck.parent, "taskPaused")
    first, second = wreck.children
    wreck.remove(first)
    engine = wreck.workshop.engine
    wreck.workshop.provider = ScriptedSubtasks({**PARTS, "a foreign one": [finish("a secret")]})
    foreign = await engine.start("a foreign one", task_id=first, options=OPTIONS)
    await settled(foreign)
    await engine.release(foreign)
    task = await engine.resume(wreck.parent, "go on", options=OPTIONS)
    assert await settled(task) == Completed("whole")
    one, two = results(task.messages[2])
    assert "holds another task" in one
    assert second in two
    assert engine.tasks == [task]
