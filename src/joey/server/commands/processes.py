"""Commands about what tasks have left running in the background."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from joey.core.wire.commands import Done, KillProcess, Processes, ProcessInfo
from joey.ports import RunningCommand
from joey.server.calls import Call, failed, not_found

if TYPE_CHECKING:
    from joey.server.hub import Hub


async def get_processes(hub: Hub, call: Call) -> Processes:
    return Processes(
        processes=[
            ProcessInfo(
                task_id=task_id,
                pid=running.pid,
                command=running.command,
                cwd=str(running.cwd),
                running=running.end is None,
            )
            for task_id, running in _running(hub, call)
        ]
    )


async def kill_process(hub: Hub, call: Call) -> Done:
    asked: KillProcess = call.arguments
    for _, running in _running(hub, call):
        if running.pid == asked.pid:
            await running.kill()
            return Done()
    raise failed(f"No task has left a process {asked.pid} running.")


def _running(hub: Hub, call: Call) -> Iterator[tuple[str, RunningCommand]]:
    if call.task_id is not None and hub.engine.find(call.task_id) is None:
        raise not_found(call.task_id)
    for task in hub.engine.tasks:
        if call.task_id in (None, task.id):
            for running in task.bench.terminal.running:
                yield task.id, running


HANDLERS = {"getProcesses": get_processes, "killProcess": kill_process}
