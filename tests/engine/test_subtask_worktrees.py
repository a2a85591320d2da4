"""Subtasks in git worktrees of their own, with a real repository."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from joey.core.events import SubtaskSpawned, TaskCreated, WorktreeMerged
from joey.core.models import ToolProtocol
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, StoredTaskState, TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.runtime import TaskRuntime
from joey.engine.task import Task
from joey.ports.storage import Store
from joey.ports.tool_context import Capabilities
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Call, Turn, call, fail, pause, say
from joey.workspace.git.worktrees import GitWorktrees
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)
from tests.harness.engine.limited_subtasks import children_of
from tests.harness.engine.scripted_subtasks import ALLOW_ALL_WITH_SUBTASKS, ScriptedSubtasks
from tests.harness.workspace.git import git

OPTIONS = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())


class RepositoryHarness(EngineHarness):
    """A workshop whose workspace is a repository."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        git(self.root, "init", "-q")
        (self.root / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "first")

    def new_engine(self, store: Store | None = None) -> Engine:
        engine = super().new_engine(store)
        make_runtime = engine._build_runtime

        def with_worktrees(options: TaskOptions, stored: StoredTaskState) -> TaskRuntime:
            root = options.workspace or self.root
            self.capabilities = Capabilities(
                worktrees=GitWorktrees.open_if_supported(root, self.worktrees)
            )
            return make_runtime(options, stored)

        engine._build_runtime = with_worktrees
        return engine

    @property
    def worktrees(self) -> Path:
        return self.home / "worktrees"

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def branches(self) -> list[str]:
        return git(self.root, "branch", "--format=%(refname:short)", "--list", "joey/*").split()

    async def play(self, parts: Mapping[str, Sequence[Turn]], **more: Any) -> Task:
        self.provider = ScriptedSubtasks(parts)
        return await self.start(
            text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended(), **more
        )


@pytest.fixture
async def repository_harness(tmp_path: Path) -> AsyncIterator[RepositoryHarness]:
    harness = RepositoryHarness(tmp_path)
    yield harness
    await harness.engine.close()


def delegate_to_worktree(message: str, **more: Any) -> Call:
    return call("new_task", {"mode": "code", "message": message, "worktree": True, **more})


def write(name: str, text: str) -> Turn:
    return Turn(call("write_to_file", {"path": name, "content": text}))


def spawned(task: Task) -> list[str]:
    return [
        event.child_id for event in list_durable_events(task) if isinstance(event, SubtaskSpawned)
    ]


@pytest.mark.contract("worktrees:changes")
async def test_subtasks_that_touch_the_same_file_do_not_see_each_other(
    repository_harness: RepositoryHarness,
) -> None:
    (repository_harness.root / "a.txt").write_text("one\ntwo\nthree\nfour\nFIVE\n")
    parts = {
        "the whole": [
            Turn(delegate_to_worktree("part 1"), delegate_to_worktree("part 2")),
            finish("whole"),
        ],
        "part 1": [write("a.txt", "ONE\ntwo\nthree\nfour\nFIVE\n"), finish("first is done")],
        "part 2": [
            write("a.txt", "one\ntwo\nTHREE\nfour\nFIVE\n"),
            write("new.txt", "new\n"),
            finish("second is done"),
        ],
    }
    head = git(repository_harness.root, "rev-parse", "HEAD")
    task = await repository_harness.play(parts)
    assert await wait_for_ending(task) == Completed("whole")
    assert repository_harness.read("a.txt") == "ONE\ntwo\nTHREE\nfour\nFIVE\n"
    assert repository_harness.read("new.txt") == "new\n"
    one, two = list_tool_results(task.messages[2])
    assert one.startswith(f"Subtask {spawned(task)[0]} completed.\n\nResult:\nfirst is done\n\n")
    assert "- a.txt (+1 -1)" in one
    assert "- new.txt (+1 -0)" in two
    assert [row.task_id for row in find_rows(task, "subtask_result")] == spawned(task)
    assert "- new.txt" in str(find_rows(task, "subtask_result")[1].text)
    assert repository_harness.branches() == []
    assert list(repository_harness.worktrees.iterdir()) == []
    assert git(repository_harness.root, "rev-parse", "HEAD") == head
    assert git(repository_harness.root, "diff", "--cached") == ""
    check_history(task.messages)


