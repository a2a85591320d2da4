"""Going back with the files: they are as they were, unless that would undo other people's work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joey.core.events import CheckpointSaved, FilesRestored, RowAdded, TaskRewound
from joey.core.file_state import FileChange
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.engine.asks import Unattended
from joey.engine.checkpoints import preview_restore, restore_checkpoint
from joey.engine.task import Task
from joey.errors import UserError
from joey.ports import Capabilities
from joey.testing.script import Turn, call
from tests.engine.engine_harness import EngineHarness, durable, finish, settled, wait_for_event
from tests.engine.rewind_harness import RewindHarness, check_past, past, rich_task, shown

__all__ = ["past"]

pytestmark = pytest.mark.requirement("rewind:files")


def write(path: str, content: str) -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": content}))


def files(past: RewindHarness) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(past.root.iterdir())}


async def written(past: RewindHarness) -> Task:
    """`a` is written, then `a` and `b`."""
    (past.root / "own.txt").write_text("mine\n")
    task = await past.start(
        write("a", "1\n"), write("a", "2\n"), write("b", "3\n"), finish(), policy=Unattended()
    )
    await settled(task)
    assert files(past) == {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}
    return task


def tools(task: Task) -> list[int]:
    return [row.ts for row in task.rows if isinstance(row, Row) and row.tool == "write_to_file"]


async def test_files_come_back_as_they_were_at_each_row(past: RewindHarness) -> None:
    task = await written(past)
    first, second, third = tools(task)
    expected = {
        shown(task)[0]: {},
        first: {"a": "1\n"},
        second: {"a": "2\n"},
        third: {"a": "2\n", "b": "3\n"},
    }
    for ts, kept in expected.items():
        await task.rewind(ts, files=True)
        assert files(past) == {**kept, "own.txt": "mine\n"}
        await task.undo_rewind()
        assert files(past) == {"a": "2\n", "b": "3\n", "own.txt": "mine\n"}
        check_past(task)


async def test_without_files_they_stay_and_can_follow_later(past: RewindHarness) -> None:
    task = await written(past)
    first = shown(task)[0]
    await task.rewind(first)
    assert files(past)["a"] == "2\n"
    await task.rewind(first, files=True)
    assert files(past) == {"own.txt": "mine\n"}


async def test_a_preview_names_the_files_and_touches_none(past: RewindHarness) -> None:
    task = await written(past)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.file_changes == (FileChange("a", "changed"), FileChange("b", "removed"))
    assert preview.conflicts == ()
    assert files(past)["a"] == "2\n"


async def test_what_a_user_changed_since_is_not_overwritten(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "a").write_text("by hand\n")
    (past.root / "own.txt").write_text("more\n")
    before = durable(task)
    with pytest.raises(UserError, match=r"changed files that would be brought back: a, own\.txt"):
        await task.rewind(tools(task)[0], files=True)
    assert durable(task) == before
    assert files(past)["a"] == "by hand\n"
    preview = await task.rewind(tools(task)[0], files=True, force=True)
    assert preview.conflicts == ("a", "own.txt")
    assert files(past) == {"a": "1\n", "own.txt": "mine\n"}
    await task.undo_rewind()
    assert files(past) == {"a": "by hand\n", "b": "3\n", "own.txt": "more\n"}


async def test_what_a_user_changed_between_two_steps_is_not_overwritten(
    past: RewindHarness,
) -> None:
    task = await written(past)
    (past.root / "own.txt").write_text("later\n")
    past.script(write("c", "4\n"), finish())
    past.talk_to(task)
    await task.send("and c")
    await settled(task)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.conflicts == ("own.txt",)
    *_, last = tools(task)
    preview = await task.rewind(last, keep=False, files=True)
    assert preview.conflicts == ()
    assert files(past) == {"a": "2\n", "b": "3\n", "own.txt": "later\n"}


async def test_the_work_of_a_command_that_was_stopped_is_its_own(past: RewindHarness) -> None:
    command = "echo x > made.txt; echo ready; sleep 60"
    task = await past.start(
        write("a", "1\n"), Turn(call("execute_command", {"command": command})), policy=Unattended()
    )
    from joey.core.events import CommandOutputDelta

    await wait_for_event(task, CommandOutputDelta)
    preview = await task.rewind(tools(task)[0], files=True)
    assert preview.conflicts == ()
    assert files(past) == {"a": "1\n"}


async def test_where_nothing_was_changed_since_nothing_is_restored(past: RewindHarness) -> None:
    task = await written(past)
    (past.root / "own.txt").write_text("more\n")
    preview = await task.rewind(shown(task)[-1], files=True)
    assert (preview.checkpoint, preview.file_changes) == (None, ())
    assert files(past)["own.txt"] == "more\n"


async def test_both_steps_are_in_the_journal(past: RewindHarness) -> None:
    task = await written(past)
    await task.rewind(shown(task)[0], files=True)
    *_, rewound, restored = durable(task)
    assert isinstance(rewound, TaskRewound) and isinstance(restored, FilesRestored)
    assert restored.checkpoint == rewound.files_checkpoint
    assert restored.paths == ("a", "b")
    assert rewound.files_checkpoint_before is not None
    assert task.recorder.projection.pending_restore is None


async def test_a_process_that_died_before_the_files_came_back(past: RewindHarness) -> None:
    task = await written(past)
    await task.rewind(shown(task)[0], files=True)
    await past.engine.release(task)
    cut(past.journal(task), 1)
    (past.root / "a").write_text("2\n")
    again = await past.engine.open(task.id)
    assert files(past) == {"own.txt": "mine\n"}
    assert again.recorder.projection.pending_restore is None
    assert isinstance(durable(again)[-1], FilesRestored)
    check_past(again)
    await again.undo_rewind()
    assert files(past) == {"own.txt": "mine\n", "a": "2\n", "b": "3\n"} | {"b": files(past)["b"]}


def cut(journal: Path, count: int) -> None:
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-count]))


async def test_files_that_cannot_come_back_are_reported_and_never_overwrite_later_work(
    past: RewindHarness,
) -> None:
    task = await written(past)
    await task.rewind(shown(task)[0], files=True)
    await past.engine.release(task)
    journal = past.journal(task)
    cut(journal, 1)
    lines = journal.read_text().splitlines()
    record = json.loads(lines[-1])
    record["event"]["files"] = "0" * 40
    journal.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    past.script(write("new", "5\n"), finish())
    again = await past.engine.resume(task.id, "go on")
    errors = [
        event for event in durable(again) if isinstance(event, RowAdded) and event.say == "error"
    ]
    assert "could not be brought back" in errors[0].text
    assert again.recorder.projection.pending_restore is None
    await again.cancel()


async def test_without_checkpoints_only_the_history_goes_back(workshop: EngineHarness) -> None:
    assert workshop.capabilities == Capabilities()
    task = await workshop.start(write("a", "1\n"), finish(), policy=Unattended())
    await settled(task)
    with pytest.raises(UserError, match="not kept in checkpoints"):
        await task.rewind(shown(task)[0], files=True)
    await task.rewind(shown(task)[0])
    assert (workshop.root / "a").read_text() == "1\n"


@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_every_row_of_a_rich_task_has_its_files(
    past: RewindHarness, protocol: ToolProtocol
) -> None:
    task = await rich_task(past, protocol)
    latest = files(past)
    for ts in shown(task):
        await task.rewind(ts, files=True)
        now = files(past)
        rows = {row.tool: row for row in task.rows if isinstance(row, Row)}
        ran = [row.path for row in rows.values() if row.tool == "write_to_file" and row.result]
        assert ("b.txt" in now) == bool(ran)
        await task.undo_rewind()
        assert files(past) == latest


async def test_files_alone_come_back_and_the_state_before_is_kept(past: RewindHarness) -> None:
    task = await written(past)
    rows = shown(task)
    [first, *_] = [e.id for e in durable(task) if isinstance(e, CheckpointSaved)]
    preview = await preview_restore(task, first)
    assert [each.path for each in preview.file_changes] == ["a", "b"]
    (past.root / "a").write_text("by hand\n")
    with pytest.raises(UserError, match="Somebody else"):
        await restore_checkpoint(task, first, force=False)
    await restore_checkpoint(task, first, force=True)
    assert files(past) == {"own.txt": "mine\n"}
    assert [ts for ts in shown(task) if ts in rows] == rows
    kept, restored = durable(task)[-2:]
    assert isinstance(kept, CheckpointSaved) and isinstance(restored, FilesRestored)
    await restore_checkpoint(task, kept.id, force=False)
    assert files(past)["a"] == "by hand\n"
    with pytest.raises(UserError, match="no checkpoint 'nope'"):
        await restore_checkpoint(task, "nope", force=False)
