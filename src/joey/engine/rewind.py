"""Rewinding a task to an earlier row, with or without its files.

    1. the run is stopped, if there is one
    2. with files: changes by others are looked for, and the current files are saved
    3. the journal records where the history continues from
    4. the files are restored
    5. the journal records that, and the history files are rewritten

The process may die between any two steps. Until 3 nothing has changed; after it the history is the
earlier one, and opening the task again performs 4 and 5, which are idempotent.

Nothing is lost: the abandoned records stay in the journal, the files are in a checkpoint, and undo
is a rewind to the record before. Spent money stays spent, and queued messages stay queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.events import CheckpointSaved, FilesRestored, Record, TaskRewound, UserMessage
from joey.core.history.branch import find_checkpoint_at, find_cut_point, find_live_branch
from joey.core.history.ui import get_ts
from joey.core.messages import replace_lone_surrogates
from joey.core.rewind import RewindPreview, build_rewind_preview, find_user_row_ts
from joey.engine import checkpoints
from joey.engine.run_start import RunStart
from joey.errors import CheckpointError, TaskStateError, UserError

if TYPE_CHECKING:
    from joey.engine.task import Task


class RewindTarget(Struct, frozen=True):
    """Where the history continues from."""

    to_seq: int
    last_row_ts: int | None
    checkpoint: str | None = None
    """What the files shall be brought back to."""
    files_since_seq: int | None = None
    """Where files shall come along: the record after which they were changed."""
    is_undo: bool = False


async def preview_rewind(
    task: Task, row_ts: int, *, keep: bool = True, files: bool = False
) -> RewindPreview:
    """Preview what `rewind` would change. Raises UserError."""
    return await _build_preview(task, _find_target(task, row_ts, keep=keep, files=files))


async def rewind(
    task: Task, row_ts: int, *, keep: bool = True, files: bool = False, force: bool = False
) -> RewindPreview:
    """Rewind so that this row is the last one or, with `keep` false, the first one removed; with
    `files`, restore the files of that time too. A running task is stopped first. Raises UserError
    if there is no such row, or others changed the files (unless `force`)."""
    find_target = partial(_find_target, task, row_ts, keep=keep, files=files)
    # The reply of an open row is committed when it is stopped.
    if row_ts not in task.recorder.ui_history.open_row_timestamps:
        find_target()  # do not stop anything for an invalid number
    return await _stop_and_rewind(task, find_target, force)


async def preview_undo(task: Task) -> RewindPreview:
    """Preview what `undo_rewind` would change; everything after the rewind is removed."""
    return await _build_preview(task, _find_undo_target(task))


async def undo_rewind(task: Task, *, force: bool = False) -> RewindPreview:
    """Undo the latest rewind, with its files; if all are undone, undo the last undo. Raises
    UserError if there is nothing to undo, or others changed the files."""
    _find_undo_target(task)
    return await _stop_and_rewind(task, partial(_find_undo_target, task), force)


async def _stop_and_rewind(
    task: Task, find_target: Callable[[], RewindTarget], force: bool
) -> RewindPreview:
    async def go() -> RewindPreview:
        async with task.stop_for_revision():
            return await _apply_rewind(task, find_target(), force)

    # Completed even if the caller is cancelled: it must not stop half-way.
    return await asyncio.shield(asyncio.ensure_future(go()))


async def edit_message(
    task: Task, row_ts: int, text: str, images: tuple[str, ...] = ()
) -> RewindPreview:
    """Replace the user's message at a row, or the nearest one before it, and continue. Raises
    UserError."""
    message_ts = find_user_row_ts(task.rows, row_ts)
    if message_ts is None:
        raise _build_missing_row_error(task, row_ts)
    if message_ts != get_ts(task.rows[0]):
        preview = await rewind(task, message_ts, keep=False, files=False)
        await task.send(text, images)
        return preview
    parent = task.recorder.projection.parent_id
    if parent is not None:
        raise UserError(
            f"Task {task.id} was given its first message by task {parent}; only that one can say"
            " it in another way."
        )
    async with task.stop_for_revision():
        first = RewindTarget(to_seq=task.recorder.live_branch[0].seq, last_row_ts=0)
        preview = await _apply_rewind(task, first, force=False)
        message = UserMessage(
            ts=task.next_ts(), text=replace_lone_surrogates(text), images=images, is_first=True
        )
        task.publish(message)
        await task.recorder.commit()
    if not task.is_running:
        task.start(RunStart.NEW)
    return preview


# Where to go


def _find_target(task: Task, row_ts: int, *, keep: bool, files: bool) -> RewindTarget:
    if row_ts not in [get_ts(row) for row in task.rows]:
        raise _build_missing_row_error(task, row_ts)
    try:
        cut = find_cut_point(task.recorder.live_branch, row_ts, keep=keep)
    except TaskStateError as error:
        raise UserError(
            f"The first message of task {task.id} cannot be removed: nothing would be left."
            " Edit it, or start another task."
        ) from error
    checkpoint = _find_target_checkpoint(task, cut.last_seq) if files else None
    since = _find_seq_before_rewinds(task, cut.last_seq) if files else None
    return RewindTarget(cut.last_seq, cut.last_row_ts, checkpoint, since)


def _build_missing_row_error(task: Task, row_ts: int) -> UserError:
    return UserError(
        f"There is no message {row_ts} in this task; `joey tasks show {task.id} --rows` lists them."
    )


def _find_undo_target(task: Task) -> RewindTarget:
    """Find the record before the latest rewind that was not undone; if all were, undo the last
    undo."""
    rewinds = [
        (r.seq, r.event) for r in task.recorder.live_branch if isinstance(r.event, TaskRewound)
    ]
    if not rewinds:
        raise UserError(f"Task {task.id} was not rewound, so there is nothing to undo.")
    not_undone = [(seq, rewound) for seq, rewound in rewinds if not rewound.is_undo]
    seq, rewound = (not_undone or rewinds)[-1]
    if rewound.files_checkpoint is None:
        return RewindTarget(seq - 1, None, is_undo=True)
    return RewindTarget(seq - 1, None, rewound.files_checkpoint_before, seq, is_undo=True)


def _find_target_checkpoint(task: Task, to: int) -> str | None:
    """Find the files as of that record; None if they are unchanged, as far as known."""
    checkpoints.require_checkpoints(task)
    at, journal = _find_seq_before_rewinds(task, to), task.bus.list_records_after(0)
    later = (r.event.id for r in journal if r.seq > at and isinstance(r.event, CheckpointSaved))
    found = find_checkpoint_at(task.recorder.live_branch, at, journal) or next(later, None)
    are_known = not checkpoints.InterruptedCalls(task).unsaved_paths
    return None if are_known and found == task.recorder.projection.ledger.last_checkpoint else found


def _find_seq_before_rewinds(task: Task, to: int) -> int:
    """Return this record, or the one before the rewinds that it ends."""
    path = [record for record in task.recorder.live_branch if record.seq <= to]
    while isinstance(path[-1].event, TaskRewound | FilesRestored):
        path.pop()
    return path[-1].seq


# Going


async def _build_preview(task: Task, target: RewindTarget) -> RewindPreview:
    rewound = TaskRewound(ts=0, to_seq=target.to_seq, last_row_ts=target.last_row_ts)
    after = find_live_branch([*task.bus.list_records_after(0), Record(task.seq + 1, rewound)])
    preview = build_rewind_preview(task.recorder.live_branch, after)
    loses_grant = task.grants.would_lose_edit_grant(
        task.id, after, with_subtasks=bool(preview.detached_subtasks)
    )
    preview = structs.replace(preview, revokes_edit_grant=loses_grant)
    if target.checkpoint is not None:
        preview = await checkpoints.add_file_changes(task, preview, target.checkpoint)
    if target.files_since_seq is None:
        return preview
    return await checkpoints.add_unrestorable_files(task, preview, target.files_since_seq)


async def _apply_rewind(task: Task, target: RewindTarget, force: bool) -> RewindPreview:
    preview = await _build_preview(task, target)
    checkpoints.check_conflicts(preview, force)
    before = (
        await checkpoints.save_checkpoint(task) if preview.target_checkpoint is not None else None
    )
    task.publish(
        TaskRewound(
            ts=task.next_ts(),
            to_seq=target.to_seq,
            last_row_ts=target.last_row_ts,
            files_checkpoint=preview.target_checkpoint,
            files_checkpoint_before=before,
            is_undo=target.is_undo,
        )
    )
    await task.recorder.commit()
    task.runtime.read_tracker.clear()
    if preview.revokes_edit_grant:
        task.grants.revoke_edits()
    try:
        await checkpoints.restore_rewound_files(task)
    except CheckpointError as error:
        raise UserError(
            f"The history was rewound, but the files could not be restored: {error}"
        ) from error
    finally:
        await task.save()
    return preview
