"""Runs that do not end, and endings that leave something behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from joey.core.asks import AskKind
from joey.core.events import CommandGrew
from joey.core.messages import Usage
from joey.core.models import ModelRequest
from joey.core.settings import Limits, Settings
from joey.core.state import TaskState
from joey.engine.endings import Completed, Failed
from joey.engine.unattended import Unattended
from joey.errors import StoreError
from joey.testing.script import Turn, call
from joey.testing.scripted import ScriptedTurn
from tests.engine.workshop import Workshop, asked, durable, finish, heard, settled

ENOUGH = 60
SLOW = Turn(call("execute_command", {"command": "echo go; sleep 600"}))


def forever(turn: Turn) -> Callable[[ModelRequest], ScriptedTurn]:
    return lambda _: turn


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param(call("update_todo_list", {"todos": "[ ] a"}), id="the same call"),
        pytest.param(
            call("write_to_file", {"path": "a.txt", "content": "1"}), id="a call that is refused"
        ),
        pytest.param(
            call("ask_followup_question", {"question": "which?", "follow_up": []}),
            id="a question nobody answers",
        ),
    ],
)
async def test_a_model_that_is_stuck_ends_an_unattended_run(workshop: Workshop, stuck: call) -> None:  # type: ignore[valid-type]
    provider = workshop.script(*[forever(Turn(stuck)) for _ in range(ENOUGH)])
    task = await workshop.start(settings=Settings(), policy=Unattended())
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert len(provider.requests) < ENOUGH


async def test_a_no_at_the_repetition_limit_stops_the_task(workshop: Workshop) -> None:
    same = Turn(call("update_todo_list", {"todos": "[ ] a"}))
    task = await workshop.start(same, same, same, same, finish())
    assert (await asked(task)).ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.reject()
    ending = await settled(task)
    assert isinstance(ending, Failed)


class FullDisk:
    """A journal whose disk is full from some moment on."""

    def __init__(self, log: object) -> None:
        self._log = log

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def append(self, record: object) -> None:
        raise StoreError("no space left")


async def test_a_full_disk_at_the_end_still_lets_the_task_go(workshop: Workshop) -> None:
    task = await workshop.start(SLOW)
    await heard(task, CommandGrew)
    task.recorder.log = FullDisk(task.recorder.log)  # type: ignore[assignment]
    try:
        await workshop.engine.release(task)
    except StoreError:
        pass
    again = await workshop.new_engine().resume(task.id)
    assert again.id == task.id
    await again.close()


async def test_one_task_that_cannot_be_closed_does_not_keep_the_others_open(
    workshop: Workshop,
) -> None:
    bad = await workshop.start(SLOW)
    await heard(bad, CommandGrew)
    good = await workshop.start(SLOW)
    await heard(good, CommandGrew)
    log = bad.recorder.log
    bad.recorder.log = FullDisk(log)  # type: ignore[assignment]
    try:
        await workshop.engine.close()
    except StoreError:
        pass
    log.close()
    assert good.state is TaskState.ABORTED
    assert not good.running
    again = await workshop.new_engine().resume(good.id)
    await again.close()


class FailsOnce:
    """A disk that is full for the next snapshot only."""

    def __init__(self, log: object) -> None:
        self._log = log
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def snapshot(self, *args: Any) -> None:
        if not self._failed:
            self._failed = True
            raise StoreError("no space left")
        await self.__getattr__("snapshot")(*args)


async def test_history_files_that_could_not_be_written_are_written_when_the_task_is_closed(
    workshop: Workshop,
) -> None:
    task = await workshop.start(finish("one"), policy=Unattended())
    task.recorder.log = FailsOnce(task.recorder.log)  # type: ignore[assignment]
    await settled(task)
    await workshop.engine.release(task)
    folder = workshop.home / "tasks" / f"task_{task.id}"
    assert b'"completed"' in (folder / "task_metadata.json").read_bytes()


async def test_a_cancel_during_the_last_save_leaves_the_files_up_to_date(
    workshop: Workshop,
) -> None:
    task = await workshop.start(finish("one"))
    await asked(task)
    await task.approve()
    while task.state is not TaskState.COMPLETED:
        await asyncio.sleep(0)
    await workshop.engine.release(task)
    folder = workshop.home / "tasks" / f"task_{task.id}"
    assert b'"completed"' in (folder / "task_metadata.json").read_bytes()
    assert await settled(task) == Completed("one")


async def test_the_budget_is_checked_with_the_cost_that_the_provider_states(
    workshop: Workshop,
) -> None:
    from joey.core.chunks import CallChunk, CallEndChunk, StopChunk, UsageChunk

    def turn(number: int) -> list[object]:
        return [
            CallChunk(0, f"id{number}", "update_todo_list", f'{{"todos": "[ ] {number}"}}'),
            CallEndChunk(0),
            UsageChunk(Usage(input=10, output=5, cost=0.6)),
            StopChunk("tool_use"),
        ]

    task = await workshop.start(
        turn(1),  # type: ignore[arg-type]
        turn(2),  # type: ignore[arg-type]
        turn(3),  # type: ignore[arg-type]
        limits=Limits(max_cost=1.0),
        policy=Unattended(),
    )
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "budget"
    assert durable(task)


async def test_a_mode_chosen_on_resuming_is_used(workshop: Workshop) -> None:
    from joey.engine.engine import TaskOptions

    task = await workshop.start(finish("one"), policy=Unattended())
    await settled(task)
    await workshop.engine.release(task)
    workshop.script(finish("two"))
    again = await workshop.engine.resume(
        task.id, "look", options=TaskOptions(workspace=workshop.root, mode="ask")
    )
    await asked(again)
    assert again.mode.slug == "ask"
