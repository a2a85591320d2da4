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
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.errors import TaskNotFoundError, UserError
from joey.storage.task_store import EphemeralStore
from joey.testing.script import Turn, call, pause, say
from tests.harness.engine.engine_harness import (
    finish,
    list_durable_events,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.engine.rewind_harness import (
    RewindHarness,
    check_histories,
    dump_messages,
    list_row_timestamps,
    rewind_harness,
    run_eventful_task,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

__all__ = ["rewind_harness"]

pytestmark = pytest.mark.contract("fork:any-row")
PROTOCOLS = pytest.mark.parametrize("protocol", list(ToolProtocol))


@PROTOCOLS
async def test_every_row_can_be_the_last_of_a_fork(
    rewind_harness: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await run_eventful_task(rewind_harness, protocol)
    before = list_durable_events(task)
    for ts in list_row_timestamps(task):
        fork = await rewind_harness.engine.fork(task.id, ts)
        await task.rewind(ts)
        assert list_row_timestamps(fork) == list_row_timestamps(task)
        assert dump_messages(fork) == dump_messages(task)
        assert fork.recorder.projection.todos == task.recorder.projection.todos
        assert fork.mode == task.mode
        check_histories(fork)
        await rewind_harness.engine.release(fork)
        again = await rewind_harness.engine.open(fork.id)
        assert (list_row_timestamps(again), dump_messages(again)) == (
            list_row_timestamps(fork),
            dump_messages(fork),
        )
        await rewind_harness.engine.release(again)
        await task.undo_rewind()
    assert list_durable_events(task)[: len(before)] == before


async def test_a_fork_has_its_own_name_and_has_spent_nothing(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    fork = await rewind_harness.engine.fork(task.id)
    first, *_, last = list_durable_events(fork)
    assert isinstance(first, TaskCreated) and first.task_id == fork.id != task.id
    assert isinstance(last, TaskForked)
    assert last.source_id == task.id
    assert task.bus.list_records_after(0)[last.source_seq - 1].seq == last.source_seq
    assert (fork.usage.total_tokens_in, fork.usage.total_cost) == (0, 0.0)
    assert fork.recorder.projection.title == task.recorder.projection.title
    assert fork.state is TaskState.ABORTED and not fork.is_running
    assert {entry.id for entry in rewind_harness.engine.history()} == {task.id, fork.id}


async def test_both_go_on_without_each_other(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    rows, history = list_row_timestamps(task), dump_messages(task)
    rewind_harness.use_script(finish("otherwise"))
    feedback = [row.ts for row in task.rows if isinstance(row, Row) and row.say == "user_feedback"]
    fork = await rewind_harness.engine.fork(task.id, feedback[2], keep=False, text="in another way")
    await wait_for_ask(fork)
    await fork.approve()
    assert await wait_for_ending(fork) == Completed("otherwise")
    assert "not yet" not in json.dumps(dump_messages(fork))
    assert (list_row_timestamps(task), dump_messages(task)) == (rows, history)
    check_histories(fork)


async def test_of_a_task_at_work_in_another_process(rewind_harness: RewindHarness) -> None:
    task = await rewind_harness.start(
        Turn(say("one"), call("read_file", {"path": "a"})),
        Turn(say("a long story"), pause(60)),
        policy=Unattended(),
    )
    while len(task.messages) < 3:
        await wait_for_event(task, object, since=task.seq)
    elsewhere = rewind_harness.new_engine()
    rewind_harness.use_script(finish("elsewhere"))
    fork = await elsewhere.fork(task.id, text="you do it")
    await wait_for_ask(fork)
    check_histories(fork)
    assert task.is_running
    await elsewhere.close()


async def test_of_a_rewound_task_only_what_is_in_sight(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    await task.rewind(list_row_timestamps(task)[5])
    fork = await rewind_harness.engine.fork(task.id)
    assert (list_row_timestamps(fork), dump_messages(fork)) == (
        list_row_timestamps(task),
        dump_messages(task),
    )
    assert not any(type(event).__name__ == "TaskRewound" for event in list_durable_events(fork))


async def test_subtasks_stay_with_the_one_that_began_them(rewind_harness: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1")), finish("whole"), finish("fork")],
        "part 1": [finish("result 1")],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    [child] = task.recorder.projection.spawned_subtasks
    fork = await rewind_harness.engine.fork(task.id)
    assert fork.recorder.projection.spawned_subtasks == {}
    assert fork.recorder.projection.parent_id is None
    of_child = await rewind_harness.engine.fork(child)
    assert of_child.recorder.projection.parent_id is None
    assert of_child.recorder.projection.depth == 0
    waiting = [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "new_task"]
    cut = await rewind_harness.engine.fork(task.id, waiting[0])
    assert not cut.recorder.pending_delegations
    check_histories(cut)


async def test_of_a_task_that_somebody_else_wrote(rewind_harness: RewindHarness) -> None:
    directory = rewind_harness.home / "tasks" / "1700000000001"
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
    fork = await rewind_harness.engine.fork("1700000000001", 5, keep=False)
    assert list_row_timestamps(fork) == [1, 3]
    assert [message.role for message in fork.messages] == ["user", "assistant"]
    first = list_durable_events(fork)[0]
    assert isinstance(first, TaskImported) and first.task_id == fork.id
    assert not (directory / "journal.jsonl").exists()
    rewind_harness.use_script(finish("mended"))
    rewind_harness.use_current_provider(fork)
    await fork.send("like this")
    await wait_for_ask(fork)
    check_histories(fork)


async def test_another_mode_and_model_may_take_it_over(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    fork = await rewind_harness.engine.fork(task.id, options=TaskOptions(mode="ask"))
    assert fork.mode.slug == "ask"
    assert task.mode.slug == "code"


async def test_its_command_output_can_still_be_read(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    output = task.recorder.task_log.directory / "command-output"
    (output / "cmd-1.txt").write_text("long")
    (output / "elsewhere.txt").symlink_to("/etc/passwd")
    fork = await rewind_harness.engine.fork(task.id)
    copied = fork.recorder.task_log.directory / "command-output"
    assert (copied / "cmd-1.txt").read_text() == "long"
    assert not (copied / "elsewhere.txt").exists()


async def test_in_an_ephemeral_store(rewind_harness: RewindHarness, tmp_path: Path) -> None:
    engine = rewind_harness.new_engine(EphemeralStore(tmp_path))
    rewind_harness.use_script(finish("one"))
    task = await engine.start("x", options=TaskOptions(policy=Unattended()))
    await wait_for_ending(task)
    fork = await engine.fork(task.id)
    assert list_row_timestamps(fork) == list_row_timestamps(task)
    await engine.close()


async def test_what_is_not_there_cannot_be_forked(rewind_harness: RewindHarness) -> None:
    task: Task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    with pytest.raises(TaskNotFoundError):
        await rewind_harness.engine.fork("nobody")
    with pytest.raises(UserError, match="no message 7"):
        await rewind_harness.engine.fork(task.id, 7)
    with pytest.raises(UserError, match="first message"):
        await rewind_harness.engine.fork(task.id, list_row_timestamps(task)[0], keep=False)
    assert len(rewind_harness.engine.history()) == 1


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
    rewind_harness: RewindHarness, step: str, there: bool
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    assert die(step, rewind_harness.home, task.id) == -signal.SIGKILL
    assert ("fork" in rewind_harness.engine.list_task_ids()) == there
    assert len(rewind_harness.engine.history()) == 1 + there
    if there:
        assert [r.event for r in rewind_harness.store.read_records("fork")] == list_durable_events(
            task
        )
    fork = await rewind_harness.engine.fork(task.id)
    check_histories(fork)


async def test_what_a_process_that_died_left_of_a_fork_is_swept_by_the_next(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    assert die("before-rename", rewind_harness.home, task.id) == -signal.SIGKILL
    [left] = (rewind_harness.home / "tasks").glob(".fork-*")
    await rewind_harness.engine.fork(task.id)
    assert left.exists()  # it could be just begun
    os.utime(left, (time.time() - 3600,) * 2)
    await rewind_harness.engine.fork(task.id)
    assert not left.exists()


async def test_a_fork_that_is_being_made_elsewhere_is_left_alone(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    busy = rewind_harness.home / "tasks/.fork-busy"
    busy.mkdir()
    os.utime(busy, (time.time() - 3600,) * 2)
    held = os.open(busy, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    await rewind_harness.engine.fork(task.id)
    assert busy.exists()
    os.close(held)
