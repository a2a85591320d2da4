"""A new task from any row of any task, whoever holds that one and whatever it is doing."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from joey.core.events import TaskCreated, TaskForked, TaskImported
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.core.task import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.errors import TaskNotFoundError, UserError
from joey.storage.memory_store import MemoryStore
from joey.testing.script import Turn, call, pause, say
from tests.engine.engine_harness import asked, durable, finish, settled, wait_for_event
from tests.engine.rewind_harness import RewindHarness, check_past, past, rich_task, said, shown
from tests.engine.scripted_subtasks import ALLOW_ALL_WITH_SUBTASKS, ScriptedSubtasks, hand

__all__ = ["past"]

pytestmark = pytest.mark.requirement("fork:any-row")
PROTOCOLS = pytest.mark.parametrize("protocol", list(ToolProtocol))


@PROTOCOLS
async def test_every_row_can_be_the_last_of_a_fork(
    past: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await rich_task(past, protocol)
    before = durable(task)
    for ts in shown(task):
        fork = await past.engine.fork(task.id, ts)
        await task.rewind(ts)
        assert shown(fork) == shown(task)
        assert said(fork) == said(task)
        assert fork.recorder.projection.todos == task.recorder.projection.todos
        assert fork.mode == task.mode
        check_past(fork)
        await past.engine.release(fork)
        again = await past.engine.open(fork.id)
        assert (shown(again), said(again)) == (shown(fork), said(fork))
        await past.engine.release(again)
        await task.undo_rewind()
    assert durable(task)[: len(before)] == before


async def test_a_fork_has_its_own_name_and_has_spent_nothing(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    fork = await past.engine.fork(task.id)
    first, *_, last = durable(fork)
    assert isinstance(first, TaskCreated) and first.task_id == fork.id != task.id
    assert isinstance(last, TaskForked)
    assert last.source_id == task.id
    assert task.bus.list_records_after(0)[last.source_seq - 1].seq == last.source_seq
    assert (fork.usage.total_tokens_in, fork.usage.total_cost) == (0, 0.0)
    assert fork.recorder.projection.title == task.recorder.projection.title
    assert fork.state is TaskState.ABORTED and not fork.is_running
    assert {entry.id for entry in past.engine.history()} == {task.id, fork.id}


async def test_both_go_on_without_each_other(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    rows, history = shown(task), said(task)
    past.script(finish("otherwise"))
    feedback = [row.ts for row in task.rows if isinstance(row, Row) and row.say == "user_feedback"]
    fork = await past.engine.fork(task.id, feedback[2], keep=False, text="in another way")
    await asked(fork)
    await fork.approve()
    assert await settled(fork) == Completed("otherwise")
    assert "not yet" not in json.dumps(said(fork))
    assert (shown(task), said(task)) == (rows, history)
    check_past(fork)


async def test_of_a_task_at_work_in_another_process(past: RewindHarness) -> None:
    task = await past.start(
        Turn(say("one"), call("read_file", {"path": "a"})),
        Turn(say("a long story"), pause(60)),
        policy=Unattended(),
    )
    while len(task.messages) < 3:
        await wait_for_event(task, object, since=task.seq)
    elsewhere = past.new_engine()
    past.script(finish("elsewhere"))
    fork = await elsewhere.fork(task.id, text="you do it")
    await asked(fork)
    check_past(fork)
    assert task.is_running
    await elsewhere.close()


async def test_of_a_rewound_task_only_what_is_in_sight(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    await task.rewind(shown(task)[5])
    fork = await past.engine.fork(task.id)
    assert (shown(fork), said(fork)) == (shown(task), said(task))
    assert not any(type(event).__name__ == "TaskRewound" for event in durable(fork))


async def test_subtasks_stay_with_the_one_that_began_them(past: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(hand("part 1")), finish("whole"), finish("fork")],
        "part 1": [finish("result 1")],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    await settled(task)
    [child] = task.recorder.projection.children
    fork = await past.engine.fork(task.id)
    assert fork.recorder.projection.children == {}
    assert fork.recorder.projection.parent_id is None
    of_child = await past.engine.fork(child)
    assert of_child.recorder.projection.parent_id is None
    assert of_child.recorder.projection.depth == 0
    waiting = [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "new_task"]
    cut = await past.engine.fork(task.id, waiting[0])
    assert not cut.recorder.pending_delegations
    check_past(cut)


async def test_of_a_task_that_somebody_else_wrote(past: RewindHarness) -> None:
    directory = past.home / "tasks" / "1700000000001"
    directory.mkdir(parents=True)
    rows = [
        {"ts": 1, "type": "say", "say": "text", "text": "mend it"},
        {"ts": 3, "type": "say", "say": "text", "text": "I look."},
        {"ts": 5, "type": "say", "say": "user_feedback", "text": "faster"},
    ]
    messages = [
        {"role": "user", "content": "mend it", "ts": 2},
        {"role": "assistant", "content": "I look.", "ts": 4},
        {"role": "user", "content": "faster", "ts": 6},
    ]
    (directory / "ui_messages.json").write_text(json.dumps(rows))
    (directory / "api_conversation_history.json").write_text(json.dumps(messages))
    fork = await past.engine.fork("1700000000001", 5, keep=False)
    assert shown(fork) == [1, 3]
    assert [message.role for message in fork.messages] == ["user", "assistant"]
    first = durable(fork)[0]
    assert isinstance(first, TaskImported) and first.task_id == fork.id
    assert not (directory / "journal.jsonl").exists()
    past.script(finish("mended"))
    past.talk_to(fork)
    await fork.send("like this")
    await asked(fork)
    check_past(fork)


async def test_another_mode_and_model_may_take_it_over(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    fork = await past.engine.fork(task.id, options=TaskOptions(mode="ask"))
    assert fork.mode.slug == "ask"
    assert task.mode.slug == "code"


async def test_its_command_output_can_still_be_read(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    output = task.recorder.task_log.directory / "command-output"
    (output / "cmd-1.txt").write_text("long")
    (output / "elsewhere.txt").symlink_to("/etc/passwd")
    fork = await past.engine.fork(task.id)
    copied = fork.recorder.task_log.directory / "command-output"
    assert (copied / "cmd-1.txt").read_text() == "long"
    assert not (copied / "elsewhere.txt").exists()


async def test_in_memory(past: RewindHarness) -> None:
    engine = past.new_engine(MemoryStore())
    past.script(finish("one"))
    task = await engine.start("x", options=TaskOptions(policy=Unattended()))
    await settled(task)
    fork = await engine.fork(task.id)
    assert shown(fork) == shown(task)
    await engine.close()


async def test_what_is_not_there_cannot_be_forked(past: RewindHarness) -> None:
    task: Task = await rich_task(past, ToolProtocol.NATIVE)
    with pytest.raises(TaskNotFoundError):
        await past.engine.fork("nobody")
    with pytest.raises(UserError, match="no message 7"):
        await past.engine.fork(task.id, 7)
    with pytest.raises(UserError, match="first message"):
        await past.engine.fork(task.id, shown(task)[0], keep=False)
    assert len(past.engine.history()) == 1


DYING = """
import os, signal, sys
from joey.storage import task_store as planting
from joey.storage.task_store import JsonFileStore
from pathlib import Path

