"""Failed requests are tried again within a budget, and announced."""

from __future__ import annotations

import pytest

from joey.core.events import RequestEnded, RetryCountdown
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.limits import RetryBudget
from joey.engine.outcomes import Completed, Failed
from joey.errors import NOT_RUNNING_CODE, UNREACHABLE_CODE, ProviderError, ProviderFailureKind
from joey.testing.script import Turn, call, disconnect, fail, say
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)


@pytest.mark.contract("retry:transient")
@pytest.mark.parametrize(
    "failing_turn",
    [
        pytest.param(Turn(fail(429, "slow down")), id="rate"),
        pytest.param(Turn(fail(500, "oops")), id="500"),
        pytest.param(Turn(fail(529, "overloaded")), id="529"),
        pytest.param(Turn(disconnect()), id="disconnect before the first word"),
        pytest.param(Turn(say("I was"), disconnect()), id="disconnect in the middle"),
        pytest.param(Turn(), id="empty reply"),
        pytest.param(Turn(say("  \n")), id="blank reply"),
    ],
)
async def test_transient_errors_are_waited_out(
    engine_harness: EngineHarness, failing_turn: Turn
) -> None:
    provider = engine_harness.use_script(failing_turn, finish())
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    assert len(provider.requests) == 2
    assert provider.requests[0].messages == provider.requests[1].messages
    assert find_rows(task, "api_req_retry_delayed")
    check_history(task.messages)


async def test_a_lost_stream_keeps_its_text_on_screen_but_not_in_the_conversation(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(say("I was about to"), disconnect()), finish(), policy=Unattended()
    )
    await wait_for_ending(task)
    assert "I was about to" in [row.text for row in find_rows(task, "text")]
    assert len(task.messages) == 2
    ended = [event for event in list_durable_events(task) if isinstance(event, RequestEnded)]
    assert [event.cancel_reason for event in ended] == ["streaming_failed", None]


@pytest.mark.contract("retry:transient")
async def test_the_service_says_how_long_to_wait_and_each_second_is_announced(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.use_script(Turn(fail(429, "slow down", retry_after=3)), finish())
    task = await engine_harness.start(policy=Unattended())
    ticks: list[int] = []
    async for event in task.events():
        if isinstance(event, RetryCountdown):
            ticks.append(event.seconds)
    assert ticks == [3, 2, 1]
    assert engine_harness.clock.slept == [1.0, 1.0, 1.0]


@pytest.mark.contract("retry:transient")
async def test_the_budget_ends_and_a_user_is_asked(engine_harness: EngineHarness) -> None:
    down = [Turn(fail(529, "overloaded")) for _ in range(3)]
    task = await engine_harness.start(*down, finish(), settings=Settings(max_retries=2))
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.API_REQ_FAILED
    assert "overloaded" in ask.text
    await task.approve()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert find_rows(task, "api_req_retried")


@pytest.mark.contract("retry:transient")
@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "provider:auth"), (404, "provider:not_found"), (400, "provider:invalid")],
)
async def test_errors_that_waiting_does_not_fix_are_not_retried(
    engine_harness: EngineHarness, status: int, code: str
) -> None:
    provider = engine_harness.use_script(Turn(fail(status, "no")))
    task = await engine_harness.start(policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == code
    assert len(provider.requests) == 1
    check_history(task.messages)


@pytest.mark.contract("retry:transient")
async def test_what_was_said_survives_a_request_that_failed_for_good(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(fail(401, "bad key")), policy=Unattended(), text="the request"
    )
    await wait_for_ending(task)
    engine_harness.use_script(finish())
    await engine_harness.engine.release(task)
    again = await engine_harness.engine.resume(task.id, "try again")
    await wait_for_ask(again)
    check_history(again.messages)
    assert len(again.messages) == 2
    said = str(again.messages[0].content)
    assert "the request" in said
    assert "try again" in said
    assert said.count("<environment_details>") == 1


async def test_the_second_empty_reply_is_reported(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(Turn(), Turn(), finish(), policy=Unattended())
    await wait_for_ending(task)
    assert [row.text for row in find_rows(task, "error")] == ["MODEL_NO_ASSISTANT_MESSAGES"]


@pytest.mark.contract("retry:transient")
@pytest.mark.parametrize(
    "failing_turn",
    [pytest.param(Turn(), id="empty"), pytest.param(Turn(say("I was"), disconnect()), id="broken")],
)
async def test_results_are_sent_again_unchanged(
    engine_harness: EngineHarness, failing_turn: Turn
) -> None:
    (engine_harness.root / "a.txt").write_text("the content")
    look = Turn(call("read_file", {"files": [{"path": "a.txt"}]}))
    provider = engine_harness.use_script(look, failing_turn, finish())
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    _, before, after = provider.requests
    assert "the content" in list_tool_results(after.messages[-1])[0]
    assert after.messages == before.messages


@pytest.mark.contract("retry:transient")
def test_waits_double_and_both_counts_and_total_time_are_bounded() -> None:
    error = ProviderError("down", failure=ProviderFailureKind.OVERLOAD)
    budget = RetryBudget(
        Settings(request_delay_seconds=5, max_retries=10, max_retry_wait_seconds=40)
    )
    assert [budget.consume_retry(error) for _ in range(4)] == [5, 10, 20, None]
    few = RetryBudget(Settings(max_retries=1))
    assert few.consume_retry(error) is not None
    assert few.consume_retry(error) is None


def test_an_address_where_nobody_listens_is_not_waited_for_long() -> None:
    error = ProviderError("refused", failure=ProviderFailureKind.NETWORK, code=UNREACHABLE_CODE)
    budget = RetryBudget(Settings())
    assert [budget.consume_retry(error) for _ in range(3)] == [5, 10, None]


def test_a_server_of_this_machine_that_is_not_running_gets_one_short_retry() -> None:
    error = ProviderError("refused", failure=ProviderFailureKind.NETWORK, code=NOT_RUNNING_CODE)
    budget = RetryBudget(Settings())
    assert budget.compute_max_attempts(error) == 1
    assert [budget.consume_retry(error) for _ in range(2)] == [1, None]


def test_a_server_of_this_machine_that_was_there_gets_the_usual_retries() -> None:
    broken = ProviderError("broken off", failure=ProviderFailureKind.NETWORK)
    refused = ProviderError("refused", failure=ProviderFailureKind.NETWORK, code=NOT_RUNNING_CODE)
    budget = RetryBudget(Settings(max_retries=3))
    assert [budget.consume_retry(error) for error in (broken, refused, refused)] == [5, 10, 20]
    assert budget.compute_max_attempts(refused) == 3
    assert budget.consume_retry(refused) is None


async def test_a_countdown_says_how_many_attempts_there_will_be(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.use_script(Turn(fail(529, "overloaded")), finish())
    task = await engine_harness.start(policy=Unattended())
    ticks = [event async for event in task.events() if isinstance(event, RetryCountdown)]
    assert {(tick.attempt, tick.max_attempts) for tick in ticks} == {(1, 6)}
