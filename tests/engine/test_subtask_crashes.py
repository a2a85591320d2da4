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
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_tool_results,
    wait_for_ending,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

PARTS = {
    "the whole": [Turn(delegate("part 1", todos="[ ] look"), delegate("part 2")), finish("whole")],
    "part 1": [
        Turn(call("write_to_file", {"path": "1.txt", "content": "1"})),
        finish("result 1"),
    ],
    "part 2": [finish("result 2")],
}
OPTIONS = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())


class CrashedTree:
    """A finished tree on disk, to be cut back."""

    def __init__(self, engine_harness: EngineHarness, task: Task) -> None:
        self.harness = engine_harness
        self.parent = task.id
        self.children = list(task.recorder.projection.spawned_subtasks)

    def find_directory(self, task_id: str) -> Path:
        return self.harness.home / "tasks" / f"task_{task_id}"

    def truncate_journal(self, task_id: str, after: str, count: int = 1) -> None:
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
        self.harness.provider = scripted = ScriptedSubtasks(PARTS)
        task = await self.harness.engine.resume(self.parent, "go on", options=OPTIONS)
        assert await wait_for_ending(task) == Completed("whole")
        self._check(task)
        return task, scripted

    def _check(self, task: Task) -> None:
        check_history(task.messages)
        assert list(task.recorder.projection.spawned_subtasks) == self.children
        one, two = list_tool_results(task.messages[2])
        assert one == f"Subtask {self.children[0]} completed.\n\nResult:\nresult 1"
        assert two == f"Subtask {self.children[1]} completed.\n\nResult:\nresult 2"
        outcomes = [e.call_id for e in list_durable_events(task) if isinstance(e, ToolFinished)]
        assert len(outcomes) == len(set(outcomes)) == 2
        assert [row.text for row in find_rows(task, "subtask_result")] == ["result 1", "result 2"]
        known = {entry.id: entry for entry in self.harness.engine.history()}
        assert set(known) == {self.parent, *self.children}
        for child in self.children:
            assert known[child].status == TaskState.COMPLETED
            assert known[child].parent_id == self.parent


@pytest.fixture
async def crashed_tree(engine_harness: EngineHarness) -> CrashedTree:
    engine_harness.provider = ScriptedSubtasks(PARTS)
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    await engine_harness.engine.release(task)
    return CrashedTree(engine_harness, task)


pytestmark = pytest.mark.contract("subtasks:crash")


