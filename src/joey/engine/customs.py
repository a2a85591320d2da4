"""What people have written for the agent, as it is when a run begins.

It stays like that until the run is over: the system prompt keeps its bytes from request to
request, and a mode does not vanish under a task at work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import ModeSwitched, Said
from joey.core.modes import find_mode, usual_mode
from joey.engine.hooks import read_hooks

if TYPE_CHECKING:
    from joey.engine.task import Task


async def read_customs(task: Task) -> None:
    """Take in what was changed since the last run, and leave a mode that is gone."""
    bench = task.bench
    customs = bench.extras.customs
    if customs is not None and await asyncio.to_thread(customs.refresh):
        bench.prompts.clear()
    await _read_custom_tools(task)
    await read_hooks(task)
    slug = task.recorder.facts.mode
    if find_mode(slug, bench.modes) is not None:
        return
    mode = usual_mode(bench.settings.mode, bench.modes)
    known = ", ".join(known.slug for known in bench.modes)
    text = f"There is no mode {slug!r} (any more); going on in {mode.name} mode. Modes: {known}."
    task.publish(Said(ts=task.now(), say="error", text=text))
    task.publish(ModeSwitched(ts=task.now(), mode=mode.slug))


async def _read_custom_tools(task: Task) -> None:
    """Look at the user's own tools; what is wrong with a file is told when it is first seen."""
    tools = task.bench.extras.custom_tools
    if tools is None:
        return
    known = tools.warnings
    await tools.refresh()
    for warning in tools.warnings:
        if warning not in known:
            task.publish(Said(ts=task.now(), say="error", text=warning))


def tell_missing_profile(task: Task) -> None:
    """A mode that cannot have the model that the settings want for it says so once."""
    others = task.bench.others
    if others is not None and (problem := others.take_problem(task.mode)) is not None:
        task.publish(Said(ts=task.now(), say="error", text=problem))
