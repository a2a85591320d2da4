"""One set of run limits for a whole tree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import structs

from joey.core.events import (
    AskOpened,
    RequestStarted,
    TaskFailed,
    ToolFinished,
)
from joey.core.settings import Limits
from joey.core.task_types import AskKind, TaskState
from joey.engine.outcomes import Completed, Failed
from joey.testing.script import Turn, call, pause
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    finish,
    list_durable_events,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.engine.limited_subtasks import children_of, looking, play
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    PRICED_MODEL,
    delegate,
)

LOOK_AGAIN = Turn(call("list_files", {"path": "."}), call("read_file", {"path": "no.txt"}))


@pytest.mark.contract("loop:limits")
async def test_turns_of_subtasks_count_and_the_limit_ends_the_tree(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [*looking(8), finish()]}
    task, scripted = await play(engine_harness, parts, limits=Limits(max_turns=4))
    [child] = await children_of(task)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "turns"
    assert len(scripted.requests) == 4
    failure = child.recorder.projection.failure
    assert failure is not None and failure.code == "turns"
    assert [
        event.is_error for event in list_durable_events(task) if isinstance(event, ToolFinished)
    ] == [True]
    check_history(task.messages)


async def test_siblings_never_take_more_turns_than_there_are(engine_harness: EngineHarness) -> None:
    hands = [delegate(f"part {n}") for n in range(4)]
    parts: dict[str, Sequence[Turn]] = {"the whole": [Turn(*hands), finish()]}
    parts |= {f"part {n}": [*looking(8), finish()] for n in range(4)}
    task, scripted = await play(engine_harness, parts, limits=Limits(max_turns=7))
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "turns"
    assert len(scripted.requests) == 7


@pytest.mark.contract("loop:limits")
async def test_money_of_subtasks_counts(engine_harness: EngineHarness) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [*looking(8), finish()]}
    task, scripted = await play(
        engine_harness, parts, limits=Limits(max_cost=25.0), model=PRICED_MODEL
    )
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "budget"
    assert len(scripted.requests) == 3
    assert task.total_usage.total_cost == 30.0


@pytest.mark.contract("loop:limits")
async def test_time_ends_subtasks_and_parent_alike(engine_harness: EngineHarness) -> None:
    parts = {
        "the whole": [Turn(delegate("part 1"), delegate("part 2")), finish()],
        "part 1": [Turn(pause(600))],
        "part 2": [Turn(pause(600))],
    }
    task, _ = await play(engine_harness, parts, limits=Limits(max_seconds=2))
    children = await children_of(task)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "time"
    assert [child.state for child in children] == [TaskState.FAILED] * 2
    codes = [
        e.code
        for child in children
        for e in list_durable_events(child)
        if isinstance(e, TaskFailed)
    ]
    assert codes == ["time", "time"]
    check_history(task.messages)


@pytest.mark.contract("loop:limits")
async def test_a_limit_of_the_settings_is_asked_once_for_the_tree(
    engine_harness: EngineHarness,
) -> None:
    settings = structs.replace(ALLOW_ALL_WITH_SUBTASKS, allowed_max_requests=3)
    hands = [delegate("part 1"), delegate("part 2")]
    parts = {
        "the whole": [Turn(*hands), finish("whole")],
        "part 1": [*looking(1), finish("1")],
        "part 2": [*looking(1), finish("2")],
    }
    task, _ = await play(engine_harness, parts, settings=settings, attended=True)
    children = await children_of(task)
    waiting = [asyncio.ensure_future(wait_for_ask(child)) for child in children]
    finished, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert {(await each).ask for each in finished} == {AskKind.LIMIT_REACHED}
    child = next(child for child in children if child.pending is not None)
    assert [child.pending for child in children].count(None) == 1
    await child.approve()
    for each in others:
        each.cancel()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    asks = [
        e
        for each in (task, *children)
        for e in list_durable_events(each)
        if isinstance(e, AskOpened)
    ]
    assert [e.ask for e in asks].count(AskKind.LIMIT_REACHED) == 1
    await task.approve()
    assert await wait_for_ending(task) == Completed("whole")


@pytest.mark.contract("loop:limits")
async def test_one_no_to_a_limit_of_the_settings_is_for_the_whole_tree(
    engine_harness: EngineHarness,
) -> None:
    settings = structs.replace(ALLOW_ALL_WITH_SUBTASKS, allowed_max_requests=1)
    hands = [delegate(f"part {n}") for n in range(3)]
    parts: dict[str, Sequence[Turn]] = {"the whole": [Turn(*hands), finish("whole")]}
    parts |= {f"part {n}": [finish(str(n))] for n in range(3)}
    task, scripted = await play(engine_harness, parts, settings=settings, attended=True)
    children = await children_of(task)
    assert (await wait_for_ask(children[0])).ask is AskKind.LIMIT_REACHED
    await children[0].reject()
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "turns"
    asks = [
        e
        for each in (task, *children)
        for e in list_durable_events(each)
        if isinstance(e, AskOpened)
    ]
    assert len(asks) == 1
    assert len(scripted.requests) == 1


async def test_what_subtasks_used_before_they_were_cut_off_is_reported(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish()],
        "a part": [*looking(2), Turn(pause(600))],
    }
    task, _ = await play(engine_harness, parts, model=PRICED_MODEL, attended=True)
    [child] = await children_of(task)
    while child.recorder.projection.request_count < 3:
        await wait_for_event(child, RequestStarted, child.seq)
    await task.cancel()
    assert task.usage.total_cost == 10.0
    assert task.total_usage.total_cost == 30.0
    parts["a part"] = [*looking(2), finish("part")]
    await task.send("go on")
    await wait_for_ask(task)
    assert task.total_usage.total_cost == 50.0
