"""Going back with the files more than once, with words and other people's work in between."""

from __future__ import annotations

import asyncio

import pytest

from joey.core.events import (
    AskOpened,
    CheckpointSaved,
    FilesRestored,
    RowAdded,
    TaskRewound,
    TaskStarted,
    ToolFinished,
)
from joey.core.history.ui import Row
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.engine.checkpoints import restore_checkpoint
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.errors import UserError
from joey.testing.script import Turn, call
from joey.testing.scripted import ScriptedTurn
from tests.engine.engine_harness import asked, durable, finish, settled, wait_for_event
from tests.engine.rewind_harness import RewindHarness, check_past, past, shown
from tests.engine.scripted_subtasks import ALLOW_ALL_WITH_SUBTASKS, ScriptedSubtasks, hand
from tests.engine.test_rewind import row_of
from tests.engine.test_rewind_files import cut, files, tools, write, written

__all__ = ["past"]

pytestmark = pytest.mark.requirement("rewind:files")

ALL = {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}


async def talk(past: RewindHarness, task: Task, text: str, *turns: ScriptedTurn) -> int:
    """The row of these words, when what they led to is done."""
    past.script(*turns, finish())
    past.talk_to(task)
    await task.send(text)
    await settled(task)
    return row_of(task, "user_feedback", -1)


# Which files those of a row are


async def test_after_files_alone_came_back_later_rows_have_those(past: RewindHarness) -> None:
    task = await written(past)
    [first, *_] = [e.id for e in durable(task) if isinstance(e, CheckpointSaved)]
    await restore_checkpoint(task, first, force=False)
    at = await talk(past, task, "hello")
    await talk(past, task, "and again")
    preview = await task.rewind(at, files=True)
    assert preview.file_changes == ()
    assert files(past) == {"own.txt": "mine\n"}


async def test_after_a_rewind_with_files_later_rows_have_those(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "own.txt").write_text("more\n")
    at = await talk(past, task, "go on", write("c", "4\n"))
    await task.rewind(at, files=True)
    at = await talk(past, task, "hello")
    await talk(past, task, "and again")
    await task.rewind(at, files=True)
    assert files(past) == {**ALL, "own.txt": "more\n"}


async def test_after_a_rewind_without_files_later_rows_have_what_stayed(
    past: RewindHarness,
) -> None:
    task = await written(past)
    await task.rewind(tools(task)[0])
    at = await talk(past, task, "hello")
    await talk(past, task, "and again")
    await task.rewind(at, files=True)
    assert files(past) == ALL


