"""The same long task in a workspace whose files are kept: going back with them, or without.

Beside the task a user changes files. What must hold: the files of a row are those that the next
step found, whatever was rewound, undone or restored since, and nothing that a user wrote goes
without being named first.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from joey.core.events import CheckpointSaved
from joey.core.rewind import RewindPreview
from joey.engine.checkpoints import restore_checkpoint
from joey.errors import UserError
from joey.testing.script import Call, Turn, call
from tests.harness.engine.engine_harness import list_durable_events
from tests.harness.engine.long_task import STEPS, LongTask, TaskSnapshot, check_same, survive
from tests.harness.engine.rewind_harness import RewindHarness

FILE_STEPS = max(60, STEPS // 10)
"""They cost more: git looks at the files in most of them."""


def write(path: str, text: str) -> Call:
    return call("write_to_file", {"path": path, "content": text})


def put(path: str, text: str) -> Call:
    return _command(f"mkdir -p d; echo {text} > {path}")


def remove(path: str) -> Call:
    return _command(f"rm -f {path}")


def _command(line: str) -> Call:
    return call("execute_command", {"command": line})


NAMES = st.sampled_from(["b.txt", "c.txt", "d/e.txt"])
TEXTS = st.sampled_from(["one", "two", "three"])
CHANGES = st.one_of(
    st.builds(write, NAMES, TEXTS),
    st.builds(put, NAMES, TEXTS),
    st.builds(remove, NAMES),
    st.just(call("new_task", {"mode": "code", "message": "a part of it"})),
    st.just(call("read_file", {"path": "a.txt"})),
)


class KeptTask(LongTask):
    def __init__(self) -> None:
        super().__init__()
        kept = self.directory / "kept"
        kept.mkdir()
        self.harness = RewindHarness(kept)
        (self.harness.root / "a.txt").write_text("a word\n" * 50)
        self.harness.provider = self.model
        self.files: dict[int, dict[str, str]] = {}
        """By the row that was the last one when the task rested, as far as they are kept."""
        self.recent: set[int] = set()
        """Such rows since the files were last kept."""
        self.kept = 0
        self.is_kept = True
        self.restored: list[dict[str, str] | None] = []
        """What undoing brings back; None: the files stay."""
        self.written: set[str] = set()
        """What the user wrote into files; nobody else writes that."""
        self.touched: set[str] = set()
        """The files that they changed."""

    @property
    def disk(self) -> dict[str, str]:
        found = (path for path in self.harness.root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.harness.root)): path.read_text() for path in sorted(found)
        }

    @property
    def checkpoints(self) -> list[str]:
        return [
            event.id
            for event in list_durable_events(self.task)
            if isinstance(event, CheckpointSaved)
        ]

    @rule(replies=st.lists(st.lists(CHANGES, min_size=1, max_size=3), min_size=1, max_size=2))
    def change_files(self, replies: list[list[Call]]) -> None:
        self.model.planned = [Turn(*calls) for calls in replies]
        self.do(self.task.send(self.next_message()))
        self.rest()

    @rule(path=NAMES, gone=st.booleans())
    def change_by_hand(self, path: str, gone: bool) -> None:
        place = self.harness.root / path
        if gone:
            place.unlink(missing_ok=True)
        else:
            place.parent.mkdir(exist_ok=True)
            place.write_text(f"by hand {len(self.written)}\n")
            self.written.add(place.read_text())
        self.touched.add(path)
        self.files.update((ts, self.disk) for ts in self.recent)
        self.is_kept = False

    @rule(data=st.data())
    def rewind_with_files(self, data: st.DataObject) -> None:
        look, disk = TaskSnapshot.take(self.task), self.disk
        ts = data.draw(st.sampled_from(self.stamps))
        preview = self.do(self.task.preview_rewind(ts, files=True))
        self.check_conflicts(preview)
        if preview.conflicting_paths:
            with pytest.raises(UserError, match="modified outside joey"):
                self.do(self.task.rewind(ts, files=True))
        assert (TaskSnapshot.take(self.task), self.disk) == (look, disk)
        assert self.do(self.task.rewind(ts, files=True, force=True)) == preview
        assert _changed(disk, self.disk) == {each.path for each in preview.files}
        if ts in self.snapshots:
            check_same(TaskSnapshot.take(self.task), self.snapshots[ts])
        assert self.disk == self.files.get(ts, self.disk)
        self.undoable.append(look)
        self.restored.append(disk if preview.target_checkpoint is not None else None)
        self.lose_sight()

    def check_conflicts(self, preview: RewindPreview) -> None:
        """A file is theirs as long as it is as they wrote it."""
        changed = {each.path for each in preview.files}
        theirs = {path for path, text in self.disk.items() if text in self.written}
        assert set(preview.conflicting_paths) <= changed & self.touched
        assert changed & theirs <= set(preview.conflicting_paths)

    @rule(data=st.data())
    def restore_files_alone(self, data: st.DataObject) -> None:
        """It is a step of its own: what came before it keeps its files."""
        if self.checkpoints:
            chosen = data.draw(st.sampled_from(self.checkpoints))
            self.snapshots.pop(self.stamps[-1], None)  # the row of the checkpoint belongs to it now
            self.do(restore_checkpoint(self.task, chosen, force=True))
            self.record_snapshot()

    def lose_sight(self) -> None:
        """Nobody keeps the files of rows that are left, if a user has changed them since."""
        if not self.is_kept:
            for ts in self.recent:
                self.files.pop(ts, None)
        self.recent.clear()

    # What a long task does anyway

    def record_snapshot(self) -> None:
        super().record_snapshot()
        kept = len(self.checkpoints)
        if kept != self.kept:
            self.kept, self.is_kept = kept, True
            self.recent.clear()
        self.recent.add(self.stamps[-1])
        self.files[self.stamps[-1]] = self.disk
        self.restored.clear()

    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        disk = self.disk
        super().rewind(data)
        assert self.disk == disk
        self.restored.append(None)
        self.lose_sight()

    @precondition(lambda self: bool(self.undoable))
    @rule()
    def undo(self) -> None:
        disk, before = self.disk, self.restored.pop()
        self.do(self.task.undo_rewind(force=True))
        check_same(TaskSnapshot.take(self.task), self.undoable.pop())
        assert self.disk == (disk if before is None else before)
        self.lose_sight()


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


@pytest.mark.contract("rewind:files")
@pytest.mark.timeout(300 + STEPS // 5)
def test_the_files_survive_with_their_task() -> None:
    survive(KeptTask, FILE_STEPS)
