"""A defect in a tool, or text that is no text, costs one call and not the task."""

from __future__ import annotations

import re
from typing import Any

import pytest

from joey.core.events import ToolFinished
from joey.core.messages import CallChunk, CallEndChunk, StopChunk, TextChunk, ToolUseBlock
from joey.core.models import ToolProtocol
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, say
from joey.tools.read_file import ReadFile
from joey.tools.update_todo_list import UpdateTodoList
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_tool_results,
    wait_for_ending,
)

TODOS = call("update_todo_list", {"todos": "[ ] a"})


@pytest.mark.parametrize("step", ["prepare", "run_prepared"])
@pytest.mark.parametrize("error", [ValueError, TimeoutError])
async def test_a_defect_in_a_tool_becomes_the_result_of_its_call(
    engine_harness: EngineHarness,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: type[Exception],
) -> None:
    def broken(*_: Any) -> Any:
        raise error("a defect")

    monkeypatch.setattr(UpdateTodoList, step, broken)
    task = await engine_harness.start(Turn(TODOS), finish(), policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    assert list_tool_results(task.messages[2])
    assert find_rows(task, "error")


async def test_a_defect_in_one_of_several_reads_leaves_the_others_their_results(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (engine_harness.root / "good.txt").write_text("good")
    (engine_harness.root / "bad.txt").write_text("bad")
    healthy = ReadFile.run_prepared

    async def run(self: Any, prepared: Any, ctx: Any, answer: Any) -> Any:
        if "bad.txt" in str(prepared):
            raise ValueError("a defect")
        return await healthy(self, prepared, ctx, answer)

    monkeypatch.setattr(ReadFile, "run_prepared", run)
    reads = [call("read_file", {"files": [{"path": f"{name}.txt"}]}) for name in ("good", "bad")]
    task = await engine_harness.start(Turn(*reads), finish(), policy=Unattended())
    await wait_for_ending(task)
    assert sum(isinstance(event, ToolFinished) for event in list_durable_events(task)) == 2
    assert "good" in list_tool_results(task.messages[2])[0]


LONE = "half \ud83d pair"


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param([TextChunk(LONE), CallChunk(0, "a", "update_todo_list", "{}")], id="text"),
        pytest.param([CallChunk(0, "a", f"no{LONE}tool", "{}")], id="name"),
    ],
)
async def test_half_a_surrogate_pair_from_the_model_does_not_end_the_task(
    engine_harness: EngineHarness, turn: list[Any]
) -> None:
    task = await engine_harness.start(
        [*turn, CallEndChunk(0), StopChunk("tool_use")], finish(), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("all done")
    check_history(task.messages)


async def test_a_message_with_bytes_that_are_no_text_is_taken_as_far_as_it_is_text(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish(), text="caf\udce9", policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    assert task.recorder.projection.title == "caf?"


@pytest.mark.parametrize("name", ["", "two words", "x" * 200])
async def test_a_name_that_no_service_accepts_is_not_sent_back_to_it(
    engine_harness: EngineHarness, name: str
) -> None:
    task = await engine_harness.start(
        [CallChunk(0, "a", name, "{}"), CallEndChunk(0), StopChunk("tool_use")],
        finish(),
        policy=Unattended(),
    )
    assert await wait_for_ending(task) == Completed("all done")
    sent = [b.name for m in task.messages for b in m.content if isinstance(b, ToolUseBlock)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", used) for used in sent), sent


async def test_a_structured_call_in_an_xml_task_gets_its_result(
    engine_harness: EngineHarness,
) -> None:
    end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
    provider = engine_harness.use_script(Turn(TODOS), end)
    task = await engine_harness.start(policy=Unattended(), protocol=ToolProtocol.XML)
    assert await wait_for_ending(task) == Completed("ok")
    assert "The todo list is updated." in str(provider.requests[1].messages[-1].content)