step, home, source = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
die = lambda *args, **more: os.kill(os.getpid(), signal.SIGKILL)
if step == "before-journal":
    planting.replace_files = die
elif step == "before-rename":
    planting.Path = type("P", (type(Path()),), {"rename": die})
elif step == "after-rename":
    planting.sync_directory = die
store = JsonFileStore(home)
store.create_with_records("fork", store.read_records(source), source)
"""


def die(step: str, home: Path, task_id: str) -> int:
    run = [sys.executable, "-c", DYING, step, str(home), task_id]
    return subprocess.run(run, check=False).returncode


@pytest.mark.parametrize(
    ("step", "there"), [("before-journal", False), ("before-rename", False), ("after-rename", True)]
)
async def test_a_process_that_dies_leaves_a_whole_fork_or_none(
    past: RewindHarness, step: str, there: bool
) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    assert die(step, past.home, task.id) == -signal.SIGKILL
    assert ("fork" in past.engine.list_task_ids()) == there
    assert len(past.engine.history()) == 1 + there
    if there:
        assert [r.event for r in past.store.read_records("fork")] == durable(task)
    fork = await past.engine.fork(task.id)
    check_past(fork)


async def test_what_a_process_that_died_left_of_a_fork_is_swept_by_the_next(
    past: RewindHarness,
) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    assert die("before-rename", past.home, task.id) == -signal.SIGKILL
    [left] = (past.home / "tasks").glob(".fork-*")
    await past.engine.fork(task.id)
    assert left.exists()  # it could be just begun
    os.utime(left, (time.time() - 3600,) * 2)
    await past.engine.fork(task.id)
    assert not left.exists()


async def test_a_fork_that_is_being_made_elsewhere_is_left_alone(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    busy = past.home / "tasks/.fork-busy"
    busy.mkdir()
    os.utime(busy, (time.time() - 3600,) * 2)
    held = os.open(busy, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    await past.engine.fork(task.id)
    assert busy.exists()
    os.close(held)
