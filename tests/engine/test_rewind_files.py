"""Going back with the files: they are as they were, unless that would undo other people's work."""

from __future__ import annotations

import json

import pytest

from joey.core.events import CheckpointSaved, FilesRestored, RowAdded, TaskRewound
from joey.core.file_state import FileChange
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.engine.asks import Unattended
from joey.engine.checkpoints import preview_restore, restore_checkpoint
from joey.errors import UserError
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from tests.harness.counts import daily
from tests.harness.engine.engine_harness import (
    EngineHarness,
    finish,
    list_durable_events,
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
    run_eventful_task,
    tools,
    write,
    written,
)

__all__ = ["rewind_harness"]

pytestmark = pytest.mark.contract("rewind:files")


async def test_files_come_back_as_they_were_at_each_row(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    first, second, third = tools(task)
    expected = {
        list_row_timestamps(task)[0]: {},
        first: {"a": "1\n"},
        second: {"a": "2\n"},
        third: {"a": "2\n", "b": "3\n"},
    }
    for ts, kept in expected.items():
        await task.rewind(ts, files=True)
        assert files(rewind_harness) == {**kept, "own.txt": "mine\n"}
        await task.undo_rewind()
        assert files(rewind_harness) == {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}
        check_histories(task)


async def test_without_files_they_stay_and_can_follow_later(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    first = list_row_timestamps(task)[0]
    await task.rewind(first)
    assert files(rewind_harness)["a"] == "2\n"
    await task.rewind(first, files=True)
    assert files(rewind_harness) == {"own.txt": "mine\n"}


async def test_a_preview_names_the_files_and_touches_none(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.files == (FileChange("a", "changed"), FileChange("b", "removed"))
    assert preview.conflicting_paths == ()
    assert files(rewind_harness)["a"] == "2\n"


async def test_what_a_user_changed_since_is_not_overwritten(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "a").write_text("by hand\n")
    (rewind_harness.root / "own.txt").write_text("more\n")
    before = list_durable_events(task)
    with pytest.raises(UserError, match=r"modified outside joey: a, own\.txt"):
        await task.rewind(tools(task)[0], files=True)
    assert list_durable_events(task) == before
    assert files(rewind_harness)["a"] == "by hand\n"
    preview = await task.rewind(tools(task)[0], files=True, force=True)
    assert preview.conflicting_paths == ("a", "own.txt")
    assert files(rewind_harness) == {"a": "1\n", "own.txt": "mine\n"}
    await task.undo_rewind()
    assert files(rewind_harness) == {"a": "by hand\n", "b": "3\n", "own.txt": "more\n"}


async def test_what_a_user_changed_between_two_steps_is_not_overwritten(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "own.txt").write_text("later\n")
    rewind_harness.use_script(write("c", "4\n"), finish())
    rewind_harness.use_current_provider(task)
    await task.send("and c")
    await wait_for_ending(task)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.conflicting_paths == ("own.txt",)
    *_, last = tools(task)
    preview = await task.rewind(last, keep=False, files=True)
    assert preview.conflicting_paths == ()
    assert files(rewind_harness) == {"a": "2\n", "b": "3\n", "own.txt": "later\n"}


async def test_the_work_of_a_command_that_was_stopped_is_its_own(
    rewind_harness: RewindHarness,
) -> None:
    command = "echo x > made.txt; echo ready; sleep 60"
    task = await rewind_harness.start(
        write("a", "1\n"), Turn(call("execute_command", {"command": command})), policy=Unattended()
    )
    from joey.core.events import CommandOutputDelta

    await wait_for_event(task, CommandOutputDelta)
    preview = await task.rewind(tools(task)[0], files=True)
    assert preview.conflicting_paths == ()
    assert files(rewind_harness) == {"a": "1\n"}


async def test_where_nothing_was_changed_since_nothing_is_restored(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    (rewind_harness.root / "own.txt").write_text("more\n")
    preview = await task.rewind(list_row_timestamps(task)[-1], files=True)
    assert (preview.target_checkpoint, preview.files) == (None, ())
    assert files(rewind_harness)["own.txt"] == "more\n"


async def test_both_steps_are_in_the_journal(rewind_harness: RewindHarness) -> None:
    task = await written(rewind_harness)
    await task.rewind(list_row_timestamps(task)[0], files=True)
    *_, rewound, restored = list_durable_events(task)
    assert isinstance(rewound, TaskRewound) and isinstance(restored, FilesRestored)
    assert restored.checkpoint == rewound.files_checkpoint
    assert restored.paths == ("a", "b")
    assert rewound.files_checkpoint_before is not None
    assert task.recorder.projection.pending_restore is None


async def test_a_process_that_died_before_the_files_came_back(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    await task.rewind(list_row_timestamps(task)[0], files=True)
    await rewind_harness.engine.release(task)
    cut(rewind_harness.find_journal(task), 1)
    (rewind_harness.root / "a").write_text("2\n")
    again = await rewind_harness.engine.open(task.id)
    assert files(rewind_harness) == {"own.txt": "mine\n"}
    assert again.recorder.projection.pending_restore is None
    assert isinstance(list_durable_events(again)[-1], FilesRestored)
    check_histories(again)
    await again.undo_rewind()
    assert files(rewind_harness) == {"own.txt": "mine\n", "a": "2\n", "b": "3\n"} | {
        "b": files(rewind_harness)["b"]
    }


async def test_files_that_cannot_come_back_are_reported_and_never_overwrite_later_work(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    await task.rewind(list_row_timestamps(task)[0], files=True)
    await rewind_harness.engine.release(task)
    journal = rewind_harness.find_journal(task)
    cut(journal, 1)
    lines = journal.read_text().splitlines()
    record = json.loads(lines[-1])
    record["event"]["files"] = "0" * 40
    journal.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    rewind_harness.use_script(write("new", "5\n"), finish())
    again = await rewind_harness.engine.resume(task.id, "go on")
    errors = [
        event
        for event in list_durable_events(again)
        if isinstance(event, RowAdded) and event.say == "error"
    ]
    assert "could not be restored" in errors[0].text
    assert again.recorder.projection.pending_restore is None
    await again.cancel()


async def test_without_checkpoints_only_the_history_goes_back(
    engine_harness: EngineHarness,
) -> None:
    assert engine_harness.capabilities == Capabilities()
    task = await engine_harness.start(write("a", "1\n"), finish(), policy=Unattended())
    await wait_for_ending(task)
    with pytest.raises(UserError, match="has no checkpoints"):
        await task.rewind(list_row_timestamps(task)[0], files=True)
    await task.rewind(list_row_timestamps(task)[0])
    assert (engine_harness.root / "a").read_text() == "1\n"


@pytest.mark.shortened
@pytest.mark.parametrize("protocol", daily([ToolProtocol.NATIVE], list(ToolProtocol)))
async def test_every_row_of_a_rich_task_has_its_files(
    rewind_harness: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await run_eventful_task(rewind_harness, protocol)
    latest = files(rewind_harness)
    for ts in list_row_timestamps(task):
        await task.rewind(ts, files=True)
        now = files(rewind_harness)
        rows = {row.tool: row for row in task.rows if isinstance(row, Row)}
        ran = [row.path for row in rows.values() if row.tool == "write_to_file" and row.result]
        assert ("b.txt" in now) == bool(ran)
        await task.undo_rewind()
        assert files(rewind_harness) == latest


async def test_files_alone_come_back_and_the_state_before_is_kept(
    rewind_harness: RewindHarness,
) -> None:
    task = await written(rewind_harness)
    rows = list_row_timestamps(task)
    [first, *_] = [e.id for e in list_durable_events(task) if isinstance(e, CheckpointSaved)]
    preview = await preview_restore(task, first)
    assert [each.path for each in preview.files] == ["a", "b"]
    (rewind_harness.root / "a").write_text("by hand\n")
    with pytest.raises(UserError, match="modified outside joey"):
        await restore_checkpoint(task, first, force=False)
    await restore_checkpoint(task, first, force=True)
    assert files(rewind_harness) == {"own.txt": "mine\n"}
    assert [ts for ts in list_row_timestamps(task) if ts in rows] == rows
    kept, restored = list_durable_events(task)[-2:]
    assert isinstance(kept, CheckpointSaved) and isinstance(restored, FilesRestored)
    await restore_checkpoint(task, kept.id, force=False)
    assert files(rewind_harness)["a"] == "by hand\n"
    with pytest.raises(UserError, match="no checkpoint 'nope'"):
        await restore_checkpoint(task, "nope", force=False)
