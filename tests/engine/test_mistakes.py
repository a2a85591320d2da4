"""Mistakes are replies that achieved nothing; with a user, the setting says how many may pass."""

from __future__ import annotations

import pytest

from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed, Failed
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    finish,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

WRONG = [call("no_such_tool", {"n": n}) for n in range(3)]


@pytest.mark.contract("loop:mistakes")
async def test_with_a_user_each_reply_that_fails_is_one_mistake(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(*[Turn(*WRONG)] * 3, finish())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.MISTAKE_LIMIT_REACHED
    assert len(task.messages) == 7
    assert not [
        text for message in task.messages for text in list_texts(message) if "approach" in text
    ]


@pytest.mark.contract("loop:mistakes")
async def test_a_mistake_is_forgiven_when_a_later_reply_succeeds(
    engine_harness: EngineHarness,
) -> None:
    good = [call("update_todo_list", {"todos": f"[ ] {n}"}) for n in range(3)]
    pairs = [turn for each in good for turn in (Turn(*WRONG), Turn(each))]
    settings = Settings(consecutive_mistake_limit=2)
    task = await engine_harness.start(*pairs, finish(), settings=settings)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT


@pytest.mark.contract("loop:mistakes")
async def test_a_subtask_without_a_user_has_the_larger_limit_too(
    engine_harness: EngineHarness,
) -> None:
    lost = [Turn(call("no_such_tool", {"n": n})) for n in range(9)]
    engine_harness.provider = ScriptedSubtasks(
        {
            "the whole": [Turn(delegate("a part")), finish("whole")],
            "a part": [*lost, finish("found")],
        }
    )
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    assert list_tool_results(task.messages[2])[0].endswith("Result:\nfound")


@pytest.mark.contract("loop:repetition")
async def test_a_repetition_after_another_call_still_ends_the_run(
    engine_harness: EngineHarness,
) -> None:
    same = Turn(call("list_files", {"path": "."}))
    other = Turn(call("update_todo_list", {"todos": "[ ] a"}))
    stuck = [*[same] * 4, other]
    task = await engine_harness.start(*stuck, *stuck, finish(), policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert "same result" in list_tool_results(task.messages[8])[0]