async def test_while_subtasks_had_not_returned_their_work_stays(past: RewindHarness) -> None:
    """They are taken up again as they are, so their results tell of these files."""
    parts = {
        "the whole": [Turn(hand("part 1")), finish("whole"), finish("whole")],
        "part 1": [write("made", "1\n"), finish("result 1")],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    await settled(task)
    await task.rewind(row_of(task, "subtask_result"), keep=False, files=True)
    assert files(past) == {"made": "1\n"}
    await past.engine.resume(task.id)
    assert await settled(task) == Completed("whole")
    await task.rewind(shown(task)[0], files=True)
    assert files(past) == {}
    check_past(task)


# What others changed


async def test_what_is_brought_back_itself_is_no_conflict(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "a").write_text("by hand\n")
    await talk(past, task, "go on", Turn(call("execute_command", {"command": "echo 9 > a"})))
    assert files(past)["a"] == "9\n"
    ran = [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "execute_command"]
    preview = await task.rewind(ran[0], keep=False, files=True)
    assert preview.conflicts == ()
    assert files(past)["a"] == "by hand\n"


async def test_changes_between_steps_that_a_rewind_took_out_of_sight_are_conflicts(
    past: RewindHarness,
) -> None:
    task = await written(past)
    (past.root / "own.txt").write_text("more\n")
    at = await talk(past, task, "go on", write("c", "4\n"))
    await task.rewind(at)
    assert (await task.preview_rewind(tools(task)[0], files=True)).conflicts == ("own.txt",)
    await task.rewind(tools(task)[0], files=True, force=True)
    await talk(past, task, "anew", write("own.txt", "written\n"))
    assert (await task.preview_rewind(tools(task)[0], files=True)).conflicts == ()


async def test_what_an_undo_has_brought_back_is_still_theirs(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "own.txt").write_text("more\n")
    for _ in range(2):
        preview = await task.rewind(tools(task)[0], files=True, force=True)
        assert preview.conflicts == ("own.txt",)
        await task.undo_rewind()
        assert files(past)["own.txt"] == "more\n"


async def test_what_a_user_changed_while_they_were_asked_is_theirs(past: RewindHarness) -> None:
    (past.root / "own.txt").write_text("mine\n")
    one, two = (call("write_to_file", {"path": name, "content": "1\n"}) for name in "ab")
    task = await past.start(Turn(one, two), finish(), settings=Settings())
    await asked(task)
    await task.approve()
    since = task.seq
    assert (await wait_for_event(task, AskOpened, since)).path == "b"
    (past.root / "own.txt").write_text("more\n")
    since = task.seq
    await task.approve()
    assert (await wait_for_event(task, AskOpened, since)).path is None
    assert (await task.preview_rewind(shown(task)[0], files=True)).conflicts == ("own.txt",)
    # They are in sight once for each step, not once for each question.
    assert [e.is_own_change for e in durable(task) if isinstance(e, CheckpointSaved)] == [
        *(False, True),
        *(False, True),
    ]


async def test_what_a_user_changed_after_a_death_is_not_overwritten(past: RewindHarness) -> None:
    task = await written(past)
    await task.rewind(shown(task)[0], files=True)
    await past.engine.release(task)
    cut(past.journal(task), 1)
    (past.root / "a").write_text("by hand\n")
    (past.root / "b").write_text("3\n")
    for _ in range(2):
        again = await past.engine.open(task.id)
        assert files(past) == {"a": "by hand\n", "b": "3\n", "own.txt": "mine\n"}
        [error_row] = [e for e in durable(again) if isinstance(e, RowAdded) and e.say == "error"]
        assert "changed" in error_row.text and " a." in error_row.text
        await past.engine.release(again)
    again = await past.engine.open(task.id)
    at = shown(again)[0]
    with pytest.raises(UserError, match="changed files that would be brought back: a"):
        await again.rewind(at, files=True)
    await again.rewind(at, files=True, force=True)
    assert files(past) == {"own.txt": "mine\n"}
    await again.undo_rewind()
    assert files(past)["a"] == "by hand\n"


async def test_whoever_writes_between_the_look_and_the_restoring_is_noticed(
    past: RewindHarness,
) -> None:
    task = await written(past)

    going = asyncio.ensure_future(task.rewind(shown(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    (past.root / "b").write_text("by hand\n")
    with pytest.raises(UserError, match=r"could not be brought back.* b\."):
        await going
    assert files(past) == {**ALL, "b": "by hand\n"}
    check_past(task)


# Whole, or not at all


async def test_who_gives_up_waiting_does_not_leave_the_files_behind(past: RewindHarness) -> None:
    task = await written(past)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    past.script(finish("ok"))
    past.talk_to(task)
    since = task.seq
    await task.send("go on")
    await wait_for_event(task, TaskStarted, since)
    await settled(task)
    assert files(past) == {"a": "1\n", "own.txt": "mine\n"}
    check_past(task)


async def test_closing_waits_until_the_files_are_back(past: RewindHarness) -> None:
    task = await written(past)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    await past.engine.release(task)
    assert files(past) == {"a": "1\n", "own.txt": "mine\n"}
    await going
    again = await past.engine.open(task.id)
    assert isinstance(durable(again)[-1], FilesRestored)


async def test_messages_sent_while_a_rewind_is_refused_are_handled(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "a").write_text("by hand\n")
    provider = past.script(finish("ok"))
    past.talk_to(task)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it is looking at the files
    await task.send("one more thing")
    assert not task.is_running
    with pytest.raises(UserError, match="Nothing was changed"):
        await going
    await settled(task)
    assert "one more thing" in str(provider.requests[0].messages[-1].content)


async def test_a_subtask_that_returns_once_more_has_used_nothing_more(past: RewindHarness) -> None:
    parts = {
        "the whole": [Turn(hand("part 1")), finish("whole"), finish("whole")],
        "part 1": [finish("result 1")],
    }
    past.provider = ScriptedSubtasks(parts)
    task = await past.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    await settled(task)
    [returned] = [e.usage for e in durable(task) if isinstance(e, ToolFinished) and e.usage]
    await task.rewind(row_of(task, "subtask_result"), keep=False)
    await past.engine.resume(task.id)
    await settled(task)
    used = task.recorder.projection.ledger.subtask_usage
    assert (used.total_tokens_in, used.total_tokens_out) == (
        returned.total_tokens_in,
        returned.total_tokens_out,
    )
