"""Commands that start, resume, cancel, close and delete tasks, or end their processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from joey.core.settings import Limits
from joey.core.wire.commands import (
    Done,
    KillProcess,
    Pong,
    Processes,
    ProcessInfo,
    Ready,
    ResumeTask,
    StartNewTask,
    TaskStack,
    TaskStartedData,
)
from joey.core.wire.events import Empty
from joey.engine.engine import TaskOptions
from joey.errors import ConfigError, TaskNotFoundError, WorkspaceError
from joey.ports import RunningCommand
from joey.server.commands.call import CommandCall, failed, invalid, not_found

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def start_new_task(hub: ServerHub, call: CommandCall) -> TaskStartedData:
    asked: StartNewTask = call.arguments
    text, images = asked.text or "", asked.images or ()
    if not text.strip() and not images:
        raise invalid("arguments.text", "say what is to be done.")
    workspace = Path(asked.workspace) if asked.workspace else None
    known = hub.setup.preferences.load_profiles().profiles
    if asked.profile is not None and asked.profile not in known:
        raise invalid("arguments.profile", f"there is no profile '{asked.profile}'.")
    try:
        if asked.mode is not None:
            modes = await asyncio.to_thread(hub.setup.list_modes, workspace)
            if asked.mode not in {mode.slug for mode in modes}:
                raise invalid("arguments.mode", f"there is no mode '{asked.mode}'.")
        options = hub.setup.build_options(
            workspace=workspace,
            mode=asked.mode,
            profile=asked.profile,
            configuration=asked.configuration,
            limits=asked.limits or Limits(),
        )
    except WorkspaceError as error:
        raise invalid("arguments.workspace", str(error)) from error
    except ConfigError as error:
        if not asked.configuration and asked.limits is None:
            raise
        raise invalid("arguments.configuration", str(error)) from error
    task_id = None if asked.task_id is UNSET else asked.task_id
    task = await hub.start(text, images, options, task_id)
    return TaskStartedData(task_id=task.id)


async def resume_task(hub: ServerHub, call: CommandCall) -> Done:
    asked: ResumeTask = call.arguments
    task_id = hub.task_id(call)
    options = None
    if asked.configuration:
        options = await _reconfigured(hub, task_id, asked.configuration)
    await hub.resume(task_id, options=options)
    return Done()


async def _reconfigured(hub: ServerHub, task_id: str, configuration: dict[str, Any]) -> TaskOptions:
    """Options for a task with other settings; one that is open here is closed for it."""
    known = await asyncio.to_thread(hub.engine.history)
    metadata = next((task for task in known if task.id == task_id), None)
    if metadata is None:
        raise not_found(task_id)
    task = hub.engine.find_open_task(task_id)
    if task is not None and task.is_running:
        raise failed(f"Task '{task_id}' is at work: cancel it before you change its configuration.")
    try:
        options = hub.setup.build_resume_options(
            metadata, hub.engine.load_secrets(task_id), configuration
        )
    except ConfigError as error:
        raise invalid("arguments.configuration", str(error)) from error
    if task is not None:
        await hub.release(task)
    return options


async def cancel_task(hub: ServerHub, call: CommandCall) -> Done:
    task_id = hub.task_id(call)
    task = hub.engine.find_open_task(task_id)
    if task is None and not await is_known(hub, task_id):
        raise not_found(task_id)
    if task is not None:
        await task.cancel()
    return Done()


async def cancel_current_task(hub: ServerHub, call: CommandCall) -> Done:
    if call.task_id is None and hub.current is None:
        return Done()
    return await cancel_task(hub, call)


async def clear_current_task(hub: ServerHub, call: CommandCall) -> Done:
    if call.task_id is None and hub.current is None:
        return Done()
    task_id = hub.task_id(call)
    if task := hub.engine.find_open_task(task_id):
        await hub.release(task)
    elif not await is_known(hub, task_id):
        raise not_found(task_id)
    return Done()


async def get_current_task_stack(hub: ServerHub, call: CommandCall) -> TaskStack:
    """The current task below its parents."""
    stack: list[str] = []
    task = hub.current
    while task is not None and task.id not in stack:
        stack.insert(0, task.id)
        parent = task.recorder.projection.parent_id
        task = hub.engine.find_open_task(parent) if parent else None
    return TaskStack(task_stack=stack)


async def delete_task(hub: ServerHub, call: CommandCall) -> Done:
    task_id = hub.task_id(call)
    if task := hub.engine.find_open_task(task_id):
        await hub.release(task)
    try:
        await asyncio.to_thread(hub.store.delete, task_id)
    except TaskNotFoundError as error:
        raise not_found(task_id) from error
    await hub.setup.remove_task_worktree(task_id)
    hub.announce("taskDeleted", Empty(), task_id)
    return Done()


async def is_ready(hub: ServerHub, call: CommandCall) -> Ready:
    return Ready(ready=hub.ready)


async def ping(hub: ServerHub, call: CommandCall) -> Pong:
    return Pong(pong=time.time_ns() // 1_000_000)


async def is_known(hub: ServerHub, task_id: str) -> bool:
    if hub.engine.find_open_task(task_id) is not None:
        return True
    known = await asyncio.to_thread(hub.engine.history)
    return any(task.id == task_id for task in known)


HANDLERS = {
    "startNewTask": start_new_task,
    "resumeTask": resume_task,
    "cancelTask": cancel_task,
    "cancelCurrentTask": cancel_current_task,
    "clearCurrentTask": clear_current_task,
    "getCurrentTaskStack": get_current_task_stack,
    "deleteTask": delete_task,
    "isReady": is_ready,
    "ping": ping,
}


async def get_processes(hub: ServerHub, call: CommandCall) -> Processes:
    return Processes(
        processes=[
            ProcessInfo(
                task_id=task_id,
                pid=running.pid,
                command=running.command,
                cwd=str(running.cwd),
                running=running.exit is None,
            )
            for task_id, running in _running(hub, call)
        ]
    )


async def kill_process(hub: ServerHub, call: CommandCall) -> Done:
    asked: KillProcess = call.arguments
    for _, running in _running(hub, call):
        if running.pid == asked.pid:
            await running.kill()
            return Done()
    raise failed(f"No task has left a process {asked.pid} running.")


def _running(hub: ServerHub, call: CommandCall) -> Iterator[tuple[str, RunningCommand]]:
    if call.task_id is not None and hub.engine.find_open_task(call.task_id) is None:
        raise not_found(call.task_id)
    for task in hub.engine.tasks:
        if call.task_id in (None, task.id):
            for running in task.runtime.terminal.background_commands:
                yield task.id, running


PROCESS_HANDLERS = {"getProcesses": get_processes, "killProcess": kill_process}
