"""A completion is called accepted only when it was."""

from __future__ import annotations

from joey.core.events import CommandOutputDelta
from joey.engine.asks import Unattended
from joey.testing.script import Turn, call
from tests.engine.engine_harness import (
    EngineHarness,
    done,
    finish,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)

ACCEPTED = "The user accepted this result."
TODOS = call("update_todo_list", {"todos": "[x] a"})


async def test_a_result_that_was_cancelled_while_presented_is_not_called_accepted(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("half of it"), finish())
    await wait_for_ask(task)
    await task.cancel()
    await task.send("that is only half of it")
    await wait_for_ask(task)
    assert list_tool_results(task.messages[2])
    assert ACCEPTED not in list_tool_results(task.messages[2])


async def test_a_result_that_was_never_presented_is_not_called_accepted(
    engine_harness: EngineHarness,
) -> None:
    slow = call("execute_command", {"command": "echo go; sleep 600"})
    task = await engine_harness.start(Turn(slow, done("unseen")), finish())
    await wait_for_event(task, CommandOutputDelta)
    await task.cancel()
    await task.send("go on")
    await wait_for_ask(task)
    assert ACCEPTED not in list_tool_results(task.messages[2])


async def test_an_accepted_result_beside_other_calls_does_not_read_as_interrupted(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(TODOS, done("42")), policy=Unattended())
    await wait_for_ending(task)
    sent = [text for message in task.messages for text in list_tool_results(message)]
    assert not [text for text in sent if "interrupted" in text]


async def test_a_call_behind_an_accepted_result_is_not_said_to_have_perhaps_run(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(done("42"), TODOS), policy=Unattended())
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    engine_harness.use_script(finish())
    again = await engine_harness.engine.resume(task.id, "more")
    await wait_for_ask(again)
    assert not [text for text in list_tool_results(again.messages[2]) if "interrupted" in text]


async def test_feedback_on_a_result_skips_the_second_result_of_the_same_reply(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(done("one"), done("two")), finish("three"))
    await wait_for_ask(task)
    await task.send("not like this")
    await wait_for_ask(task)
    assert task.result == "three"
