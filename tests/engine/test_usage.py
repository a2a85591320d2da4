"""What requests cost, and how far a task may go."""

from __future__ import annotations

import pytest

from joey.core.messages import TextChunk
from joey.core.models import ModelInfo, Prices
from joey.core.settings import Limits, Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed, Failed
from joey.testing.script import Turn, call, disconnect, usage
from joey.testing.scripted_provider import ScriptedProvider, ScriptedTurn
from tests.harness.engine.engine_harness import EngineHarness, done, wait_for_ask, wait_for_ending

PRICED = ModelInfo(id="priced", prices=Prices(input=1.0, output=10.0))
MILLION = 1_000_000
DOLLAR = usage(input=MILLION)


def play(engine_harness: EngineHarness, *turns: ScriptedTurn) -> ScriptedProvider:
    engine_harness.provider = provider = ScriptedProvider(turns, model=PRICED)
    return provider


def todo(text: str) -> Turn:
    return Turn(call("update_todo_list", {"todos": text}), DOLLAR)


@pytest.mark.contract("loop:conversation")
async def test_tokens_and_cost_of_failed_requests_count_too(engine_harness: EngineHarness) -> None:
    play(
        engine_harness,
        [TextChunk("I was"), usage(input=MILLION, output=MILLION // 2), disconnect()],
        Turn(done(), usage(input=2 * MILLION, output=MILLION // 10)),
    )
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    assert task.usage.total_tokens_in == 3 * MILLION
    assert task.usage.total_tokens_out == 600_000
    assert task.usage.total_cost == pytest.approx(3 + 6)


@pytest.mark.contract("loop:limits")
async def test_the_budget_ends_the_run_with_its_code(engine_harness: EngineHarness) -> None:
    provider = play(engine_harness, todo("[ ] a"), todo("[ ] b"), todo("[ ] c"))
    task = await engine_harness.start(limits=Limits(max_cost=1.5), policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "budget"
    assert len(provider.requests) == 2


@pytest.mark.contract("loop:limits")
async def test_the_cost_limit_asks_and_yes_goes_on(engine_harness: EngineHarness) -> None:
    play(engine_harness, todo("[ ] a"), todo("[ ] b"), todo("[ ] c"), Turn(done()))
    task = await engine_harness.start(settings=Settings(allowed_max_cost=1.5))
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.LIMIT_REACHED
    assert ask.text == '{"count":"1.50","type":"cost"}'
    await task.approve()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
