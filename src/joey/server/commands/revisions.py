"""Commands that change a task's history or files: rewind, edit, fork, checkpoints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.events import CheckpointSaved
from joey.core.history.branch import find_live_branch
from joey.core.wire.commands import (
    CheckpointData,
    CheckpointList,
    DiffCheckpoint,
    EditMessage,
    FileDiffs,
    Forked,
    ForkTask,
    RestoreCheckpoint,
    Revised,
    RewindTask,
    UndoRewind,
)
from joey.engine.checkpoints import (
    find_checkpoint_seq,
    preview_restore,
    require_checkpoints,
    restore_checkpoint,
)
from joey.engine.engine import TaskOptions
from joey.errors import CheckpointError
from joey.server.commands.call import CommandCall, failed, invalid

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def rewind_task(hub: ServerHub, call: CommandCall) -> Revised:
    asked: RewindTask = call.arguments
    task = await hub.open(hub.task_id(call))
    where = {"keep": asked.keep, "files": asked.files}
    if asked.preview:
        return Revised(done=False, changes=await task.preview_rewind(asked.message_ts, **where))
    changes = await task.rewind(asked.message_ts, **where, force=asked.force)
    return Revised(done=True, changes=changes)


async def undo_rewind(hub: ServerHub, call: CommandCall) -> Revised:
    asked: UndoRewind = call.arguments
    task = await hub.open(hub.task_id(call))
    if asked.preview:
        return Revised(done=False, changes=await task.preview_undo())
    return Revised(done=True, changes=await task.undo_rewind(force=asked.force))


async def edit_message(hub: ServerHub, call: CommandCall) -> Revised:
    asked: EditMessage = call.arguments
    if not asked.text.strip() and not asked.images:
        raise invalid("arguments.text", "there is nothing to say.")
    task = await hub.open(hub.task_id(call))
    changes = await task.edit(asked.message_ts, asked.text, asked.images or ())
    return Revised(done=True, changes=changes)


async def fork_task(hub: ServerHub, call: CommandCall) -> Forked:
    asked: ForkTask = call.arguments
    options = _with_profile(hub, asked.profile)
    source = hub.task_id(call)
    task = await hub.fork(source, asked.message_ts, keep=asked.keep, options=options)
    if (asked.text or "").strip() or asked.images:
        await task.send(asked.text or "", asked.images or ())
    return Forked(task_id=task.id)


def _with_profile(hub: ServerHub, name: str | None) -> TaskOptions:
    """Another model; the folder stays that of the task."""
    if name is None:
        return TaskOptions()
    if name not in hub.setup.preferences.load_profiles().profiles:
        raise invalid("arguments.profile", f"there is no profile '{name}'.")
    options = hub.setup.build_options(profile=name)
    return structs.replace(options, workspace=None, protocol=None)


async def get_checkpoints(hub: ServerHub, call: CommandCall) -> CheckpointList:
    task = hub.open_task(call)
    if task is None:
        path = find_live_branch(await asyncio.to_thread(hub.store.read_records, hub.task_id(call)))
    else:
        path = task.recorder.live_branch
    saved = (record.event for record in path if isinstance(record.event, CheckpointSaved))
    return CheckpointList(
        checkpoints=[
            CheckpointData(
                id=each.id,
                ts=each.ts,
                is_own_change=each.is_own_change,
                previous_id=each.previous_id,
            )
            for each in saved
        ]
    )


async def diff_checkpoint(hub: ServerHub, call: CommandCall) -> FileDiffs:
    asked: DiffCheckpoint = call.arguments
    task = await hub.open(hub.task_id(call))
    for checkpoint in filter(None, (asked.checkpoint, asked.to)):
        find_checkpoint_seq(task, checkpoint)
    try:
        return FileDiffs(
            files=list(await require_checkpoints(task).diff(asked.checkpoint, asked.to))
        )
    except CheckpointError as error:
        raise failed(str(error)) from error


async def restore_files(hub: ServerHub, call: CommandCall) -> Revised:
    asked: RestoreCheckpoint = call.arguments
    task = await hub.open(hub.task_id(call))
    if asked.preview:
        return Revised(done=False, changes=await preview_restore(task, asked.checkpoint))
    changes = await restore_checkpoint(task, asked.checkpoint, force=asked.force)
    return Revised(done=True, changes=changes)


HANDLERS = {
    "rewindTask": rewind_task,
    "undoRewind": undo_rewind,
    "editMessage": edit_message,
    "forkTask": fork_task,
    "getCheckpoints": get_checkpoints,
    "diffCheckpoint": diff_checkpoint,
    "restoreCheckpoint": restore_files,
}
