"""Subtasks that use up the limits of their tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joey.core.events import (
    SubtaskSpawned,
    TaskPaused,
)
from joey.core.settings import Limits, Settings
from joey.engine.asks import Unattended
from joey.engine.task import Task
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    list_durable_events,
    wait_for_event,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
)

LOOK = Turn(call("list_files", {"path": "."}))


async def play(
    engine_harness: EngineHarness,
    parts: Mapping[str, Sequence[Turn]],
    *,
    limits: Limits | None = None,
    attended: bool = False,
    settings: Settings = ALLOW_ALL_WITH_SUBTASKS,
    **model: Any,
) -> tuple[Task, ScriptedSubtasks]:
    engine_harness.provider = scripted = ScriptedSubtasks(parts, **model)
    policy = None if attended else Unattended()
    task = await engine_harness.start(
        text="the whole", settings=settings, policy=policy, limits=limits
    )
    return task, scripted


async def children_of(task: Task) -> list[Task]:
    await wait_for_event(task, TaskPaused)
    found = [event for event in list_durable_events(task) if isinstance(event, SubtaskSpawned)]
    children = [await task.find_subtask(spawned.child_id) for spawned in found]
    return [child for child in children if child is not None]


def looking(count: int) -> list[Turn]:
    return [Turn(call("list_files", {"path": ".", "recursive": bool(n % 2)})) for n in range(count)]
