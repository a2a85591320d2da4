"""Commands that start, resume, cancel, close and delete tasks, or end their processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from joey.core.settings import Limits
from joey.core.wire import commands as wire
from joey.core.wire.events import Empty
from joey.engine.engine import TaskOptions
from joey.errors import ConfigError, TaskNotFoundError, WorkspaceError
from joey.ports.execution import RunningCommand
from joey.server.commands.call import (
    AnyCall,
    CommandCall,
    make_argument_error,
    make_execution_error,
    make_not_found_error,
)

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def start_new_task(
    hub: ServerHub, call: CommandCall[wire.StartNewTask]
) -> wire.TaskStartedData:
    arguments = call.arguments
    text, images = arguments.text or "", arguments.images or ()
    if not text.strip() and not images:
        raise make_argument_error("arguments.text", "say what is to be done.")
    workspace = Path(arguments.workspace) if arguments.workspace else None
    try:
        options = hub.services.build_options(
            workspace=workspace,
            mode=arguments.mode,
            profile=arguments.profile,
            configuration=arguments.configuration,
            limits=arguments.limits or Limits(),
        )
    except WorkspaceError as error:
        raise make_argument_error("arguments.workspace", str(error)) from error
    except ConfigError as error:
        given = {"mode": arguments.mode, "profile": arguments.profile}
        if error.value and given.get(error.field) == error.value:
            raise make_argument_error(f"arguments.{error.field}", str(error)) from error
        if not arguments.configuration and arguments.limits is None:
            raise
        raise make_argument_error("arguments.configuration", str(error)) from error
    task_id = None if arguments.task_id is UNSET else arguments.task_id
    task = await hub.start_task(text, images, options, task_id)
    return wire.TaskStartedData(task_id=task.id)


async def resume_task(hub: ServerHub, call: CommandCall[wire.ResumeTask]) -> None:
    task_id = hub.resolve_task_id(call)
    options = None
    if call.arguments.configuration:
        options = await _release_and_build_resume_options(
            hub, task_id, call.arguments.configuration
        )
    await hub.resume_task(task_id, options=options)


async def _release_and_build_resume_options(
    hub: ServerHub, task_id: str, configuration: dict[str, Any]
) -> TaskOptions:
    """Build options for a task with other settings; a task that is open here is closed first."""
    known = await asyncio.to_thread(hub.engine.history)
    metadata = next((task for task in known if task.id == task_id), None)
    if metadata is None:
        raise make_not_found_error(task_id)
    task = hub.engine.find_open_task(task_id)
    if task is not None and task.is_running:
        raise make_execution_error(
            f"Task '{task_id}' is at work: cancel it before you change its configuration."
        )
    try:
        options = hub.services.build_resume_options(
            metadata, hub.engine.store.load_secrets(task_id), configuration
        )
    except ConfigError as error:
        raise make_argument_error("arguments.configuration", str(error)) from error
    if task is not None:
        await hub.release_task(task)
    return options


async def cancel_task(hub: ServerHub, call: AnyCall) -> None:
    task_id = hub.resolve_task_id(call)
    if task := hub.engine.find_open_task(task_id):
        await task.cancel()
    else:
        await check_task_exists(hub, task_id)


async def cancel_current_task(hub: ServerHub, call: AnyCall) -> None:
    if call.task_id is not None or hub.current_task is not None:
        await cancel_task(hub, call)


async def clear_current_task(hub: ServerHub, call: AnyCall) -> None:
    if call.task_id is None and hub.current_task is None:
        return
    task_id = hub.resolve_task_id(call)
    if task := hub.engine.find_open_task(task_id):
        await hub.release_task(task)
    else:
        await check_task_exists(hub, task_id)


async def get_current_task_stack(hub: ServerHub, call: AnyCall) -> wire.TaskStack:
    """Return the current task below its parents."""
    stack: list[str] = []
    task = hub.current_task
    while task is not None and task.id not in stack:
        stack.insert(0, task.id)
        parent = task.recorder.projection.parent_id
        task = hub.engine.find_open_task(parent) if parent else None
    return wire.TaskStack(task_stack=stack)


async def delete_task(hub: ServerHub, call: AnyCall) -> None:
    task_id = hub.resolve_task_id(call)
    if task := hub.engine.find_open_task(task_id):
        await hub.release_task(task)
    try:
        await asyncio.to_thread(hub.store.delete, task_id)
    except TaskNotFoundError as error:
        raise make_not_found_error(task_id) from error
    await hub.services.remove_task_worktree(task_id)
    hub.announce("taskDeleted", Empty(), task_id)


async def is_ready(hub: ServerHub, call: AnyCall) -> wire.Ready:
    return wire.Ready(ready=hub.is_ready)


async def ping(hub: ServerHub, call: AnyCall) -> wire.Pong:
    return wire.Pong(pong=time.time_ns() // 1_000_000)


async def is_known_task(hub: ServerHub, task_id: str) -> bool:
    if hub.engine.find_open_task(task_id) is not None:
        return True
    return any(task.id == task_id for task in await asyncio.to_thread(hub.engine.history))


async def check_task_exists(hub: ServerHub, task_id: str) -> None:
    if not await is_known_task(hub, task_id):
        raise make_not_found_error(task_id)


async def get_processes(hub: ServerHub, call: AnyCall) -> wire.Processes:
    return wire.Processes(
        processes=[
            wire.ProcessInfo(
                task_id=task_id,
                pid=running.pid,
                command=running.command,
                cwd=str(running.cwd),
                running=running.exit is None,
            )
            for task_id, running in _iter_background_commands(hub, call)
        ]
    )


async def kill_process(hub: ServerHub, call: CommandCall[wire.KillProcess]) -> None:
    for _, running in _iter_background_commands(hub, call):
        if running.pid == call.arguments.pid:
            await running.kill()
            return
    raise make_execution_error(f"No task has left a process {call.arguments.pid} running.")


def _iter_background_commands(
    hub: ServerHub, call: AnyCall
) -> Iterator[tuple[str, RunningCommand]]:
    if call.task_id is not None and hub.engine.find_open_task(call.task_id) is None:
        raise make_not_found_error(call.task_id)
    for task in hub.engine.tasks:
        if call.task_id in (None, task.id):
            for running in task.runtime.terminal.background_commands:
                yield task.id, running
