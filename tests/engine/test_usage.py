"""What requests cost, and how far a task may go."""

from __future__ import annotations

import pytest

from joey.core.messages import TextChunk
from joey.core.models import ModelInfo, Prices
from joey.core.settings import Limits, Settings
from joey.core.task import AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed, Failed
from joey.testing.script import Turn, call, disconnect, usage
from joey.testing.scripted import ScriptedProvider, ScriptedTurn
from tests.engine.engine_harness import EngineHarness, asked, done, settled

PRICED = ModelInfo(id="priced", prices=Prices(input=1.0, output=10.0))
MILLION = 1_000_000
DOLLAR = usage(input=MILLION)


def play(workshop: EngineHarness, *turns: ScriptedTurn) -> ScriptedProvider:
    workshop.provider = provider = ScriptedProvider(turns, model=PRICED)
    return provider


def todo(text: str) -> Turn:
    return Turn(call("update_todo_list", {"todos": text}), DOLLAR)


@pytest.mark.requirement("engine:usage:adds-up")
async def test_tokens_and_cost_of_failed_requests_count_too(workshop: EngineHarness) -> None:
    play(
        workshop,
        [TextChunk("I was"), usage(input=MILLION, output=MILLION // 2), disconnect()],
        Turn(done(), usage(input=2 * MILLION, output=MILLION // 10)),
    )
    task = await workshop.start(policy=Unattended())
    assert await settled(task) == Completed("all done")
    assert task.usage.total_tokens_in == 3 * MILLION
    assert task.usage.total_tokens_out == 600_000
    assert task.usage.total_cost == pytest.approx(3 + 6)


@pytest.mark.requirement("engine:loop:run-limits")
async def test_the_budget_ends_the_run_with_its_code(workshop: EngineHarness) -> None:
    provider = play(workshop, todo("[ ] a"), todo("[ ] b"), todo("[ ] c"))
    task = await workshop.start(limits=Limits(max_cost=1.5), policy=Unattended())
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "budget"
    assert len(provider.requests) == 2


@pytest.mark.requirement("engine:loop:settings-limits")
async def test_the_cost_limit_asks_and_yes_goes_on(workshop: EngineHarness) -> None:
    play(workshop, todo("[ ] a"), todo("[ ] b"), todo("[ ] c"), Turn(done()))
    task = await workshop.start(settings=Settings(allowed_max_cost=1.5))
    ask = await asked(task)
    assert ask.ask is AskKind.LIMIT_REACHED
    assert ask.text == '{"count":"1.50","type":"cost"}'
    await task.approve()
    assert (await asked(task)).ask is AskKind.COMPLETION_RESULT
