"""Several calls in one reply: together, in order, and none spoiled by another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from joey.core.events import TaskCompleted
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call
from joey.tools.read_file import ReadFile
from tests.harness.engine.engine_harness import (
    EngineHarness,
    find_rows,
    finish,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)


@pytest.mark.contract("loop:calls")
async def test_neighbouring_reads_run_at_the_same_time(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read waits for the other to have begun: one after the other would never end."""
    both, read = asyncio.Barrier(2), ReadFile.run_prepared

    async def meet(self: ReadFile, *rest: Any) -> Any:
        await both.wait()
        return await read(self, *rest)

    monkeypatch.setattr(ReadFile, "run_prepared", meet)
    names = ("a.txt", "b.txt")
    for name in names:
        (engine_harness.root / name).write_text(f"this is {name}")
    reads = [call("read_file", {"files": [{"path": name}]}) for name in names]
    task = await engine_harness.start(Turn(*reads), finish(), policy=Unattended())
    await wait_for_ending(task)
    first, second = list_tool_results(task.messages[2])
    assert "this is a.txt" in first
    assert "this is b.txt" in second


@pytest.mark.contract("calls:incomplete", "loop:calls")
async def test_calls_beside_a_wrong_one_still_run(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(
            call("write_to_file", '{"path": "a.txt", "content": "half'),
            call("launch_rocket", {}),
            call("write_to_file", {"path": "b.txt", "content": "whole"}),
        ),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    malformed, unknown, written = list_tool_results(task.messages[2])
    assert malformed.startswith("[ERROR] ")
    assert not (engine_harness.root / "a.txt").exists()
    assert "launch_rocket" in unknown
    assert "write_to_file" in unknown
    assert "apply_patch" not in unknown  # not offered to this model
    assert "b.txt" in written
    assert (engine_harness.root / "b.txt").read_text() == "whole"


@pytest.mark.contract("loop:rejection")
async def test_a_message_in_place_of_a_yes_rejects_the_call_and_is_its_feedback(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "new.txt", "content": "1"})),
        finish(),
        settings=Settings(),
    )
    await wait_for_ask(task)
    await task.send("call it old.txt")
    await wait_for_ask(task)
    assert list_tool_results(task.messages[2]) == [
        "The user did not allow this call; it was not carried out. They said:\n"
        "<feedback>\ncall it old.txt\n</feedback>"
    ]
    assert find_rows(task, "tool")[0].approval_state == "rejected"
    assert not (engine_harness.root / "new.txt").exists()


@pytest.mark.contract("asks:unattended")
async def test_a_question_answers_itself_with_its_first_suggestion_after_a_while(
    engine_harness: EngineHarness,
) -> None:
    question = {"question": "which?", "follow_up": [{"text": "the red one"}, {"text": "the blue"}]}
    settings = Settings(always_allow_followup_questions=True, followup_auto_approve_timeout_ms=1)
    task = await engine_harness.start(
        Turn(call("ask_followup_question", question)), finish(), settings=settings
    )
    presented = await wait_for_event(task, TaskCompleted)
    assert presented.result == "all done"
    assert list_tool_results(task.messages[2]) == ["<user_message>\nthe red one\n</user_message>"]


async def test_what_nobody_was_there_to_allow_is_named_in_the_ending_and_put_in_no_mouth(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "a.txt", "content": "1"})),
        finish(),
        settings=Settings(),
        policy=Unattended(),
    )
    assert await wait_for_ending(task) == Completed("all done", ("a.txt",))
    assert find_rows(task, "user_feedback") == []
    assert "nobody can give it" in list_tool_results(task.messages[2])[0]
