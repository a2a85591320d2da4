"""Rows and events agree with the journal, with each other and with their order."""

from __future__ import annotations

import asyncio

import pytest

from joey.core.events import AskOpened, CommandOutputDelta, RowOpened, TaskCompleted
from joey.core.history.ui import Row, UiHistory
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.task import Task
from joey.testing.script import Turn, call, disconnect, say, think
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    done,
    finish,
    list_durable_events,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)

ECHO = call("execute_command", {"command": "echo hi"})
TODOS = call("update_todo_list", {"todos": "[ ] a"})


def stamps(task: Task) -> list[int]:
    return [row.ts for row in task.rows if isinstance(row, Row)]


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(Turn(TODOS, say("and so on")), id="words behind a call"),
        pytest.param(Turn(ECHO, TODOS), id="a call behind a command"),
    ],
)
async def test_rows_stand_in_the_order_of_their_ts(
    engine_harness: EngineHarness, turn: Turn
) -> None:
    task = await engine_harness.start(turn, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert stamps(task) == sorted(stamps(task))


async def test_output_of_a_command_comes_after_the_message_that_came_with_its_approval(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(ECHO), finish(), settings=Settings())
    await wait_for_ask(task)
    await task.approve("please")
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert stamps(task) == sorted(stamps(task))


async def test_rows_are_the_same_live_and_folded_from_the_journal(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(say("hello"), TODOS), finish(), policy=Unattended())
    await wait_for_ending(task)
    folded = UiHistory()
    for event in list_durable_events(task):
        folded.apply(event)
    assert task.rows == folded.rows


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(Turn(think("hm"), disconnect()), id="lost stream"),
        pytest.param(Turn(think("hm")), id="nothing but reasoning"),
    ],
)
async def test_no_row_is_left_streaming_when_the_task_is_over(
    engine_harness: EngineHarness, turn: Turn
) -> None:
    task = await engine_harness.start(turn, finish(), policy=Unattended())
    opened: list[int] = []
    async with asyncio.timeout(TIMEOUT_S):
        with task.subscribe(0) as subscription:
            async for item in subscription:
                if isinstance(item.event, RowOpened):
                    opened.append(item.event.ts)
                if type(item.event).__name__ == "TaskFinished":
                    break
    shown = [task.recorder.ui_history.get_row(ts) for ts in opened]
    assert opened
    assert not [row for row in shown if isinstance(row, Row) and row.partial]


async def test_a_question_whose_time_is_up_is_no_longer_pending(
    engine_harness: EngineHarness,
) -> None:
    question = call("ask_followup_question", {"question": "which?", "follow_up": [{"text": "red"}]})
    settings = Settings(always_allow_followup_questions=True, followup_auto_approve_timeout_ms=1)
    task = await engine_harness.start(Turn(question), Turn(TODOS), finish(), settings=settings)
    await wait_for_event(task, TaskCompleted)
    ended = {getattr(event, "ask_ts", None) for event in list_durable_events(task)}
    first = next(event for event in list_durable_events(task) if isinstance(event, AskOpened))
    assert first.ts in ended


async def test_a_question_whose_time_is_up_is_answered_with_its_first_suggestion(
    engine_harness: EngineHarness,
) -> None:
    question = call(
        "ask_followup_question", {"question": "which?", "follow_up": [{"text": "the red one"}]}
    )
    settings = Settings(always_allow_followup_questions=True, followup_auto_approve_timeout_ms=1)
    task = await engine_harness.start(Turn(question), finish(), settings=settings)
    await wait_for_event(task, TaskCompleted)
    assert "the red one" in str(task.messages[2].content)


async def test_events_of_a_task_at_rest_end_when_the_reader_has_had_them_all(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(done()), policy=Unattended())
    await wait_for_ending(task)
    async with asyncio.timeout(60):
        assert [event async for event in task.events(since=task.bus.last_seq)] == []


async def test_output_of_a_cancelled_command_stays_on_the_screen(
    engine_harness: EngineHarness,
) -> None:
    slow = call("execute_command", {"command": "echo go; sleep 600"})
    task = await engine_harness.start(Turn(slow))
    ts = (await wait_for_event(task, CommandOutputDelta)).ts
    await task.cancel()
    row = task.recorder.ui_history.get_row(ts)
    assert isinstance(row, Row)
    assert not row.partial
    assert row in task.rows
