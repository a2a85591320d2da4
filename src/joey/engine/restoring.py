"""Bringing back the files of a workspace, and what of other people's work that would undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import structs

from joey.core.events import CheckpointSaved, FilesRestored, Said
from joey.core.file_state import FileChange
from joey.core.rewind import RewindPreview, compare
from joey.engine.checkpoints import checkpoints_of
from joey.engine.foreign_changes import changed_by_others
from joey.engine.left_files import with_left_files
from joey.errors import CheckpointError, UserError

if TYPE_CHECKING:
    from joey.engine.task import Task

Kind = Literal["added", "changed", "removed"]

MOST_PATHS = 100
"""Files that the journal names one by one."""
MOST_NAMED = 10
_BACK: dict[Kind, Kind] = {"added": "removed", "removed": "added", "changed": "changed"}


async def keep_files(task: Task) -> str:
    """The files as they are now."""
    try:
        return await checkpoints_of(task).save(task.id)
    except CheckpointError as error:
        raise UserError(str(error)) from error


async def preview_restore(task: Task, checkpoint: str) -> RewindPreview:
    """What bringing back the files of a checkpoint, and nothing else, would change."""
    since = check_saved(task, checkpoint)
    path = task.recorder.path
    preview = await preview_files(task, compare(path, path), checkpoint)
    return await with_left_files(task, preview, since)


async def restore_checkpoint(task: Task, checkpoint: str, *, force: bool) -> RewindPreview:
    """Bring back the files of a checkpoint; the history stays."""
    check_saved(task, checkpoint)
    async with task.at_rest():
        preview = await preview_restore(task, checkpoint)
        refuse_conflicts(preview, force)
        last = task.recorder.facts.ledger.checkpoint
        saved = await keep_files(task)
        task.publish(CheckpointSaved(ts=task.now(), id=saved, before=last))
        await task.recorder.commit()
        try:
            await _restore(task, checkpoint, saved)
        except CheckpointError as error:
            raise UserError(str(error)) from error
        finally:
            await task.save()
        return preview


def check_saved(task: Task, checkpoint: str) -> int:
    """The record that tells of it last. Raises UserError: the task has no such checkpoint."""
    saved = {r.event.id: r.seq for r in task.bus.after(0) if isinstance(r.event, CheckpointSaved)}
    if checkpoint not in saved:
        raise UserError(f"There is no checkpoint {checkpoint!r} of task {task.id}.")
    return saved[checkpoint]


async def restore_due_files(task: Task) -> None:
    """What the latest rewind wants done to the files, unless it is done.

    Raises:
        CheckpointError
    """
    rewound = task.recorder.facts.restoring
    if rewound is not None and rewound.files is not None:
        await _restore(task, rewound.files, rewound.files_before)


async def finish_restoring(task: Task) -> None:
    """The same for a task whose process died before: it can be worked with in any case."""
    try:
        await restore_due_files(task)
    except CheckpointError as error:
        text = f"The history was rewound, but the files could not be brought back: {error}"
        told = (record.event for record in task.recorder.path)
        if not any(isinstance(event, Said) and event.text == text for event in told):
            task.publish(Said(ts=task.now(), say="error", text=text))


async def _restore(task: Task, checkpoint: str, before: str | None) -> None:
    checkpoints = task.bench.extras.checkpoints
    if checkpoints is None:
        raise CheckpointError("checkpoints are switched off.")
    changed = await checkpoints.restore(checkpoint, before)
    paths = tuple(each.path for each in changed[:MOST_PATHS])
    task.publish(FilesRestored(ts=task.now(), checkpoint=checkpoint, paths=paths))
    await task.recorder.commit()


# What would change


async def preview_files(task: Task, preview: RewindPreview, checkpoint: str) -> RewindPreview:
    """With what is done to the files."""
    checkpoints = checkpoints_of(task)
    try:
        differing = await checkpoints.changes(checkpoint)
        foreign = await changed_by_others(task, checkpoints, checkpoint) if differing else ()
    except CheckpointError as error:
        raise UserError(str(error)) from error
    if not differing:
        return preview
    files = tuple(FileChange(each.path, _BACK[each.kind]) for each in differing)
    conflicts = tuple(each.path for each in files if each.path in foreign)
    return structs.replace(preview, checkpoint=checkpoint, files=files, conflicts=conflicts)


def refuse_conflicts(preview: RewindPreview, force: bool) -> None:
    """Raises UserError."""
    if not preview.conflicts or force:
        return
    named = ", ".join(preview.conflicts[:MOST_NAMED])
    rest = len(preview.conflicts) - MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    raise UserError(
        f"Somebody else has changed files that would be brought back: {named}{more}. Nothing was"
        " changed. Force it to give up their changes; a checkpoint keeps them."
    )
