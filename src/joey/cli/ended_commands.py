"""Commands in the background, which end with joey."""

from __future__ import annotations

from collections.abc import Iterator

from joey.engine.task import Task
from joey.ports import RunningCommand
from joey.presentation.text import one_line

LONGEST = 200


def in_background(task: Task) -> list[RunningCommand]:
    """Those that were left running, and still do."""
    left = task.bench.terminal.running
    return [each for each in left if each.end is None or each.end.left_running]


def ended_with_joey(task: Task) -> Iterator[str]:
    """A line for each, to be read when joey is left."""
    for each in in_background(task):
        yield f"ended, because it ran in the background: {one_line(each.command, LONGEST)}"