@pytest.mark.contract("worktrees:changes")
async def test_the_second_of_two_that_do_not_fit_stays_in_its_worktree(
    repository_harness: RepositoryHarness,
) -> None:
    parts = {
        "the whole": [
            Turn(delegate_to_worktree("part 1"), delegate_to_worktree("part 2")),
            finish("whole"),
        ],
        "part 1": [write("a.txt", "1\n"), finish("1")],
        "part 2": [write("a.txt", "2\n"), finish("2")],
    }
    task = await repository_harness.play(parts)
    assert await wait_for_ending(task) == Completed("whole")
    assert repository_harness.read("a.txt") == "1\n"
    _, two = spawned(task)
    _, result = list_tool_results(task.messages[2])
    assert f"joey/{two}" in result
    assert str(repository_harness.worktrees / two) in result
    assert "\n- a.txt\n" in result
    [warning] = find_rows(task, "error")
    assert warning.task_id == two
    assert f"joey/{two}" in str(warning.text), "people are told, not the model alone"
    assert str(repository_harness.worktrees / two) in str(warning.text)
    assert "conflict with a.txt." in str(warning.text)
    assert repository_harness.branches() == [f"joey/{two}"]
    assert (repository_harness.worktrees / two / "a.txt").read_text() == "2\n"


@pytest.mark.contract("worktrees:changes")
async def test_the_user_sees_that_it_is_a_worktree_before_there_is_one(
    repository_harness: RepositoryHarness,
) -> None:
    repository_harness.provider = ScriptedSubtasks(
        {"the whole": [Turn(delegate_to_worktree("a part")), finish()], "a part": [finish()]}
    )
    settings = structs.replace(ALLOW_ALL_WITH_SUBTASKS, always_allow_subtasks=False)
    task = await repository_harness.start(text="the whole", settings=settings)
    question = await wait_for_ask(task)
    assert question.ask is AskKind.TOOL
    assert json.loads(question.text)["worktree"] is True
    assert not repository_harness.worktrees.exists()
    assert repository_harness.branches() == []
    await task.cancel()


@pytest.mark.contract("worktrees:changes")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_worktrees_are_offered_where_there_is_a_repository(
    repository_harness: RepositoryHarness, plain_harness: EngineHarness, protocol: ToolProtocol
) -> None:
    for each, offered in ((repository_harness, True), (plain_harness, False)):
        each.provider = scripted = ScriptedSubtasks({"the whole": [finish()]})
        task = await each.start(text="the whole", protocol=protocol, policy=Unattended())
        await wait_for_ending(task)
        [(_, request)] = scripted.requests
        if protocol is ToolProtocol.XML:
            assert ("- worktree: (optional)" in request.system_prompt) is offered
            continue
        [spec] = [tool for tool in request.tools if tool.name == "new_task"]
        assert ("worktree" in spec.parameters["properties"]) is offered


@pytest.fixture
async def plain_harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    (tmp_path / "plain").mkdir()
    harness = EngineHarness(tmp_path / "plain")
    yield harness
    await harness.engine.close()


@pytest.mark.contract("tool:new_task:failure:no-repository")
async def test_without_a_repository_a_worktree_is_refused(plain_harness: EngineHarness) -> None:
    plain_harness.provider = ScriptedSubtasks(
        {"the whole": [Turn(delegate_to_worktree("a part")), finish("whole")]}
    )
    task = await plain_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    [result] = list_tool_results(task.messages[2])
    assert "not in a git repository" in result


@pytest.mark.contract("worktrees:changes")
async def test_a_subtask_that_fails_leaves_its_worktree_and_says_where(
    repository_harness: RepositoryHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate_to_worktree("a part")), finish("whole")],
        "a part": [write("half.txt", "half\n"), Turn(fail(400, "no"))],
    }
    task = await repository_harness.play(parts)
    assert await wait_for_ending(task) == Completed("whole")
    [name] = spawned(task)
    [result] = list_tool_results(task.messages[2])
    assert str(repository_harness.worktrees / name) in result
    assert (repository_harness.worktrees / name / "half.txt").exists()
    assert not (repository_harness.root / "half.txt").exists()


@pytest.mark.contract("worktrees:changes")
async def test_a_worktree_below_a_worktree_starts_from_and_returns_to_it(
    repository_harness: RepositoryHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate_to_worktree("part 1")), finish("whole")],
        "part 1": [write("b.txt", "from 1\n"), Turn(delegate_to_worktree("part 2")), finish("1")],
        "part 2": [
            Turn(call("execute_command", {"command": "cat b.txt > c.txt; echo 2 >> c.txt"})),
            finish("2"),
        ],
    }
    task = await repository_harness.play(parts)
    assert await wait_for_ending(task) == Completed("whole")
    assert repository_harness.read("b.txt") == "from 1\n"
    assert repository_harness.read("c.txt") == "from 1\n2\n"
    assert repository_harness.branches() == []
    assert list(repository_harness.worktrees.iterdir()) == []


