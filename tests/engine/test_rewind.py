"""Going back: every row is a place to go back to, and nothing that was there is lost by it."""

from __future__ import annotations

import json

import pytest

from joey.core.events import MessageQueued, RowDelta, TaskPaused, TaskRewound
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.engine.run_start import RunStart
from joey.engine.task import Task
from joey.errors import TaskStateError, UserError
from joey.testing.script import Turn, call, pause, say
from tests.engine.engine_harness import asked, durable, finish, settled, texts, wait_for_event
from tests.engine.rewind_harness import RewindHarness, check_past, past, rich_task, said, shown
from tests.engine.scripted_subtasks import ALLOW_ALL_WITH_SUBTASKS, ScriptedSubtasks, hand

__all__ = ["past"]

PROTOCOLS = pytest.mark.parametrize("protocol", list(ToolProtocol))


def row_of(task: Task, say: str, number: int = 0) -> int:
    found = [row for row in task.rows if isinstance(row, Row) and say in (row.say, row.ask)]
    return found[number].ts


@pytest.mark.requirement("rewind:any-row")
@PROTOCOLS
async def test_every_row_can_be_the_last_one_and_come_back(
    past: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await rich_task(past, protocol)
    before, messages, spent = shown(task), said(task), task.usage.total_tokens_in
    todos, mode = task.recorder.projection.todos, task.mode
    for ts in before:
        preview = await task.preview_rewind(ts)
        assert await task.rewind(ts) == preview
        left = shown(task)
        assert [each for each in before if each <= ts] == [each for each in left if each <= ts]
        # Checkpoints go with what they were saved after.
        assert {row.say for row in task.rows[left.index(ts) + 1 :]} <= {"checkpoint_saved"}  # type: ignore[union-attr]
        assert set(preview.removed_rows) == set(before) - set(left)
        assert preview.last_row_ts == left[-1]
        check_past(task)
        assert task.usage.total_tokens_in == spent
        undone = await task.undo_rewind()
        assert set(undone.restored_rows) == set(preview.removed_rows)
        assert (shown(task), said(task)) == (before, messages)
        assert (task.recorder.projection.todos, task.mode) == (todos, mode)
        check_past(task)


@pytest.mark.requirement("rewind:any-row")
@PROTOCOLS
async def test_a_task_goes_on_from_every_row(past: RewindHarness, protocol: ToolProtocol) -> None:
    task = await rich_task(past, protocol)
    for ts in shown(task):
        end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
        past.script(finish("ok") if protocol is ToolProtocol.NATIVE else end)
        past.talk_to(task)
        await task.rewind(ts)
        await task.send("and on")
        await asked(task)
        check_past(task)
        last_texts = texts(task.messages[-2])
        assert any("and on" in text for text in last_texts)
        await task.cancel()
        await task.undo_rewind()


async def test_the_row_before_one_can_be_the_last(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    rows = shown(task)
    at = row_of(task, "user_feedback", 2)
    await task.rewind(at, keep=False)
    assert shown(task) == [ts for ts in rows if ts < at]
    assert "not yet" not in json.dumps(said(task))
    assert task.recorder.projection.unsent_feedback == ()


async def test_todos_and_mode_go_back_and_money_and_queue_do_not(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
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
    assert [message.text for message in task.recorder.projection.queue.values()] == ["later"]


async def test_a_preview_tells_what_cannot_be_undone(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    before = durable(task)
    preview = await task.preview_rewind(shown(task)[0])
    assert preview.unreverted_commands == ("echo hi && echo x > c.txt",)
    assert preview.removed_message_count == len(task.messages)
    assert (preview.mode_before, preview.mode_after) == ("code", "code")
    assert preview.file_changes == () and preview.checkpoint is None
    assert durable(task) == before


@pytest.mark.requirement("rewind:stops")
async def test_a_task_at_work_is_stopped_and_goes_back(past: RewindHarness) -> None:
    slow = Turn(say("a long story"), pause(60))
    task = await past.start(slow, policy=Unattended())
    await wait_for_event(task, RowDelta)
    first = shown(task)[0]
    await task.rewind(first)
    assert not task.is_running
    assert shown(task) == [first]
    check_past(task)


async def test_a_row_that_is_still_growing_can_be_the_last_one(past: RewindHarness) -> None:
    slow = Turn(say("a long story"), pause(60))
    task = await past.start(slow, policy=Unattended())
    growing = (await wait_for_event(task, RowDelta)).ts
    await task.rewind(growing)
    assert not task.is_running
    assert shown(task)[-1] == growing
    check_past(task)


async def test_an_open_question_is_taken_back(past: RewindHarness) -> None:
    task = await past.start(
        Turn(say("May I?"), call("write_to_file", {"path": "a", "content": "1"})),
        settings=Settings(),
    )
    question = await asked(task)
    await task.rewind(question.ts)
    assert (task.pending, task.state) == (None, TaskState.ABORTED)
    [row] = [row for row in task.rows if isinstance(row, Row) and row.ts == question.ts]
    assert row.approval_state == "rejected"
    assert not await task.approve()


async def test_messages_sent_meanwhile_wait_until_it_is_done(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    past.script(finish("ok"))
    past.talk_to(task)
    async with task.stop_for_revision():
        await task.send("one more thing")
        assert not task.is_running
        with pytest.raises(TaskStateError, match="being rewound"):
            task.start(RunStart.RESUME)
    await asked(task)
    assert any("one more thing" in text for text in texts(task.messages[-2]))


async def test_a_row_that_is_not_there_is_an_error_for_people(past: RewindHarness) -> None:
    task = await past.start(Turn(say("x"), pause(60)))
    with pytest.raises(
        UserError, match=rf"no message 12 in this task.*tasks show {task.id} --rows"
    ):
        await task.rewind(12)
    assert task.is_running
    with pytest.raises(UserError, match="nothing would be left"):
        await task.rewind(shown(task)[0], keep=False)
    with pytest.raises(UserError, match="nothing to undo"):
        await task.undo_rewind()


async def test_rewinds_are_undone_one_after_the_other_and_the_last_undo_too(
    past: RewindHarness,
) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    whole = shown(task)
    await task.rewind(row_of(task, "user_feedback", 1))
    longer = shown(task)
    await task.rewind(row_of(task, "user_feedback"))
    await task.undo_rewind()
    assert shown(task) == longer
    await task.undo_rewind()
    assert shown(task) == whole
    await task.undo_rewind()
    assert shown(task) == longer
    await task.undo_rewind()
    assert shown(task) == whole
    check_past(task)


async def test_undoing_tells_of_what_came_since(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    whole, first = shown(task), shown(task)[0]
    past.script(finish("another way"))
    past.talk_to(task)
    await task.rewind(first)
    await task.send("now like this")
    await asked(task)
    await task.approve()
    await settled(task)
    since = [ts for ts in shown(task) if ts > whole[-1]]
    preview = await task.preview_undo()
    assert list(preview.removed_rows) == since
    await task.undo_rewind()
    assert shown(task) == whole


@pytest.mark.requirement("rewind:snapshots")
async def test_the_files_on_disk_and_a_new_process_show_the_earlier_state(
    past: RewindHarness,
) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    at = row_of(task, "user_feedback", 1)
    await task.rewind(at)
    directory = past.journal(task).parent
    on_disk = json.loads((directory / "ui_messages.json").read_text())
    assert [row["ts"] for row in on_disk] == shown(task)
    rows, messages = shown(task), said(task)
    await past.engine.release(task)
    again = await past.engine.open(task.id)
    assert (shown(again), said(again)) == (rows, messages)
    [listed] = past.engine.history()
    assert listed.status == TaskState.ABORTED
    check_past(again)


async def test_a_message_of_the_user_that_is_last_reaches_the_model(past: RewindHarness) -> None:
    """They were told with a request that is gone."""
    task = await past.start(finish("one"), policy=Unattended())
    await settled(task)
    provider = past.script(finish("two"), finish("three"))
    past.talk_to(task)
    await task.send("paint it red")
    await settled(task)
    await task.rewind(row_of(task, "user_feedback"))
    await past.engine.resume(task.id)
    await settled(task)
    assert "paint it red" in str(provider.requests[-1].messages[-1].content)


@pytest.mark.requirement("rewind:edit")
async def test_an_edited_message_takes_the_place_of_the_old_one(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    provider = past.script(finish("better"))
    past.talk_to(task)
    feedback = row_of(task, "user_feedback", 2)
    later = next(ts for ts in shown(task) if ts > feedback)
    await task.edit(later, "make it blue")
    await asked(task)
    history = json.dumps(said(task))
    assert "not yet" not in history
    assert "make it blue" in history
    assert feedback not in shown(task)
    assert "make it blue" in str(provider.requests[0].messages[-1].content)
    check_past(task)


@pytest.mark.requirement("rewind:edit")
@PROTOCOLS
async def test_the_first_message_can_be_said_anew(
    past: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await rich_task(past, protocol)
    whole = shown(task)
    end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
    provider = past.script(finish("ok") if protocol is ToolProtocol.NATIVE else end)
    past.talk_to(task)
    await task.edit(whole[0], "do little")
    await asked(task)
    assert task.recorder.projection.title == "do little"
    assert not set(whole) & set(shown(task))
    [first] = provider.requests[0].messages
    assert "do little" in str(first.content) and "do much" not in str(first.content)
    check_past(task)
    await task.undo_rewind()
    assert shown(task) == whole
    assert task.recorder.projection.title == "do much"


async def test_subtasks_are_notified_and_taken_up_again(past: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(hand("part 1")), finish("whole"), finish("whole")],
        "part 1": [finish("result 1")],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    assert await settled(task) == Completed("whole")
    [child] = task.recorder.projection.children
    preview = await task.preview_rewind(shown(task)[0])
    assert preview.detached_subtasks == (child,)
    at = row_of(task, "subtask_result")
    await task.rewind(at, keep=False)
    check_past(task)
    await past.engine.resume(task.id)
    assert await settled(task) == Completed("whole")
    assert list(task.recorder.projection.children) == [child]
    check_past(task)


async def test_a_task_that_another_waits_for_is_left_alone(past: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(hand("part 1"))],
        "part 1": [Turn(say("thinking"), pause(60))],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    while not task.pending_subtasks:
        await wait_for_event(task, object, since=task.seq)
    child = past.engine.find_open_task(task.pending_subtasks[0])
    assert child is not None
    with pytest.raises(UserError, match="Stop that one first"):
        await child.rewind(shown(child)[0])
    await task.cancel()


async def test_a_parent_waits_until_the_past_of_its_subtask_is_settled(past: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(hand("part 1")), finish("whole")],
        "part 1": [Turn(say("thinking"), pause(60)), finish("result 1")],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    while not task.pending_subtasks:
        await wait_for_event(task, object, since=task.seq)
    [name] = task.pending_subtasks
    child = past.engine.find_open_task(name)
    assert child is not None
    await wait_for_event(child, RowDelta)
    await task.cancel()
    alone = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    child = await past.engine.open(name, options=alone)
    async with child.stop_for_revision():
        since = task.seq
        await past.engine.resume(task.id)
        await wait_for_event(task, TaskPaused, since)
    assert await settled(task) == Completed("whole")


async def test_everybody_who_listens_hears_of_it(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    with task.subscribe() as subscription:
        await task.rewind(shown(task)[0])
        received = await anext(subscription)
    assert isinstance(received.event, TaskRewound)


async def test_what_was_seen_of_files_is_forgotten_with_it(past: RewindHarness) -> None:
    (past.root / "a.txt").write_text("one\n")
    task = await past.start(
        Turn(call("read_file", {"path": "a.txt"})), finish(), policy=Unattended()
    )
    await settled(task)
    assert task.runtime.read_tracker.list_recent(5)
    await task.rewind(shown(task)[0])
    assert not task.runtime.read_tracker.list_recent(5)


async def test_a_task_whose_process_died_at_work_goes_back(past: RewindHarness) -> None:
    task = await rich_task(past, ToolProtocol.NATIVE)
    await past.engine.release(task)
    journal = past.journal(task)
    lines = journal.read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if '"askOpened"' in line)
    journal.write_text("".join(lines[: last + 1]))
    again = await past.engine.open(task.id)
    states = [again.state]
    await again.rewind(shown(again)[0])
    check_past(again)
    assert [*states, again.state] == [TaskState.RUNNING, TaskState.ABORTED]
