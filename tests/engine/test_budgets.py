"""Turns, calls, tokens, money and time of a tree, also after its process died."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.events import ContextCondensed, Spending, TaskFailed, TaskStarted, ToolFinished
from joey.core.history.usage_ledger import UsageLedger
from joey.core.messages import Chunk, TextChunk, Usage, UsageChunk
from joey.core.models import ModelInfo, ModelRequest, Prices
from joey.core.settings import Limits
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Ending, Failed
from joey.engine.task import Task
from joey.errors import ProviderError, ProviderFailureKind
from joey.testing.script import Turn, call
from joey.testing.scripted_provider import ScriptItem
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    check_history,
    finish,
    list_durable_events,
    wait_for_ending,
)
from tests.harness.engine.limited_subtasks import LOOK, children_of, looking, play
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    PRICED_MODEL,
    ScriptedSubtasks,
    delegate,
)

CENTS = ModelInfo(id="scripted", context_window=200_000, prices=Prices(input=10_000.0, output=0.0))
"""A token is a cent, so that a request of the scripts is a dime."""


def code_of(ending: Ending) -> str:
    assert isinstance(ending, Failed)
    return ending.code


@pytest.mark.contract("loop:limits")
async def test_tokens_that_went_to_and_fro_are_limited_over_the_tree(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [*looking(8), finish()]}
    task, scripted = await play(engine_harness, parts, limits=Limits(max_tokens=40))
    ending = await wait_for_ending(task)
    assert ending == Failed("tokens", "The limit of 40 tokens is reached.")
    assert len(scripted.requests) == 3  # fifteen tokens each


@pytest.mark.contract("loop:limits")
async def test_calls_beyond_the_limit_are_refused_before_they_run(
    engine_harness: EngineHarness,
) -> None:
    def write(name: str) -> Turn:
        return Turn(call("write_to_file", {"path": name, "content": "x"}))

    several = Turn(*(step for n in range(3, 6) for step in write(f"{n}.txt").steps))
    task = await engine_harness.start(
        *(write("1.txt"), write("2.txt"), several),
        limits=Limits(max_tool_calls=3),
        policy=Unattended(),
    )
    assert await wait_for_ending(task) == Failed("calls", "The limit of 3 tool calls is reached.")
    assert sorted(path.name for path in engine_harness.root.iterdir()) == [
        "1.txt",
        "2.txt",
        "3.txt",
    ]
    outcomes = [
        event.is_error for event in list_durable_events(task) if isinstance(event, ToolFinished)
    ]
    assert outcomes == [False, False, False, True, True]
    check_history(task.messages)


async def test_handing_over_the_result_takes_no_call(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        LOOK, finish("done"), limits=Limits(max_tool_calls=1), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("done")


@pytest.mark.contract("loop:limits")
async def test_calls_of_subtasks_count_and_so_does_the_one_that_made_them(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [*looking(8), finish()]}
    task, scripted = await play(engine_harness, parts, limits=Limits(max_tool_calls=3))
    [child] = await children_of(task)
    assert code_of(await wait_for_ending(task)) == "calls"
    assert code_of(child.ending) == "calls"
    assert len(scripted.requests) == 4  # the last one asked for a call too many


class SpendingRecorder(ScriptedSubtasks):
    """Notes what the tree had spent when each request was sent."""

    def __init__(self, parts: Mapping[str, Sequence[Turn]], seed: int) -> None:
        super().__init__(parts, CENTS)
        self._random = random.Random(seed)
        self.spent = 0.0
        self.spent_at_requests: list[float] = []
        self.in_flight = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self.spent_at_requests.append(round(self.spent, 6))
        self.in_flight += 1
        for _ in range(self._random.randrange(20)):
            await asyncio.sleep(0)
        async for chunk in super().stream(request):
            yield chunk
        self.in_flight -= 1
        self.spent += 0.1


@pytest.mark.contract("loop:limits")
@settings(max_examples=25, deadline=None)
@given(
    budget=st.integers(1, 30),
    turns=st.lists(st.integers(0, 6), min_size=8, max_size=8),
    seed=st.integers(0, 1000),
)
def test_nothing_is_sent_once_a_budget_is_used_up(budget: int, turns: list[int], seed: int) -> None:
    """So it is exceeded by no more than what was in flight."""

    async def run(directory: Path) -> None:
        engine_harness = EngineHarness(directory)
        parts: dict[str, Sequence[Turn]] = {
            "the whole": [Turn(*(delegate(f"part {n}.") for n in range(8))), finish()]
        }
        parts |= {f"part {n}.": [*looking(count), finish()] for n, count in enumerate(turns)}
        engine_harness.provider = witness = SpendingRecorder(parts, seed)
        task = await engine_harness.start(
            text="the whole",
            settings=ALLOW_ALL_WITH_SUBTASKS,
            policy=Unattended(),
            limits=Limits(max_cost=budget / 10 - 0.05),
        )
        ending = await wait_for_ending(task)
        await engine_harness.engine.close()
        assert all(spent < budget / 10 - 0.05 for spent in witness.spent_at_requests)
        needed = 10 + sum(turns)
        assert isinstance(ending, Completed) == (len(witness.spent_at_requests) == needed)
        assert isinstance(ending, Completed) or ending.code == "budget"

    with TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))


class CrashedTree:
    """A tree whose process died: cut back to a record, with no ending after it."""

    def __init__(self, engine_harness: EngineHarness, task: Task) -> None:
        self.harness = engine_harness
        self.id = task.id
        self.children = list(task.recorder.projection.spawned_subtasks)

    @property
    def grandchild(self) -> str:
        names = {task.id for task in self.harness.engine.history()}
        [name] = names - {self.id, *self.children}
        return name

    def truncate_journal(self, task_id: str, after: str, count: int = 1) -> None:
        path = self.harness.home / "tasks" / f"task_{task_id}" / "journal.jsonl"
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            kept.append(line)
            count -= json.loads(line)["event"]["event"] == after
            if not count:
                break
        assert not count
        path.write_text("".join(kept), encoding="utf-8")

    async def resume(
        self, parts: Mapping[str, Sequence[Turn]], limits: Limits | None = None, **model: ModelInfo
    ) -> tuple[Ending, ScriptedSubtasks]:
        self.harness.provider = scripted = ScriptedSubtasks(parts, **model)
        options = TaskOptions(
            settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended(), limits=limits or Limits()
        )
        task = await self.harness.engine.resume(self.id, "go on", options=options)
        ending = await wait_for_ending(task)
        check_history(task.messages)
        await self.harness.engine.release(task)
        return ending, scripted


async def run_and_crash(
    engine_harness: EngineHarness,
    parts: Mapping[str, Sequence[Turn]],
    limits: Limits,
    model: ModelInfo = PRICED_MODEL,
) -> CrashedTree:
    task, _ = await play(engine_harness, parts, limits=limits, model=model)
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    return CrashedTree(engine_harness, task)


ALONE = {"the whole": [*looking(8), finish("whole")]}


@pytest.mark.contract("loop:limits")
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_turns=4), "turns"),
        (Limits(max_tokens=60), "tokens"),
        (Limits(max_cost=40.0), "budget"),
        (Limits(max_tool_calls=4), "calls"),
    ],
)
async def test_a_run_that_was_interrupted_goes_on_with_what_was_left(
    engine_harness: EngineHarness, limits: Limits, code: str
) -> None:
    dead = await run_and_crash(engine_harness, ALONE, limits, model=PRICED_MODEL)
    dead.truncate_journal(dead.id, "toolFinished", 2)
    ending, scripted = await dead.resume(ALONE, model=PRICED_MODEL)
    assert code_of(ending) == code
    assert len(scripted.requests) == (3 if code == "calls" else 2)


@pytest.mark.contract("loop:limits")
@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_turns=3),
        Limits(max_tokens=45),
        Limits(max_cost=30.0),
        Limits(max_tool_calls=2),
    ],
)
async def test_a_limit_that_ended_a_run_ends_it_in_the_same_way_when_that_was_not_recorded(
    engine_harness: EngineHarness, limits: Limits
) -> None:
    task, _ = await play(engine_harness, ALONE, limits=limits, model=PRICED_MODEL)
    ending = await wait_for_ending(task)
    await engine_harness.engine.release(task)
    dead = CrashedTree(engine_harness, task)
    dead.truncate_journal(dead.id, "toolFinished", 3)
    again, scripted = await dead.resume(ALONE, model=PRICED_MODEL)
    assert again == ending
    assert scripted.requests == []


async def test_a_run_that_was_ended_is_over_and_the_next_has_its_own_limits(
    engine_harness: EngineHarness,
) -> None:
    dead = await run_and_crash(engine_harness, ALONE, Limits(max_turns=3))
    ending, scripted = await dead.resume(ALONE)
    assert ending == Completed("whole")
    assert len(scripted.requests) == 6


@pytest.mark.contract("loop:limits")
async def test_limits_that_are_named_anew_count_from_then_on(engine_harness: EngineHarness) -> None:
    dead = await run_and_crash(engine_harness, ALONE, Limits(max_turns=4))
    dead.truncate_journal(dead.id, "toolFinished", 3)
    ending, scripted = await dead.resume(ALONE, Limits(max_turns=2))
    assert code_of(ending) == "turns"
    assert len(scripted.requests) == 2


TREE = {
    "the whole": [Turn(delegate("part 1"), delegate("part 2")), finish("whole")],
    "part 1": [Turn(delegate("part 3")), finish("1")],
    "part 2": [*looking(2), finish("2")],
    "part 3": [*looking(3), finish("3")],
}


@pytest.mark.contract("loop:limits")
@pytest.mark.parametrize("limits", [Limits(max_turns=11), Limits(max_cost=110.0)])
async def test_what_subtasks_used_before_the_death_counts_wherever_they_stood(
    engine_harness: EngineHarness, limits: Limits
) -> None:
    """The whole tree takes eleven turns; after any death only those that are left."""
    dead = await run_and_crash(
        engine_harness, TREE, Limits(max_turns=20, max_cost=1000.0), model=PRICED_MODEL
    )
    one, two = dead.children
    three = dead.grandchild
    store = engine_harness.home / "tasks"
    before = {path: path.read_bytes() for path in store.glob("*/journal.jsonl")}
    for cuts in ({three: 2}, {three: 1, two: 1}, {two: 2}, {}):
        for path, content in before.items():
            path.write_bytes(content.replace(b'"maxTurns":20,"maxCost":1000.0', _named(limits)))
        dead.truncate_journal(dead.id, "taskPaused")
        if three in cuts:
            dead.truncate_journal(one, "taskPaused")
        for task_id, count in cuts.items():
            dead.truncate_journal(task_id, "toolFinished", count)
        used = sum(_replies(path) for path in before)
        ending, scripted = await dead.resume(TREE, model=PRICED_MODEL)
        assert ending == Completed("whole"), cuts
        assert used + len(scripted.requests) == 11


async def test_after_a_death_a_tree_stops_where_it_would_have_stopped(
    engine_harness: EngineHarness,
) -> None:
    dead = await run_and_crash(engine_harness, TREE, Limits(max_turns=9), model=PRICED_MODEL)
    one, two = dead.children
    for name in (two, dead.grandchild):
        dead.truncate_journal(name, "replyReceived")
    for name in (dead.id, one):
        dead.truncate_journal(name, "taskPaused")
    ending, scripted = await dead.resume(TREE, model=PRICED_MODEL)
    assert code_of(ending) == "turns"
    assert len(scripted.requests) == 5
    failed = [task.status for task in engine_harness.engine.history()]
    assert TaskState.FAILED in failed


def _named(limits: Limits) -> bytes:
    if limits.max_turns is not None:
        return b'"maxTurns":%d' % limits.max_turns
    return b'"maxCost":%.1f' % (limits.max_cost or 0)


def _replies(journal: Path) -> int:
    return sum(b'"event":"replyReceived"' in line for line in journal.read_bytes().splitlines())


@pytest.mark.contract("loop:limits")
async def test_time_that_was_worked_counts_and_time_that_nobody_worked_does_not(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [*looking(2), finish("whole")]}
    task, _ = await play(engine_harness, parts, limits=Limits(max_seconds=3600))
    engine_harness.clock.time += 3000_000
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    dead = CrashedTree(engine_harness, task)
    dead.truncate_journal(dead.id, "toolFinished", 1)
    engine_harness.clock.time += 10_000_000
    engine_harness.provider = ScriptedSubtasks(parts)
    options = TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    loop = asyncio.get_running_loop()
    again = await engine_harness.engine.resume(dead.id, "go on", options=options)
    assert again.run_limits is not None and again.run_limits.deadline is not None
    left = again.run_limits.deadline - loop.time()
    assert 500 < left < 601
    await wait_for_ending(again)


async def test_the_limits_of_a_run_are_sent_once_and_its_subtasks_name_the_run(
    engine_harness: EngineHarness,
) -> None:
    task, _ = await play(engine_harness, TREE, limits=Limits(max_turns=20))
    children = await children_of(task)
    await wait_for_ending(task)
    [own] = [event for event in list_durable_events(task) if isinstance(event, TaskStarted)]
    assert own.limits == Limits(max_turns=20)
    for child in children:
        started = [event for event in list_durable_events(child) if isinstance(event, TaskStarted)]
        assert {(event.budget_id, event.limits) for event in started} == {(own.budget_id, None)}


async def test_a_request_that_fails_and_costs_is_not_repeated_beyond_the_budget(
    engine_harness: EngineHarness,
) -> None:
    """The stream breaks after it has told what it cost."""
    broken: list[ScriptItem] = [
        TextChunk("well"),
        UsageChunk(Usage(input=10)),
        ProviderError("gone", failure=ProviderFailureKind.NETWORK),
    ]
    scripted = engine_harness.use_script(*[broken] * 5)
    scripted.model = PRICED_MODEL
    task = await engine_harness.start(limits=Limits(max_cost=15.0), policy=Unattended())
    async with asyncio.timeout(TIMEOUT_S):
        assert code_of(await task.wait()) == "budget"
    assert len(scripted.requests) == 2
    assert [event.code for event in list_durable_events(task) if isinstance(event, TaskFailed)] == [
        "budget"
    ]


def test_a_summary_counts_like_a_request() -> None:
    ledger = UsageLedger()
    condensed = ContextCondensed(
        ts=1,
        condense_id="c",
        summary="s",
        content=(),
        tokens_before=9,
        tokens_after=1,
        usage=Usage(input=30, output=5),
        cost=0.5,
    )
    ledger.apply(condensed)
    assert ledger.total_spending == Spending(tokens=35, cost=0.5)