@pytest.mark.contract("worktrees:changes")
async def test_the_workspace_above_is_the_one_whose_trust_counts(
    repository_harness: RepositoryHarness,
) -> None:
    seen: list[TaskOptions] = []
    make = repository_harness.engine._build_runtime

    def watching(options: TaskOptions, stored: StoredTaskState) -> TaskRuntime:
        seen.append(options)
        return make(options, stored)

    repository_harness.engine._build_runtime = watching
    parts = {
        "the whole": [Turn(delegate_to_worktree("part 1")), finish("whole")],
        "part 1": [
            Turn(delegate_to_worktree("part 2"), delegate_to_worktree("part 3", worktree=False)),
            finish("1"),
        ],
        "part 2": [finish("2")],
        "part 3": [finish("3")],
    }
    await wait_for_ending(await repository_harness.play(parts))
    assert [options.trust_root for options in seen] == [
        None,
        repository_harness.root,
        repository_harness.root,
        repository_harness.root,
    ]
    assert len({options.workspace for options in seen}) == 3


async def test_cancel_leaves_the_worktree_and_resuming_goes_on_in_it(
    repository_harness: RepositoryHarness,
) -> None:
    parts: dict[str, list[Turn]] = {
        "the whole": [Turn(delegate_to_worktree("a part")), finish("whole")],
        "a part": [write("b.txt", "half\n"), Turn(say("…"), pause(600))],
    }
    task = await repository_harness.play(parts)
    [child] = await children_of(task)
    while child.recorder.projection.request_count < 2:
        with child.subscribe() as subscription:
            await anext(subscription)
    await task.cancel()
    [name] = spawned(task)
    assert (repository_harness.worktrees / name / "b.txt").exists()
    assert not (repository_harness.root / "b.txt").exists()
    parts["a part"] = [write("b.txt", "half\n"), finish("part"), finish("part")]
    await task.send("go on")
    assert await wait_for_ending(task) == Completed("whole")
    assert repository_harness.read("b.txt") == "half\n"
    assert repository_harness.branches() == []


PARTS = {
    "the whole": [
        Turn(delegate_to_worktree("part 1"), delegate_to_worktree("part 2")),
        finish("whole"),
    ],
    "part 1": [write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n"), finish("1")],
    "part 2": [write("a.txt", "one\ntwo\nthree\nfour\nFIVE\n"), finish("2")],
}


@pytest.mark.contract("worktrees:changes")
async def test_what_is_recorded_as_merged_is_not_merged_again(
    repository_harness: RepositoryHarness,
) -> None:
    """The process died right after the record, before the worktree went and the call had its
    result; meanwhile the user has taken the changes back."""
    task = await repository_harness.play(PARTS)
    assert await wait_for_ending(task) == Completed("whole")
    await repository_harness.engine.release(task)
    journal = repository_harness.home / "tasks" / f"task_{task.id}" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    merged = [n for n, line in enumerate(lines) if '"event":"worktreeMerged"' in line]
    journal.write_text("".join(lines[: merged[1] + 1]))
    git(repository_harness.root, "checkout", "-q", "--", "a.txt")
    repository_harness.provider = ScriptedSubtasks(PARTS)
    again = await repository_harness.engine.resume(task.id, "go on", options=OPTIONS)
    assert await wait_for_ending(again) == Completed("whole")
    assert repository_harness.read("a.txt") == "one\ntwo\nthree\nfour\nfive\n"
    reports = [event for event in list_durable_events(again) if isinstance(event, WorktreeMerged)]
    assert [event.is_clean for event in reports] == [True, True]
    one, two = list_tool_results(again.messages[2])
    assert reports[0].report in one and reports[1].report in two
    assert repository_harness.branches() == []


async def test_the_task_of_a_worktree_is_created_in_it(
    repository_harness: RepositoryHarness,
) -> None:
    task = await repository_harness.play(PARTS)
    await wait_for_ending(task)
    store = JsonFileStore(repository_harness.home)
    created = [store.read_records(name)[0].event for name in spawned(task)]
    places = [event.workspace for event in created if isinstance(event, TaskCreated)]
    assert places == [str(repository_harness.worktrees / name) for name in spawned(task)]
    assert len(places) == 2
