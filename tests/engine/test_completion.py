"""A completion is called accepted only when it was."""

from __future__ import annotations

from joey.core.events import CommandOutputDelta
from joey.engine.asks import Unattended
from joey.testing.script import Turn, call
from tests.engine.engine_harness import (
    EngineHarness,
    asked,
    done,
    finish,
    results,
    settled,
    wait_for_event,
)

ACCEPTED = "The user accepted this result."
TODOS = call("update_todo_list", {"todos": "[x] a"})


async def test_a_result_that_was_cancelled_while_presented_is_not_called_accepted(
    workshop: EngineHarness,
) -> None:
    task = await workshop.start(finish("half of it"), finish())
    await asked(task)
    await task.cancel()
    await task.send("that is only half of it")
    await asked(task)
    assert results(task.messages[2])
    assert ACCEPTED not in results(task.messages[2])


async def test_a_result_that_was_never_presented_is_not_called_accepted(
    workshop: EngineHarness,
) -> None:
    slow = call("execute_command", {"command": "echo go; sleep 600"})
    task = await workshop.start(Turn(slow, done("unseen")), finish())
    await wait_for_event(task, CommandOutputDelta)
    await task.cancel()
    await task.send("go on")
    await asked(task)
    assert ACCEPTED not in results(task.messages[2])


async def test_an_accepted_result_beside_other_calls_does_not_read_as_interrupted(
    workshop: EngineHarness,
) -> None:
    task = await workshop.start(Turn(TODOS, done("42")), policy=Unattended())
    await settled(task)
    sent = [text for message in task.messages for text in results(message)]
    assert not [text for text in sent if "interrupted" in text]


async def test_a_call_behind_an_accepted_result_is_not_said_to_have_perhaps_run(
    workshop: EngineHarness,
) -> None:
    task = await workshop.start(Turn(done("42"), TODOS), policy=Unattended())
    await settled(task)
    await workshop.engine.release(task)
    workshop.script(finish())
    again = await workshop.engine.resume(task.id, "more")
    await asked(again)
    assert not [text for text in results(again.messages[2]) if "interrupted" in text]


async def test_feedback_on_a_result_skips_the_second_result_of_the_same_reply(
    workshop: EngineHarness,
) -> None:
    task = await workshop.start(Turn(done("one"), done("two")), finish("three"))
    await asked(task)
    await task.send("not like this")
    await asked(task)
    assert task.result == "three"
