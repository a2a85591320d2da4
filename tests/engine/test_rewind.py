"""Going back: every row is a place to go back to, and nothing that was there is lost by it."""

from __future__ import annotations

import json

import pytest

from joey.core.events import MessageQueued, RowDelta, TaskPaused, TaskRewound
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.run_start import RunStart
from joey.errors import TaskStateError, UserError
from joey.testing.script import Turn, call, pause, say
from tests.harness.engine.engine_harness import (
    finish,
    list_durable_events,
    list_texts,
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
    row_of,
    run_eventful_task,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

__all__ = ["rewind_harness"]

PROTOCOLS = pytest.mark.parametrize("protocol", list(ToolProtocol))


@pytest.mark.contract("rewind:any-row")
@PROTOCOLS
async def test_every_row_can_be_the_last_one_and_come_back(
    rewind_harness: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await run_eventful_task(rewind_harness, protocol)
    before, messages, spent = (
        list_row_timestamps(task),
        dump_messages(task),
        task.usage.total_tokens_in,
    )
    todos, mode = task.recorder.projection.todos, task.mode
    for ts in before:
        preview = await task.preview_rewind(ts)
        assert await task.rewind(ts) == preview
        left = list_row_timestamps(task)
        assert [each for each in before if each <= ts] == [each for each in left if each <= ts]
        # Checkpoints go with what they were saved after.
        assert {row.say for row in task.rows[left.index(ts) + 1 :]} <= {"checkpoint_saved"}  # type: ignore[union-attr]
        assert set(preview.removed_row_timestamps) == set(before) - set(left)
        assert preview.last_row_ts == left[-1]
        check_histories(task)
        assert task.usage.total_tokens_in == spent
        undone = await task.undo_rewind()
        assert set(undone.restored_row_timestamps) == set(preview.removed_row_timestamps)
        assert (list_row_timestamps(task), dump_messages(task)) == (before, messages)
        assert (task.recorder.projection.todos, task.mode) == (todos, mode)
        check_histories(task)


@pytest.mark.contract("rewind:any-row")
@PROTOCOLS
async def test_a_task_goes_on_from_every_row(
    rewind_harness: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await run_eventful_task(rewind_harness, protocol)
    for ts in list_row_timestamps(task):
        end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
        rewind_harness.use_script(finish("ok") if protocol is ToolProtocol.NATIVE else end)
        rewind_harness.use_current_provider(task)
        await task.rewind(ts)
        await task.send("and on")
        await wait_for_ask(task)
        check_histories(task)
        last_texts = list_texts(task.messages[-2])
        assert any("and on" in text for text in last_texts)
        await task.cancel()
        await task.undo_rewind()


async def test_the_row_before_one_can_be_the_last(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    rows = list_row_timestamps(task)
    at = row_of(task, "user_feedback", 2)
    await task.rewind(at, keep=False)
    assert list_row_timestamps(task) == [ts for ts in rows if ts < at]
    assert "not yet" not in json.dumps(dump_messages(task))
    assert task.recorder.projection.unsent_feedback == ()


async def test_todos_and_mode_go_back_and_money_and_queue_do_not(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    spent = task.usage.total_tokens_in
    task.publish(MessageQueued(ts=task.next_ts(), id="q", text="later"))
    in_architect = row_of(task, "completion_result")
    preview = await task.rewind(in_architect)
    assert [todo.content for todo in preview.todos_after] == ["look", "write"]
    assert (preview.mode_before, preview.mode_after) == ("code", "architect")
    assert task.mode.slug == "architect"
    preview = await task.rewind(row_of(task, "text", 1))
    assert [todo.content for todo in preview.todos_before] == ["look", "write"]
    assert (preview.todos_after, task.recorder.projection.todos) == ((), ())
    assert task.mode.slug == "code"
    assert task.usage.total_tokens_in == spent
    assert [message.text for message in task.recorder.projection.queued_messages.values()] == [
        "later"
    ]


async def test_a_preview_tells_what_cannot_be_undone(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    before = list_durable_events(task)
    preview = await task.preview_rewind(list_row_timestamps(task)[0])
    assert preview.unreverted_commands == ("echo hi && echo x > c.txt",)
    assert preview.removed_message_count == len(task.messages)
    assert (preview.mode_before, preview.mode_after) == ("code", "code")
    assert preview.files == () and preview.target_checkpoint is None
    assert list_durable_events(task) == before


@pytest.mark.contract("rewind:any-row")
async def test_a_task_at_work_is_stopped_and_goes_back(rewind_harness: RewindHarness) -> None:
    slow = Turn(say("a long story"), pause(60))
    task = await rewind_harness.start(slow, policy=Unattended())
    await wait_for_event(task, RowDelta)
    first = list_row_timestamps(task)[0]
    await task.rewind(first)
    assert not task.is_running
    assert list_row_timestamps(task) == [first]
    check_histories(task)


async def test_a_row_that_is_still_growing_can_be_the_last_one(
    rewind_harness: RewindHarness,
) -> None:
    slow = Turn(say("a long story"), pause(60))
    task = await rewind_harness.start(slow, policy=Unattended())
    growing = (await wait_for_event(task, RowDelta)).ts
    await task.rewind(growing)
    assert not task.is_running
    assert list_row_timestamps(task)[-1] == growing
    check_histories(task)


async def test_an_open_question_is_taken_back(rewind_harness: RewindHarness) -> None:
    task = await rewind_harness.start(
        Turn(say("May I?"), call("write_to_file", {"path": "a", "content": "1"})),
        settings=Settings(),
    )
    question = await wait_for_ask(task)
    await task.rewind(question.ts)
    assert (task.pending, task.state) == (None, TaskState.ABORTED)
    [row] = [row for row in task.rows if isinstance(row, Row) and row.ts == question.ts]
    assert row.approval_state == "rejected"
    assert not await task.approve()


async def test_messages_sent_meanwhile_wait_until_it_is_done(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    rewind_harness.use_script(finish("ok"))
    rewind_harness.use_current_provider(task)
    async with task.stop_for_revision():
        await task.send("one more thing")
        assert not task.is_running
        with pytest.raises(TaskStateError, match="being rewound"):
            task.start(RunStart.RESUME)
    await wait_for_ask(task)
    assert any("one more thing" in text for text in list_texts(task.messages[-2]))


async def test_a_row_that_is_not_there_is_an_error_for_people(
    rewind_harness: RewindHarness,
) -> None:
    task = await rewind_harness.start(Turn(say("x"), pause(60)))
    with pytest.raises(
        UserError, match=rf"no message 12 in this task.*tasks show {task.id} --rows"
    ):
        await task.rewind(12)
    assert task.is_running
    with pytest.raises(UserError, match="nothing would be left"):
        await task.rewind(list_row_timestamps(task)[0], keep=False)
    with pytest.raises(UserError, match="nothing to undo"):
        await task.undo_rewind()


async def test_rewinds_are_undone_one_after_the_other_and_the_last_undo_too(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    whole = list_row_timestamps(task)
    await task.rewind(row_of(task, "user_feedback", 1))
    longer = list_row_timestamps(task)
    await task.rewind(row_of(task, "user_feedback"))
    await task.undo_rewind()
    assert list_row_timestamps(task) == longer
    await task.undo_rewind()
    assert list_row_timestamps(task) == whole
    await task.undo_rewind()
    assert list_row_timestamps(task) == longer
    await task.undo_rewind()
    assert list_row_timestamps(task) == whole
    check_histories(task)


async def test_undoing_tells_of_what_came_since(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    whole, first = list_row_timestamps(task), list_row_timestamps(task)[0]
    rewind_harness.use_script(finish("another way"))
    rewind_harness.use_current_provider(task)
    await task.rewind(first)
    await task.send("now like this")
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    since = [ts for ts in list_row_timestamps(task) if ts > whole[-1]]
    preview = await task.preview_undo()
    assert list(preview.removed_row_timestamps) == since
    await task.undo_rewind()
    assert list_row_timestamps(task) == whole


@pytest.mark.contract("rewind:any-row")
async def test_the_files_on_disk_and_a_new_process_show_the_earlier_state(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    at = row_of(task, "user_feedback", 1)
    await task.rewind(at)
    directory = rewind_harness.find_journal(task).parent
    on_disk = json.loads((directory / "ui_messages.json").read_text())
    assert [row["ts"] for row in on_disk] == list_row_timestamps(task)
    rows, messages = list_row_timestamps(task), dump_messages(task)
    await rewind_harness.engine.release(task)
    again = await rewind_harness.engine.open(task.id)
    assert (list_row_timestamps(again), dump_messages(again)) == (rows, messages)
    [listed] = rewind_harness.engine.history()
    assert listed.status == TaskState.ABORTED
    check_histories(again)


async def test_a_message_of_the_user_that_is_last_reaches_the_model(
    rewind_harness: RewindHarness,
) -> None:
    """They were told with a request that is gone."""
    task = await rewind_harness.start(finish("one"), policy=Unattended())
    await wait_for_ending(task)
    provider = rewind_harness.use_script(finish("two"), finish("three"))
    rewind_harness.use_current_provider(task)
    await task.send("paint it red")
    await wait_for_ending(task)
    await task.rewind(row_of(task, "user_feedback"))
    await rewind_harness.engine.resume(task.id)
    await wait_for_ending(task)
    assert "paint it red" in str(provider.requests[-1].messages[-1].content)


@pytest.mark.contract("rewind:any-row")
async def test_an_edited_message_takes_the_place_of_the_old_one(
    rewind_harness: RewindHarness,
) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    provider = rewind_harness.use_script(finish("better"))
    rewind_harness.use_current_provider(task)
    feedback = row_of(task, "user_feedback", 2)
    later = next(ts for ts in list_row_timestamps(task) if ts > feedback)
    await task.edit(later, "make it blue")
    await wait_for_ask(task)
    history = json.dumps(dump_messages(task))
    assert "not yet" not in history
    assert "make it blue" in history
    assert feedback not in list_row_timestamps(task)
    assert "make it blue" in str(provider.requests[0].messages[-1].content)
    check_histories(task)


@pytest.mark.contract("rewind:any-row")
@PROTOCOLS
async def test_the_first_message_can_be_said_anew(
    rewind_harness: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await run_eventful_task(rewind_harness, protocol)
    whole = list_row_timestamps(task)
    end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
    provider = rewind_harness.use_script(finish("ok") if protocol is ToolProtocol.NATIVE else end)
    rewind_harness.use_current_provider(task)
    await task.edit(whole[0], "do little")
    await wait_for_ask(task)
    assert task.recorder.projection.title == "do little"
    assert not set(whole) & set(list_row_timestamps(task))
    [first] = provider.requests[0].messages
    assert "do little" in str(first.content) and "do much" not in str(first.content)
    check_histories(task)
    await task.undo_rewind()
    assert list_row_timestamps(task) == whole
    assert task.recorder.projection.title == "do much"


async def test_subtasks_are_notified_and_taken_up_again(rewind_harness: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1")), finish("whole"), finish("whole")],
        "part 1": [finish("result 1")],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    [child] = task.recorder.projection.spawned_subtasks
    preview = await task.preview_rewind(list_row_timestamps(task)[0])
    assert preview.detached_subtasks == (child,)
    at = row_of(task, "subtask_result")
    await task.rewind(at, keep=False)
    check_histories(task)
    await rewind_harness.engine.resume(task.id)
    assert await wait_for_ending(task) == Completed("whole")
    assert list(task.recorder.projection.spawned_subtasks) == [child]
    check_histories(task)


async def test_a_task_that_another_waits_for_is_left_alone(rewind_harness: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1"))],
        "part 1": [Turn(say("thinking"), pause(60))],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    while not task.pending_subtasks:
        await wait_for_event(task, object, since=task.seq)
    child = rewind_harness.engine.find_open_task(task.pending_subtasks[0])
    assert child is not None
    with pytest.raises(UserError, match="Stop that one first"):
        await child.rewind(list_row_timestamps(child)[0])
    await task.cancel()


async def test_a_parent_waits_until_the_past_of_its_subtask_is_settled(
    rewind_harness: RewindHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1")), finish("whole")],
        "part 1": [Turn(say("thinking"), pause(60)), finish("result 1")],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    while not task.pending_subtasks:
        await wait_for_event(task, object, since=task.seq)
    [name] = task.pending_subtasks
    child = rewind_harness.engine.find_open_task(name)
    assert child is not None
    await wait_for_event(child, RowDelta)
    await task.cancel()
    alone = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    child = await rewind_harness.engine.open(name, options=alone)
    async with child.stop_for_revision():
        since = task.seq
        await rewind_harness.engine.resume(task.id)
        await wait_for_event(task, TaskPaused, since)
    assert await wait_for_ending(task) == Completed("whole")


async def test_every_subscriber_is_notified(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    with task.subscribe() as subscription:
        await task.rewind(list_row_timestamps(task)[0])
        received = await anext(subscription)
    assert isinstance(received.event, TaskRewound)


async def test_what_was_seen_of_files_is_forgotten_with_it(rewind_harness: RewindHarness) -> None:
    (rewind_harness.root / "a.txt").write_text("one\n")
    task = await rewind_harness.start(
        Turn(call("read_file", {"path": "a.txt"})), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    assert task.runtime.read_tracker.list_recent_paths(5)
    await task.rewind(list_row_timestamps(task)[0])
    assert not task.runtime.read_tracker.list_recent_paths(5)


async def test_a_task_whose_process_died_at_work_goes_back(rewind_harness: RewindHarness) -> None:
    task = await run_eventful_task(rewind_harness, ToolProtocol.NATIVE)
    await rewind_harness.engine.release(task)
    journal = rewind_harness.find_journal(task)
    lines = journal.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if '"askOpened"' in line)
    journal.write_text("".join(lines[: last + 1]))
    again = await rewind_harness.engine.open(task.id)
    states = [again.state]
    await again.rewind(list_row_timestamps(again)[0])
    check_histories(again)
    assert [*states, again.state] == [TaskState.RUNNING, TaskState.ABORTED]
