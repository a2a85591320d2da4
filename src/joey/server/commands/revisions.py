"""Commands that change a task's history or files: rewind, edit, fork, checkpoints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from joey.core.events import CheckpointSaved
from joey.core.history.branch import find_live_branch
from joey.core.wire import commands as wire
from joey.engine.checkpoints import (
    find_checkpoint_seq,
    preview_restore,
    require_checkpoints,
    restore_checkpoint,
)
from joey.engine.engine import TaskOptions
from joey.errors import CheckpointError
from joey.server.commands.call import (
    AnyCall,
    CommandCall,
    make_argument_error,
    make_execution_error,
)

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def rewind_task(hub: ServerHub, call: CommandCall[wire.RewindTask]) -> wire.Revised:
    arguments = call.arguments
    task = await hub.load_task(hub.resolve_task_id(call))
    where = {"keep": arguments.keep, "files": arguments.files}
    if arguments.preview:
        changes = await task.preview_rewind(arguments.message_ts, **where)
    else:
        changes = await task.rewind(arguments.message_ts, **where, force=arguments.force)
    return wire.Revised(done=not arguments.preview, changes=changes)


async def undo_rewind(hub: ServerHub, call: CommandCall[wire.UndoRewind]) -> wire.Revised:
    task = await hub.load_task(hub.resolve_task_id(call))
    if call.arguments.preview:
        return wire.Revised(done=False, changes=await task.preview_undo())
    return wire.Revised(done=True, changes=await task.undo_rewind(force=call.arguments.force))


async def edit_message(hub: ServerHub, call: CommandCall[wire.EditMessage]) -> wire.Revised:
    arguments = call.arguments
    if not arguments.text.strip() and not arguments.images:
        raise make_argument_error("arguments.text", "there is nothing to say.")
    task = await hub.load_task(hub.resolve_task_id(call))
    changes = await task.edit(arguments.message_ts, arguments.text, arguments.images or ())
    return wire.Revised(done=True, changes=changes)


async def fork_task(hub: ServerHub, call: CommandCall[wire.ForkTask]) -> wire.Forked:
    arguments = call.arguments
    options = _build_profile_options(hub, arguments.profile)
    source = hub.resolve_task_id(call)
    task = await hub.fork_task(source, arguments.message_ts, keep=arguments.keep, options=options)
    if (arguments.text or "").strip() or arguments.images:
        await task.send(arguments.text or "", arguments.images or ())
    return wire.Forked(task_id=task.id)


def _build_profile_options(hub: ServerHub, name: str | None) -> TaskOptions:
    """Build options with another model; the directory stays that of the task."""
    if name is None:
        return TaskOptions()
    if name not in hub.services.config_store.load_profiles().profiles:
        raise make_argument_error("arguments.profile", f"there is no profile '{name}'.")
    options = hub.services.build_options(profile=name)
    return TaskOptions(profile=options.profile, route=options.route, settings=options.settings)


async def get_checkpoints(hub: ServerHub, call: AnyCall) -> wire.CheckpointList:
    task = hub.find_open_task(call)
    if task is None:
        path = find_live_branch(
            await asyncio.to_thread(hub.store.read_records, hub.resolve_task_id(call))
        )
    else:
        path = task.recorder.live_branch
    saved = [record.event for record in path if isinstance(record.event, CheckpointSaved)]
    checkpoints = msgspec.convert(saved, list[wire.CheckpointData], from_attributes=True)
    return wire.CheckpointList(checkpoints=checkpoints)


async def diff_checkpoint(hub: ServerHub, call: CommandCall[wire.DiffCheckpoint]) -> wire.FileDiffs:
    since, until = call.arguments.checkpoint, call.arguments.to
    task = await hub.load_task(hub.resolve_task_id(call))
    for checkpoint in filter(None, (since, until)):
        find_checkpoint_seq(task, checkpoint)
    try:
        return wire.FileDiffs(files=list(await require_checkpoints(task).diff(since, until)))
    except CheckpointError as error:
        raise make_execution_error(str(error)) from error


async def restore_files(hub: ServerHub, call: CommandCall[wire.RestoreCheckpoint]) -> wire.Revised:
    checkpoint = call.arguments.checkpoint
    task = await hub.load_task(hub.resolve_task_id(call))
    if call.arguments.preview:
        return wire.Revised(done=False, changes=await preview_restore(task, checkpoint))
    changes = await restore_checkpoint(task, checkpoint, force=call.arguments.force)
    return wire.Revised(done=True, changes=changes)
