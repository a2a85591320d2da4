"""Going back with the files: those that no checkpoint has are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.file_state import LeftFile
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.engine.checkpoints import preview_restore
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import finish, wait_for_ending
from tests.harness.engine.rewind_harness import RewindHarness, rewind_harness, tools, write

__all__ = ["rewind_harness"]

pytestmark = pytest.mark.contract("rewind:files")

WIDE = Settings(always_allow_write=True, always_allow_write_outside_workspace=True)


async def test_what_git_ignores_and_what_lies_outside_is_named_and_stays(
    rewind_harness: RewindHarness, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere" / "note.txt"
    (rewind_harness.root / ".gitignore").write_text("*.log\nbuild/\n")
    task = await rewind_harness.start(
        write("a", "1\n"),
        write("own.log", "2\n"),
        write("node_modules/x.js", "3\n"),
        write(str(elsewhere), "4\n"),
        write("b", "5\n"),
        finish(),
        settings=WIDE,
        policy=Unattended(),
    )
    await wait_for_ending(task)
    first = tools(task)[0]
    left = (
        LeftFile("own.log", "ignored"),
        LeftFile("node_modules/x.js", "ignored"),
        LeftFile(str(elsewhere), "outside"),
    )
    preview = await task.preview_rewind(first, files=True)
    assert [each.path for each in preview.files] == ["b"]
    assert preview.unrestorable_files == left
    assert (await task.preview_rewind(first)).unrestorable_files == ()
    assert (await task.preview_rewind(tools(task)[1], files=True)).unrestorable_files == left[1:]
    assert (await task.rewind(first, files=True)).unrestorable_files == left
    assert (rewind_harness.root / "own.log").read_text() == "2\n"
    assert elsewhere.read_text() == "4\n"
    assert not (rewind_harness.root / "b").exists()


async def test_they_are_named_where_nothing_else_was_changed(rewind_harness: RewindHarness) -> None:
    (rewind_harness.root / ".gitignore").write_text("*.log\n")
    task = await rewind_harness.start(write("own.log", "1\n"), finish(), policy=Unattended())
    await wait_for_ending(task)
    preview = await task.preview_rewind(tools(task)[0], keep=False, files=True)
    assert preview.files == ()
    assert preview.unrestorable_files == (LeftFile("own.log", "ignored"),)


async def test_a_file_that_was_edited_in_part_is_named(rewind_harness: RewindHarness) -> None:
    (rewind_harness.root / ".gitignore").write_text("*.log\n")
    (rewind_harness.root / "own.log").write_text("1\n2\n")
    (rewind_harness.root / "other.log").write_text("1\n")
    blocks = [f"<<<<<<< SEARCH\n{n}\n=======\nnew\n>>>>>>> REPLACE" for n in (1, 3)]
    task = await rewind_harness.start(
        write("a", "1\n"),
        Turn(call("apply_diff", {"path": "own.log", "diff": "\n".join(blocks)})),
        Turn(call("apply_diff", {"path": "other.log", "diff": blocks[1]})),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    assert (rewind_harness.root / "own.log").read_text() == "new\n2\n"
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.unrestorable_files == (LeftFile("own.log", "ignored"),)


async def test_they_are_named_when_only_the_history_went_back_before(
    rewind_harness: RewindHarness,
) -> None:
    (rewind_harness.root / ".gitignore").write_text("*.log\n")
    task = await rewind_harness.start(
        write("a", "1\n"), write("x.log", "2\n"), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    first = tools(task)[0]
    await task.rewind(first)
    assert (await task.preview_rewind(first, files=True)).unrestorable_files == (
        LeftFile("x.log", "ignored"),
    )


async def test_a_file_that_is_too_large_is_named(rewind_harness: RewindHarness) -> None:
    task = await rewind_harness.start(
        write("a", "1\n"), write("big.txt", "x" * (11 * 1024 * 1024)), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert preview.unrestorable_files == (LeftFile("big.txt", "large"),)


async def test_each_file_of_a_patch_is_looked_at_and_a_failed_edit_is_none(
    rewind_harness: RewindHarness,
) -> None:
    (rewind_harness.root / ".gitignore").write_text("*.log\n")
    patch = "*** Begin Patch\n*** Add File: p.log\n+1\n*** Add File: q.txt\n+2\n*** End Patch"
    task = await rewind_harness.start(
        write("a", "1\n"),
        Turn(call("apply_patch", {"patch": patch})),
        Turn(call("apply_patch", {"patch": patch.replace("Add", "Bad")})),
        Turn(call("edit_file", {"file_path": "r.log", "old_string": "no", "new_string": "yes"})),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    preview = await task.preview_rewind(tools(task)[0], files=True)
    assert [each.path for each in preview.files] == ["q.txt"]
    assert preview.unrestorable_files == (LeftFile("p.log", "ignored"),)


async def test_a_checkpoint_that_is_brought_back_alone_tells_them_too(
    rewind_harness: RewindHarness,
) -> None:
    (rewind_harness.root / ".gitignore").write_text("*.log\n")
    task = await rewind_harness.start(
        write("a", "1\n"), write("x.log", "2\n"), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    checkpoint = task.recorder.projection.ledger.last_checkpoint
    assert checkpoint is not None
    assert (await preview_restore(task, checkpoint)).unrestorable_files == (
        LeftFile("x.log", "ignored"),
    )


async def test_behind_a_link_to_the_outside_it_is_outside(
    rewind_harness: RewindHarness, tmp_path: Path
) -> None:
    (tmp_path / "far").mkdir()
    (rewind_harness.root / "near").symlink_to(tmp_path / "far")
    task = await rewind_harness.start(
        write("a", "1\n"), write("near/x.txt", "2\n"), finish(), settings=WIDE, policy=Unattended()
    )
    await wait_for_ending(task)
    (left,) = (await task.preview_rewind(tools(task)[0], files=True)).unrestorable_files
    assert left.reason == "outside"