async def test_before_the_first_child_is_made(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskSpawned", 2)
    for child in crashed_tree.children:
        crashed_tree.remove(child)
    await crashed_tree.resume()


async def test_before_the_second_child_is_made(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskSpawned", 2)
    crashed_tree.truncate_journal(crashed_tree.children[0], "userSaid")
    crashed_tree.remove(crashed_tree.children[1])
    await crashed_tree.resume()


@pytest.mark.parametrize("left", [b"", b'{"seq":1,"event":{"eve'])
async def test_before_the_first_record_of_a_child_is_whole(
    crashed_tree: CrashedTree, left: bytes
) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskSpawned", 2)
    for child in crashed_tree.children:
        crashed_tree.truncate_journal(child, "taskCreated")
        (crashed_tree.find_directory(child) / "journal.jsonl").write_bytes(left)
    await crashed_tree.resume()


async def test_when_only_the_directory_of_a_child_is_there(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskSpawned", 2)
    for child in crashed_tree.children:
        crashed_tree.truncate_journal(child, "taskCreated")
        (crashed_tree.find_directory(child) / "journal.jsonl").unlink()
    await crashed_tree.resume()


async def test_before_a_child_knows_what_to_do(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskSpawned", 2)
    for child in crashed_tree.children:
        crashed_tree.truncate_journal(child, "taskCreated")
    await crashed_tree.resume()


async def test_before_a_child_has_its_todos(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    for child in crashed_tree.children:
        crashed_tree.truncate_journal(child, "userSaid")
    _, scripted = await crashed_tree.resume()
    assert "look" in scripted.join_last_request("part 1")


async def test_while_the_children_work(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    crashed_tree.truncate_journal(crashed_tree.children[0], "toolFinished")
    crashed_tree.truncate_journal(crashed_tree.children[1], "requestStarted")
    (crashed_tree.harness.root / "1.txt").unlink()
    _, scripted = await crashed_tree.resume()
    assert [part for part, _ in scripted.requests].count("part 1") == 1
    assert not (crashed_tree.harness.root / "1.txt").exists()


async def test_after_one_child_has_finished(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    crashed_tree.truncate_journal(crashed_tree.children[1], "requestStarted")
    _, scripted = await crashed_tree.resume()
    assert "part 1" not in [part for part, _ in scripted.requests]


async def test_after_a_result_was_accepted_and_before_the_last_word(
    crashed_tree: CrashedTree,
) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    for child in crashed_tree.children:
        crashed_tree.truncate_journal(
            child, "toolAnnounced", 2 if child == crashed_tree.children[0] else 1
        )
    _, scripted = await crashed_tree.resume()
    assert {part for part, _ in scripted.requests} == {"the whole"}


async def test_before_the_first_result_is_written(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    _, scripted = await crashed_tree.resume()
    assert {part for part, _ in scripted.requests} == {"the whole"}


async def test_between_a_row_and_its_result(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "said")
    await crashed_tree.resume()


async def test_between_two_results(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "toolFinished")
    await crashed_tree.resume()


async def test_after_all_results_and_before_going_on(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "toolFinished", 2)
    task, _ = await crashed_tree.resume()
    kinds = [type(event).__name__ for event in list_durable_events(task)]
    assert kinds.count("TaskPaused") == kinds.count("TaskUnpaused") == 1


async def test_a_child_that_somebody_else_has_open_is_not_lost(crashed_tree: CrashedTree) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    crashed_tree.truncate_journal(crashed_tree.children[1], "requestStarted")
    crashed_tree.harness.provider = ScriptedSubtasks(PARTS)
    held, _ = JsonFileStore(crashed_tree.harness.home).open(crashed_tree.children[1])
    task = await crashed_tree.harness.engine.resume(crashed_tree.parent, "go on", options=OPTIONS)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert "already open" in ending.message
    held.close()
    await crashed_tree.harness.engine.release(task)
    await crashed_tree.resume()


@pytest.mark.parametrize("line", [0, 5])
async def test_when_the_journal_of_a_child_was_damaged(
    crashed_tree: CrashedTree, line: int
) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    for child in crashed_tree.children:
        journal = crashed_tree.find_directory(child) / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        lines[line] = b"\0 what is this?\n"
        journal.write_bytes(b"".join(lines))
    again = {f"part {n}": [finish(f"result {n}")] * 3 for n in (1, 2)}
    crashed_tree.harness.provider = ScriptedSubtasks(PARTS | again)
    task = await crashed_tree.harness.engine.resume(crashed_tree.parent, "go on", options=OPTIONS)
    assert await wait_for_ending(task) == Completed("whole")
    check_history(task.messages)
    one, two = list_tool_results(task.messages[2])
    assert "result 1" in one and "result 2" in two


async def test_another_task_in_the_directory_of_a_child_is_left_alone(
    crashed_tree: CrashedTree,
) -> None:
    crashed_tree.truncate_journal(crashed_tree.parent, "taskPaused")
    first, second = crashed_tree.children
    crashed_tree.remove(first)
    engine = crashed_tree.harness.engine
    crashed_tree.harness.provider = ScriptedSubtasks(
        {**PARTS, "a foreign one": [finish("a secret")]}
    )
    foreign = await engine.start("a foreign one", task_id=first, options=OPTIONS)
    await wait_for_ending(foreign)
    await engine.release(foreign)
    task = await engine.resume(crashed_tree.parent, "go on", options=OPTIONS)
    assert await wait_for_ending(task) == Completed("whole")
    one, two = list_tool_results(task.messages[2])
    assert "holds another task" in one
    assert second in two
    assert engine.tasks == [task]
