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
from joey.testing.scripted_provider import ScriptedTurn
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
    cut,
    files,
    list_row_timestamps,
    rewind_harness,
    row_of,
    tools,
    write,
    written,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

__all__ = ["rewind_harness"]

pytestmark = pytest.mark.contract("rewind:files")

ALL = {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}


async def talk(rewind_harness: RewindHarness, task: Task, text: str, *turns: ScriptedTurn) -> int:
    """The row of these words, when what they led to is done."""
    rewind_harness.use_script(*turns, finish())
    rewind_harness.use_current_provider(task)
    await task.send(text)
    await wait_for_ending(task)
    return row_of(task, "user_feedback", -1)


# Which files those of a row are


async def test_after_files_alone_came_back_later_rows_have_those(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    [first, *_] = [e.id for e in list_durable_events(task) if isinstance(e, CheckpointSaved)]
    await restore_checkpoint(task, first, force=False)
    at = await talk(rewind_harness, task, "hello")
    await talk(rewind_harness, task, "and again")
    preview = await task.rewind(at, files=True)
    assert preview.files == ()
    assert files(rewind_harness) == {"own.txt": "mine\n"}


async def test_after_a_rewind_with_files_later_rows_have_those(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "own.txt").write_text("more\n")
    at = await talk(rewind_harness, task, "go on", write("c", "4\n"))
    await task.rewind(at, files=True)
    at = await talk(rewind_harness, task, "hello")
    await talk(rewind_harness, task, "and again")
    await task.rewind(at, files=True)
    assert files(rewind_harness) == {**ALL, "own.txt": "more\n"}


async def test_after_a_rewind_without_files_later_rows_have_what_stayed(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    await task.rewind(tools(task)[0])
    at = await talk(rewind_harness, task, "hello")
    await talk(rewind_harness, task, "and again")
    await task.rewind(at, files=True)
    assert files(rewind_harness) == ALL


async def test_while_subtasks_had_not_returned_their_work_stays(
    rewind_harness: RewindHarness,
) -> None:
    """They are taken up again as they are, so their results tell of these files."""
    parts = {
        "the whole": [Turn(delegate("part 1")), finish("whole"), finish("whole")],
        "part 1": [write("made", "1\n"), finish("result 1")],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    await task.rewind(row_of(task, "subtask_result"), keep=False, files=True)
    assert files(rewind_harness) == {"made": "1\n"}
    await rewind_harness.engine.resume(task.id)
    assert await wait_for_ending(task) == Completed("whole")
    await task.rewind(list_row_timestamps(task)[0], files=True)
    assert files(rewind_harness) == {}
    check_histories(task)


# What others changed


async def test_what_is_brought_back_itself_is_no_conflict(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "a").write_text("by hand\n")
    await talk(
        rewind_harness, task, "go on", Turn(call("execute_command", {"command": "echo 9 > a"}))
    )
    assert files(rewind_harness)["a"] == "9\n"
    ran = [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "execute_command"]
    preview = await task.rewind(ran[0], keep=False, files=True)
    assert preview.conflicting_paths == ()
    assert files(rewind_harness)["a"] == "by hand\n"


async def test_changes_between_steps_that_a_rewind_took_out_of_sight_are_conflicts(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "own.txt").write_text("more\n")
    at = await talk(rewind_harness, task, "go on", write("c", "4\n"))
    await task.rewind(at)
    assert (await task.preview_rewind(tools(task)[0], files=True)).conflicting_paths == ("own.txt",)
    await task.rewind(tools(task)[0], files=True, force=True)
    await talk(rewind_harness, task, "anew", write("own.txt", "written\n"))
    assert (await task.preview_rewind(tools(task)[0], files=True)).conflicting_paths == ()


async def test_what_an_undo_has_brought_back_is_still_theirs(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "own.txt").write_text("more\n")
    for _ in range(2):
        preview = await task.rewind(tools(task)[0], files=True, force=True)
        assert preview.conflicting_paths == ("own.txt",)
        await task.undo_rewind()
        assert files(rewind_harness)["own.txt"] == "more\n"


async def test_what_a_user_changed_while_they_were_asked_is_theirs(
    rewind_harness: RewindHarness,
) -> None:
    (rewind_harness.root / "own.txt").write_text("mine\n")
    one, two = (call("write_to_file", {"path": name, "content": "1\n"}) for name in "ab")
    task = await rewind_harness.start(Turn(one, two), finish(), settings=Settings())
    await wait_for_ask(task)
    await task.approve()
    since = task.seq
    assert (await wait_for_event(task, AskOpened, since)).path == "b"
    (rewind_harness.root / "own.txt").write_text("more\n")
    since = task.seq
    await task.approve()
    assert (await wait_for_event(task, AskOpened, since)).path is None
    assert (
        await task.preview_rewind(list_row_timestamps(task)[0], files=True)
    ).conflicting_paths == ("own.txt",)
    # They are in sight once for each step, not once for each question.
    assert [
        e.is_own_change for e in list_durable_events(task) if isinstance(e, CheckpointSaved)
    ] == [
        *(False, True),
        *(False, True),
    ]


async def test_what_a_user_changed_after_a_death_is_not_overwritten(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    await task.rewind(list_row_timestamps(task)[0], files=True)
    await rewind_harness.engine.release(task)
    cut(rewind_harness.find_journal(task), 1)
    (rewind_harness.root / "a").write_text("by hand\n")
    (rewind_harness.root / "b").write_text("3\n")
    for _ in range(2):
        again = await rewind_harness.engine.open(task.id)
        assert files(rewind_harness) == {"a": "by hand\n", "b": "3\n", "own.txt": "mine\n"}
        [error_row] = [
            e for e in list_durable_events(again) if isinstance(e, RowAdded) and e.say == "error"
        ]
        assert "modified" in error_row.text and " a." in error_row.text
        await rewind_harness.engine.release(again)
    again = await rewind_harness.engine.open(task.id)
    at = list_row_timestamps(again)[0]
    with pytest.raises(UserError, match="modified outside joey: a"):
        await again.rewind(at, files=True)
    await again.rewind(at, files=True, force=True)
    assert files(rewind_harness) == {"own.txt": "mine\n"}
    await again.undo_rewind()
    assert files(rewind_harness)["a"] == "by hand\n"


async def test_whoever_writes_between_the_look_and_the_restoring_is_noticed(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)

    going = asyncio.ensure_future(task.rewind(list_row_timestamps(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    (rewind_harness.root / "b").write_text("by hand\n")
    with pytest.raises(UserError, match=r"could not be restored.* b\."):
        await going
    assert files(rewind_harness) == {**ALL, "b": "by hand\n"}
    check_histories(task)


# Whole, or not at all


async def test_who_gives_up_waiting_does_not_leave_the_files_behind(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    rewind_harness.use_script(finish("ok"))
    rewind_harness.use_current_provider(task)
    since = task.seq
    await task.send("go on")
    await wait_for_event(task, TaskStarted, since)
    await wait_for_ending(task)
    assert files(rewind_harness) == {"a": "1\n", "own.txt": "mine\n"}
    check_histories(task)


async def test_closing_waits_until_the_files_are_back(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await wait_for_event(task, TaskRewound)
    await rewind_harness.engine.release(task)
    assert files(rewind_harness) == {"a": "1\n", "own.txt": "mine\n"}
    await going
    again = await rewind_harness.engine.open(task.id)
    assert isinstance(list_durable_events(again)[-1], FilesRestored)


async def test_messages_sent_while_a_rewind_is_refused_are_handled(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "a").write_text("by hand\n")
    provider = rewind_harness.use_script(finish("ok"))
    rewind_harness.use_current_provider(task)
    going = asyncio.ensure_future(task.rewind(tools(task)[0], files=True))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it is looking at the files
    await task.send("one more thing")
    assert not task.is_running
    with pytest.raises(UserError, match="Nothing was restored"):
        await going
    await wait_for_ending(task)
    assert "one more thing" in str(provider.requests[0].messages[-1].content)


async def test_a_subtask_that_returns_once_more_has_used_nothing_more(
    rewind_harness: RewindHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1")), finish("whole"), finish("whole")],
        "part 1": [finish("result 1")],
    }
    rewind_harness.provider = ScriptedSubtasks(parts)
    task = await rewind_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    [returned] = [
        e.subtask_usage
        for e in list_durable_events(task)
        if isinstance(e, ToolFinished) and e.subtask_usage
    ]
    await task.rewind(row_of(task, "subtask_result"), keep=False)
    await rewind_harness.engine.resume(task.id)
    await wait_for_ending(task)
    used = task.recorder.projection.ledger.subtask_usage
    assert (used.total_tokens_in, used.total_tokens_out) == (
        returned.total_tokens_in,
        returned.total_tokens_out,
    )
