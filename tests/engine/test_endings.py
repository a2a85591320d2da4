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
from joey.core.task_types import Answer, AskKind, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Failed
from joey.engine.task import Task
from joey.errors import StoreError
from joey.testing.script import Call, Turn, call
from joey.testing.scripted_provider import ScriptedTurn
from tests.harness.engine.engine_harness import (
    EngineHarness,
    finish,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)

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
    engine_harness: EngineHarness, stuck: Call
) -> None:
    provider = engine_harness.use_script(*[forever(Turn(stuck)) for _ in range(ENOUGH)])
    task = await engine_harness.start(settings=Settings(), policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert len(provider.requests) < ENOUGH


async def test_a_no_at_the_repetition_limit_stops_the_task(engine_harness: EngineHarness) -> None:
    same = Turn(call("update_todo_list", {"todos": "[ ] a"}))
    task = await engine_harness.start(same, same, same, same, finish())
    assert (await wait_for_ask(task)).ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.reject()
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)


def refuse(*_: Any) -> None:
    raise StoreError("no space left")


def look_at_exception(task: Task) -> None:
    """Else it is logged whenever the runner is collected, in the middle of another test."""
    runner = task._runner
    if runner is not None and runner.done() and not runner.cancelled():
        runner.exception()


async def test_a_full_disk_at_the_end_still_lets_the_task_go(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await engine_harness.start(SLOW)
    await wait_for_event(task, CommandOutputDelta)
    monkeypatch.setattr(task.recorder.task_log, "append", refuse)
    with suppress(StoreError):
        await engine_harness.engine.release(task)
    look_at_exception(task)
    again = await engine_harness.new_engine().resume(task.id)
    assert again.id == task.id
    await again.close()


async def test_one_task_that_cannot_be_closed_does_not_keep_the_others_open(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = await engine_harness.start(SLOW)
    await wait_for_event(bad, CommandOutputDelta)
    good = await engine_harness.start(STUBBORN)
    await wait_for_event(good, CommandOutputDelta)
    monkeypatch.setattr(bad.recorder.task_log, "append", refuse)
    with suppress(StoreError):
        await engine_harness.engine.close()
    look_at_exception(bad)
    bad.recorder.task_log.close()
    assert good.state is TaskState.ABORTED
    assert not good.is_running
    again = await engine_harness.new_engine().resume(good.id)
    await again.close()


async def test_history_files_that_could_not_be_written_are_written_when_the_task_is_closed(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await engine_harness.start(finish("one"), policy=Unattended())
    with monkeypatch.context() as full:
        full.setattr(task.recorder.task_log, "write_snapshot", refuse)
        await wait_for_ending(task)
    await engine_harness.engine.release(task)
    directory = engine_harness.home / "tasks" / f"task_{task.id}"
    assert b'"completed"' in (directory / "task_metadata.json").read_bytes()


async def test_a_completed_task_that_nobody_goes_on_with_stays_completed(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"), policy=Unattended())
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    again = await engine_harness.engine.resume(task.id)
    await wait_for_ask(again)
    await again.cancel()
    await engine_harness.engine.release(again)
    third = await engine_harness.engine.resume(task.id)
    assert (await wait_for_ask(third)).ask is AskKind.RESUME_COMPLETED_TASK


async def test_an_adopted_task_that_was_completed_is_resumed_as_completed(
    engine_harness: EngineHarness,
) -> None:
    directory = engine_harness.home / "tasks" / "abc"
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
    options = TaskOptions(workspace=engine_harness.root)
    task = await engine_harness.engine.resume("abc", options=options)
    assert (await wait_for_ask(task)).ask is AskKind.RESUME_COMPLETED_TASK


async def test_a_policy_with_a_defect_leaves_no_pending_ask(engine_harness: EngineHarness) -> None:
    class Broken:
        name = "broken"

        def answer(self, ask: AskOpened) -> Answer | None:
            raise ValueError(ask)

    task = await engine_harness.start(finish(), policy=Broken())
    await wait_for_ending(task)
    assert task.pending is None
