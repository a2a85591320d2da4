"""A completion is called accepted only when it was."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from typing import Any

from joey.core.events import CommandOutputDelta, ReplyReceived
from joey.core.settings import Limits
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
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


def run_in_background(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command, "timeout": 0.1}))


def finish_as_after_two_minutes(harness: EngineHarness) -> Callable[..., Turn]:
    def reply(_: object) -> Turn:
        (task,) = harness.engine.tasks
        (running,) = task.runtime.terminal.background_commands
        running.is_expected_to_end = True
        return finish("it builds")

    return reply


async def test_a_result_names_commands_that_still_run(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        run_in_background("sleep 600"), finish("it serves"), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed(
        "it serves\n\nStill running when the task completed: `sleep 600`"
    )


async def test_without_a_user_a_result_waits_for_a_command_that_takes_long(
    engine_harness: EngineHarness,
) -> None:
    os.mkfifo(engine_harness.root / "gate")
    command = "read < gate; sleep 0.5; exit 5"
    engine_harness.use_script(
        Turn(call("write_to_file", {"path": "a.txt", "content": "x"})),
        run_in_background(command),
        finish_as_after_two_minutes(engine_harness),
        finish("it does not build"),
    )
    task = await engine_harness.start(policy=Unattended())
    with task.subscribe() as subscription:
        replies = (item async for item in subscription if isinstance(item.event, ReplyReceived))
        assert [await anext(replies) for _ in range(3)]
    await asyncio.to_thread((engine_harness.root / "gate").write_text, "go\n")
    assert await wait_for_ending(task) == Completed("it does not build")
    (message,) = list_tool_results(task.messages[6])
    assert f"`{command}` failed in its last run (exit code 5)." in message


async def test_a_result_does_not_wait_longer_than_the_run_may_take(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.use_script(
        run_in_background("sleep 600"), finish_as_after_two_minutes(engine_harness)
    )
    task = await engine_harness.start(policy=Unattended(), limits=Limits(max_seconds=6))
    assert await wait_for_ending(task) == Completed(
        "it builds\n\nStill running when the task completed: `sleep 600`"
    )


async def test_waiting_for_a_command_is_no_repetition(engine_harness: EngineHarness) -> None:
    artifact = ""

    def wait(request: Any) -> Turn:
        nonlocal artifact
        if not artifact:
            artifact = re.findall(r"cmd-\d+\.txt", str(request))[0]
        return Turn(call("read_command_output", {"artifact_id": artifact, "wait": 0.05}))

    engine_harness.use_script(
        run_in_background("sleep 600"), *(wait for _ in range(8)), finish("waited")
    )
    task = await engine_harness.start(policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Completed)
    texts = [text for message in task.messages for text in list_tool_results(message)]
    assert len([text for text in texts if "No new output." in text]) == 8
