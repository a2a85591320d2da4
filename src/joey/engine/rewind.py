"""Rewinding a task to an earlier row, with or without its files.

    1. the run is stopped, if there is one
    2. with files: changes by others are looked for, and the current files are saved
    3. the journal records where the history continues from
    4. the files are restored
    5. the journal records that, and the history files are rewritten

The process may die between any two steps. Until 3 nothing has changed; after it the history is the
earlier one, and opening the task again does 4 and 5, which may be done twice.

Nothing is lost: the abandoned records stay in the journal, the files are in a checkpoint, and undo
is a rewind to the record before. Spent money stays spent, and queued messages stay queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from joey.core.events import CheckpointSaved, FilesRestored, Record, TaskRewound, UserMessage
from joey.core.history.branch import find_checkpoint_at, find_cut_point, find_live_branch
from joey.core.messages import replace_lone_surrogates
from joey.core.rewind import RewindPreview, build_rewind_preview, find_user_row, get_ts
from joey.engine.checkpoints import (
    InterruptedCalls,
    checkpoints_of,
    keep_files,
    preview_files,
    refuse_conflicts,
    restore_due_files,
    with_left_files,
)
from joey.engine.run_start import RunStart
from joey.errors import CheckpointError, TaskStateError, UserError

if TYPE_CHECKING:
    from joey.engine.task import Task


class RewindTarget(Struct, frozen=True):
    """Where the history shall go on from."""

    to: int
    row_ts: int | None
    checkpoint: str | None = None
    """What the files shall be brought back to."""
    files_since: int | None = None
    """Where files shall come along: the record after which they were changed."""
    undo: bool = False


async def preview_rewind(task: Task, row_ts: int, *, keep: bool, files: bool) -> RewindPreview:
    return await _preview(task, _target(task, row_ts, keep=keep, files=files))


async def rewind(
    task: Task, row_ts: int, *, keep: bool, files: bool, force: bool = False
) -> RewindPreview:
    if (
        row_ts not in task.recorder.ui.open_row_timestamps
    ):  # its reply is written down when it is stopped
        _target(task, row_ts, keep=keep, files=files)  # nothing is stopped for a wrong number

    async def go() -> RewindPreview:
        async with task.at_rest():
            return await _go_back(task, _target(task, row_ts, keep=keep, files=files), force)

    return await _to_its_end(go())


async def _to_its_end(work: Coroutine[Any, Any, RewindPreview]) -> RewindPreview:
    """Also when whoever asked for it gives up waiting: half of it is not what anybody wants."""
    return await asyncio.shield(asyncio.ensure_future(work))


async def preview_undo(task: Task) -> RewindPreview:
    return await _preview(task, _undoing(task))


async def undo_rewind(task: Task, *, force: bool) -> RewindPreview:
    _undoing(task)

    async def go() -> RewindPreview:
        async with task.at_rest():
            return await _go_back(task, _undoing(task), force)

    return await _to_its_end(go())


async def edit(task: Task, row_ts: int, text: str, images: tuple[str, ...]) -> RewindPreview:
    said = find_user_row(task.rows, row_ts)
    if said is None:
        raise _no_such_row(task, row_ts)
    if said != get_ts(task.rows[0]):
        preview = await rewind(task, said, keep=False, files=False)
        await task.send(text, images)
        return preview
    parent = task.recorder.facts.parent_id
    if parent is not None:
        raise UserError(
            f"Task {task.id} was given its first message by task {parent}; only that one can say"
            " it in another way."
        )
    async with task.at_rest():
        first = RewindTarget(to=task.recorder.path[0].seq, row_ts=0)
        preview = await _go_back(task, first, force=False)
        message = UserMessage(
            ts=task.now(), text=replace_lone_surrogates(text), images=images, is_first=True
        )
        task.publish(message)
        await task.recorder.commit()
    if not task.is_running:
        task.start(RunStart.NEW)
    return preview


# Where to go


def _target(task: Task, row_ts: int, *, keep: bool, files: bool) -> RewindTarget:
    if row_ts not in [get_ts(row) for row in task.rows]:
        raise _no_such_row(task, row_ts)
    try:
        cut = find_cut_point(task.recorder.path, row_ts, keep=keep)
    except TaskStateError as error:
        raise UserError(
            f"The first message of task {task.id} cannot be taken back: nothing would be left."
            " Edit it, or begin another task."
        ) from error
    checkpoint = _checkpoint(task, cut.last_seq) if files else None
    since = _moment(task, cut.last_seq) if files else None
    return RewindTarget(cut.last_seq, cut.last_row_ts, checkpoint, since)


def _no_such_row(task: Task, row_ts: int) -> UserError:
    return UserError(
        f"There is no message {row_ts} in this task; `joey tasks show {task.id} --rows` lists them."
    )


def _undoing(task: Task) -> RewindTarget:
    """Before the latest rewind that was not taken back; where all were, the last undo goes."""
    rewinds = [(r.seq, r.event) for r in task.recorder.path if isinstance(r.event, TaskRewound)]
    if not rewinds:
        raise UserError(f"Task {task.id} was not rewound, so there is nothing to undo.")
    not_undone = [(seq, rewound) for seq, rewound in rewinds if not rewound.is_undo]
    seq, rewound = (not_undone or rewinds)[-1]
    if rewound.files_checkpoint is None:
        return RewindTarget(seq - 1, None, undo=True)
    return RewindTarget(seq - 1, None, rewound.files_checkpoint_before, seq, undo=True)


def _checkpoint(task: Task, to: int) -> str | None:
    """The files as they were at that record; None when they still are, as far as is known."""
    checkpoints_of(task)
    at, journal = _moment(task, to), task.bus.after(0)
    later = (r.event.id for r in journal if r.seq > at and isinstance(r.event, CheckpointSaved))
    found = find_checkpoint_at(task.recorder.path, at, journal) or next(later, None)
    are_known = not InterruptedCalls(task).at_last
    return None if are_known and found == task.recorder.facts.ledger.last_checkpoint else found


def _moment(task: Task, to: int) -> int:
    """This record, or the one before the rewinds that it ends."""
    path = [record for record in task.recorder.path if record.seq <= to]
    while isinstance(path[-1].event, TaskRewound | FilesRestored):
        path.pop()
    return path[-1].seq


# Going


async def _preview(task: Task, target: RewindTarget) -> RewindPreview:
    going = TaskRewound(ts=0, to_seq=target.to, last_row_ts=target.row_ts)
    after = find_live_branch([*task.bus.after(0), Record(task.seq + 1, going)])
    preview = build_rewind_preview(task.recorder.path, after)
    loses = task.granted.loses_edits(task.id, after, with_subtasks=bool(preview.detached_subtasks))
    preview = structs.replace(preview, revokes_edit_grant=loses)
    if target.checkpoint is not None:
        preview = await preview_files(task, preview, target.checkpoint)
    if target.files_since is None:
        return preview
    return await with_left_files(task, preview, target.files_since)


async def _go_back(task: Task, target: RewindTarget, force: bool) -> RewindPreview:
    preview = await _preview(task, target)
    refuse_conflicts(preview, force)
    before = await keep_files(task) if preview.checkpoint is not None else None
    task.publish(
        TaskRewound(
            ts=task.now(),
            to_seq=target.to,
            last_row_ts=target.row_ts,
            files_checkpoint=preview.checkpoint,
            files_checkpoint_before=before,
            is_undo=target.undo,
        )
    )
    await task.recorder.commit()
    task.runtime.memory.clear()
    if preview.revokes_edit_grant:
        task.granted.withdraw_edits()
    try:
        await restore_due_files(task)
    except CheckpointError as error:
        raise UserError(
            f"The history was rewound, but the files could not be brought back: {error}"
        ) from error
    finally:
        await task.save()
    return preview
