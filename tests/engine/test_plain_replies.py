"""Replies without a call: reminded of once, then presented as the result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from joey.core.events import RowDelta, TaskCompleted, TaskPaused
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import AskKind, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.testing.script import Turn, call, pause, say, think
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

ANSWER = Turn(say("It is the linker."))
ASKS = Settings(mode="ask")
OPEN = Turn(call("update_todo_list", {"todos": "[ ] one"}))


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_the_answer_to_a_plain_answer_is_the_next_message(
    engine_harness: EngineHarness, protocol: ToolProtocol
) -> None:
    task = await engine_harness.start(ANSWER, ANSWER, ANSWER, ANSWER, protocol=protocol)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    await task.send("which linker?")
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert list_texts(task.messages[4])[0] == "<user_message>\nwhich linker?\n</user_message>"
    assert "[ERROR] You did not use a tool" in list_texts(task.messages[6])[0]
    await task.approve()
    assert await wait_for_ending(task) == Completed("It is the linker.", answered=True)
    assert sum(isinstance(event, TaskCompleted) for event in list_durable_events(task)) == 2
    assert [row.text for row in find_rows(task, "user_feedback")] == ["which linker?"]
    assert task.messages[-1].role == "assistant"
    assert task.state is TaskState.COMPLETED
    check_history(task.messages)


async def test_a_plain_no_to_a_plain_answer_is_sent_to_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(ANSWER, finish(), settings=ASKS)
    await wait_for_ask(task)
    await task.reject()
    await wait_for_ask(task)
    assert "did not accept" in list_texts(task.messages[2])[0]
    check_history(task.messages)


@pytest.mark.contract("loop:plain-reply")
async def test_the_row_of_a_plain_answer_becomes_that_of_the_result(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(think("hm"), say("It is the linker.")), settings=ASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    shown = [row.text for row in [*find_rows(task, "text"), *find_rows(task, "completion_result")]]
    assert shown == ["do it", "It is the linker.", ""]
    assert not [row for row in task.rows if getattr(row, "partial", None)]


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (["It is the linker.", "It is\n the linker."], "It is the linker."),
        (
            ["It is the *linker*. Try ld.", "It is the linker; Try ld"],
            "It is the *linker*. Try ld.",
        ),
        (["It is the linker.", "As I said: It is the linker."], "As I said: It is the linker."),
        (["It is the linker.", "the linker"], "It is the linker."),
        (["One.", "Two."], "One.\n\nTwo."),
    ],
)
async def test_what_the_second_reply_repeats_is_said_once(
    engine_harness: EngineHarness, replies: Sequence[str], answer: str
) -> None:
    turns = [Turn(say(text)) for text in replies]
    task = await engine_harness.start(*turns, policy=Unattended())
    assert await wait_for_ending(task) == Completed(answer, answered=True)


async def test_all_that_a_reply_says_is_its_answer(engine_harness: EngineHarness) -> None:
    turn = Turn(say("One."), think("hm"), say("Two."))
    task = await engine_harness.start(turn, settings=ASKS, policy=Unattended())
    assert await wait_for_ending(task) == Completed("One.\n\nTwo.", answered=True)


@pytest.mark.contract("loop:plain-reply")
async def test_a_subtask_that_answers_in_plain_text_returns_its_answer(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.provider = ScriptedSubtasks(
        {
            "the whole": [Turn(delegate("a part"), delegate("look", "ask")), finish("whole")],
            "a part": [ANSWER, ANSWER],
            "look": [Turn(say("I see."))],
        }
    )
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    part, look = list_tool_results(task.messages[2])
    assert part.endswith("Result:\nIt is the linker.")
    assert look.endswith("Result:\nI see.")


async def test_a_subtask_whose_answer_is_sent_back_goes_on(engine_harness: EngineHarness) -> None:
    engine_harness.provider = ScriptedSubtasks(
        {
            "the whole": [Turn(delegate("look", "ask")), finish("whole")],
            "look": [Turn(say("I see.")), Turn(say("I see more."))],
        }
    )
    task = await engine_harness.start(text="the whole", settings=Settings())
    await wait_for_ask(task)
    await task.approve()
    (child_id,) = (await wait_for_event(task, TaskPaused)).child_ids
    child = await task.find_subtask(child_id)
    assert child is not None
    assert (await wait_for_ask(child)).tool == "attempt_completion"
    await child.send("look again")
    await wait_for_ask(child)
    await child.approve()
    await wait_for_ask(task)
    assert list_tool_results(task.messages[2])[0].endswith("Result:\nI see more.")


async def test_a_plain_answer_is_held_back_by_open_todos(engine_harness: EngineHarness) -> None:
    settings = Settings(prevent_completion_with_open_todos=True)
    task = await engine_harness.start(
        OPEN, ANSWER, ANSWER, finish("too early"), settings=settings, policy=Unattended()
    )
    await wait_for_ending(task)
    assert "The todo list still has open items." in list_texts(task.messages[6])[0]
    assert not [e for e in list_durable_events(task) if isinstance(e, TaskCompleted)]


async def test_a_model_that_only_talks_and_is_held_back_is_stopped(
    engine_harness: EngineHarness,
) -> None:
    settings = Settings(prevent_completion_with_open_todos=True)
    task = await engine_harness.start(OPEN, *[ANSWER] * 11, settings=settings, policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"


async def test_messages_that_came_in_while_it_answered_are_sent(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    turn = Turn(say("It is"), pause(gate), say(" the linker."))
    task = await engine_harness.start(turn, finish(), settings=ASKS)
    await wait_for_event(task, RowDelta)
    await task.send("and quickly")
    gate.set()
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ask(task)
    assert "<user_message>\nand quickly\n</user_message>" in list_texts(task.messages[2])
    check_history(task.messages)


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("accepted", [True, False])
async def test_a_task_goes_on_after_a_plain_answer_in_another_process(
    engine_harness: EngineHarness, accepted: bool
) -> None:
    task = await engine_harness.start(ANSWER, settings=ASKS)
    await wait_for_ask(task)
    if accepted:
        await task.approve()
        await wait_for_ending(task)
    await engine_harness.engine.close()
    engine_harness.engine = engine_harness.new_engine()
    engine_harness.use_script(finish())
    options = TaskOptions(workspace=engine_harness.root, settings=ASKS, policy=Unattended())
    again = await engine_harness.engine.resume(task.id, "why?", options=options)
    assert await wait_for_ending(again) == Completed("all done")
    assert [message.role for message in again.messages] == ["user", "assistant"] * 2
    assert "why?" in list_texts(again.messages[2])[0]
    assert again.state is TaskState.COMPLETED
    check_history(again.messages)


async def test_an_answered_task_is_known_as_that_when_it_is_opened_again(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(ANSWER, settings=ASKS, policy=Unattended())
    ending = await wait_for_ending(task)
    await engine_harness.engine.close()
    engine_harness.engine = engine_harness.new_engine()
    again = await engine_harness.engine.open(task.id)
    assert again.ending == ending == Completed("It is the linker.", answered=True)


async def test_rewinding_to_a_plain_answer_keeps_it(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(ANSWER, finish(), settings=ASKS)
    await wait_for_ask(task)
    (row, _) = find_rows(task, "completion_result")
    await task.send("why?")
    await wait_for_ask(task)
    await task.rewind(row.ts)
    assert task.rows[-1] == row
    assert [message.role for message in task.messages] == ["user", "assistant"]
