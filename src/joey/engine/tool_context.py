"""What a tool of this task is given to work with."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from joey.core.events import CommandGrew, Said
from joey.ports import ToolContext

if TYPE_CHECKING:
    from joey.engine.task import Task


def tool_context(task: Task, call_id: str, row_ts: int) -> ToolContext:
    output_ts = task.now()
    return ToolContext(
        files=task.bench.files,
        search=task.bench.search,
        terminal=task.bench.terminal,
        settings=task.settings,
        protocol=task.recorder.facts.protocol,
        model=task.provider.model,
        modes=task.bench.modes,
        mode=task.mode,
        todos=task.recorder.facts.todos,
        artifacts=task.recorder.log.folder / "command-output",
        call_id=call_id,
        row_ts=row_ts,
        output_ts=output_ts,
        on_output=lambda text: task.publish(CommandGrew(ts=output_ts, output=text)),
        memory=task.bench.memory,
        extras=task.bench.extras,
        depth=task.recorder.facts.depth,
        say=partial(_say, task, output_ts),
    )


def _say(task: Task, output_ts: int, kind: str, text: str, images: tuple[str, ...] = ()) -> None:
    ts = output_ts if kind == "command_output" else task.now()
    task.publish(Said(ts=ts, say=kind, text=text, images=images))
