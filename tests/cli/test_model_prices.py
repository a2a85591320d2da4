"""Costs and budgets with the prices of the catalogue."""

from __future__ import annotations

import pytest

from joey.testing.script import Turn, usage
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import local_model_server, stream_call
from tests.harness.cli.playing import DONE, reach_openai, read, reply

GPT = ("-m", "gpt-5.4", "--protocol", "native")
LONG = usage(input=300_000, output=1_000)
"""$1.5225 by the tariff for more than 272,000 tokens, $0.765 by the other."""


def add_usage(turn: Turn) -> Turn:
    return Turn(*turn.steps, LONG)


@pytest.mark.contract("services:prices")
async def test_a_long_request_is_counted_by_its_own_tariff(joey: Joey) -> None:
    async with ModelServer([add_usage(DONE)]) as server:
        flags = (*reach_openai(server.url), *GPT)
        done = await joey.run("-p", "--output-format", "stream-json", *flags, "do it")
    assert done.code == 0
    last = done.lines[-1]
    assert last["cost"]["totalCost"] == 1.5225
    listed = await joey.run("tasks", "list", "--json")
    assert listed.json[0]["totalCost"] == 1.5225


@pytest.mark.contract("services:prices")
async def test_a_budget_counts_long_requests_by_their_own_tariff(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("a")
    async with ModelServer([add_usage(reply(read("a.txt"))), DONE]) as server:
        flags = (*reach_openai(server.url), *GPT, "--max-budget-usd", "1.5")
        done = await joey.run("-p", "--output-format", "json", *flags, "do it")
        assert len(server.requests) == 1
    assert (done.code, done.json["code"]) == (55, "budget")


@pytest.mark.parametrize("stated", [-5, 1e308])
async def test_a_cost_that_can_be_none_is_not_believed(joey: Joey, stated: float) -> None:
    said = {"prompt_tokens": 300_000, "completion_tokens": 1_000, "cost": stated}
    answer = stream_call("attempt_completion", {"result": "Done."}, said)
    async with local_model_server({}, [answer]) as server:
        flags = (*reach_openai(server.url), *GPT)
        done = await joey.run("-p", "--output-format", "json", *flags, "do it")
    assert done.json["cost"]["totalCost"] == 1.5225
    listed = await joey.run("tasks", "list", "--json")
    assert listed.json[0]["totalCost"] == 1.5225
