"""Runs end, and their endings leave nothing behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from joey.core.events import AskOpened, CommandOutputDelta
from joey.core.models import ModelRequest
from joey.core.settings import Settings
from joey.core.task import Answer, AskKind, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Failed
from joey.engine.task import Task
from joey.errors import StoreError
from joey.testing.script import Call, Turn, call
from joey.testing.scripted import ScriptedTurn
from tests.engine.engine_harness import EngineHarness, asked, finish, settled, wait_for_event

ENOUGH = 60
STUBBORN = Turn(call("execute_command", {"command": "echo go; trap '' TERM; sleep 600 & wait"}))
SLOW = Turn(call("execute_command", {"command": "echo go; sleep 600"}))


def forever(turn: Turn) -> Callable[[ModelRequest], ScriptedTurn]:
    return lambda _: turn


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param(call("update_todo_list", {"todos": "[ ] a"}), id="the same call"),
        pytest.param(
            call("ask_followup_question", {"question": "which?", "follow_up": []}),
            id="a question nobody answers",
        ),
    ],
)
async def test_a_model_that_is_stuck_ends_an_unattended_run(
    workshop: EngineHarness, stuck: Call
) -> None:
    provider = workshop.script(*[forever(Turn(stuck)) for _ in range(ENOUGH)])
    task = await workshop.start(settings=Settings(), policy=Unattended())
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert len(provider.requests) < ENOUGH


async def test_a_no_at_the_repetition_limit_stops_the_task(workshop: EngineHarness) -> None:
    same = Turn(call("update_todo_list", {"todos": "[ ] a"}))
    task = await workshop.start(same, same, same, same, finish())
    assert (await asked(task)).ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.reject()
    ending = await settled(task)
    assert isinstance(ending, Failed)


def refuse(*_: Any) -> None:
    raise StoreError("no space left")


def look_at_exception(task: Task) -> None:
    """Else it is logged whenever the runner is collected, in the middle of another test."""
    runner = task._runner
    if runner is not None and runner.done() and not runner.cancelled():
        runner.exception()


async def test_a_full_disk_at_the_end_still_lets_the_task_go(
    workshop: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await workshop.start(SLOW)
    await wait_for_event(task, CommandOutputDelta)
    monkeypatch.setattr(task.recorder.task_log, "append", refuse)
    with suppress(StoreError):
        await workshop.engine.release(task)
    look_at_exception(task)
    again = await workshop.new_engine().resume(task.id)
    assert again.id == task.id
    await again.close()


async def test_one_task_that_cannot_be_closed_does_not_keep_the_others_open(
    workshop: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = await workshop.start(SLOW)
    await wait_for_event(bad, CommandOutputDelta)
    good = await workshop.start(STUBBORN)
    await wait_for_event(good, CommandOutputDelta)
    monkeypatch.setattr(bad.recorder.task_log, "append", refuse)
    with suppress(StoreError):
        await workshop.engine.close()
    look_at_exception(bad)
    bad.recorder.task_log.close()
    assert good.state is TaskState.ABORTED
    assert not good.is_running
    again = await workshop.new_engine().resume(good.id)
    await again.close()


async def test_history_files_that_could_not_be_written_are_written_when_the_task_is_closed(
    workshop: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await workshop.start(finish("one"), policy=Unattended())
    with monkeypatch.context() as full:
        full.setattr(task.recorder.task_log, "write_snapshot", refuse)
        await settled(task)
    await workshop.engine.release(task)
    directory = workshop.home / "tasks" / f"task_{task.id}"
    assert b'"completed"' in (directory / "task_metadata.json").read_bytes()


async def test_a_completed_task_that_nobody_goes_on_with_stays_completed(
    workshop: EngineHarness,
) -> None:
    task = await workshop.start(finish("one"), policy=Unattended())
    await settled(task)
    await workshop.engine.release(task)
    again = await workshop.engine.resume(task.id)
    await asked(again)
    await again.cancel()
    await workshop.engine.release(again)
    third = await workshop.engine.resume(task.id)
    assert (await asked(third)).ask is AskKind.RESUME_COMPLETED_TASK


async def test_an_adopted_task_that_was_completed_is_resumed_as_completed(
    workshop: EngineHarness,
) -> None:
    directory = workshop.home / "tasks" / "abc"
    directory.mkdir(parents=True)
    rows = [
        {"ts": 1, "type": "say", "say": "text", "text": "hi"},
        {"ts": 2, "type": "say", "say": "completion_result", "text": "ok"},
        {"ts": 3, "type": "ask", "ask": "completion_result", "text": ""},
    ]
    result = {"type": "tool_use", "id": "t1", "name": "attempt_completion", "input": {}}
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [result]}]
    (directory / "ui_messages.json").write_text(json.dumps(rows))
    (directory / "api_conversation_history.json").write_text(json.dumps(messages))
    options = TaskOptions(workspace=workshop.root)
    task = await workshop.engine.resume("abc", options=options)
    assert (await asked(task)).ask is AskKind.RESUME_COMPLETED_TASK


async def test_a_policy_with_a_defect_leaves_no_pending_ask(workshop: EngineHarness) -> None:
    class Broken:
        name = "broken"

        def answer(self, ask: AskOpened) -> Answer | None:
            raise ValueError(ask)

    task = await workshop.start(finish(), policy=Broken())
    await settled(task)
    assert task.pending is None
